//! The samples of a run: as by-turns writes them, with a column `side`.

use std::fs;
use std::path::{Path, PathBuf};

use by_turns_core::base::clock::Utc;
use by_turns_core::base::csv;
use by_turns_core::run::files::at;
use by_turns_core::run::protocol::Offer;
use serde_json::json;

use crate::against::turns::{Common, SIDES, Taken};

/// The first line of the table.
pub const HEADER: &str = "study,bench,variant,parameter,round,position,sample,iterations,elapsed_ns,side";

/// The table.
pub fn table(offer: &Offer, common: &[Common], taken: &Taken) -> String {
    let row = |sample: &crate::against::turns::Sample| {
        let offered = &common[sample.variant].offered;
        let numbers = [
            sample.round.to_string(),
            sample.position.to_string(),
            sample.number.to_string(),
            sample.iterations.to_string(),
            sample.elapsed.as_nanos().to_string(),
        ];
        let names = [&offer.name, &offer.bench, &offered.variant, &offered.load].map(String::as_str);
        let numbers = numbers.iter().map(String::as_str);
        csv::line(names.into_iter().chain(numbers).chain([SIDES[sample.side]])) + "\n"
    };
    format!("{HEADER}\n") + &taken.samples.iter().map(row).collect::<String>()
}

/// Writes the samples and what is known of the pairs into a folder of its own at `place`, and returns that.
///
/// # Errors
/// Of the file system.
pub fn write(
    place: &Path,
    base: &str,
    offer: &Offer,
    common: &[Common],
    taken: &Taken,
) -> Result<PathBuf, String> {
    let folder = place.join(format!("{}-{}", Utc::now().folder(), std::process::id())).join(&offer.name);
    fs::create_dir_all(&folder).map_err(at(&folder))?;
    let pairs: Vec<_> = taken
        .pairs
        .iter()
        .map(|pair| json!({"first_round": pair.first, "layouts": {SIDES[0]: pair.orders[0], SIDES[1]: pair.orders[1], SIDES[2]: pair.orders[2]}}))
        .collect();
    let about = json!({"base": base, "bench": offer.bench, "seed": taken.seed, "rounds": taken.rounds, "elapsed_s": taken.elapsed.as_secs_f64(), "pairs": pairs});
    for (file, text) in [
        (format!("{}.time.csv", offer.name), table(offer, common, taken)),
        ("against.json".to_owned(), format!("{about:#}\n")),
    ] {
        let path = folder.join(file);
        fs::write(&path, text).map_err(at(&path))?;
    }
    Ok(folder)
}
