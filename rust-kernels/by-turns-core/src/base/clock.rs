//! Points in time as run.json and folder names write them.

use std::time::{SystemTime, UNIX_EPOCH};

/// A point in time, in whole seconds UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Utc {
    seconds: u64,
}

impl Utc {
    /// The time of the system.
    pub fn now() -> Self {
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        // A clock before 1970 is not set; the run says so by its date.
        Self { seconds: since.map_or(0, |since| since.as_secs()) }
    }

    /// Such as `2026-11-20T19:01:02Z`.
    pub fn text(self) -> String {
        let (year, month, day) = self.date();
        let (hour, minute, second) = self.time();
        format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}Z")
    }

    /// Such as `20261120T190102Z`: sorts by time and suits every file system.
    pub fn folder(self) -> String {
        self.text().replace(['-', ':'], "")
    }

    fn time(self) -> (u64, u64, u64) {
        let second = self.seconds % 86_400;
        (second / 3_600, second / 60 % 60, second % 60)
    }

    /// The Gregorian date, with years counted from March so that the leap day is their last (Howard Hinnant,
    /// "chrono-compatible low-level date algorithms").
    fn date(self) -> (u64, u64, u64) {
        let days = self.seconds / 86_400 + 719_468;
        let (era, day_of_era) = (days / 146_097, days % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        (era * 400 + year_of_era + u64::from(month <= 2), month, day)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn known_moments_are_written_right() {
        let cases = [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_795_201_262, "2026-11-20T19:01:02Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ];
        for (seconds, text) in cases {
            assert_eq!(Utc { seconds }.text(), text);
        }
        assert_eq!(Utc { seconds: 1_795_201_262 }.folder(), "20261120T190102Z");
    }
}
