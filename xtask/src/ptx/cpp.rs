//! Committed PTX that NVIDIA's compiler makes of CUDA C++: the shapes of the predecoder network's kernel and of the Relay-BP kernel, the
//! ends of a worker's graph, networks of other shapes, and the handler and the transport that tests link.

use super::cuda::{Cuda, quiet};
use super::record::{Mode, Record};
use crate::files::{folder, read};
use crate::parallel::each;
use crate::shell::Shell;
use anyhow::Result;
use std::path::{Path, PathBuf};

const SOURCES: &str = "kernels-cu";
/// What the texts need, and no more, so that drivers older than the compiler take them.
const VERSION: &str = ".version 8.4";
/// How names of static functions begin, and how long that is: hashes of the path to the source and of what it says.
const STATIC: (&str, usize) = ("_ZN44_INTERNAL_", 5 + 44);
/// What stands there instead.
const NAMESPACE: &str = "_ZN9predecoder";

/// What handler, transport, lanes and layers are compiled for: that architecture, and every device that takes its
/// PTX.
const LINKED_ARCH: &str = "compute_80";
/// The comments before and after an instruction that the source writes itself.
const AROUND_INLINE: [&str; 2] = ["// begin inline asm", "// end inline asm"];
/// What those need, and no more.
const LINKED_VERSION: &str = ".version 8.0";
/// A hint that the compiler leaves and older assemblers do not know.
const HINT: &str = "used_bytes_mask";
/// Source and text of each, below `kernels-cu`.
const LINKED: [(&str, &str); 4] = [
    ("increment.cu", "ptx/increment.ptx"),
    ("hooks/ring.cu", "ptx/ring_hooks.ptx"),
    ("lane/lane.cu", "ptx/lane.ptx"),
    ("layers/layers.cu", "ptx/layers.ptx"),
];

/// One shape of a kernel.
pub(super) enum Shape {
    /// The predecoder network's: shares of output channels, shares of input channels, positions of a tile.
    Predecoder([u32; 3]),
    /// Relay-BP's: its name in `kernels-cu/relay/shapes.h`.
    Relay(&'static str),
}

/// Those that `host/gpu-decoders/src/predecoder/plan.rs` and `host/bp/src/kernel/mod.rs` list.
pub(super) const SHAPES: &[Shape] = &[
    Shape::Predecoder([2, 2, 24]),
    Shape::Predecoder([2, 2, 48]),
    Shape::Predecoder([2, 2, 64]),
    Shape::Predecoder([2, 2, 96]),
    Shape::Predecoder([2, 1, 96]),
    Shape::Predecoder([2, 1, 144]),
    Shape::Predecoder([2, 1, 176]),
    Shape::Predecoder([1, 1, 256]),
    Shape::Relay("bb72_8"),
    Shape::Relay("bb144_16n"),
    Shape::Relay("bb144_8"),
    Shape::Relay("wide_16"),
    Shape::Relay("deep_16"),
];

impl Shape {
    pub(super) fn name(&self) -> String {
        match self {
            Self::Predecoder([outputs, inputs, positions]) => format!("cs{outputs}ks{inputs}n{positions}"),
            Self::Relay(name) => (*name).to_owned(),
        }
    }

    /// What its text is for. The network's has instructions that one architecture alone has.
    pub(super) fn arch(&self) -> &'static str {
        match self {
            Self::Predecoder(_) => "sm_90a",
            Self::Relay(_) => "sm_90",
        }
    }

    /// The dispatcher that it is linked with.
    pub(super) fn dispatcher(&self) -> &'static str {
        match self {
            Self::Predecoder(_) => "dispatch",
            Self::Relay(_) => "ahead",
        }
    }

    /// The folder below `kernels-cu`, which is the source's name, too.
    fn folder(&self) -> &'static str {
        match self {
            Self::Predecoder(_) => "predecoder",
            Self::Relay(_) => "relay",
        }
    }

    pub(super) fn path(&self, shell: &Shell) -> PathBuf {
        let folder = shell.root().join(SOURCES).join(self.folder()).join("ptx");
        folder.join(format!("{}.{}.ptx", self.name(), self.arch()))
    }

    fn build(&self, shell: &Shell, cuda: &Cuda, to: &Path) -> Result<String> {
        let mut command = cuda.tool(shell, "nvcc");
        let target = self.arch().replace("sm_", "compute_");
        command.args(["-std=c++17", "-rdc=true", "-ptx"]);
        command.arg(format!("-gencode=arch={target},code={target}"));
        match self {
            Self::Predecoder(shape) => {
                for (name, value) in ["CS", "KS", "N"].iter().zip(shape) {
                    command.arg(format!("-DPREDECODER_{name}={value}"));
                }
            }
            Self::Relay(name) => {
                command.args(["-O3", "--expt-relaxed-constexpr"]).arg(format!("-DRELAY_SHAPE={name}"));
            }
        }
        let source = shell.root().join(SOURCES).join(self.folder()).join(format!("{}.cu", self.folder()));
        command.arg("-o").args([to, &source]);
        quiet(&mut command)?;
        let text = of_record(&read(to)?, VERSION);
        Ok(match self {
            Self::Predecoder(_) => text,
            Self::Relay(_) => without_hints(&text),
        })
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

/// A PTX file as it is committed: for drivers that are older than the compiler, the same wherever it was compiled, and without
/// the comments around every instruction that the source writes itself, a tenth of the file.
fn of_record(text: &str, version: &str) -> String {
    let lines = text.lines().filter(|line| !AROUND_INLINE.contains(&line.trim()));
    let lines = lines.map(|line| if line.starts_with(".version ") { version } else { line });
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
    let at = |path: &Path| folder.join(path.file_name().unwrap_or_default());
    let sources = shell.root().join(SOURCES);
    let mut built = each(SHAPES, |shape| {
        let path = shape.path(shell);
        let text = shape.build(shell, cuda, &at(&path))?;
        Ok((path, text))
    })?;
    built.extend(each(&LINKED, |(source, text)| {
        let path = sources.join(text);
        let text = linked(shell, cuda, &sources.join(source), &at(&path))?;
        Ok((path, text))
    })?);
    let mut record = Record::new(shell, if check { Mode::Check } else { Mode::Write });
    for (path, text) in built {
        record
            .take(&path, &text, |committed| committed.is_empty() || compiler(&text) == compiler(committed))?;
    }
    record.end("cargo xtask ptx --cuda")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shapes_are_those_of_the_host() {
        let plan = include_str!("../../../host/gpu-decoders/src/predecoder/plan.rs");
        let relay = include_str!("../../../host/gpu-decoders/src/relay_bp/shapes.rs");
        let (mut networks, mut relays) = (0, 0);
        for shape in SHAPES {
            match shape {
                Shape::Predecoder([a, b, c]) => {
                    assert!(plan.contains(&format!("shape!({a}, {b}, {c})")), "{a} {b} {c}");
                    networks += 1;
                }
                Shape::Relay(name) => {
                    assert!(relay.contains(&format!("ptx!(\"{name}\")")), "{name}");
                    relays += 1;
                }
            }
        }
        assert_eq!(plan.matches("    shape!(").count(), networks);
        assert_eq!(relay.matches("ptx!(\"").count(), relays);
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
        let inline = "// a\n\t// begin inline asm\n\tbar.sync 1;\n\t// end inline asm\n";
        assert_eq!(of_record(inline, VERSION), "// a\n\tbar.sync 1;\n");
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
