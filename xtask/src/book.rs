//! The book: its chapters, its links, the code that it quotes, what runs each block of code, its charts.

use crate::charts;
use crate::files::{self, below};
use crate::shell::Shell;
use crate::steps::Outcome;
use anyhow::{Context, Result, ensure};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the book is, from the root, and its list of chapters.
pub(crate) const BOOK: &str = "docs";
const SUMMARY: &str = "docs/SUMMARY.md";
/// Its pictures, and what those say of themselves that a report is the source of.
const PICTURES: &str = "docs/pictures";
const MADE_BY_A_REPORT: &str = "<desc id=\"provenance\">Made by ringcall ";
/// Pages besides the book's whose links are checked.
const PAGES: [&str; 6] = [
    "README.md",
    "ARCHITECTURE.md",
    "CONTRIBUTING.md",
    "SECURITY.md",
    "examples",
    "bindings/python/README.md",
];

/// Checks.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    check(shell.root())?;
    Ok(Outcome::Done)
}

/// Every breach at once.
fn check(root: &Path) -> Result<()> {
    let markdown = |folder: &str| -> Result<Vec<PathBuf>> {
        let path = root.join(folder);
        if path.is_file() { Ok(vec![path]) } else { all_markdown(&path) }
    };
    let chapters = markdown(BOOK)?;
    let mut breaches = Vec::new();
    let summary = std::fs::read_to_string(root.join(SUMMARY)).context(SUMMARY)?;
    let listed: BTreeSet<String> = links(&summary).map(str::to_owned).collect();
    for chapter in &chapters {
        let name = below(&root.join(BOOK), chapter);
        if name != "SUMMARY.md" && !listed.contains(&name) {
            breaches.push(format!("{SUMMARY} does not list {name}"));
        }
    }
    let mut pages = chapters;
    for place in PAGES {
        pages.extend(markdown(place)?);
    }
    for page in &pages {
        let text = std::fs::read_to_string(page)?;
        let name = below(root, page);
        breaches.extend(broken(page, &text).into_iter().map(|link| format!("{name}: {link} leads nowhere")));
        for (from, code) in quotes(&text) {
            let source = std::fs::read_to_string(root.join(from)).unwrap_or_default();
            if !source.contains(code) {
                breaches.push(format!(
                    "{name}: {from} has no such lines: {}",
                    code.lines().next().unwrap_or_default()
                ));
            }
        }
    }
    for page in [root.join("README.md")].into_iter().chain(markdown(BOOK)?) {
        let name = below(root, &page);
        let text = std::fs::read_to_string(&page)?;
        breaches.extend(not_run(root, &text).into_iter().map(|why| format!("{name}: {why}")));
        let figures = name.starts_with("docs/performance/");
        breaches.extend(figures.then(|| lacking(&name, &text)).into_iter().flatten());
    }
    let drawn = charts::draw(root)?;
    for picture in &drawn {
        if std::fs::read_to_string(&picture.path).ok().as_ref() != Some(&picture.svg) {
            breaches.push(format!("{} is not what `cargo xtask charts` draws", below(root, &picture.path)));
        }
    }
    for path in files::entries(&root.join(PICTURES))? {
        let is_chart = drawn.iter().any(|picture| picture.path == path);
        if !is_chart && !std::fs::read_to_string(&path)?.contains(MADE_BY_A_REPORT) {
            breaches.push(format!("{} does not say which run made it", below(root, &path)));
        }
    }
    ensure!(breaches.is_empty(), "the book:\n{}", breaches.join("\n"));
    println!(
        "{} pages: every chapter is listed, every link leads somewhere, every quote is in its file, every block of code has what runs it, every chart is that of its figures, every picture says where it is from",
        pages.len()
    );
    Ok(())
}

fn all_markdown(folder: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for path in files::entries(folder)? {
        if path.is_dir() {
            found.extend(all_markdown(&path)?);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            found.push(path);
        }
    }
    Ok(found)
}

/// The targets of links in text, without code.
fn links(text: &str) -> impl Iterator<Item = &str> {
    outside_code(text).flat_map(|line| {
        // What stands between backticks is no link.
        let prose = line.split('`').step_by(2);
        prose.flat_map(|part| part.split("](").skip(1).filter_map(|rest| rest.split(')').next()))
    })
}

/// The lines that are in no block of code.
fn outside_code(text: &str) -> impl Iterator<Item = &str> {
    let mut inside = false;
    text.lines().filter(move |line| {
        let border = line.trim_start().starts_with("```");
        inside ^= border;
        !inside && !border
    })
}

/// Links of a page that lead nowhere: no file, or no heading.
fn broken(page: &Path, text: &str) -> Vec<String> {
    let here = page.parent().unwrap_or(page);
    let is_broken = |link: &&str| {
        if link.contains("://") || link.starts_with("mailto:") {
            return false;
        }
        let (path, heading) =
            link.split_once('#').map_or((*link, None), |(path, heading)| (path, Some(heading)));
        let target = if path.is_empty() { page.to_owned() } else { here.join(path) };
        if !path.is_empty() && !target.exists() {
            return true;
        }
        let Some(heading) = heading else { return false };
        let text = if path.is_empty() {
            Cow::Borrowed(text)
        } else {
            Cow::Owned(std::fs::read_to_string(&target).unwrap_or_default())
        };
        target.extension().is_some_and(|extension| extension == "md")
            && !outside_code(&text)
                .filter_map(|line| line.strip_prefix('#'))
                .any(|line| slug(line) == heading)
    };
    links(text).filter(is_broken).map(str::to_owned).collect()
}

/// A heading as its link has it.
fn slug(heading: &str) -> String {
    let kept = |c: char| match c {
        ' ' => Some('-'),
        c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
        _ => None,
    };
    heading.trim_start_matches('#').trim().to_lowercase().chars().filter_map(kept).collect()
}

/// Pages of figures that are counts, which a table says best.
const COUNTS: [&str; 2] = ["docs/performance/endurance.md", "docs/performance/matching-proofs.md"];

/// What a page of figures lacks: its figure, what that means, how to repeat it, a chart.
fn lacking(name: &str, text: &str) -> Vec<String> {
    let mut wanted = vec!["**The figure.**", "**What it means.**", "**How to repeat it.**"];
    if !COUNTS.contains(&name) {
        wanted.push("](../pictures/");
    }
    wanted.retain(|words| !text.contains(words));
    wanted.into_iter().map(|words| format!("{name} has no {words}")).collect()
}

/// Blocks of code that no test runs, and that do not say why. Text is no code.
///
/// `test`: `tests/readme.rs` runs it. `from=FILE`: quoted, see [`quotes`]. `run-by=FILE::WORD`: a test in that file, which has the
/// word, runs it. `not-run="reason"`.
fn not_run(root: &Path, text: &str) -> Vec<String> {
    let mut breaches = Vec::new();
    let mut inside = false;
    for line in text.lines() {
        let Some(head) = line.strip_prefix("```") else { continue };
        inside = !inside;
        if !inside
            || head == "text"
            || head == "sh test"
            || head.contains(" from=")
            || head.contains(" not-run=\"")
        {
            continue;
        }
        let Some((file, word)) = head.split_once(" run-by=").and_then(|(_, by)| by.split_once("::")) else {
            breaches.push(format!("nothing says what runs the block ```{head}"));
            continue;
        };
        if !std::fs::read_to_string(root.join(file)).unwrap_or_default().contains(word) {
            breaches.push(format!("{file} has no {word}, which is to run a block"));
        }
    }
    breaches
}

/// Blocks of code that say where they are from, and what they say.
fn quotes(text: &str) -> Vec<(&str, &str)> {
    let mut found = Vec::new();
    for block in text.split("\n```").skip(1).step_by(2) {
        let Some((head, code)) = block.split_once('\n') else { continue };
        if let Some((_, from)) = head.split_once(" from=") {
            found.push((from.trim(), code));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_in_code_are_none() {
        let text = "[a](b.md) and `[c](d.md)`\n```sh\n[e](f.md)\n```\n[g](h.md#i)\n";
        assert_eq!(links(text).collect::<Vec<_>>(), ["b.md", "h.md#i"]);
    }

    #[test]
    fn headings_are_found_as_hosts_of_repositories_name_them() {
        assert_eq!(slug("## The predecoder's network"), "the-predecoders-network");
        assert_eq!(slug("# `run`, p < 0.5"), "run-p--05");
    }

    #[test]
    fn a_link_that_leads_nowhere_is_found() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/page.md");
        let text = "# Here\n[a](report.md) [b](gone.md) [c](#here) [d](#there) [e](report.md#in-shards) [f](report.md#no)";
        assert_eq!(broken(&page, text), ["gone.md", "#there", "report.md#no"]);
    }

    #[test]
    fn a_block_that_nothing_runs_is_found() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
        let text = "```sh test\na\n```\n```text\nb\n```\n```rust from=x.rs\nc\n```\n```sh not-run=\"a reason\"\nd\n```\n\
                    ```sh run-by=xtask/src/book.rs::a_block_that_nothing_runs_is_found\ne\n```\n";
        assert_eq!(not_run(&root, text), [""; 0]);
        let found = not_run(&root, "```sh\na\n```\n```sh run-by=xtask/src/shell.rs::no such word\nb\n```\n");
        assert_eq!(found.len(), 2, "{found:?}");
    }

    #[test]
    fn a_page_of_figures_says_how_to_repeat_them() {
        let text = "**The figure.** 1\n**What it means.** 2\n![a](../pictures/b.svg)\n";
        assert_eq!(
            lacking("docs/performance/a.md", text),
            ["docs/performance/a.md has no **How to repeat it.**"]
        );
    }

    #[test]
    fn quotes_say_where_they_are_from() {
        let text = "x\n```rust from=a/b.rs\nlet x = 1;\n```\ny\n```sh test\nz\n```\n";
        assert_eq!(quotes(text), [("a/b.rs", "let x = 1;")]);
    }
}
