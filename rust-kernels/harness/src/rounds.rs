//! The order of the variants in each round.

use std::collections::BTreeSet;

use rand::rngs::{ChaCha8Rng, SysError, SysRng};
use rand::seq::SliceRandom;
use rand::{SeedableRng, TryRng};

/// Bits of a seed: as many as every JSON reader keeps.
const SEED_BITS: u32 = 53;

/// A seed for a new run, from the operating system.
pub(crate) fn new_seed() -> Result<u64, SysError> {
    Ok(SysRng.try_next_u64()? >> (u64::BITS - SEED_BITS))
}

/// The order in which a round runs its variants: `order[position]` is an index into `blocks`, which says for each variant
/// what block it belongs to.
///
/// A block is run in one go, the blocks in an order drawn by lot, and so are the variants within each. What is compared
/// belongs to one block (see [`blocks`]), for the machine changes its speed within a round, too.
///
/// Depends on the seed and the round only, so that an interrupted run goes on in the order that it would have
/// had.
pub(crate) fn order(seed: u64, round: u32, blocks: &[usize]) -> Vec<usize> {
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    // Streams of one seed do not overlap, thus each round has its own numbers without the ones before it.
    random.set_stream(u64::from(round));
    let mut turns: Vec<usize> = (0..blocks.iter().max().map_or(0, |last| last + 1)).collect();
    turns.shuffle(&mut random);
    let mut order: Vec<usize> = (0..blocks.len()).collect();
    order.shuffle(&mut random);
    // A stable sort: within a block the order stays as drawn.
    order.sort_by_key(|index| turns[blocks[*index]]);
    order
}

/// The block of each of `variants`: two that are compared, directly or by way of others, are in the same one. Blocks are
/// numbered from 0 without gaps. `compared` holds pairs of indices.
pub(crate) fn blocks(variants: usize, compared: impl IntoIterator<Item = (usize, usize)>) -> Vec<usize> {
    let mut blocks: Vec<usize> = (0..variants).collect();
    for (one, other) in compared {
        let (kept, dropped) = (blocks[one].min(blocks[other]), blocks[one].max(blocks[other]));
        blocks.iter_mut().filter(|block| **block == dropped).for_each(|block| *block = kept);
    }
    let numbers: BTreeSet<usize> = blocks.iter().copied().collect();
    blocks.iter().map(|block| numbers.range(..block).count()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_round_holds_each_variant_once() {
        for round in 0..50 {
            let mut order = order(7, round, &[0, 1, 1, 0, 2, 2, 2, 3, 4, 4, 4, 4, 4]);
            order.sort_unstable();
            assert_eq!(order, (0..13).collect::<Vec<_>>());
        }
    }

    /// These orders were written down once: runs that were begun with an older build must go on as they
    /// began.
    #[test]
    fn the_order_of_a_seed_never_changes() {
        let first: Vec<Vec<usize>> = (0..3).map(|round| order(2026, round, &[0; 6])).collect();
        assert_eq!(first, [[4, 0, 5, 3, 2, 1], [1, 5, 4, 0, 2, 3], [0, 3, 4, 2, 5, 1]]);
    }

    #[test]
    fn each_variant_takes_each_position_about_equally_often() {
        let (variants, rounds) = (5, 2_000);
        let mut seen = vec![vec![0_u32; variants]; variants];
        for round in 0..rounds {
            for (position, variant) in order(1, round, &vec![0; variants]).into_iter().enumerate() {
                seen[variant][position] += 1;
            }
        }
        // 400 are expected, with a standard deviation of 18.
        assert!(seen.iter().flatten().all(|times| (300..500).contains(times)), "{seen:?}");
    }

    #[test]
    fn a_block_is_run_in_one_go_and_in_another_order_each_time() {
        let blocks = [0, 1, 0, 2, 1, 0, 2];
        let orders: BTreeSet<Vec<usize>> = (0..200).map(|round| order(3, round, &blocks)).collect();
        assert!(orders.len() > 100, "of 6 * 24 possible orders only {} were drawn", orders.len());
        for order in orders {
            let mut turns: Vec<usize> = order.iter().map(|index| blocks[*index]).collect();
            turns.dedup();
            assert_eq!(turns.len(), 3, "{order:?}");
        }
    }

    #[test]
    fn what_is_compared_is_in_one_block() {
        assert_eq!(blocks(6, [(1, 4), (5, 4), (2, 3)]), [0, 1, 2, 2, 1, 1]);
        assert_eq!(blocks(4, [(0, 1), (2, 3), (3, 0)]), [0; 4]);
        assert_eq!(blocks(3, []), [0, 1, 2]);
        assert_eq!(order(1, 0, &[]), [0_usize; 0]);
    }

    #[test]
    fn seeds_fit_every_json_reader() {
        assert!(new_seed().expect("the system has random numbers") < 1 << SEED_BITS);
    }
}
