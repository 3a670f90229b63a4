//! Student's t, and what the binomial distribution of signs says.

/// Degrees of freedom from which t is taken for the normal distribution.
const NORMAL: f64 = 1e7;

/// How likely a value is at least `far` standard errors from its expectation, on either side.
pub fn chance(freedom: f64, far: f64) -> f64 {
    if far.is_infinite() {
        return 0.0;
    }
    incomplete_beta(freedom.min(NORMAL) / 2.0, 0.5, far * far / freedom.min(NORMAL))
}

/// Half the width of an interval of 95 %, in standard errors with so many degrees of freedom.
pub fn quantile(freedom: f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    while chance(freedom, high) > 0.05 {
        high *= 2.0;
    }
    // Halved until no number lies between.
    loop {
        let middle = (low + high) / 2.0;
        if middle <= low || middle >= high {
            return middle;
        }
        if chance(freedom, middle) > 0.05 { low = middle } else { high = middle }
    }
}

/// Which of so many sorted values, and as many from the end, hold the median with 95 % (David and Nagaraja, Order
/// Statistics, 7.1).
pub fn rank(values: usize) -> usize {
    let mut below = 0.0;
    for (k, share) in halves(values).enumerate() {
        below += share;
        if below > 0.025 || 2 * (k + 1) >= values {
            return k.saturating_sub(1);
        }
    }
    0
}

/// How likely signs are distributed at least as unevenly as these.
pub fn chance_of_signs(above: usize, below: usize) -> f64 {
    let least: f64 = halves(above + below).take(above.min(below) + 1).sum();
    (2.0 * least).min(1.0)
}

/// How likely none, one, two, ... of n are below the median.
fn halves(n: usize) -> impl Iterator<Item = f64> {
    let n = n as f64;
    let mut log = n * 0.5_f64.ln();
    (0..=n as usize).map(move |k| {
        let share = log.exp();
        log += ((n - k as f64) / (k as f64 + 1.0)).ln();
        share
    })
}

/// The regularised incomplete beta function of a, b and x / (1 + x), seen from the far end: how much lies beyond. By
/// the continued fraction of Abramowitz and Stegun, 26.5.8, evaluated as Lentz does.
fn incomplete_beta(a: f64, b: f64, odds: f64) -> f64 {
    // Near 1 where the odds are small: the other end of the same distribution.
    let (x, y) = (1.0 / (1.0 + odds), odds / (1.0 + odds));
    if x > (a + 1.0) / (a + b + 2.0) { 1.0 - fraction(b, a, y, x) } else { fraction(a, b, x, y) }
}

/// For x below the mean; `y` is 1 - x without its rounding.
fn fraction(a: f64, b: f64, x: f64, y: f64) -> f64 {
    if x == 0.0 {
        return 0.0;
    }
    const TINY: f64 = 1e-300;
    let away = |value: f64| if value.abs() < TINY { TINY } else { value };
    let front = (a * x.ln() + b * ln(x, y) + ln_gamma(a + b) - ln_gamma(a) - ln_gamma(b)).exp() / a;
    let (mut c, mut d, mut found) = (1.0, away(1.0 - (a + b) * x / (a + 1.0)).recip(), 0.0);
    found += d;
    for step in 1..100_000 {
        let m = f64::from(step);
        let even = m * (b - m) * x / ((a + 2.0 * m - 1.0) * (a + 2.0 * m));
        let odd = -(a + m) * (a + b + m) * x / ((a + 2.0 * m) * (a + 2.0 * m + 1.0));
        let before: f64 = found;
        for term in [even, odd] {
            d = away(1.0 + term * d).recip();
            c = away(1.0 + term / c);
            found *= c * d;
        }
        if (found - before).abs() <= 1e-15 * found.abs() {
            break;
        }
    }
    front * found
}

/// The logarithm of y = 1 - x.
fn ln(x: f64, y: f64) -> f64 {
    if x < 0.5 { (-x).ln_1p() } else { y.ln() }
}

/// By Lanczos's approximation (g = 7, nine terms), right to fifteen digits for positive numbers.
fn ln_gamma(x: f64) -> f64 {
    const TERMS: [f64; 9] = [
        0.999_999_999_999_809_9,
        676.520_368_121_885_1,
        -1_259.139_216_722_402_8,
        771.323_428_777_653_1,
        -176.615_029_162_140_6,
        12.507_343_278_686_905,
        -0.138_571_095_265_720_12,
        9.984_369_578_019_572e-6,
        1.505_632_735_149_311_6e-7,
    ];
    if x < 0.5 {
        // Reflected: sin(πx) Γ(x) Γ(1 - x) = π.
        return (std::f64::consts::PI / (std::f64::consts::PI * x).sin()).ln() - ln_gamma(1.0 - x);
    }
    let x = x - 1.0;
    let sum: f64 =
        TERMS.iter().enumerate().skip(1).map(|(k, term)| term / (x + k as f64)).sum::<f64>() + TERMS[0];
    let base = x + 7.5;
    0.5 * (2.0 * std::f64::consts::PI).ln() + (x + 0.5) * base.ln() - base + sum.ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn near(found: f64, known: f64) {
        assert!((found - known).abs() <= 1e-9 * known.abs(), "{found} instead of {known}");
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        // Student 1908, to the digits of scipy.special.stdtrit(freedom, 0.975).
        let known = [
            (1.0, 12.706_204_736_174_694),
            (2.0, 4.302_652_729_749_462),
            (3.0, 3.182_446_305_283_708),
            (11.0, 2.200_985_160_091_639_7),
            (100.0, 1.983_971_518_523_552_2),
        ];
        for (freedom, quantile_of) in known {
            near(quantile(freedom), quantile_of);
        }
        assert!((quantile(1e9) - 1.959_963_985).abs() < 1e-6, "the normal distribution");
    }

    #[test]
    fn the_chance_of_a_value_is_that_of_both_tails() {
        near(chance(1.0, 1.0), 0.5);
        near(chance(2.0, 2.0_f64.sqrt()), 1.0 - 0.5_f64.sqrt());
        near(chance(11.0, 0.0), 1.0);
        assert_eq!(chance(11.0, f64::INFINITY), 0.0);
    }

    #[test]
    fn ranks_and_signs_are_binomial() {
        // Ranks from 0, as scipy.stats.binom.ppf(0.025, n, 0.5) - 1 gives them.
        for (values, low) in [(6, 0), (9, 1), (12, 2), (100, 39), (640, 294), (2000, 955)] {
            assert_eq!(rank(values), low, "{values}");
        }
        near(chance_of_signs(5, 0), 2.0 / 32.0);
        near(chance_of_signs(1, 4), 12.0 / 32.0);
        assert_eq!(chance_of_signs(3, 3), 1.0);
    }
}
