//! The findings as text.

use super::finding::{Finding, State};
use std::fmt::Write;

/// A mark, a name and what was found, each in its column; what it is for and what to do below.
pub(super) fn render(findings: &[Finding], colour: bool) -> String {
    let width = findings.iter().map(|finding| finding.name.chars().count()).max().unwrap_or(0);
    let indent = " ".repeat(MARK + 2 + width + 2);
    let mut text = String::new();
    for finding in findings {
        let mark = mark(finding.state, colour);
        let _ = writeln!(text, "{mark}  {:width$}  {}", finding.name, plain(&finding.found));
        let _ = writeln!(text, "{indent}for: {}", finding.purpose);
        if let Some(remedy) = &finding.remedy {
            let _ = writeln!(text, "{indent}do:  {}", plain(remedy));
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

/// Columns of a mark.
const MARK: usize = 7;

fn mark(state: State, colour: bool) -> String {
    let (word, code) = match state {
        State::Ok => ("ok", 32),
        State::Limited => ("limited", 33),
        State::Missing => ("missing", 31),
    };
    if colour { format!("\x1b[{code}m{word:MARK$}\x1b[0m") } else { format!("{word:MARK$}") }
}

/// Names of devices and packages come from outside: none may command the terminal or break the table.
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
        let text = render(&findings, false);
        let expected = "\
ok       short        all [2J well
                      for: this
missing  rather long  nothing
                      for: that
                      do:  install it

1 ok, 0 limited, 1 missing
";
        assert_eq!(text, expected);
        let coloured = render(&findings, true);
        assert_eq!(coloured.replace("\x1b[32m", "").replace("\x1b[31m", "").replace("\x1b[0m", ""), expected);
    }
}
