//! The order of the variants in each round.

use rand::rngs::{ChaCha8Rng, SysError, SysRng};
use rand::seq::SliceRandom;
use rand::{SeedableRng, TryRng};

/// Bits of a seed: as many as every JSON reader keeps.
const SEED_BITS: u32 = 53;

/// A seed for a new run, from the operating system.
pub(crate) fn new_seed() -> Result<u64, SysError> {
    Ok(SysRng.try_next_u64()? >> (u64::BITS - SEED_BITS))
}

/// The order in which a round runs its variants: `order[position]` is an index into the study's keys.
///
/// Depends on the seed and the round only, so that an interrupted run goes on in the order that it would have
/// had.
pub(crate) fn order(seed: u64, round: u32, variants: usize) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Streams of one seed do not overlap, thus each round has its own numbers without the ones before it.
    random.set_stream(u64::from(round));
    let mut order: Vec<usize> = (0..variants).collect();
    order.shuffle(&mut random);
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_holds_each_variant_once() {
        for round in 0..50 {
            let mut order = order(7, round, 13);
            order.sort_unstable();
            assert_eq!(order, (0..13).collect::<Vec<_>>());
        }
    }

    /// These orders were written down once: runs that were begun with an older build must go on as they
    /// began.
    #[test]
    fn the_order_of_a_seed_never_changes() {
        let first: Vec<Vec<usize>> = (0..3).map(|round| order(2026, round, 6)).collect();
        assert_eq!(first, [[4, 0, 5, 3, 2, 1], [1, 5, 4, 0, 2, 3], [0, 3, 4, 2, 5, 1]]);
    }

    #[test]
    fn each_variant_takes_each_position_about_equally_often() {
        let (variants, rounds) = (5, 2_000);
        let mut seen = vec![vec![0_u32; variants]; variants];
        for round in 0..rounds {
            for (position, variant) in order(1, round, variants).into_iter().enumerate() {
                seen[variant][position] += 1;
            }
        }
        // 400 are expected, with a standard deviation of 18.
        assert!(seen.iter().flatten().all(|times| (300..500).contains(times)), "{seen:?}");
    }

    #[test]
    fn seeds_fit_every_json_reader() {
        assert!(new_seed().expect("the system has random numbers") < 1 << SEED_BITS);
    }
}
