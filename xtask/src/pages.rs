//! The book's pages, as mdBook makes them: every link and picture of theirs leads somewhere.

use crate::book::BOOK;
use crate::files::{below, entries, has_ending, read, text, write};
use crate::shell::{Shell, run};
use crate::steps::Outcome;
use anyhow::{Result, ensure};
use std::path::{Component, Path, PathBuf};

/// Version of mdBook, since its pages change between versions.
const MDBOOK: &str = "0.5.4";
/// Pages of mdBook's own: all chapters as one, whose headings have other names, and one for addresses that are not there.
const ALL_IN_ONE: &str = "print.html";
const NOT_FOUND: &str = "404.html";

/// Builds mdBook, where it is not there, without what serves and watches: half a minute.
///
/// # Errors
/// crates.io is not reached.
pub(crate) fn install(shell: &Shell) -> Result<PathBuf> {
    shell.tool_with("mdbook", MDBOOK, &["--no-default-features", "--features", "search"])
}

/// Makes the pages in `target/book`. Links to files of the repository that are no chapters lead to those files.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    let Ok(mdbook) = install(shell) else {
        return Ok(Outcome::Skipped("no mdBook, and crates.io is not reached"));
    };
    let pages = shell.target("book");
    run(&mut shell.command(&text(&mdbook), &["build", BOOK, "--dest-dir", &text(&pages)]))?;
    let mut files = Vec::new();
    html_below(&pages, &mut files)?;
    let (mut links, mut dead) = (0, Vec::new());
    for file in files.iter().filter(|file| below(&pages, file) != NOT_FOUND) {
        let page = Page { root: shell.root(), pages: &pages, file };
        let html = read(file)?;
        let mut whole = String::with_capacity(html.len());
        for part in parts(&html) {
            match part {
                Part::Text(text) => whole += text,
                Part::Link(link) => {
                    links += 1;
                    match page.lead(link) {
                        Some(target) => whole += &target,
                        None => dead.push(format!("{}: {link}", below(&pages, file))),
                    }
                }
            }
        }
        if whole != html {
            write(file, &whole)?;
        }
    }
    ensure!(dead.is_empty(), "links that lead nowhere:\n{}", dead.join("\n"));
    println!("{} pages in {}: each of {links} links leads somewhere", files.len(), pages.display());
    Ok(Outcome::Done)
}

fn html_below(folder: &Path, found: &mut Vec<PathBuf>) -> Result<()> {
    for path in entries(folder)? {
        if path.is_dir() {
            html_below(&path, found)?;
        } else if has_ending(&path, "html") {
            found.push(path);
        }
    }
    Ok(())
}

/// A piece of a page.
#[derive(Debug, PartialEq, Eq)]
enum Part<'a> {
    /// Anything else.
    Text(&'a str),
    /// Between the quotes of an `href` or a `src`.
    Link(&'a str),
}

/// A page cut at its links.
fn parts(html: &str) -> Vec<Part<'_>> {
    let mut parts = Vec::new();
    let mut rest = html;
    while let Some((at, key)) =
        [" href=\"", " src=\""].iter().filter_map(|key| Some((rest.find(key)?, key))).min()
    {
        let at = at + key.len();
        let Some(len) = rest[at..].find('"') else { break };
        parts.extend([Part::Text(&rest[..at]), Part::Link(&rest[at..at + len])]);
        rest = &rest[at + len..];
    }
    parts.push(Part::Text(rest));
    parts
}

/// A page among all of them.
struct Page<'a> {
    root: &'a Path,
    pages: &'a Path,
    file: &'a Path,
}

impl Page<'_> {
    /// What the link has to be; `None` of one that leads nowhere.
    fn lead(&self, link: &str) -> Option<String> {
        let elsewhere = ["://", "mailto:", "data:"].iter().any(|mark| link.contains(mark));
        if elsewhere || link.is_empty() {
            return Some(link.to_owned());
        }
        let (path, heading) = link.split_once('#').map_or((link, None), |(path, id)| (path, Some(id)));
        let here = self.file.parent()?;
        if path.is_empty() || inside(self.pages, here, path) {
            let target = if path.is_empty() { self.file.to_owned() } else { plain(&here.join(path)) };
            let target = if target.is_dir() { target.join("index.html") } else { target };
            return (target.exists() && has_heading(&target, heading)).then(|| link.to_owned());
        }
        // What is no chapter: mdBook takes every Markdown file for one.
        let chapter = self.root.join(BOOK).join(below(self.pages, here));
        let named = plain(&chapter.join(path));
        let source = [named.clone(), named.with_extension("md")].into_iter().find(|path| path.exists())?;
        let up = "../".repeat(here.strip_prefix(self.root).ok()?.components().count());
        let heading = heading.map_or_else(String::new, |id| format!("#{id}"));
        Some(format!("{up}{}{heading}", below(self.root, &source)))
    }
}

/// Whether a path from `here` stays below `pages`.
fn inside(pages: &Path, here: &Path, path: &str) -> bool {
    plain(&here.join(path)).starts_with(pages)
}

/// The path without `.` and `..`.
fn plain(path: &Path) -> PathBuf {
    path.components().fold(PathBuf::new(), |mut plain, component| {
        match component {
            Component::CurDir => {}
            Component::ParentDir => {
                plain.pop();
            }
            other => plain.push(other),
        }
        plain
    })
}

/// Whether the page has the heading, if one is asked for. Of all chapters as one mdBook itself makes the headings' names.
fn has_heading(page: &Path, heading: Option<&str>) -> bool {
    match heading.filter(|heading| !heading.is_empty()) {
        None => true,
        Some(_) if page.ends_with(ALL_IN_ONE) => true,
        Some(id) => read(page).is_ok_and(|html| html.contains(&format!("id=\"{id}\""))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::files::folder;

    #[test]
    fn a_page_is_cut_at_its_links() {
        let html = "<a class=\"b\" href=\"c.html#d\">e</a><img src=\"f.svg\">";
        let found = parts(html);
        assert_eq!(
            found.iter().filter(|part| matches!(part, Part::Link(_))).collect::<Vec<_>>(),
            [&Part::Link("c.html#d"), &Part::Link("f.svg")]
        );
        let text = |part: &Part<'static>| match *part {
            Part::Text(text) | Part::Link(text) => text,
        };
        let whole: String = found.iter().map(text).collect();
        assert_eq!(whole, html);
    }

    #[test]
    fn a_link_leads_to_a_page_or_to_a_file_of_the_repository() {
        let root = std::env::temp_dir().join(format!("ringcall-pages-{}", std::process::id()));
        let pages = root.join("target/book");
        folder(pages.join("guide")).expect("made");
        folder(root.join("docs/guide")).expect("made");
        for (path, text) in [("README.md", "x"), ("target/book/a.html", "<h1 id=\"b\">"), ("LICENSE", "y")] {
            write(&root.join(path), text).expect("written");
        }
        let file = pages.join("guide/c.html");
        write(&file, "").expect("written");
        let page = Page { root: &root, pages: &pages, file: &file };
        let same = |link: &str| page.lead(link).as_deref() == Some(link);
        assert!(["../a.html", "../a.html#b", "https://example.org/x", "c.html"].into_iter().all(same));
        assert_eq!(page.lead("../../README.html#d").as_deref(), Some("../../../README.md#d"));
        assert_eq!(page.lead("../../LICENSE").as_deref(), Some("../../../LICENSE"));
        for dead in ["../a.html#c", "gone.html", "../../gone.html", "#d"] {
            assert_eq!(page.lead(dead), None, "{dead}");
        }
        std::fs::remove_dir_all(&root).expect("removed");
    }
}
