//! The device archive: the dispatch kernels as relocatable device code with host stubs, for programs that nvcc links.
//!
//! Our kernels are Rust's PTX; host stubs and registration are nvcc's business. So nvcc is asked what it
//! would do for a file with an empty kernel (`-dryrun`), and does it, with the committed PTX in the place of
//! what the empty kernel compiles to. Each PTX file is its own object, so a program links the kernels that it
//! names and no others.

use crate::files::{emptied, write};
use crate::ptx::{Cuda, committed};
use crate::shell::{Shell, run, shown};
use anyhow::{Context, Result, ensure};
use ringcall_build::Arch;
use std::path::{Path, PathBuf};

/// The architectures of the committed PTX, and of the machine code made from it: PTX is forward compatible,
/// and programs for Blackwell get the machine code that the PTX for Hopper gives.
const ARCHITECTURES: [(u32, &[u32]); 2] = [(80, &[80]), (90, &[90, 100])];
/// The objects of kernels: the kernels, the name of their committed PTX and the bytes of their parameters.
const KERNELS: [(&[&str], &str, u32); 5] = [
    (&["ringcall_dispatch"], "dispatch", 128),
    (&["ringcall_dispatch_grid"], "grid", 128),
    (&["ringcall_dispatch_graph"], "graph", 128),
    (&["ringcall_unified"], "unified", 248),
    (&["ringcall_relay_receive", "ringcall_relay_send"], "relay", 272),
];
/// What names the kernels in a program, an object each.
const ENTRIES: [&str; 3] = ["entry", "unified", "three"];

/// Makes `libringcall_device.a` in the installed tree `out`.
pub(crate) fn make(shell: &Shell, out: &Path) -> Result<()> {
    let cuda = Cuda::find(shell)?;
    let work = emptied(shell.target("device-archive"))?;
    let source = shell.root().join("kernels-cu/archive");
    let codes: Vec<String> = ARCHITECTURES
        .iter()
        .flat_map(|&(text, machines)| machines.iter().map(move |machine| (text, machine)))
        .flat_map(|(text, sm)| ["-gencode".to_owned(), format!("arch=compute_{text},code=sm_{sm}")])
        .collect();

    let mut objects: Vec<String> = ENTRIES.iter().map(|entry| format!("{entry}.o")).collect();
    for (kernels, text, bytes) in KERNELS {
        let object = format!("kernel_{text}.o");
        let stubs: Vec<String> = kernels.iter().map(|kernel| format!("KERNEL({kernel})")).collect();
        let mut plan = cuda.tool(shell, "nvcc");
        plan.current_dir(&work).args(["-rdc=true", "-dryrun", "--keep", "--keep-dir", "."]).args(&codes);
        plan.args([format!("-DKERNELS={}", stubs.join(" ")), format!("-DBYTES={bytes}")])
            .args(["-Wno-deprecated-gpu-targets", "-c"]);
        plan.arg(source.join("kernel.cu")).args(["-o", &object]);
        let output = plan.output().with_context(|| format!("cannot start {}", shown(&plan)))?;
        ensure!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        for arch in Arch::DEFAULT {
            write(&work.join(format!("{text}.{arch}.ptx")), &committed(shell, text, arch)?)?;
        }
        let build = format!("kernel_{text}.sh");
        write(&work.join(&build), &script(&String::from_utf8_lossy(&output.stderr), &work.join(text))?)?;
        run(shell.command("bash", &[&build]).current_dir(&work))?;
        objects.push(object);
    }

    for name in ENTRIES {
        let mut entry = cuda.tool(shell, "nvcc");
        entry.current_dir(&work).args(["-rdc=true", "-O2", "-Wno-deprecated-gpu-targets"]).args(&codes);
        let headers = crate::dist_names::HEADERS.iter();
        entry.args(headers.map(|headers| format!("-I{}", shell.root().join(headers).display())));
        let source = source.join(format!("{name}.cu"));
        run(entry.arg("-c").arg(source).args(["-o", &format!("{name}.o")]))?;
    }
    let archive = out.join("lib/libringcall_device.a");
    let mut ar = shell.command("ar", &["rcs"]);
    run(ar.current_dir(&work).arg(&archive).args(objects))?;
    write(&out.join("share/ringcall/nvcc.mk"), &compiler(shell, &cuda)?)
}

/// Where the compiler and its runtime are, for the examples' Makefile.
fn compiler(shell: &Shell, cuda: &Cuda) -> Result<String> {
    let nvcc = cuda.tool(shell, "nvcc").get_program().to_string_lossy().into_owned();
    let libraries = cuda.device_runtime.parent().context("a library is in a folder")?;
    Ok(format!("RINGCALL_NVCC := {nvcc}\nRINGCALL_CUDA_LIBDIR := {}\n", libraries.display()))
}

/// What nvcc would run, as a script, with the PTX of `texts` (a path less `.sm_NN.ptx`) put where the compiler's goes.
fn script(plan: &str, texts: &Path) -> Result<String> {
    let mut lines = vec!["set -e".to_owned()];
    let mut replaced = 0;
    for line in plan.lines().filter_map(|line| line.strip_prefix("#$ ")) {
        if let Some((name, value)) = assignment(line) {
            lines.push(format!("export {name}='{}'", value.trim().trim_matches('"').replace('\'', "")));
            continue;
        }
        lines.push(line.to_owned());
        if line.split_whitespace().next().is_some_and(|program| program.contains("cicc")) {
            let arch = after(line, "-arch compute_").context("nvcc's compiler has no -arch")?;
            let arch: String = arch.chars().take_while(char::is_ascii_digit).collect();
            let out = line.rsplit("-o \"").next().and_then(|rest| rest.split('"').next());
            let out = out.context("nvcc's compiler has no output")?;
            let ptx = PathBuf::from(format!("{}.sm_{arch}.ptx", texts.display()));
            ensure!(ptx.is_file(), "there is no {}", ptx.display());
            lines.push(format!("cp '{}' '{out}'", ptx.display()));
            replaced += 1;
        }
    }
    ensure!(
        replaced == ARCHITECTURES.len(),
        "nvcc's plan was not understood: {replaced} compilations\n{plan}"
    );
    Ok(lines.join("\n"))
}

/// `NAME=value`, if the line is one.
fn assignment(line: &str) -> Option<(&str, &str)> {
    let (name, value) = line.split_once('=')?;
    let is_name = !name.is_empty() && name.chars().all(|c| c.is_ascii_uppercase() || c == '_');
    is_name.then_some((name, value))
}

fn after<'a>(text: &'a str, word: &str) -> Option<&'a str> {
    text.find(word).map(|at| &text[at + word.len()..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assignments_are_told_from_commands() {
        assert_eq!(assignment("_HERE_=/a/b"), Some(("_HERE_", "/a/b")));
        assert_eq!(assignment("gcc -D__X=1 -E a.cu"), None);
        assert_eq!(assignment("=x"), None);
    }

    #[test]
    fn a_plan_without_compilers_is_refused() {
        assert!(script("#$ gcc -c x.c\n", Path::new("/none")).is_err());
    }
}
