//! Disturbs a core until its standard input ends: `noise SEED` is busy with memory and idle for 1 to 100 ms each, as it draws.

use std::hint::black_box;
use std::io::{Read, stdin};
use std::thread;
use std::time::{Duration, Instant};

#[path = "../../rust-kernels/random.rs"]
mod random;

fn main() {
    let seed = std::env::args().nth(1).and_then(|seed| seed.parse().ok()).expect("a seed");
    thread::spawn(move || disturb(random::Random(seed)));
    let _ = stdin().read_to_end(&mut vec![]);
}

fn disturb(mut random: random::Random) {
    // More than caches hold.
    let mut memory = vec![1_u64; 8 << 20];
    loop {
        let [busy, idle] = [(); 2].map(|()| Duration::from_micros(10_u64.pow(3) << (random.below(8))));
        let start = Instant::now();
        while start.elapsed() < busy {
            let place = random.below(memory.len() as u64 - 4096) as usize;
            black_box(&mut memory[place..place + 4096])
                .iter_mut()
                .for_each(|word| *word = word.wrapping_mul(3));
        }
        thread::sleep(idle);
    }
}
