//! What cancelling loses is what the table says, and each program does equal work.

use channels::{Channel, Ends, Item, TokioChannel, cancelling, proven, rows, study};

#[test]
fn all_programs_and_what_cancelling_loses_are_proved_and_the_study_can_be_measured() {
    study().expect("equal work").comparisons().expect("a study");
}

/// Drops each second message, and waits for the next, so that a message may be lost with the future.
struct Careless;

impl Channel for Careless {
    const NAME: &str = "careless";
    type Sender<T: Item> = <TokioChannel as Channel>::Sender<T>;
    type Receiver<T: Item> = <TokioChannel as Channel>::Receiver<T>;

    fn open<T: Item>(capacity: usize) -> Ends<Self, T> {
        TokioChannel::open(capacity)
    }

    async fn send<T: Item>(to: &mut Self::Sender<T>, message: T) -> bool {
        TokioChannel::send(to, message).await
    }

    async fn receive<T: Item>(from: &mut Self::Receiver<T>) -> Option<T> {
        drop(TokioChannel::receive(from).await);
        TokioChannel::receive(from).await
    }
}

#[test]
fn a_channel_that_loses_messages_is_refused() {
    let [base, ..] = rows::<Careless>();
    let refusal = proven(&base.key, base.program, base.load).expect_err("each second message is lost");
    assert!(refusal.to_string().contains("received: 800 expected, 400 counted"), "{refusal}");
    let counted = cancelling::<Careless>();
    assert!(counted["receive_handed_lost"] > 0, "{counted:?}");
}
