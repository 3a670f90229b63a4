//! Whoever is at the ends of a channel, all messages arrive, once.

use channels::{BASE, Channel, Crossfire, Ends, Item, Kanal, Load, Started, TokioChannel, counted, expected};
use channels_threads::{
    Blocking, Crossbeam, Crossfire2, OnlyCrossfire, OnlyCrossfire2, Std, StdBySpawn, bridge, race,
};
use harness::{Counts, prove};

const PING_PONG: Load = Load { burst: 1, ..BASE };

fn outcome(started: &Started, load: Load) -> Counts {
    counted(started(load).1)
}

fn every_end<C: Blocking>() {
    for program in [bridge::<C, false, false>, bridge::<C, false, true>, bridge::<C, true, false>] {
        let started = program();
        for load in [BASE, PING_PONG, Load { capacity: 1, ..BASE }, Load { burst: 31, ..BASE }] {
            prove(C::NAME, &expected(load), &outcome(&started, load)).expect("equal work");
        }
    }
}

#[test]
fn all_messages_arrive_whoever_is_at_the_ends() {
    every_end::<TokioChannel>();
    every_end::<Kanal>();
    every_end::<Crossfire>();
    every_end::<OnlyCrossfire>();
    every_end::<Crossfire2>();
    every_end::<OnlyCrossfire2>();
    every_end::<Std>();
    every_end::<Crossbeam>();
    every_end::<StdBySpawn>();
}

#[test]
fn a_race_counts_what_never_arrives() {
    assert_eq!(race::<TokioChannel>(), 0);
    // Of each hundred it drops one, in whatever it receives.
    assert!(race::<Lossy>() > 0);
}

/// Loses each hundredth message.
struct Lossy;

impl Channel for Lossy {
    const NAME: &str = "lossy";
    type Sender<T: Item> = <Std as Channel>::Sender<T>;
    type Receiver<T: Item> = (<Std as Channel>::Receiver<T>, u64);

    fn open<T: Item>(capacity: usize) -> Ends<Self, T> {
        let (to, from) = Std::open(capacity);
        (to, (from, 0))
    }

    async fn send<T: Item>(to: &mut Self::Sender<T>, message: T) -> bool {
        Std::send(to, message).await
    }

    async fn receive<T: Item>(from: &mut Self::Receiver<T>) -> Option<T> {
        from.1 += 1;
        if from.1.is_multiple_of(100) {
            Std::receive(&mut from.0).await;
        }
        Std::receive(&mut from.0).await
    }
}

impl Blocking for Lossy {
    type Blocks = <Std as Blocking>::Blocks;

    fn sender<T: Item>(to: Self::Sender<T>) -> <Self::Blocks as Channel>::Sender<T> {
        to
    }

    fn receiver<T: Item>(from: Self::Receiver<T>) -> <Self::Blocks as Channel>::Receiver<T> {
        from.0
    }
}

#[test]
fn a_channel_that_loses_messages_is_refused() {
    let found = outcome(&bridge::<Lossy, false, true>(), BASE);
    let refusal = prove(Lossy::NAME, &expected(BASE), &found).expect_err("some are lost");
    assert!(refusal.to_string().contains("received: 800 expected"), "{refusal}");
}
