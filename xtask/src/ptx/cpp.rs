//! Committed PTX that NVIDIA's compiler makes of CUDA C++: the shapes of the predecoder network's kernel, and the handler and
//! the transport that tests link.

use super::cuda::{Cuda, quiet};
use super::record::{Mode, Record};
use crate::files::{folder, read};
use crate::shell::Shell;
use anyhow::Result;
use std::path::{Path, PathBuf};

/// Instructions that one architecture alone has, so PTX for it alone.
pub(super) const ARCH: &str = "sm_90a";
const SOURCES: &str = "kernels-cu";
const FOLDER: &str = "kernels-cu/predecoder";
/// What the texts need, and no more, so that drivers older than the compiler take them.
const VERSION: &str = ".version 8.4";
/// How names of static functions begin, and how long that is: hashes of the path to the source and of what it says.
const STATIC: (&str, usize) = ("_ZN44_INTERNAL_", 5 + 44);
/// What stands there instead.
const NAMESPACE: &str = "_ZN9predecoder";

/// What the handler and the transport are compiled for: that architecture, and every device that takes its
/// PTX.
const LINKED_ARCH: &str = "compute_80";
/// What those two need, and no more.
const LINKED_VERSION: &str = ".version 8.0";
/// A hint that the compiler leaves and older assemblers do not know.
const HINT: &str = "used_bytes_mask";
/// Source and text of each, below `kernels-cu`.
const LINKED: [(&str, &str); 2] =
    [("increment.cu", "ptx/increment.ptx"), ("hooks/ring.cu", "ptx/ring_hooks.ptx")];

/// One shape of the kernel: shares of output channels, shares of input channels, positions of a tile.
pub(super) struct Shape([u32; 3]);

/// Those that `host/predecoder/src/plan.rs` lists.
pub(super) const SHAPES: &[Shape] = &[
    Shape([2, 2, 24]),
    Shape([2, 2, 48]),
    Shape([2, 2, 64]),
    Shape([2, 2, 96]),
    Shape([2, 1, 96]),
    Shape([2, 1, 144]),
    Shape([2, 1, 176]),
    Shape([1, 1, 256]),
];

impl Shape {
    pub(super) fn name(&self) -> String {
        let [outputs, inputs, positions] = self.0;
        format!("cs{outputs}ks{inputs}n{positions}")
    }

    pub(super) fn path(&self, shell: &Shell) -> PathBuf {
        shell.root().join(FOLDER).join("ptx").join(format!("{}.{ARCH}.ptx", self.name()))
    }

    fn build(&self, shell: &Shell, cuda: &Cuda, to: &Path) -> Result<String> {
        let mut command = cuda.tool(shell, "nvcc");
        command.args(["-std=c++17", "-rdc=true", "-ptx", "-gencode=arch=compute_90a,code=compute_90a"]);
        for (name, value) in ["CS", "KS", "N"].iter().zip(self.0) {
            command.arg(format!("-DPREDECODER_{name}={value}"));
        }
        command.arg("-o").args([to, &shell.root().join(FOLDER).join("predecoder.cu")]);
        quiet(&mut command)?;
        Ok(of_record(&read(to)?, VERSION))
    }
}

/// What tests link with a dispatcher.
fn linked(shell: &Shell, cuda: &Cuda, source: &Path, to: &Path) -> Result<String> {
    let mut command = cuda.tool(shell, "nvcc");
    command.args(["-std=c++17", "-rdc=true", "-ptx"]).arg(format!("-arch={LINKED_ARCH}"));
    command.arg("-o").args([to, source]);
    quiet(&mut command)?;
    Ok(without_hints(&of_record(&read(to)?, LINKED_VERSION)))
}

fn without_hints(text: &str) -> String {
    text.lines().filter(|line| !line.contains(HINT)).fold(String::new(), |all, line| all + line + "\n")
}

/// A PTX file as it is committed: for drivers that are older than the compiler, and the same wherever it was compiled.
fn of_record(text: &str, version: &str) -> String {
    let lines = text.lines().map(|line| if line.starts_with(".version ") { version } else { line });
    let record = lines.fold(String::new(), |all, line| all + line + "\n");
    match record.find(STATIC.0).and_then(|at| record.get(at..at + STATIC.1)) {
        Some(stem) => record.replace(stem, NAMESPACE),
        None => record,
    }
}

/// Which compiler made a text, as its first lines say.
fn compiler(text: &str) -> Option<&str> {
    text.lines().take(8).find(|line| line.contains("compilation tools"))
}

/// Builds the texts and writes them, or compares them with the committed texts, as far as they are by the
/// same compiler.
///
/// # Errors
/// No tools; CUDA C++ that does not compile; a text that is not the committed one.
pub(super) fn run(shell: &Shell, cuda: &Cuda, check: bool) -> Result<()> {
    let folder = folder(shell.target("device").join("cpp"))?;
    let mut record = Record::new(shell, if check { Mode::Check } else { Mode::Write });
    let mut take = |path: &Path, build: &dyn Fn(&Path) -> Result<String>| {
        let built = build(&folder.join(path.file_name().unwrap_or_default()))?;
        record.take(path, &built, |committed| committed.is_empty() || compiler(&built) == compiler(committed))
    };
    for shape in SHAPES {
        take(&shape.path(shell), &|to| shape.build(shell, cuda, to))?;
    }
    let sources = shell.root().join(SOURCES);
    for (source, text) in LINKED {
        take(&sources.join(text), &|to| linked(shell, cuda, &sources.join(source), to))?;
    }
    record.end("cargo xtask ptx --cuda")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_are_those_of_the_host() {
        let plan = include_str!("../../../host/predecoder/src/plan.rs");
        for Shape([a, b, c]) in SHAPES {
            assert!(plan.contains(&format!("shape!({a}, {b}, {c})")), "{a} {b} {c}");
        }
        assert_eq!(plan.matches("    shape!(").count(), SHAPES.len());
    }

    #[test]
    fn a_text_of_record_says_nothing_about_where_it_was_compiled() {
        let built = |hash: &str| {
            let name = format!("_ZN44_INTERNAL_{hash}_13_predecoder_cu_ec5a7eb910sums_phaseEPhj");
            format!(".version 9.0\n.func {name}(\n.param .b64 {name}_param_0\n")
        };
        let record = ".version 8.4\n.func _ZN9predecoder10sums_phaseEPhj(\n\
                      .param .b64 _ZN9predecoder10sums_phaseEPhj_param_0\n";
        assert_eq!(
            (of_record(&built("2885542c"), VERSION), of_record(&built("689f4621"), VERSION)),
            (record.into(), record.into())
        );
        assert_eq!(of_record(".version 9.0\nret;", VERSION), ".version 8.4\nret;\n");
        assert_eq!(of_record("_ZN44_INTERNAL_", VERSION), "_ZN44_INTERNAL_\n");
    }

    #[test]
    fn a_text_of_record_has_nothing_that_older_assemblers_do_not_know() {
        let built = ".version 9.0\n.pragma \"used_bytes_mask 0xff\";\nld.u64 %rd1, [%rd2];\n";
        let record = without_hints(&of_record(built, LINKED_VERSION));
        assert_eq!(record, ".version 8.0\nld.u64 %rd1, [%rd2];\n");
    }

    #[test]
    fn a_text_names_its_compiler() {
        let text = "//\n// Generated by NVIDIA NVVM Compiler\n//\n// Compiler Build ID: CL-36424714\n\
                    // Cuda compilation tools, release 13.0, V13.0.88\n// Based on NVVM 7.0.1\n";
        assert_eq!(compiler(text), Some("// Cuda compilation tools, release 13.0, V13.0.88"));
        assert_eq!(compiler(".version 8.4"), None);
    }
}
