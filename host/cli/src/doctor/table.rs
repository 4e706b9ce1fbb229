//! The findings as text.

use super::finding::{Finding, State};
use crate::style::{BAD, GOOD, WARNING, paragraph, styled};
use anstyle::Style;
use std::fmt::Write;

/// A mark, a name and the finding, each in its column; purpose and remedy below.
pub(super) fn render(findings: &[Finding]) -> String {
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    let column = MARK + 2 + width + 2;
    let mut text = String::new();
    for finding in findings {
        let (word, style) = mark(finding.state);
        let label = format!("{word:MARK$}  {:width$}  ", finding.name);
        let lines = paragraph(&label, column, &plain(&finding.found));
        // Colours take no columns, so they are added after the lines are made.
        text += &lines.replacen(word, &styled(style, word), 1);
        text += &paragraph("", column, &format!("for: {}", finding.purpose));
        if let Some(remedy) = &finding.remedy {
            text += &paragraph("", column, &format!("do:  {}", plain(remedy)));
        }
    }
    let count = |state| findings.iter().filter(|finding| finding.state == state).count();
    let _ = writeln!(
        text,
        "\n{} ok, {} limited, {} missing",
        count(State::Ok),
        count(State::Limited),
        count(State::Missing)
    );
    text
}

const MARK: usize = 7;

fn mark(state: State) -> (&'static str, Style) {
    match state {
        State::Ok => ("ok", GOOD),
        State::Limited => ("limited", WARNING),
        State::Missing => ("missing", BAD),
    }
}

/// Removes control characters: names of devices and packages come from outside and must not control the terminal or
/// break the table.
fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_commands_the_terminal() {
        let findings = [
            Finding::ok("a", "short", "all\x1b[2J\nwell", "this"),
            Finding::ok("b", "rather long", "nothing", "that").but(State::Missing, "install it"),
        ];
        let text = anstream::adapter::strip_str(&render(&findings)).to_string();
        let expected = "\
ok       short        all [2J well
                      for: this
missing  rather long  nothing
                      for: that
                      do:  install it

1 ok, 0 limited, 1 missing
";
        assert_eq!(text, expected);
    }
}
