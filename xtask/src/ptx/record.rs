//! Texts that were built, beside those that are committed: written, or compared.

use super::diff;
use crate::files::write;
use crate::shell::Shell;
use anyhow::{Result, ensure};
use std::path::{Path, PathBuf};

/// What became of the texts so far.
pub(super) struct Record {
    check: bool,
    /// New texts that differ are kept here for a closer look.
    differing: PathBuf,
    stale: usize,
}

impl Record {
    /// To compare with the committed files, or to write them.
    pub(super) fn new(shell: &Shell, check: bool) -> Self {
        Self { check, differing: shell.target("device").join("differs"), stale: 0 }
    }

    /// Compares or writes one text. Without being `comparable`, a committed text says nothing about the new one.
    pub(super) fn take(
        &mut self,
        path: &Path,
        built: &str,
        comparable: impl FnOnce(&str) -> bool,
    ) -> Result<()> {
        let committed = std::fs::read_to_string(path).ok();
        let name = path.file_name().unwrap_or_default();
        let word = match &committed {
            Some(committed) if committed == built => "as committed",
            _ if !self.check => {
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
            match committed {
                None => println!("  no such file is committed"),
                Some(committed) => print!("{}", diff::summary(&committed, built)),
            }
            println!("  the new text: {}", kept.display());
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
        let Self { stale, .. } = self;
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
            let mut record = Record { check, differing: folder.join("differs"), stale: 0 };
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
}
