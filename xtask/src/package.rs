//! The `ringcall` command as files: a tarball with a static program for any Linux of the machine's kind, a Debian package with one
//! that loads a GPU's and an adapter's libraries, and the Python wheel.

use crate::files::{emptied, entries, folder, write};
use crate::shell::{NOT_OPTIMISED, PACKAGED, Shell, read, run};
use crate::steps::Outcome;
use crate::wheel;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What is packaged.
#[derive(Args)]
pub(crate) struct PackageOptions {
    /// Packages debug builds of the command, and no wheel, to try the packages without waiting for release builds.
    #[arg(long)]
    debug: bool,
}

/// A test of the command: building it builds the command as `cargo test` does.
const TEST_OF_THE_COMMAND: &str = "sweep";

/// Files of the tree that go into a package, and where.
const FILES: &[(&str, &str)] = &[
    ("LICENSE-APACHE", "usr/share/doc/ringcall/LICENSE-APACHE"),
    ("LICENSE-MIT", "usr/share/doc/ringcall/copyright"),
    ("CHANGELOG.md", "usr/share/doc/ringcall/CHANGELOG.md"),
    ("packaging/ringcall.service", "usr/share/doc/ringcall/examples/ringcall.service"),
    ("examples/slurm/sweep.sbatch", "usr/share/doc/ringcall/examples/sweep.sbatch"),
];

/// Completions: the shell, and where it looks for them.
const COMPLETIONS: &[(&str, &str)] = &[
    ("bash", "usr/share/bash-completion/completions/ringcall"),
    ("fish", "usr/share/fish/vendor_completions.d/ringcall.fish"),
    ("zsh", "usr/share/zsh/vendor-completions/_ringcall"),
];

/// The packages of debug builds.
pub(crate) fn step(shell: &Shell) -> Result<Outcome> {
    make(shell, &PackageOptions { debug: true })
}

/// Adds the target of static programs to the toolchain, where rustup can.
///
/// # Errors
/// It cannot.
pub(crate) fn install(shell: &Shell) -> Result<()> {
    let target = static_target(shell)?;
    if has_target(shell, &target) {
        return Ok(());
    }
    // Bounded: rustup waits long where packets are dropped.
    run(&mut shell.command("timeout", &["100", "rustup", "target", "add", &target]))
}

/// Makes the packages in `target/packages`, installs each and runs the command in it.
///
/// # Errors
/// A build that fails, a package that lacks something, a tool that is missing: `strip`, `tar`, `gzip`, `objdump`.
pub(crate) fn make(shell: &Shell, options: &PackageOptions) -> Result<Outcome> {
    let out = emptied(shell.target("packages"))?;
    if !options.debug {
        shown(&wheel::build(shell, wheel::Profile::Release, &out)?)?;
    }
    let static_program = static_program(shell, options.debug)?;
    if let Some(program) = &static_program {
        shown(&tarball(shell, program, &out)?)?;
    }
    if read(&mut shell.command("dpkg-deb", &["--version"])).is_err() {
        return Ok(Outcome::Skipped("no Debian package: dpkg-deb is missing"));
    }
    // A debug build is large, and its package is thrown away.
    let compression = if options.debug { "-Zgzip" } else { "-Zxz" };
    shown(&debian_package(shell, &program(shell, options.debug)?, &out, compression)?)?;
    if static_program.is_none() {
        return Ok(Outcome::Skipped(
            "no tarball: the toolchain lacks the target of static programs (`rustup target add`)",
        ));
    }
    Ok(Outcome::Done)
}

fn shown(package: &Path) -> Result<()> {
    println!("{} ({} KiB)", package.display(), fs::metadata(package)?.len() >> 10);
    Ok(())
}

/// The command, linked with the system's libraries.
fn program(shell: &Shell, debug: bool) -> Result<PathBuf> {
    if debug {
        // As the tests have it, so that nothing is built again with fewer features.
        run(&mut shell.cargo(&["test", "--workspace", "--no-run", "--test", TEST_OF_THE_COMMAND]))?;
        return Ok(shell.target("debug").join("ringcall"));
    }
    run(&mut shell.cargo(&[&["build", "--profile", PACKAGED], BUILD].concat()))?;
    Ok(shell.target(PACKAGED).join("ringcall"))
}

/// What is built of the workspace.
const BUILD: &[&str] = &["--locked", "--package", "ringcall-cli", "--bin", "ringcall"];

/// The command without any library of the system's; `None` where the toolchain lacks the target.
fn static_program(shell: &Shell, debug: bool) -> Result<Option<PathBuf>> {
    let target = static_target(shell)?;
    if !has_target(shell, &target) {
        return Ok(None);
    }
    let mut build = shell.cargo(&[&["build", "--target", &target], BUILD].concat());
    let profile = if debug {
        build.args(NOT_OPTIMISED);
        // Clippy sees the command with the features that tests add: here it has the features that users get.
        build.env("RUSTFLAGS", "-D warnings");
        "debug"
    } else {
        build.args(["--profile", PACKAGED]);
        PACKAGED
    };
    run(&mut build)?;
    Ok(Some(shell.target(&target).join(profile).join("ringcall")))
}

/// The target of static programs for this machine.
fn static_target(shell: &Shell) -> Result<String> {
    Ok(shell.host()?.replace("-gnu", "-musl"))
}

fn has_target(shell: &Shell, target: &str) -> bool {
    let mut rustc: Command = shell.command("rustc", &["--print", "target-libdir", "--target", target]);
    rustc.output().is_ok_and(|output| Path::new(String::from_utf8_lossy(&output.stdout).trim()).is_dir())
}

/// A tarball of the static program and its files, unpacked and tried.
fn tarball(shell: &Shell, program: &Path, out: &Path) -> Result<PathBuf> {
    let root = out.join("static");
    stage(shell, program, &root)?;
    let tarball =
        out.join(format!("ringcall-{}-{}.tar.gz", env!("CARGO_PKG_VERSION"), static_target(shell)?));
    let mut tar = shell.command("tar", &["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"]);
    run(tar.arg(&tarball).arg("-C").arg(&root).arg("usr"))?;
    let unpacked = folder(out.join("from-tarball"))?;
    run(shell.command("tar", &["-xzf"]).arg(&tarball).arg("-C").arg(&unpacked))?;
    let installed = try_out(shell, &unpacked)?;
    let headers = read(shell.command("objdump", &["-p"]).arg(&installed))?;
    ensure!(
        !headers.contains("NEEDED") && !headers.contains("INTERP"),
        "the program is not static: {headers}"
    );
    // It loads no library, and says so where one is asked for.
    let verbs = ["serve", "--transport", "verbs", "--device", "any", "--rendezvous", "127.0.0.1:0"];
    for words in [&verbs[..], &["run", "--engine", "gpu"], &["run", "--decoder", "plugin:/no/such.so"]] {
        let output = shell.command(&installed.to_string_lossy(), words).output()?;
        let said = String::from_utf8_lossy(&output.stderr);
        ensure!(!output.status.success() && said.contains(LOADS_NOTHING), "{words:?}: {said}");
    }
    Ok(tarball)
}

/// What a static program says of a library that it is to load.
const LOADS_NOTHING: &str = "this program is static and loads no library";

/// The Debian package, installed below a folder of its own and tried.
fn debian_package(shell: &Shell, program: &Path, out: &Path, compression: &str) -> Result<PathBuf> {
    let root = out.join("root");
    stage(shell, program, &root)?;
    let deb = debian(shell, &root, out, compression)?;
    let system = out.join("from-deb");
    folder(system.join("var/lib/dpkg/updates"))?;
    folder(system.join("var/lib/dpkg/info"))?;
    write(&system.join("var/lib/dpkg/status"), "")?;
    // The C library is the machine's own: this system has nothing else installed.
    let dpkg = |words: &[&str]| {
        let mut command = shell.command("dpkg", &["--force-depends", "--force-not-root", "--log=/dev/null"]);
        command.arg(format!("--root={}", system.display())).args(words);
        command
    };
    run(&mut dpkg(&["--install", &deb.to_string_lossy()]))?;
    ensure!(
        read(&mut dpkg(&["--verify", "ringcall"]))?.is_empty(),
        "dpkg finds other files than it installed"
    );
    let installed = try_out(shell, &system)?;
    run(&mut dpkg(&["--remove", "ringcall"]))?;
    ensure!(!installed.exists(), "the package's removal left {}", installed.display());
    Ok(deb)
}

/// The files of a package below `root`, as they are installed below `/`.
fn stage(shell: &Shell, program: &Path, root: &Path) -> Result<()> {
    let place = |below: &str| -> Result<PathBuf> {
        let path = root.join(below);
        fs::create_dir_all(path.parent().context("a file in a folder")?)?;
        Ok(path)
    };
    let installed = place("usr/bin/ringcall")?;
    fs::copy(program, &installed).with_context(|| program.display().to_string())?;
    run(shell.command("strip", &[]).arg(&installed))?;
    for (from, to) in FILES {
        fs::copy(shell.root().join(from), place(to)?).with_context(|| (*from).to_owned())?;
    }
    let installed = installed.to_string_lossy();
    for (name, to) in COMPLETIONS {
        write(&place(to)?, &read(&mut shell.command(&installed, &["completions", name]))?)?;
    }
    let manual = place("usr/share/man/man1/any")?.with_file_name("");
    run(shell.command(&installed, &["man"]).arg(&manual))?;
    run(shell.command("gzip", &["-9", "-n"]).args(entries(&manual)?))?;
    Ok(())
}

/// A Debian package of the files below `root`.
fn debian(shell: &Shell, root: &Path, out: &Path, compression: &str) -> Result<PathBuf> {
    let architecture = read(&mut shell.command("dpkg", &["--print-architecture"]))?;
    let (version, architecture) = (env!("CARGO_PKG_VERSION"), architecture.trim());
    let control = format!(
        "Package: ringcall\nVersion: {version}\nArchitecture: {architecture}\nMaintainer: The Ringcall authors\n\
         Section: science\nPriority: optional\nDepends: libc6 (>= {}), libgcc-s1\n\
         Description: real-time RPC over polled ring buffers, for quantum error correction\n \
         The ringcall command: decodes memory experiments, serves a decoder, measures logical\n \
         error rates. No GPU and no CUDA toolkit are needed; both are used where they are.\n",
        newest_glibc(shell, &root.join("usr/bin/ringcall"))?
    );
    fs::create_dir(root.join("DEBIAN"))?;
    write(&root.join("DEBIAN/control"), &control)?;
    let deb = out.join(format!("ringcall_{version}_{architecture}.deb"));
    let build = ["--root-owner-group", compression, "-z6", "--build"];
    run(shell.command("dpkg-deb", &build).arg(root).arg(&deb))?;
    Ok(deb)
}

/// The newest version of the C library that a program's symbols ask for.
fn newest_glibc(shell: &Shell, program: &Path) -> Result<String> {
    let symbols = read(shell.command("objdump", &["-T"]).arg(program))?;
    newest(&symbols).context("the program asks for no version of the C library")
}

fn newest(symbols: &str) -> Option<String> {
    let versions = symbols.split("GLIBC_").skip(1).filter_map(|rest| {
        let text: String = rest.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
        text.split('.').map(|part| part.parse().ok()).collect::<Option<Vec<u32>>>()
    });
    versions.max().map(|version| version.iter().map(u32::to_string).collect::<Vec<_>>().join("."))
}

/// Everything is there, and the command runs; the command.
fn try_out(shell: &Shell, root: &Path) -> Result<PathBuf> {
    let files = FILES.iter().map(|(_, to)| *to).chain(COMPLETIONS.iter().map(|(_, to)| *to));
    for file in files.chain(["usr/share/man/man1/ringcall.1.gz", "usr/share/man/man1/ringcall-sweep.1.gz"]) {
        let length = fs::metadata(root.join(file)).with_context(|| file.to_owned())?.len();
        ensure!(length > 0, "{file} is empty");
    }
    let installed = root.join("usr/bin/ringcall");
    let program = installed.to_string_lossy();
    let page = root.join("usr/share/man/man1/ringcall.1.gz");
    let page = read(shell.command("gzip", &["--decompress", "--stdout"]).arg(&page))?;
    ensure!(page.contains(".SH SYNOPSIS"), "the manual's page is none: {page}");
    let bash = root.join("usr/share/bash-completion/completions/ringcall");
    run(shell.command("bash", &["-n"]).arg(&bash))?;
    let said = read(&mut shell.command(&program, &["--version"]))?;
    ensure!(said == format!("ringcall {}\n", env!("CARGO_PKG_VERSION")), "it is {said}");
    let study = ["sweep", "--distances", "3", "--noises", "0.01", "--shots", "1000", "--json", "-"];
    let found = read(&mut shell.command(&program, &study))?;
    ensure!(found.contains("\"complete\": true"), "{found}");
    Ok(installed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_version_is_by_number() {
        let symbols = "x (GLIBC_2.2.5) malloc\ny (GLIBC_2.34) z\nw (GLIBC_2.9) v\nu GLIBC_PRIVATE";
        assert_eq!(newest(symbols).as_deref(), Some("2.34"));
        assert_eq!(newest("nothing"), None);
    }
}
