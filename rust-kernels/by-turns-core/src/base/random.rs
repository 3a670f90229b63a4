//! Random numbers: what is drawn by lot needs speed and no secrets.

use std::fs::File;
use std::io::{self, Read};

/// Bits of a seed: as many as every JSON reader keeps.
const SEED_BITS: u32 = 53;

/// A seed for a new run, from the operating system.
///
/// # Errors
/// Where it gives none.
pub fn new_seed() -> io::Result<u64> {
    let mut bytes = [0; 8];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(u64::from_le_bytes(bytes) >> (u64::BITS - SEED_BITS))
}

/// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
pub struct Random(u64);

impl Random {
    /// The numbers of a seed, another sequence for each `stream`.
    pub fn of(seed: u64, stream: u32) -> Self {
        let mut streams = Self(u64::from(stream));
        Self(Self(seed).next() ^ streams.next())
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below this. The first ones are likelier by less than one in 2⁶⁴ over that.
    pub fn below(&mut self, end: usize) -> usize {
        ((u128::from(self.next()) * end as u128) >> 64) as usize
    }

    /// Puts the items into an order drawn by lot (Fisher and Yates).
    pub fn shuffle<T>(&mut self, items: &mut [T]) {
        for last in (1..items.len()).rev() {
            items.swap(last, self.below(last + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The first numbers of seed 1234567, as the authors' own code in C gives them.
    #[test]
    fn it_is_the_published_generator() {
        let mut random = Random(1_234_567);
        let first = [0; 5].map(|_: u64| random.next());
        let published = [
            6_457_827_717_110_365_317,
            3_203_168_211_198_807_973,
            9_817_491_932_198_370_423,
            4_593_380_528_125_082_431,
            16_408_922_859_458_223_821,
        ];
        assert_eq!(first, published);
    }

    #[test]
    fn each_order_is_drawn_about_equally_often() {
        let mut times = std::collections::BTreeMap::new();
        for stream in 0..6_000 {
            let mut items = [0, 1, 2];
            Random::of(7, stream).shuffle(&mut items);
            *times.entry(items).or_insert(0) += 1;
        }
        // 1,000 are expected of each of six, with a standard deviation of 29.
        assert!(times.len() == 6 && times.values().all(|times| (850..1_150).contains(times)), "{times:?}");
    }

    #[test]
    fn seeds_fit_every_json_reader_and_differ() {
        let seeds = [0; 2].map(|_: u64| new_seed().expect("the system has random numbers"));
        assert!(seeds.iter().all(|seed| *seed < 1 << SEED_BITS) && seeds[0] != seeds[1]);
    }
}
