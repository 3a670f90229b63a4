//! How a number is written for a reader.

/// With a comma after each thousand.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// Of a value below a thousand: hundredths of a small one, and of one below a tenth two digits more.
fn three_digits(value: f64) -> String {
    let places = match value {
        value if value < 0.1 => 4,
        value if value < 10.0 => 2,
        value => usize::from(value < 100.0),
    };
    format!("{value:.places$}")
}

/// Three digits, with the unit that fits.
pub fn time(ns: f64) -> String {
    let (value, unit) = match ns {
        ns if ns < 1e3 => (ns, "ns"),
        ns if ns < 1e6 => (ns / 1e3, "µs"),
        ns if ns < 1e9 => (ns / 1e6, "ms"),
        ns => (ns / 1e9, "s"),
    };
    format!("{} {unit}", three_digits(value))
}

/// How many units of work a second, of which one takes so long: three digits.
pub fn rate(unit: &str, ns: f64) -> String {
    let a_second = 1e9 / ns;
    let (value, prefix) = match a_second {
        rate if rate < 1e3 => (rate, ""),
        rate if rate < 1e6 => (rate / 1e3, "k"),
        rate if rate < 1e9 => (rate / 1e6, "M"),
        rate => (rate / 1e9, "G"),
    };
    // Of bytes it has a usual name.
    let unit = if unit == "byte" { "B" } else { "" };
    let space = if prefix.is_empty() && unit.is_empty() { "" } else { " " };
    format!("{}{space}{prefix}{unit}/s", three_digits(value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_below_a_tenth_of_a_nanosecond_has_its_digits() {
        assert_eq!([0.0261, 0.58, 14.71, 38_000.0].map(time), ["0.0261 ns", "0.58 ns", "14.7 ns", "38.0 µs"]);
    }

    #[test]
    fn a_rate_has_three_digits_and_bytes_their_unit() {
        let rates = [("byte", 0.05), ("byte", 2.0), ("item", 6.81), ("item", 5e5), ("job", 2e9)];
        let shown = rates.map(|(unit, ns)| rate(unit, ns));
        assert_eq!(shown, ["20.0 GB/s", "500 MB/s", "147 M/s", "2.00 k/s", "0.50/s"]);
    }
}
