//! Assembles and links the committed PTX, as a driver would, without a GPU: what the assembler refuses here, a driver
//! would refuse at load time.

use super::cuda::{Cuda, quiet};
use super::{PROGRAMS, Program, cpp};
use crate::files::{entries, folder, has_ending, write};
use crate::parallel::each;
use crate::shell::Shell;
use anyhow::{Context, Result, ensure};
use ringcall_build::Arch;
use std::fmt::Display;
use std::path::{Path, PathBuf};

/// Which texts are linked together at load time, by the names of the programs; and whether NVIDIA's device
/// runtime is added.
const LINKS: &[(&[&str], bool)] = &[
    (&["dispatch", "samples"], false),
    (&["grid", "samples"], false),
    (&["ahead", "samples"], false),
    (&["floor"], false),
    // As a program of nvcc's links them: all in one module.
    (&["dispatch", "grid", "graph", "samples"], true),
    (&["graph", "samples"], true),
    (&["unified", "samples"], false),
    (&["unified-grid", "samples"], false),
    (&["unified-graph", "samples"], true),
    (&["hooks", "transport", "samples"], false),
];
/// What handlers in CUDA C++ are linked with.
const DISPATCHER: &str = "dispatch";
/// What transports in CUDA C++ are linked with.
const HOOKED: &str = "hooks";
/// The functions of a transport: what the linker misses where there is none.
const HOOKS: [&str; 3] = ["cudaq_dev_transport_attach", "cudaq_dev_rx_poll", "cudaq_dev_tx_publish"];
/// Handlers, and transports, in CUDA C++.
const CPP: [(&str, &str); 2] = [("kernels-cu", DISPATCHER), ("kernels-cu/hooks", HOOKED)];

/// Assembles every committed text, links what belongs together, and does the same with the handlers and transports in CUDA
/// C++. Prints what each kernel takes.
///
/// # Errors
/// No tools; a text that is missing, or that a tool refuses.
pub(crate) fn check(shell: &Shell) -> Result<()> {
    let cuda = Cuda::find(shell)?;
    let folder = folder(shell.target("device").join("objects"))?;
    let mut sources = Vec::new();
    for (folder, kernels) in CPP {
        sources.extend(cpp_sources(shell, folder)?.into_iter().map(|source| (source, kernels)));
    }
    let bench = Bench { shell, cuda: &cuda, folder: &folder };

    println!("{:<24} {:<16} {:>9} {:>8} {:>8}", "kernel", "in", "registers", "stack B", "spill B");
    each(&Arch::DEFAULT, |arch| bench.arch(*arch, &sources))?;
    println!("{} links for each of {} architectures", LINKS.len() + sources.len(), Arch::DEFAULT.len());
    cpp::run(shell, &cuda, true)?;
    each(cpp::SHAPES, |shape| bench.shape(shape))?;
    Ok(())
}

/// The sources in CUDA C++ in a folder, if there are any.
fn cpp_sources(shell: &Shell, folder: &str) -> Result<Vec<PathBuf>> {
    let folder = shell.root().join(folder);
    let found = if folder.is_dir() { entries(&folder)? } else { Vec::new() };
    Ok(found.into_iter().filter(|path| has_ending(path, "cu")).collect())
}

/// The tools and a place to put what they make.
struct Bench<'a> {
    shell: &'a Shell,
    cuda: &'a Cuda,
    folder: &'a Path,
}

impl Bench<'_> {
    fn object(&self, name: &str, arch: Arch) -> PathBuf {
        self.folder.join(format!("{name}.{arch}.o"))
    }

    /// All that there is for one architecture; the handlers and transports in CUDA C++ each with the program that they go with.
    fn arch(&self, arch: Arch, sources: &[(PathBuf, &str)]) -> Result<()> {
        for program in PROGRAMS {
            self.program(program, arch)?;
        }
        for (names, runtime) in LINKS {
            let objects: Vec<_> = names.iter().map(|name| self.object(name, arch)).collect();
            self.link(&names.join("+"), &objects, *runtime, arch)?;
        }
        for (source, kernels) in sources {
            let object = self.cpp(source, arch)?;
            let name = source.file_stem().unwrap_or_default().to_string_lossy();
            self.link(&format!("{kernels}+{name}"), &[self.object(kernels, arch), object], false, arch)?;
        }
        let alone = self.link(HOOKED, &[self.object(HOOKED, arch)], false, arch);
        let said = alone.err().map_or_else(String::new, |why| format!("{why:#}"));
        for hook in HOOKS {
            ensure!(
                said.contains(hook),
                "{HOOKED} for {arch} without a transport: `{hook}` is not missed: {said}"
            );
        }
        Ok(())
    }

    fn program(&self, program: &Program, arch: Arch) -> Result<()> {
        let text = self.folder.join(format!("{}.{arch}.ptx", program.name));
        write(&text, &program.text(self.shell, arch).context("`cargo xtask ptx` writes it")?)?;
        let printed = self.assemble(&text, &self.object(program.name, arch), arch)?;
        show(&usage(&printed), &format!("{}.{arch}", program.name));
        Ok(())
    }

    /// As a part to be linked, since handlers come from elsewhere.
    fn assemble(&self, text: &Path, object: &Path, arch: impl Display) -> Result<String> {
        let mut command = self.cuda.tool(self.shell, "ptxas");
        command.arg(format!("-arch={arch}")).args(["-v", "-c", "-o"]).args([object, text]);
        quiet(&mut command)
    }

    fn cpp(&self, source: &Path, arch: Arch) -> Result<PathBuf> {
        let name = source.file_stem().unwrap_or_default().to_string_lossy();
        let (text, object) =
            (self.folder.join(format!("{name}.{arch}.ptx")), self.folder.join(format!("{name}.{arch}.o")));
        let mut command = self.cuda.tool(self.shell, "nvcc");
        command.arg(format!("-arch={arch}")).args(["-std=c++17", "-rdc=true", "-ptx"]);
        command.args([Path::new("-o"), &text, source]);
        quiet(&mut command)?;
        self.assemble(&text, &object, arch)?;
        Ok(object)
    }

    /// A shape of a kernel in CUDA C++, and its link with the dispatcher, which is for any device of the generation.
    fn shape(&self, shape: &cpp::Shape) -> Result<()> {
        let object = self.folder.join(format!("{}.{}.o", shape.name(), shape.arch()));
        let printed = self.assemble(&shape.path(self.shell), &object, shape.arch())?;
        let waits = waits_put_in(&printed);
        ensure!(waits.is_empty(), "{}: products wait for each other:\n{}", shape.name(), waits.join("\n"));
        show(&usage(&printed), &shape.name());
        let dispatcher = shape.dispatcher();
        let objects = [self.object(dispatcher, Arch::SM_90), object];
        self.link(&format!("{dispatcher}+{}", shape.name()), &objects, false, shape.arch())
    }

    fn link(&self, name: &str, objects: &[PathBuf], runtime: bool, arch: impl Display) -> Result<()> {
        let mut command = self.cuda.tool(self.shell, "nvlink");
        command.arg(format!("-arch={arch}")).arg("-o").arg(self.folder.join(format!("{name}.{arch}.cubin")));
        command.args(objects);
        if runtime {
            command.arg(&self.cuda.device_runtime);
        }
        quiet(&mut command).with_context(|| format!("{name} for {arch} does not link"))?;
        Ok(())
    }
}

/// What a kernel takes, as the assembler says.
#[derive(Debug, Default, PartialEq)]
struct Usage {
    name: String,
    registers: u32,
    stack_bytes: u32,
    spill_bytes: u32,
}

/// What the assembler says of products of matrices under way together where it had to put waits between them, so that they are not.
fn waits_put_in(printed: &str) -> Vec<&str> {
    let says = ["warpgroup.wait is injected", "wgmma.mma_async instructions are serialized"];
    printed.lines().filter(|line| says.iter().any(|part| line.contains(part))).collect()
}

/// A line for each kernel of a text.
fn show(kernels: &[Usage], part: &str) {
    for Usage { name, registers, stack_bytes, spill_bytes } in kernels {
        println!("{name:<24} {part:<16} {registers:>9} {stack_bytes:>8} {spill_bytes:>8}");
    }
}

/// From what `ptxas -v` prints. Functions that are no kernels are left out.
fn usage(printed: &str) -> Vec<Usage> {
    let mut kernels: Vec<Usage> = Vec::new();
    let mut function = "";
    for line in printed.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            let name = rest.split('\'').next().unwrap_or_default().to_owned();
            kernels.push(Usage { name, ..Usage::default() });
        } else if let Some((_, name)) = line.split_once("Function properties for ") {
            function = name.trim();
        } else if let Some(kernel) = kernels.last_mut() {
            if kernel.name == function && line.contains("bytes stack frame") {
                kernel.stack_bytes = number_before(line, " bytes stack frame");
                kernel.spill_bytes =
                    number_before(line, " bytes spill stores") + number_before(line, " bytes spill loads");
            } else if line.contains(" registers") {
                kernel.registers = number_before(line, " registers");
            }
        }
    }
    kernels
}

/// The number that stands right before these words; 0 if there is none.
fn number_before(line: &str, words: &str) -> u32 {
    let before = line.split(words).next().filter(|before| before.len() < line.len());
    before
        .and_then(|before| before.rsplit([' ', ',']).next())
        .and_then(|number| number.parse().ok())
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_that_the_assembler_puts_in_are_seen() {
        let printed = "\
ptxas info    : (C7517) warpgroup.wait is injected in around line 1114 by compiler to allow use of registers defined by GMMA in function 'a'
ptxas info    : (C7520) Potential Performance Loss: wgmma.mma_async instructions are serialized due to program dependence in the function 'b'
ptxas info    : Used 167 registers, used 3 barriers";
        assert_eq!(waits_put_in(printed).len(), 2);
        assert!(waits_put_in("ptxas info    : Used 167 registers, used 3 barriers").is_empty());
    }

    #[test]
    fn the_assembler_is_understood() {
        let printed = "\
ptxas info    : 0 bytes gmem
ptxas info    : Function properties for helper
    80 bytes stack frame, 44 bytes spill stores, 44 bytes spill loads
ptxas info    : Compile time = 5.317 ms
ptxas info    : Compiling entry function 'fill' for 'sm_90'
ptxas info    : Function properties for fill
    8 bytes stack frame, 4 bytes spill stores, 12 bytes spill loads
ptxas info    : Used 28 registers, used 0 barriers
ptxas info    : Compiling entry function 'other' for 'sm_90'
ptxas info    : Function properties for helper
    80 bytes stack frame, 44 bytes spill stores, 44 bytes spill loads
ptxas info    : Function properties for other
    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads
ptxas info    : Used 255 registers, used 1 barriers, 1024 bytes smem";
        let kernel = |name: &str, registers, stack_bytes, spill_bytes| Usage {
            name: name.to_owned(),
            registers,
            stack_bytes,
            spill_bytes,
        };
        assert_eq!(usage(printed), [kernel("fill", 28, 8, 16), kernel("other", 255, 0, 0)]);
        assert!(usage("").is_empty());
    }

    #[test]
    fn what_is_linked_is_built() {
        let names = LINKS.iter().flat_map(|(names, _)| *names).chain([&DISPATCHER, &HOOKED]);
        for name in names {
            assert!(PROGRAMS.iter().any(|program| program.name == *name), "{name}");
        }
    }
}
