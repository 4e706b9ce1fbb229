//! HTML report of a run, and its first chart as SVG and PDF.

use maud::{Markup, html};

use super::charts::frame::Screen;
use super::charts::{AMBER, BLUE, RED, run as charts};
use super::page::{chart, page, svg_file, table};
use super::pdf;
use super::{ConfidenceRow, LatencySummary, RunReport, count, number, per_observable, rate, reduction};

pub(crate) fn to_html(report: &RunReport) -> String {
    let stages = charts::stage_legend(report);
    let body = html! {
        (tiles(report))
        section id="requests" { h2 { "Requests" } (requests(report)) }
        section id="latency" { h2 { "Latency, µs" } (latencies(report)) }
        (chart("histogram", "Latency histogram", |screen| charts::histogram(report, screen), &[]))
        (chart("ccdf", "How many requests took longer", |screen| charts::ccdf(report, screen), &[]))
        (chart("stages", "Where the time goes, at the median and at the 99th percentile",
            |screen| charts::stages(report, screen), &stages))
        (chart("slowest", "The ten slowest requests", |screen| charts::slowest(report, screen),
            &charts::slow_legend(report)))
        (chart("timeline", "Latency over the run", |screen| charts::timeline(report, screen),
            &[("p50", BLUE), ("p99", AMBER), ("max", RED)]))
        (chart("backlog", "Backlog over the run", |screen| charts::backlog(report, screen), &[]))
        (chart("completions", "Completions over the run", |screen| charts::completions(report, screen), &[]))
        section id="accuracy" { h2 { "Accuracy" } (accuracy(report)) }
        section id="settings" { h2 { "Settings" } (settings(report)) }
        @if let Some(slots) = &report.slots {
            section id="slots" { h2 { "Slots" } pre { (slots) } }
        }
    };
    page("Ringcall run", &body, &report.provenance)
}

/// The latency histogram as an SVG file.
///
/// # Errors
/// No request was completed.
pub(crate) fn to_svg(report: &RunReport) -> anyhow::Result<String> {
    svg_file(charts::histogram(report, Screen::Wide), &[], &report.provenance)
}

/// The latency histogram as a PDF.
///
/// # Errors
/// No request was completed.
pub(crate) fn to_pdf(report: &RunReport) -> anyhow::Result<Vec<u8>> {
    pdf::from_svg(&to_svg(report)?, "Ringcall run", &report.provenance.in_words())
}

fn tiles(report: &RunReport) -> Markup {
    let latency = &report.latency_us;
    let tiles = [
        (count(report.completed), "completed", false),
        (count(report.lost), "lost", report.lost > 0),
        (number(report.throughput_per_s), "requests / s", false),
        (number(report.wall_time_s), "wall time, s", false),
        (number(report.per_round_us), "µs a round", false),
        (number(latency.p50), "p50, µs", false),
        (number(latency.p99), "p99, µs", false),
        (rate(report.logical_error_rate.value), "logical error rate", false),
    ];
    html! {
        div.tiles {
            @for (value, label, bad) in tiles {
                div.tile.bad[bad] { b { (value) } span { (label) } }
            }
        }
    }
}

fn requests(report: &RunReport) -> Markup {
    let columns = report.request_counts();
    table(columns.map(|(heading, _)| heading), [columns.map(|(_, value)| count(value))])
}

fn latencies(report: &RunReport) -> Markup {
    let headings = LatencySummary::NONE.columns().map(|(heading, _)| heading);
    let [a, b, c, d, e, f, g, h, i] = headings;
    let row = |name: &str, summary: &LatencySummary| {
        let [a, b, c, d, e, f, g, h, i] = summary.columns().map(|(_, value)| number(value));
        [name.to_owned(), a, b, c, d, e, f, g, h, i]
    };
    let stages = report.stages_us.iter().map(|stage| match stage.name {
        // Before a request is in the ring, so not part of its latency.
        "injection" => row("the driver's lateness", &stage.summary),
        name => row(&named(report, name), &stage.summary),
    });
    let whole = row("whole request", &report.latency_us);
    table(["", a, b, c, d, e, f, g, h, i], std::iter::once(whole).chain(stages))
}

/// A stage with its share in percent.
fn named(report: &RunReport, stage: &str) -> String {
    let share = report.stage_shares.iter().find(|(name, _)| *name == stage);
    share.map_or_else(|| stage.to_owned(), |(_, share)| format!("{stage} ({:.1}%)", 100.0 * share))
}

fn accuracy(report: &RunReport) -> Markup {
    let estimate = report.logical_error_rate;
    html! {
        table.settings {
            tr { td { "decoder" } td { (report.matching.map_or(report.decoder.to_owned(), |kind| format!("{kind} matching"))) } }
            tr {
                td { "logical errors" }
                td { (count(report.logical_errors)) " of " (count(report.shots)) " shots" }
            }
            tr {
                td { "logical error rate per shot" }
                td {
                    (rate(estimate.value))
                    @if let Some(words) = estimate.in_words() { span.note { " (" (words) ")" } }
                }
            }
            @if let Some(errors) = per_observable(report) {
                tr { td { "wrong predictions of observables" } td { (errors.join(", ")) } }
            }
            @if report.deadline_us.is_some() {
                tr {
                    td { "answers that were late" }
                    td { (count(report.late)) " of " (count(report.completed)) span.note { " (the best so far)" } }
                }
                tr {
                    td { "late or wrong" }
                    td { (count(report.late_or_wrong)) " of " (count(report.shots)) " shots" }
                }
            }
            @if !report.confidences.is_empty() {
                tr {
                    td { "answers by confidence" }
                    td {
                        (ConfidenceRow::words(&report.confidences))
                        span.note { " (natural logarithm of the odds that they are right)" }
                    }
                }
            }
            @if report.matching.is_none() {
                tr {
                    td { "answers that did not converge" }
                    td { (count(report.unconverged)) " of " (count(report.completed)) span.note { " (best guesses)" } }
                }
            }
            tr {
                td { "syndrome density" }
                td {
                    (rate(report.density_in)) " in, " (rate(report.density_out)) " out "
                    span.note { "(cut " (reduction(report)) ")" }
                }
            }
        }
    }
}

fn settings(report: &RunReport) -> Markup {
    html! {
        @if report.settings.is_empty() {
            p.note { "None were recorded." }
        } @else {
            table.settings {
                @for (key, value) in &report.settings { tr { td { (key) } td { (value) } } }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Stage, sample};
    use super::*;

    const SECTIONS: [&str; 11] = [
        "requests",
        "latency",
        "histogram",
        "ccdf",
        "stages",
        "slowest",
        "timeline",
        "backlog",
        "completions",
        "accuracy",
        "settings",
    ];

    #[test]
    fn has_every_section_and_chart() {
        let page = to_html(&sample::full());
        for id in SECTIONS.iter().chain(&["slots"]) {
            assert!(page.contains(&format!("<section id=\"{id}\"")), "no section {id}");
        }
        // Each chart is there for wide and for narrow pages.
        assert_eq!(page.matches("<svg ").count(), 2 * 7);
        for words in [
            "latency, µs",
            "requests that took longer",
            "time since submission, µs",
            "time since the start, s",
            "0.1%",
            "deadline 60.00 µs",
            "#9081",
        ] {
            assert!(page.contains(words), "no axis says `{words}`");
        }
        for value in ["333,330", "157 of 12,000 shots", "4.8 x", "inference", "distance", "correlated"] {
            assert!(page.contains(value), "no `{value}`");
        }
    }

    #[test]
    fn a_chart_is_a_file_of_its_own() {
        let file = to_svg(&sample::full()).expect("a chart");
        assert!(file.starts_with("<svg ") && file.ends_with("</svg>\n"), "{file}");
        assert_eq!((file.matches("<svg ").count(), file.matches("xmlns=").count()), (1, 1));
        let why = to_svg(&sample::empty()).expect_err("nothing to draw").to_string();
        assert!(why.contains("no data"), "{why}");
    }

    #[test]
    fn needs_nothing_from_outside() {
        let mut report = sample::full();
        report.settings.retain(|(key, _)| key != "note");
        let page = to_html(&report).to_lowercase();
        for reference in ["http:", "https:", "src=", "href", "url(", "@import", "<script", "<link", "xmlns"] {
            assert!(!page.contains(reference), "the page has `{reference}`");
        }
    }

    #[test]
    fn it_can_be_cited() {
        let report = sample::full();
        let page = to_html(&report);
        let footer = page.split("<footer").nth(1).expect("a footer");
        assert!(
            footer.contains(&report.provenance.date) && footer.contains(report.provenance.version),
            "{footer}"
        );
    }

    #[test]
    fn its_picture_can_be_cited() {
        let mut report = sample::full();
        report.provenance.command = "ringcall run --in 'a<b'".to_owned();
        let picture = to_svg(&report).expect("a chart");
        let description = picture.split("</desc>").next().expect("its beginning");
        assert!(
            description.starts_with("<svg ")
                && description.contains("<desc id=\"provenance\">Made by ringcall ")
        );
        assert!(
            description.contains(&report.provenance.date) && description.ends_with("--in 'a&lt;b'"),
            "{description}"
        );
        // The PDF has it among its metadata, not on the page.
        let pdf = to_pdf(&report).expect("a page");
        let found = |words: &[u8]| pdf.windows(words.len()).filter(|part| part == &words).count();
        assert_eq!(found(b"Made by ringcall"), 1);
    }

    #[test]
    fn the_bars_of_the_stages_are_without_what_came_before_submission() {
        let mut report = sample::full();
        let injection = Stage { name: "injection", summary: report.stages_us[0].summary };
        report.stages_us.insert(0, injection);
        let legend: Vec<&str> = charts::stage_legend(&report).into_iter().map(|stage| stage.0).collect();
        assert_eq!(legend, ["dispatch", "inference", "queueing", "matching", "harvest"]);
        assert!(to_html(&report).contains("the driver's lateness"));
    }

    #[test]
    fn what_the_user_gave_is_no_markup() {
        let page = to_html(&sample::full());
        assert!(!page.contains("<script") && !page.contains("<since>"), "unescaped");
        assert!(page.contains("&lt;script src='https://example.org/x.js'&gt;&amp;&quot;"));
    }

    #[test]
    fn an_empty_run_is_a_page() {
        let page = to_html(&sample::empty());
        for id in SECTIONS {
            assert!(page.contains(&format!("<section id=\"{id}\"")), "no section {id}");
        }
        assert_eq!(page.matches("<svg ").count(), 0);
        assert_eq!(page.matches("No data").count(), 7);
        assert!(!page.contains("NaN") && !page.contains("inf<"));
    }

    #[test]
    fn one_request_and_unmeasured_values_draw() {
        let mut report = sample::full();
        report.histogram = vec![(10.0, 11.0, 1), (f64::NAN, 3.0, 5), (4.0, 4.0, 2)];
        report.percentile_curve = vec![(50.0, 10.5), (99.0, 10.5), (f64::NAN, 1.0), (100.0, f64::INFINITY)];
        report.timeline.truncate(1);
        report.timeline[0].max_us = f64::NAN;
        report.stages_us.truncate(1);
        report.stages_us[0].summary.p99 = f64::NAN;
        report.breakdowns.truncate(1);
        report.slowest.truncate(1);
        let page = to_html(&report);
        assert_eq!(page.matches("<svg ").count(), 2 * 7);
        assert!(!page.contains("NaN"));
    }
}
