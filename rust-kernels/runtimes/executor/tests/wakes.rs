//! A million wakes, none of them lost.

mod common;

use std::sync::Arc;
use std::thread;

use common::Place;
use runtimes_executor::{Runtime, Settings};

/// A lost wake shows as a test that does not end.
#[test]
fn no_wake_of_a_million_is_lost() {
    const PAIRS: usize = 10;
    const WAKES: usize = 1_000_000;
    for settings in [Settings::new(2), Settings { searches: 0, awake: 4, ..Settings::new(4) }] {
        let runtime = Runtime::new(settings);
        let players: Vec<_> = (0..PAIRS)
            .flat_map(|_| {
                let places: [Arc<Place>; 2] = Default::default();
                let player = |mine: usize| {
                    let [mine, other] = [mine, 1 - mine].map(|index| Arc::clone(&places[index]));
                    runtime.spawn(async move {
                        for _ in 0..WAKES / PAIRS / 4 {
                            other.put();
                            mine.take().await;
                        }
                    })
                };
                [player(0), player(1)]
            })
            .collect();
        runtime.block_on(async {
            for player in players {
                player.await.unwrap();
            }
        });
        // And half as many from a thread that does not belong to the runtime, to a task and to the root.
        let place: Arc<Place> = Arc::default();
        let answers: Arc<Place> = Arc::default();
        let outside = {
            let (place, answers) = (Arc::clone(&place), Arc::clone(&answers));
            runtime.spawn(async move {
                for _ in 0..WAKES / 4 {
                    place.take().await;
                    answers.put();
                }
            })
        };
        let putting = {
            let place = Arc::clone(&place);
            thread::spawn(move || (0..WAKES / 4).for_each(|_| place.put()))
        };
        runtime.block_on(async {
            for _ in 0..WAKES / 4 {
                answers.take().await;
            }
            outside.await.unwrap();
        });
        putting.join().unwrap();
    }
}
