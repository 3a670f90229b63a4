//! The list of those who have something to do.

use slab::Slab;
use zero_cost_loop::{AsDescribed, Choices, Lean, Node, RunList};

/// A slab of five nodes, and a list of some of them.
fn list_of<C: Choices>(linked: &[usize]) -> (Slab<Node<()>>, RunList<C>) {
    let mut nodes: Slab<_> = (0..5).map(|slot| (slot, Node::new(()))).collect();
    let mut list = RunList::default();
    for &slot in linked {
        list.push_back(&mut nodes, slot);
    }
    (nodes, list)
}

/// Takes everything off the list, first to last.
fn drain<C: Choices>(nodes: &mut Slab<Node<()>>, list: &mut RunList<C>) -> Vec<usize> {
    std::iter::from_fn(|| list.pop_front(nodes)).collect()
}

#[test]
fn slots_come_out_in_the_order_in_which_they_went_in() {
    let (mut nodes, mut list) = list_of::<AsDescribed>(&[3, 0, 4]);
    assert_eq!(list.head(), Some(3));
    assert_eq!(drain(&mut nodes, &mut list), [3, 0, 4]);
    assert_eq!((list.head(), list.pop_front(&mut nodes)), (None, None));
}

#[test]
fn a_slot_can_be_linked_in_anywhere() {
    let (mut nodes, mut list) = list_of::<AsDescribed>(&[0, 1]);
    list.insert_after(&mut nodes, Some(0), 2);
    list.insert_after(&mut nodes, None, 3);
    list.insert_after(&mut nodes, Some(1), 4);
    assert_eq!(drain(&mut nodes, &mut list), [3, 0, 2, 1, 4]);
}

#[test]
fn removing_keeps_the_links_of_the_others_whichever_goes() {
    keeps_the_links::<AsDescribed>();
    keeps_the_links::<Lean>();
}

fn keeps_the_links<C: Choices>() {
    for (removed, left) in [(1, [2, 3]), (2, [1, 3]), (3, [1, 2])] {
        let (mut nodes, mut list) = list_of::<C>(&[1, 2, 3]);
        list.remove(&mut nodes, removed);
        list.push_back(&mut nodes, 4);
        assert_eq!(drain(&mut nodes, &mut list), [left[0], left[1], 4]);
    }
}

#[test]
fn removing_twice_or_what_was_never_linked_changes_nothing() {
    changes_nothing::<AsDescribed>();
    changes_nothing::<Lean>();
}

fn changes_nothing<C: Choices>() {
    let (mut nodes, mut list) = list_of::<C>(&[1, 2]);
    list.remove(&mut nodes, 0);
    list.remove(&mut nodes, 1);
    list.remove(&mut nodes, 1);
    assert_eq!(drain(&mut nodes, &mut list), [2]);
    list.remove(&mut nodes, 2);
    assert_eq!(list.head(), None);
}
