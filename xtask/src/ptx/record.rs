//! Built texts, beside the committed ones: written, or compared.

use super::{diff, normalise};
use crate::files::write;
use crate::shell::Shell;
use anyhow::{Result, bail, ensure};
use std::path::{Path, PathBuf};

/// What happens to a built PTX file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    /// It is written.
    Write,
    /// It is compared.
    Check,
    /// It is compared without mangled names, labels and register numbers.
    Normalised,
}

/// What became of the texts so far.
pub(super) struct Record {
    mode: Mode,
    /// New texts that differ are kept here for a closer look.
    differing: PathBuf,
    stale: usize,
}

impl Record {
    /// To compare with the committed files, or to write them.
    pub(super) fn new(shell: &Shell, mode: Mode) -> Self {
        Self { mode, differing: shell.target("device").join("differs"), stale: 0 }
    }

    /// Compares or writes one text. Without being `comparable`, a committed text says nothing about the new one.
    pub(super) fn take(
        &mut self,
        path: &Path,
        built: &str,
        comparable: impl FnOnce(&str) -> bool,
    ) -> Result<()> {
        self.compare(path, std::fs::read_to_string(path).ok(), built, comparable)
    }

    /// As [`take`](Self::take), with a committed text that is not the one in the working tree.
    pub(super) fn compare(
        &mut self,
        path: &Path,
        committed: Option<String>,
        built: &str,
        comparable: impl FnOnce(&str) -> bool,
    ) -> Result<()> {
        let name = path.file_name().unwrap_or_default();
        let normalised = committed.as_deref().filter(|_| self.mode == Mode::Normalised);
        let difference = normalised.map(|committed| normalise::difference(committed, built));
        let word = match &committed {
            Some(committed) if committed == built => "as committed",
            Some(_) if difference == Some(None) => "as committed, but for names",
            _ if self.mode == Mode::Write => {
                write(path, built)?;
                "written"
            }
            Some(committed) if !comparable(committed) => {
                "not compared: the committed text is by another compiler"
            }
            _ => {
                self.stale += 1;
                "DIFFERS"
            }
        };
        println!("{:<28} {:>6} lines  {word}", name.to_string_lossy(), built.lines().count());
        if word == "DIFFERS" {
            let kept = self.differing.join(name);
            write(&kept, built)?;
            match (committed, difference.flatten()) {
                (None, _) => println!("  no such file is committed"),
                (Some(_), Some(difference)) => print!("  {difference}"),
                (Some(committed), None) => print!("{}", diff::summary(&committed, built)),
            }
            println!("  the new text: {}", kept.display());
        }
        Ok(())
    }

    /// Compares a built text that has no file with the one that programs make in its place.
    ///
    /// # Errors
    /// They differ.
    pub(super) fn made(&self, path: &Path, made: &str, built: &str) -> Result<()> {
        let name = path.file_name().unwrap_or_default();
        let difference = normalise::difference(made, built);
        let same = made == built || self.mode == Mode::Normalised && difference.is_none();
        let word = if same { "as made of the newer" } else { "DIFFERS" };
        println!("{:<28} {:>6} lines  {word}", name.to_string_lossy(), built.lines().count());
        if !same {
            let kept = self.differing.join(name);
            write(&kept, built)?;
            print!("{}", diff::summary(made, built));
            bail!(
                "{} is not what `ringcall_build::for_sm_80` makes of the file for the newer architecture: extend that, or commit \
                 both texts (`Files::Each` in xtask/src/ptx/mod.rs)",
                kept.display()
            );
        }
        Ok(())
    }

    /// Both together.
    pub(super) fn and(mut self, more: &Self) -> Self {
        self.stale += more.stale;
        self
    }

    /// # Errors
    /// Texts that differ, which `command` writes.
    pub(super) fn end(self, command: &str) -> Result<()> {
        let Self { stale, mode, .. } = self;
        ensure!(
            stale == 0 || mode != Mode::Normalised,
            "{stale} files differ from the committed ones in more than names"
        );
        ensure!(stale == 0, "{stale} files are not what the sources compile to: `{command}` writes them");
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_is_written_then_the_same_then_another() {
        let folder = std::env::temp_dir().join(format!("ringcall-record-{}", std::process::id()));
        let path = folder.join("ptx/a.sm_90.ptx");
        let taken = |check, text: &str, comparable| {
            let mode = if check { Mode::Check } else { Mode::Write };
            let mut record = Record { mode, differing: folder.join("differs"), stale: 0 };
            record.take(&path, text, |_| comparable).expect("taken");
            record.end("it")
        };
        assert!(taken(true, "a", true).is_err(), "none is committed");
        taken(false, "a", true).expect("written");
        taken(true, "a", true).expect("the same");
        let why = taken(true, "b", true).expect_err("another").to_string();
        assert!(why.contains("1 files") && why.contains("`it`"), "{why}");
        taken(true, "b", false).expect("by another compiler");
        assert_eq!(std::fs::read_to_string(folder.join("differs/a.sm_90.ptx")).expect("kept"), "b");
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_text_without_a_file_is_the_one_that_programs_make() {
        let folder = std::env::temp_dir().join(format!("ringcall-made-{}", std::process::id()));
        let made = |mode, made: &str, built: &str| {
            let record = Record { mode, differing: folder.join("differs"), stale: 0 };
            record.made(Path::new("a.sm_80.ptx"), made, built)
        };
        let function = |name: &str, what: &str| format!(".func {name}()\n{{\n{what};\n}}\n");
        for mode in [Mode::Write, Mode::Check, Mode::Normalised] {
            made(mode, &function("a", "ret"), &function("a", "ret")).expect("the same");
            let why = made(mode, &function("a", "ret"), &function("a", "exit")).expect_err("an instruction");
            assert!(why.to_string().contains("for_sm_80"), "{why}");
        }
        let (old, new) = (function("_RNvC1a4lead", "ret"), function("_RNvC1a6poller", "ret"));
        made(Mode::Normalised, &old, &new).expect("a rename");
        assert!(made(Mode::Check, &old, &new).is_err());
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn a_rename_is_no_difference_where_names_do_not_count() {
        let folder = std::env::temp_dir().join(format!("ringcall-renamed-{}", std::process::id()));
        let function = |name: &str, what: &str| format!(".func {name}()\n{{\n{what};\n}}\n");
        let compared = |mode, what: &str| {
            let mut record = Record { mode, differing: folder.join("differs"), stale: 0 };
            let committed = Some(function("_RNvC1a4lead", "ret"));
            let built = function("_RNvC1a6poller", what);
            record.compare(Path::new("a.sm_90.ptx"), committed, &built, |_| true).expect("compared");
            record.end("it")
        };
        compared(Mode::Normalised, "ret").expect("a rename");
        assert!(compared(Mode::Check, "ret").is_err());
        let why = compared(Mode::Normalised, "exit").expect_err("an instruction").to_string();
        assert!(why.contains("more than names"), "{why}");
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}
