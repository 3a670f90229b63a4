//! The ratios of a bench as a strip for each comparison: a tick for each process, a bar for the interval, with a line at 1 and
//! the tolerance shaded. For a terminal, and as SVG.

use std::collections::BTreeMap;
use std::fmt::Write;

use by_turns_core::judge::interval::median;
use by_turns_core::judge::pairs::{Pair, Trials};

/// A comparison.
pub struct Strip {
    /// The variant and what it is compared with.
    pub name: String,
    /// Whether it is the baseline beside itself.
    pub control: bool,
    /// What is said of it, such as a verdict.
    pub said: String,
    /// How small a difference matters.
    pub tolerance: f64,
    /// The ratio and its interval.
    pub ratio: Option<[f64; 3]>,
    /// The ratio of each process.
    pub processes: Vec<f64>,
}

/// The ratio that each process shows: the median over its rounds.
pub fn by_process(pair: &Pair, trials: &Trials) -> Vec<f64> {
    let mut processes: BTreeMap<u32, Vec<f64>> = BTreeMap::new();
    let (Some(mine), Some(others)) = (trials.get(&pair.key), trials.get(&pair.baseline)) else {
        return vec![];
    };
    for (round, time) in mine {
        let Some(other) = others.get(round) else { continue };
        let ratio = time.ns / other.ns * pair.units[1] / pair.units[0];
        processes.entry(time.episode).or_default().push(ratio);
    }
    processes.values_mut().map(|ratios| median(ratios)).collect()
}

/// Where ratios stand: linear near 1, within three tolerances, and logarithmic beyond, so that 1.01 and 20 are seen together.
struct Scale {
    linear: f64,
    from: f64,
    until: f64,
    /// At either end.
    room: f64,
}

impl Scale {
    fn of(strips: &[Strip]) -> Self {
        let least = strips.iter().map(|strip| strip.tolerance).fold(1.0, f64::min);
        let linear = 3.0 * least;
        let (mut from, mut until) = (0.0_f64, 0.0_f64);
        for strip in strips {
            let borders = [1.0 - strip.tolerance, 1.0 + strip.tolerance];
            let ratios = strip.ratio.iter().flatten().chain(&strip.processes).chain(&borders);
            for at in ratios.map(|ratio| bent(*ratio, linear)).filter(|at| at.is_finite()) {
                (from, until) = (from.min(at), until.max(at));
            }
        }
        let room = 0.04 * (until - from);
        Self { linear, from: from - room, until: until + room, room }
    }

    /// Where it stands in a strip of this width.
    fn at(&self, ratio: f64, width: f64) -> f64 {
        ((bent(ratio, self.linear) - self.from) / (self.until - self.from)).clamp(0.0, 1.0) * width
    }

    /// Ratios to be written below a strip of this width, at least so far from each other.
    fn marks(&self, width: f64, apart: f64) -> Vec<f64> {
        const ROUND: [&[f64]; 4] = [
            &[1.0, 10.0, 100.0, 1000.0, 2.0],
            &[1.1, 5.0, 20.0, 50.0, 200.0, 500.0, 1.5],
            &[1.02, 1.05, 1.2, 3.0],
            &[1.01, 1.005, 1.002, 1.001],
        ];
        let mut marks: Vec<f64> = vec![];
        for above in ROUND.into_iter().flatten().copied() {
            // Below 1 as far as above, with as few digits: 0.98 beside 1.02, 0.5 beside 2.
            let below = if above < 1.5 { 2.0 - above } else { 1.0 / above };
            for mark in [above, below] {
                let inside =
                    (self.from + self.room..=self.until - self.room).contains(&bent(mark, self.linear));
                let far = |other: &f64| (self.at(*other, width) - self.at(mark, width)).abs() >= apart;
                if inside && marks.iter().all(far) {
                    marks.push(mark);
                }
            }
        }
        marks.sort_by(f64::total_cmp);
        marks
    }
}

fn bent(ratio: f64, linear: f64) -> f64 {
    (ratio.ln() / linear).asinh()
}

/// At most three digits after the point.
fn short(ratio: f64) -> String {
    let text = format!("{ratio:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// At most so many characters.
fn cut(text: &str, most: usize) -> String {
    let mut characters = text.chars();
    let mut kept: String = characters.by_ref().take(most).collect();
    if characters.next().is_some() {
        kept.pop();
        kept.push('…');
    }
    kept
}

const LEGEND: &str = "tick: a process; bar: the interval of 95 %; shaded: too small to matter";

/// For a terminal.
pub fn text(strips: &[Strip]) -> String {
    const WIDTH: usize = 60;
    let scale = Scale::of(strips);
    let cell = |ratio: f64| (scale.at(ratio, WIDTH as f64) as usize).min(WIDTH - 1);
    let names: Vec<String> = strips.iter().map(|strip| cut(&strip.name, 40)).collect();
    let wide = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
    let mut text = String::new();
    for (strip, name) in strips.iter().zip(&names) {
        let mut cells = [' '; WIDTH];
        cells[cell(1.0 - strip.tolerance)..=cell(1.0 + strip.tolerance)].fill('░');
        cells[cell(1.0)] = '│';
        if let Some([_, low, high]) = strip.ratio {
            cells[cell(low)..=cell(high)].fill('━');
        }
        for process in &strip.processes {
            let at = &mut cells[cell(*process)];
            *at = if matches!(at, '━' | '┿') { '┿' } else { '╵' };
        }
        if let Some([ratio, ..]) = strip.ratio {
            cells[cell(ratio)] = '●';
        }
        let cells: String = cells.iter().collect();
        let _ = writeln!(text, "{name:<wide$}  {cells}  {}", strip.said);
    }
    let mut marks = [' '; WIDTH + 6];
    for mark in scale.marks(WIDTH as f64, 6.0) {
        for (place, digit) in short(mark).chars().enumerate() {
            marks[cell(mark) + place] = digit;
        }
    }
    let marks: String = marks.iter().collect();
    let _ = writeln!(text, "{:<wide$}  {}\n{:<wide$}  {LEGEND}", "", marks.trim_end(), "");
    text
}

/// A picture that follows the reader's choice of light or dark.
pub fn svg(title: &str, strips: &[Strip]) -> String {
    const WIDTH: f64 = 400.0;
    const LEFT: f64 = 230.0;
    const ROW: f64 = 26.0;
    const TOP: f64 = 40.0;
    let scale = Scale::of(strips);
    let x = |ratio: f64| LEFT + scale.at(ratio, WIDTH);
    let bottom = TOP + ROW * strips.len() as f64;
    let title = xml(&format!("{title}: time over that of the baseline"));
    let (wide, high) = (LEFT + WIDTH + 130.0, bottom + 48.0);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {wide} {high}\" width=\"{wide}\" height=\"{high}\" role=\"img\" \
         aria-label=\"{title}\">\n<style>svg{{font:12px system-ui,sans-serif;color:#1c1e21;background:#fff;--bar:#0b62c4}}text{{fill:currentColor}}\
         .s{{fill:currentColor;opacity:.12}}.l{{stroke:currentColor;opacity:.5}}.p{{stroke:currentColor;opacity:.6}}\
         .b{{stroke:var(--bar);stroke-width:4}}.v{{fill:var(--bar)}}.g{{font-size:11px;opacity:.75}}\
         @media(prefers-color-scheme:dark){{svg{{color:#e6e6e6;background:#17181a;--bar:#6cb0ff}}}}</style>\n\
         <text x=\"8\" y=\"20\" font-weight=\"600\">{title}</text>\n"
    );
    for (row, strip) in strips.iter().enumerate() {
        let middle = TOP + ROW * (row as f64 + 0.5);
        let (top, low) = (middle - ROW / 2.0, middle + 4.0);
        let [from, until] = [1.0 - strip.tolerance, 1.0 + strip.tolerance].map(x);
        let (name, whole, said) = (xml(&cut(&strip.name, 34)), xml(&strip.name), xml(&strip.said));
        let _ = writeln!(
            svg,
            "<g{}><title>{whole}: {said}</title><text x=\"8\" y=\"{low:.1}\">{name}</text>\
             <rect class=\"s\" x=\"{from:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{ROW}\"/>",
            if strip.control { " opacity=\".65\"" } else { "" },
            until - from,
        );
        if let Some([ratio, low, high]) = strip.ratio {
            let [ratio, low, high] = [ratio, low, high].map(x);
            // A line of no length would not be drawn.
            let high = high.max(low + 1.0);
            let _ = writeln!(
                svg,
                "<path class=\"b\" d=\"M{low:.1} {middle:.1}H{high:.1}\"/><circle class=\"v\" cx=\"{ratio:.1}\" cy=\"{middle:.1}\" r=\"4\"/>"
            );
        }
        let ticks: String = strip
            .processes
            .iter()
            .map(|process| format!("M{:.1} {:.1}v14", x(*process), middle - 7.0))
            .collect();
        let _ = writeln!(
            svg,
            "<path class=\"p\" d=\"{ticks}\"/><text x=\"{:.1}\" y=\"{low:.1}\">{said}</text></g>",
            LEFT + WIDTH + 8.0
        );
    }
    let one = x(1.0);
    let _ = writeln!(svg, "<path class=\"l\" d=\"M{one:.1} {TOP}V{bottom}\"/>");
    for mark in scale.marks(WIDTH, 32.0) {
        let (at, text) = (x(mark), short(mark));
        let _ = writeln!(
            svg,
            "<path class=\"l\" d=\"M{at:.1} {bottom}v4\"/><text class=\"g\" x=\"{at:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{text}</text>",
            bottom + 16.0
        );
    }
    let _ =
        writeln!(svg, "<text class=\"g\" x=\"{LEFT}\" y=\"{:.1}\">{LEGEND}</text>\n</svg>", bottom + 36.0);
    svg
}

/// As text of XML.
fn xml(text: &str) -> String {
    let mut safe = String::new();
    for c in text.chars() {
        match c {
            '&' => safe += "&amp;",
            '<' => safe += "&lt;",
            '>' => safe += "&gt;",
            '"' => safe += "&quot;",
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;
    use by_turns_core::base::key::Key;
    use by_turns_core::judge::pairs::Time;

    fn strip(name: &str, ratio: f64) -> Strip {
        Strip {
            name: name.to_owned(),
            control: false,
            said: short(ratio),
            tolerance: 0.01,
            ratio: Some([ratio, ratio * 0.98, ratio * 1.02]),
            processes: vec![ratio * 0.95, ratio, ratio * 1.05],
        }
    }

    #[test]
    fn a_process_is_the_median_of_its_rounds_by_unit() {
        let time = |(round, ns): (u32, f64)| (round, Time { episode: round / 3, ns });
        let times = |ns: [f64; 6]| (0..).zip(ns).map(time).collect();
        let [key, baseline] = ["a", "b"].map(|name| Key::new("b", name, ""));
        let trials = Trials::from([
            (key.clone(), times([20.0, 22.0, 90.0, 30.0, 30.0, 30.0])),
            (baseline.clone(), times([10.0; 6])),
        ]);
        let pair = Pair { key, baseline, units: [2.0, 1.0] };
        assert_eq!(by_process(&pair, &trials), [1.1, 1.5]);
    }

    #[test]
    fn near_and_far_ratios_are_seen_together_and_in_order() {
        let scale = Scale::of(&[strip("near", 1.01), strip("far", 20.0), strip("below", 0.5)]);
        let places = [0.5, 0.99, 1.0, 1.01, 1.05, 2.0, 20.0].map(|ratio| scale.at(ratio, 400.0));
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] > 4.0), "{places:?}");
        let marks = scale.marks(400.0, 32.0);
        assert!([0.5, 1.0, 10.0].iter().all(|mark| marks.contains(mark)), "{marks:?}");
    }

    #[test]
    fn a_terminal_shows_interval_processes_and_tolerance() {
        let shown = text(&[strip("slower", 1.2), strip("same", 1.0)]);
        let rows: Vec<&str> = shown.lines().collect();
        let [slower, same] = [rows[0], rows[1]];
        assert!(slower.starts_with("slower  ") && slower.ends_with("  1.2"), "{shown}");
        let at = |row: &str, what: char| row.chars().position(|c| c == what);
        assert!(at(slower, '│') < at(slower, '●'), "{shown}");
        assert!(slower.contains('░') && slower.matches('╵').count() == 2, "{shown}");
        assert!(at(same, '●').is_some() && rows[2].contains('1'), "{shown}");
    }

    #[test]
    fn a_picture_holds_no_markup_of_names_and_a_tick_for_each_process() {
        let picture =
            svg("a & b", &[strip("Vec<u8>, \"x\"", 2.0), Strip { ratio: None, ..strip("none", 1.0) }]);
        assert!(picture.contains("Vec&lt;u8&gt;, &quot;x&quot;") && !picture.contains("<u8>"), "{picture}");
        assert_eq!(picture.matches("v14").count(), 6);
        assert_eq!((picture.matches("class=\"b\"").count(), picture.matches("class=\"s\"").count()), (1, 2));
        assert!(!picture.contains("NaN") && picture.trim_end().ends_with("</svg>"));
    }
}
