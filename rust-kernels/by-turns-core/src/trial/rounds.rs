//! The order of the variants in each round.

use std::cmp::Reverse;
use std::collections::VecDeque;

use crate::base::random::Random;

/// The order in which a round runs its variants: `order[position]` is an index into `neighbours`, which says for each
/// variant what it is compared with.
///
/// The machine changes its speed within a round, too. So variants that are compared with each other, directly or by way
/// of others, are a block that is run in one go, the blocks in an order drawn by lot, and within a block what is
/// compared is close together: see `laid_out`. Of two that are compared, each comes first equally often.
///
/// Depends on the seed and the round only, so that an interrupted run goes on in the order that it would have
/// had.
pub fn order(seed: u64, round: u32, neighbours: &[Vec<usize>]) -> Vec<usize> {
    let mut random = Random::of(seed, round);
    let mut starts: Vec<usize> = (0..neighbours.len()).collect();
    random.shuffle(&mut starts);
    let mut seen = vec![false; neighbours.len()];
    let mut blocks = Vec::new();
    for start in starts {
        if !seen[start] {
            let tree = tree(start, neighbours, &mut seen, &mut random);
            let mut block = laid_out(start, &tree);
            if random.below(2) == 1 {
                block.reverse();
            }
            blocks.push(block);
        }
    }
    random.shuffle(&mut blocks);
    blocks.concat()
}

/// What each of `variants` is compared with. `compared` holds pairs of indices.
pub fn neighbours(variants: usize, compared: impl IntoIterator<Item = (usize, usize)>) -> Vec<Vec<usize>> {
    let mut neighbours = vec![Vec::new(); variants];
    for (one, other) in compared {
        neighbours[one].push(other);
        neighbours[other].push(one);
    }
    neighbours
}

/// A tree of everything that is connected with `start`, as the children of each variant. Breadth first, so that a
/// variant with many comparisons has as many of them as possible in the tree; brothers are in an order drawn by lot.
fn tree(start: usize, neighbours: &[Vec<usize>], seen: &mut [bool], random: &mut Random) -> Vec<Vec<usize>> {
    let mut tree = vec![Vec::new(); neighbours.len()];
    let mut queue = VecDeque::from([start]);
    seen[start] = true;
    while let Some(parent) = queue.pop_front() {
        let mut children = neighbours[parent].clone();
        random.shuffle(&mut children);
        children.retain(|child| !std::mem::replace(&mut seen[*child], true));
        queue.extend(&children);
        tree[parent] = children;
    }
    tree
}

/// The part of the tree below `root`, as it is run; its beginning is meant for the side of the parent.
///
/// A variant stands in the middle of its children, since at one end of them it would be twice as far away on average.
/// The largest part, and every second one after it, goes to the side that is not the parent's; hence a chain stays a
/// chain. Smaller parts stand nearer, because what stands between a variant and its child is the distance of the two.
fn laid_out(root: usize, tree: &[Vec<usize>]) -> Vec<usize> {
    let mut parts: Vec<Vec<usize>> = tree[root].iter().map(|child| laid_out(*child, tree)).collect();
    // Stable: parts of one size stay as drawn.
    parts.sort_by_key(|part| Reverse(part.len()));
    let behind = parts.iter().step_by(2).rev().flatten();
    let before = parts.iter().skip(1).step_by(2).flat_map(|part| part.iter().rev());
    before.chain([&root]).chain(behind).copied().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Pairs of each kind of study: one baseline for all; each with the one before; a ladder with branches.
    const STAR: [(usize, usize); 12] =
        [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5), (0, 6), (0, 7), (0, 8), (0, 9), (0, 10), (0, 11), (0, 12)];
    const CHAIN: [(usize, usize); 9] =
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (6, 7), (7, 8), (8, 9)];
    const LADDER: [(usize, usize); 12] =
        [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 6), (1, 7), (3, 8), (3, 9), (3, 10), (6, 11), (6, 12)];

    /// The orders of many rounds of variants that are compared in pairs.
    fn orders(variants: usize, pairs: &[(usize, usize)]) -> Vec<Vec<usize>> {
        let neighbours = neighbours(variants, pairs.iter().copied());
        (0..2_000).map(|round| order(1, round, &neighbours)).collect()
    }

    fn position(order: &[usize], variant: usize) -> usize {
        order.iter().position(|index| *index == variant).expect("each is there")
    }

    /// How many positions the two of a pair are apart, on average.
    fn mean_distance(orders: &[Vec<usize>], pairs: &[(usize, usize)]) -> f64 {
        let distance =
            |order: &Vec<usize>, (one, other)| position(order, one).abs_diff(position(order, other));
        let of_order = |order| pairs.iter().map(|pair| distance(order, *pair)).sum::<usize>();
        orders.iter().map(of_order).sum::<usize>() as f64 / (orders.len() * pairs.len()) as f64
    }

    #[test]
    fn every_round_holds_each_variant_once() {
        for pairs in [&[][..], &[(1, 2), (4, 6), (6, 5), (5, 4), (8, 9)], &LADDER] {
            for mut order in orders(13, pairs) {
                order.sort_unstable();
                assert_eq!(order, (0..13).collect::<Vec<_>>());
            }
        }
        assert_eq!(order(1, 0, &[]), [0_usize; 0]);
    }

    /// These orders were written down once: runs that were begun with an older build must go on as they
    /// began.
    #[test]
    fn the_order_of_a_seed_never_changes() {
        let neighbours = neighbours(6, [(0, 1), (0, 2), (3, 4)]);
        let first: Vec<Vec<usize>> = (0..3).map(|round| order(2026, round, &neighbours)).collect();
        assert_eq!(first, [[1, 0, 2, 4, 3, 5], [2, 0, 1, 4, 3, 5], [4, 3, 1, 0, 2, 5]]);
    }

    #[test]
    fn what_is_compared_with_nothing_takes_each_position_about_equally_often() {
        let mut seen = vec![vec![0_u32; 5]; 5];
        for order in orders(5, &[]) {
            order.into_iter().enumerate().for_each(|(position, variant)| seen[variant][position] += 1);
        }
        // 400 are expected, with a standard deviation of 18.
        assert!(seen.iter().flatten().all(|times| (300..500).contains(times)), "{seen:?}");
    }

    #[test]
    fn a_block_is_run_in_one_go_and_in_another_order_each_time() {
        let blocks = [0, 1, 0, 2, 1, 0, 2];
        let mut orders = orders(7, &[(0, 2), (5, 0), (1, 4), (6, 3)]);
        for order in &orders {
            let mut turns: Vec<usize> = order.iter().map(|index| blocks[*index]).collect();
            turns.dedup();
            assert_eq!(turns.len(), 3, "{order:?}");
        }
        orders.sort_unstable();
        orders.dedup();
        // Three blocks in any order, two of them either way round, and 0 stands between 2 and 5 or next to them.
        assert!(orders.len() >= 6 * 2 * 2 * 2, "only {} orders were drawn", orders.len());
    }

    #[test]
    fn what_is_compared_is_closer_together_than_by_chance() {
        for (variants, pairs, share) in [(13, &STAR[..], 0.8), (10, &CHAIN, 0.3), (13, &LADDER, 0.5)] {
            let by_chance = mean_distance(&orders(variants, &[]), pairs);
            let here = mean_distance(&orders(variants, pairs), pairs);
            assert!(here < share * by_chance, "{here} positions instead of {by_chance} for {pairs:?}");
        }
    }

    #[test]
    fn of_two_that_are_compared_each_comes_first_equally_often() {
        for (variants, pairs) in [(13, &STAR[..]), (10, &CHAIN), (13, &LADDER)] {
            let orders = orders(variants, pairs);
            for (one, other) in pairs {
                let first = |order: &&Vec<usize>| position(order, *one) < position(order, *other);
                let times = orders.iter().filter(first).count();
                // 1,000 are expected, with a standard deviation of 22.
                assert!((880..1_120).contains(&times), "{one} came {times} times before {other}");
            }
        }
    }

    #[test]
    fn a_baseline_of_all_stands_among_them_and_each_of_them_anywhere() {
        let orders = orders(13, &STAR);
        for order in &orders {
            assert!((5..=7).contains(&position(order, 0)), "{order:?}");
        }
        for end in [0, 12] {
            let mut there = vec![0; 13];
            orders.iter().for_each(|order| there[order[end]] += 1);
            // 167 are expected, with a standard deviation of 12.
            assert!(there[1..].iter().all(|times| (100..240).contains(times)), "{there:?}");
        }
    }
}
