//! Style of terminal output: width, colours, units, and progress.

use anstyle::{AnsiColor, Style};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::fmt::Write;
use std::io::IsTerminal;
use std::time::Duration;

/// The widest line of any command's text.
pub(crate) const WIDTH: usize = 80;

pub(crate) const HEADING: Style = Style::new().bold();
pub(crate) const GOOD: Style = AnsiColor::Green.on_default();
pub(crate) const WARNING: Style = AnsiColor::Yellow.on_default();
pub(crate) const BAD: Style = AnsiColor::Red.on_default();
pub(crate) const PALE: Style = Style::new().dimmed();

/// Text in a style. [`anstream`] removes the style in files and pipes, and if `NO_COLOR` is set.
pub(crate) fn styled(style: Style, text: &str) -> String {
    format!("{style}{text}{style:#}")
}

/// A time in microseconds with three digits: `850 ns`, `12.4 µs`, `1.20 ms`, `3.00 s`; a dash if it is not a number.
pub(crate) fn time(us: f64) -> String {
    let ns = us * 1e3;
    if !ns.is_finite() {
        return "-".to_owned();
    }
    // 999.5 is the first number that rounds to four digits.
    let units = [(1.0, "ns"), (1e3, "µs"), (1e6, "ms")];
    match units.into_iter().find(|(unit, _)| ns.abs() < 999.5 * unit) {
        Some((1.0, _)) => format!("{ns:.0} ns"),
        Some((unit, name)) => format!("{} {name}", digits(ns / unit)),
        None if ns < 100e9 => format!("{} s", digits(ns / 1e9)),
        None => span(Duration::from_secs_f64((ns / 1e9).min(1e12))),
    }
}

/// A rate: `950 /s`, `12.4 k/s`, `1.20 M/s`.
pub(crate) fn per_second(rate: f64) -> String {
    let units = [(1.0, ""), (1e3, "k"), (1e6, "M")];
    match units.into_iter().find(|(unit, _)| rate.abs() < 999.5 * unit) {
        _ if !rate.is_finite() => "-".to_owned(),
        Some((unit, name)) => format!("{} {name}/s", digits(rate / unit)),
        None => format!("{} G/s", digits(rate / 1e9)),
    }
}

/// Three digits of a number below 1000.
fn digits(number: f64) -> String {
    match number.abs() {
        size if size >= 99.95 => format!("{number:.0}"),
        size if size >= 9.995 => format!("{number:.1}"),
        _ => format!("{number:.2}"),
    }
}

/// A duration for people who wait: `40 ms`, `3.2 s`, `3 min 20 s`, `2 h 5 min`.
pub(crate) fn span(time: Duration) -> String {
    let seconds = time.as_secs_f64();
    let whole = seconds.round() as u64;
    match whole {
        0 if seconds < 0.0995 => format!("{:.0} ms", 1e3 * seconds),
        0..60 if seconds < 59.95 => format!("{seconds:.1} s"),
        0..3600 => format!("{} min {} s", whole / 60, whole % 60),
        _ => format!("{} h {} min", whole / 3600, whole % 3600 / 60),
    }
}

/// Words next to a label of `width` columns, in lines no wider than [`WIDTH`]. A word longer than a line is broken at
/// the line's end.
pub(crate) fn paragraph(label: &str, width: usize, words: &str) -> String {
    let room = WIDTH - width;
    let (mut out, mut row, mut length) = (String::new(), String::new(), 0);
    let mut label = Some(label);
    let mut end = |out: &mut String, row: &mut String| {
        // Writing to a String cannot fail.
        let _ = writeln!(out, "{:width$}{row}", label.take().unwrap_or_default());
        row.clear();
    };
    for word in words.split(' ') {
        let mut word = word;
        loop {
            let size = word.chars().count();
            let gap = usize::from(length > 0);
            if length + gap + size <= room {
                if gap == 1 {
                    row.push(' ');
                }
                row.push_str(word);
                length += gap + size;
                break;
            }
            if length > 0 {
                end(&mut out, &mut row);
                length = 0;
                continue;
            }
            let at = word.char_indices().nth(room).map_or(word.len(), |(at, _)| at);
            row.push_str(&word[..at]);
            end(&mut out, &mut row);
            word = &word[at..];
        }
    }
    end(&mut out, &mut row);
    out
}

/// Text cut to at most `columns`.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if text.chars().count() <= columns {
        return text.to_owned();
    }
    let kept: String = text.chars().take(columns.saturating_sub(1)).collect();
    kept + "…"
}

/// The text without control characters, which a terminal would obey.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).collect()
}

/// A progress bar on standard error if that is a terminal; hidden otherwise.
pub(crate) fn bar(length: Option<u64>, template: &str) -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let bar = ProgressBar::with_draw_target(length, ProgressDrawTarget::stderr());
    // The library's style replaces a template that does not parse.
    ProgressStyle::with_template(template).map_or_else(|_| bar.clone(), |style| bar.clone().with_style(style))
}

/// A busy sign on a terminal, until it is dropped.
#[derive(Debug)]
pub(crate) struct Busy(ProgressBar);

impl Busy {
    pub(crate) fn new(what: &'static str) -> Self {
        let bar = bar(None, "{spinner} {msg} ({elapsed})");
        bar.set_message(what);
        bar.enable_steady_tick(Duration::from_millis(100));
        Self(bar)
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_and_rates_have_three_digits_and_a_unit() {
        let shown = [0.0, 0.85, 0.9996, 12.44, 999.4, 999.6, 1_200.0, 3e6, 200e6, f64::NAN].map(time);
        assert_eq!(
            shown,
            [
                "0 ns",
                "850 ns",
                "1.00 µs",
                "12.4 µs",
                "999 µs",
                "1.00 ms",
                "1.20 ms",
                "3.00 s",
                "3 min 20 s",
                "-"
            ]
        );
        let shown = [0.5, 950.0, 12_440.0, 1.2e6, 3e9, f64::NAN].map(per_second);
        assert_eq!(shown, ["0.50 /s", "950 /s", "12.4 k/s", "1.20 M/s", "3.00 G/s", "-"]);
        let shown = [0.04, 3.21, 59.96, 200.0, 7500.0].map(|seconds| span(Duration::from_secs_f64(seconds)));
        assert_eq!(shown, ["40 ms", "3.2 s", "1 min 0 s", "3 min 20 s", "2 h 5 min"]);
    }

    #[test]
    fn paragraphs_keep_to_their_width() {
        let text = paragraph("label", 10, &"word ".repeat(40));
        assert!(
            text.starts_with("label     word word") && text.lines().all(|line| line.chars().count() <= WIDTH)
        );
        assert_eq!(text.matches("word").count(), 40);
        let long = paragraph("", 10, &"é".repeat(150));
        assert_eq!(
            long.lines().map(|line| line.trim_start().chars().count()).collect::<Vec<_>>(),
            [70, 70, 10]
        );
        assert_eq!(cut("abcdef", 4), "abc…");
    }
}
