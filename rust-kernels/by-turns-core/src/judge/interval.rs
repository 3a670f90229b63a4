//! The interval of a ratio, on the scale of logarithms.
//!
//! A process draws its own memory layout and link order, so it is a draw of its own: within a process the value is the
//! median over its rounds, over processes it is the plain mean, and the interval is that of Student's t over processes.
//! It does not cover another hour. With fewer than [`LEAST_EPISODES`] processes it is the median over all rounds, bounded
//! by order statistics, and does not cover another process either.

use std::collections::BTreeMap;

use crate::judge::student;

/// Least number of processes whose spread is used. With three, the quantile of t is above 4 and the standard deviation
/// hardly known.
pub const LEAST_EPISODES: usize = 4;
/// Degrees of freedom in place of those of order statistics, whose width is given in normal standard errors.
const RANKS: f64 = 1e9;

/// A value with its interval of 95 %.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Estimate {
    /// The mean over processes, or the median over rounds.
    pub value: f64,
    /// The ends of its interval.
    pub low: f64,
    /// The upper end.
    pub high: f64,
    /// Of how many rounds.
    pub rounds: usize,
    /// In how many processes.
    pub episodes: usize,
    /// Degrees of freedom.
    pub freedom: f64,
    /// Half the width of the interval in standard errors.
    pub quantile: f64,
    /// How likely a value as far from 0 is by chance.
    pub chance: f64,
}

impl Estimate {
    /// Over values of rounds, each with its process; `None` for less than two rounds.
    pub fn of(values: &[(u32, f64)]) -> Option<Self> {
        if values.len() < 2 {
            return None;
        }
        let mut processes: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
        values.iter().for_each(|(episode, value)| processes.entry(*episode).or_default().push(*value));
        let episodes = processes.len();
        if episodes < LEAST_EPISODES {
            return Some(Self::of_ranks(values.iter().map(|(_, value)| *value).collect(), episodes));
        }
        let medians: Vec<f64> = processes.values_mut().map(|rounds| median(rounds)).collect();
        let count = episodes as f64;
        let mean = medians.iter().sum::<f64>() / count;
        let variance = medians.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
        let (error, freedom) = ((variance / count).sqrt(), count - 1.0);
        let quantile = student::quantile(freedom);
        let far = if mean == 0.0 && error == 0.0 { 0.0 } else { mean.abs() / error };
        Some(Self {
            value: mean,
            low: mean - quantile * error,
            high: mean + quantile * error,
            rounds: values.len(),
            episodes,
            freedom,
            quantile,
            chance: student::chance(freedom, far),
        })
    }

    fn of_ranks(mut values: Vec<f64>, episodes: usize) -> Self {
        let signs = [|value: &&f64| **value > 0.0, |value: &&f64| **value < 0.0];
        let [above, below] = signs.map(|sign| values.iter().filter(sign).count());
        let value = median(&mut values);
        let low = student::rank(values.len());
        Self {
            value,
            low: values[low],
            high: values[values.len() - 1 - low],
            rounds: values.len(),
            episodes,
            freedom: RANKS,
            quantile: student::quantile(RANKS),
            chance: student::chance_of_signs(above, below),
        }
    }

    /// With an independent error of half width `more` added, as squares, on each side, and one that is no larger than
    /// `offset` and may be the same everywhere.
    #[must_use]
    pub fn widened(self, more: f64, offset: f64) -> Self {
        let side = |end: f64| (self.value - end).hypot(more) + offset;
        Self { low: self.value - side(self.low), high: self.value + side(self.high), ..self }
    }
}

/// The median of some numbers, which are sorted by that.
pub fn median(numbers: &mut [f64]) -> f64 {
    quantile(numbers, 0.5)
}

/// Which share of some numbers lies below, between neighbours in a straight line; they are sorted by that.
pub fn quantile(numbers: &mut [f64], share: f64) -> f64 {
    numbers.sort_by(f64::total_cmp);
    let place = share * (numbers.len() - 1) as f64;
    let (low, part) = (place.floor() as usize, place.fract());
    let high = numbers[(low + 1).min(numbers.len() - 1)];
    numbers[low] + part * (high - numbers[low])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_processes_are_ranked_and_several_are_averaged() {
        let one: Vec<(u32, f64)> = (1..=9).map(|value| (0, f64::from(value))).collect();
        let ranked = Estimate::of(&one).expect("nine rounds");
        assert_eq!((ranked.value, ranked.low, ranked.high), (5.0, 2.0, 8.0));
        // Medians 1, 2, 3 and 6: mean 3, variance 14/3, error sqrt(7/6).
        let four = [(0, 1.0), (1, 2.0), (2, 3.0), (3, 6.0), (3, 5.0), (3, 100.0)];
        let found = Estimate::of(&four).expect("six rounds");
        let half = student::quantile(3.0) * (7.0_f64 / 6.0).sqrt();
        assert!((found.value - 3.0).abs() < 1e-12 && (found.high - 3.0 - half).abs() < 1e-9, "{found:?}");
        assert_eq!(Estimate::of(&four[..1]), None);
    }

    #[test]
    fn quantiles_lie_between_neighbours() {
        assert_eq!(quantile(&mut [4.0, 1.0, 3.0, 2.0], 0.5), 2.5);
        assert!((quantile(&mut [1.0, 2.0, 3.0], 0.1) - 1.2).abs() < 1e-12);
        assert_eq!(quantile(&mut [7.0], 0.1), 7.0);
    }
}
