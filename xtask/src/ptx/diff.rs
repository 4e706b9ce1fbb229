//! A short account of how two texts of PTX differ.

use ringcall_build::compiler_of;
use similar::TextDiff;
use std::time::Duration;

/// Lines of the account; the rest is counted.
const SHOWN: usize = 24;
/// Two programs of some ten thousand lines that share nothing are not worth more than this.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Whether the compiler is the reason, and the first differences.
pub(super) fn summary(committed: &str, built: &str) -> String {
    let mut text = String::new();
    let name = |ptx| compiler_of(ptx).unwrap_or("a compiler that it does not name").to_owned();
    let (then, now) = (name(committed), name(built));
    if then != now {
        text += &format!(
            "  the committed file is by {then}, this toolchain is {now}: that alone may be the reason\n"
        );
    }
    let diff = TextDiff::configure().timeout(TIMEOUT).diff_lines(committed, built);
    let unified = diff.unified_diff().context_radius(1).header("committed", "built").to_string();
    let lines: Vec<_> = unified.lines().collect();
    for line in lines.iter().take(SHOWN) {
        text += &format!("  {line}\n");
    }
    if lines.len() > SHOWN {
        text += &format!("  … {} more lines of differences\n", lines.len() - SHOWN);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: &str = "// a for sm_90, by rustc 1.96.0 (x)\n\n.version 8.0\nret;\n";

    #[test]
    fn what_changed_is_shown_with_its_surroundings() {
        let text = summary(A, &A.replace("ret;", "exit;"));
        assert_eq!(text.matches("\n  -").count(), 1, "{text}");
        for part in ["--- committed", "+++ built", "  -ret;\n", "  +exit;\n", "   .version 8.0\n"] {
            assert!(text.contains(part), "no `{part}` in\n{text}");
        }
        assert!(!text.contains("toolchain"), "{text}");
    }

    #[test]
    fn another_compiler_is_named_as_the_reason() {
        let text = summary(A, &A.replace("1.96.0", "1.97.0"));
        assert!(
            text.starts_with(
                "  the committed file is by rustc 1.96.0 (x), this toolchain is rustc 1.97.0 (x)"
            )
        );
        assert!(summary(".version 8.0\n", A).contains("does not name"));
    }

    #[test]
    fn long_differences_are_counted() {
        let text = summary(A, &format!("{A}{}", "ret;\n".repeat(1000)));
        assert_eq!(text.lines().count(), SHOWN + 1);
        assert!(text.contains("more lines of differences"), "{text}");
    }
}
