//! The `ringcall` command as files: a tarball for any Linux of the machine's kind, and a Debian package.

use crate::files::write;
use crate::shell::{Shell, read, run};
use crate::steps::Outcome;
use anyhow::{Context, Result, ensure};
use clap::Args;
use std::fs;
use std::path::{Path, PathBuf};

/// What is packaged.
#[derive(Args)]
pub(crate) struct PackageOptions {
    /// Packages the debug build, to try the packages without waiting for a release build.
    #[arg(long)]
    debug: bool,
}

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

/// Builds the command, makes the packages in `target/packages`, unpacks each and runs the command in it.
///
/// # Errors
/// A build that fails, a package that lacks something, a tool that is missing: `strip`, `tar`, `gzip`.
pub(crate) fn make(shell: &Shell, options: &PackageOptions) -> Result<Outcome> {
    let build = ["build", "--locked", "--package", "ringcall-cli", "--bin", "ringcall"];
    let profile = if options.debug { "debug" } else { "release" };
    run(shell.cargo(&build).args((!options.debug).then_some("--release")))?;
    let out = shell.target("packages");
    let root = out.join("root");
    let _ = fs::remove_dir_all(&out); // none there the first time
    stage(shell, &shell.target(profile).join("ringcall"), &root)?;

    let version = env!("CARGO_PKG_VERSION");
    let tarball = out.join(format!("ringcall-{version}-{}.tar.gz", shell.host()?));
    let mut tar = shell.command("tar", &["--sort=name", "--owner=0", "--group=0", "--numeric-owner", "-czf"]);
    run(tar.arg(&tarball).arg("-C").arg(&root).arg("usr"))?;
    let unpacked = out.join("from-tarball");
    fs::create_dir(&unpacked)?;
    run(shell.command("tar", &["-xzf"]).arg(&tarball).arg("-C").arg(&unpacked))?;
    try_out(shell, &unpacked)?;

    if read(&mut shell.command("dpkg-deb", &["--version"])).is_err() {
        return Ok(Outcome::Skipped("no Debian package: dpkg-deb is missing"));
    }
    let deb = debian(shell, &root, &out)?;
    let unpacked = out.join("from-deb");
    run(shell.command("dpkg-deb", &["--extract"]).arg(&deb).arg(&unpacked))?;
    try_out(shell, &unpacked)?;
    for package in [&tarball, &deb] {
        println!("{} ({} KiB)", package.display(), fs::metadata(package)?.len() >> 10);
    }
    Ok(Outcome::Done)
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
    for page in fs::read_dir(&manual)? {
        run(shell.command("gzip", &["-9", "-n"]).arg(page?.path()))?;
    }
    Ok(())
}

/// A Debian package of the files below `root`.
fn debian(shell: &Shell, root: &Path, out: &Path) -> Result<PathBuf> {
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
    let build = ["--root-owner-group", "-Zxz", "--build"];
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

/// Everything is there, and the command runs.
fn try_out(shell: &Shell, root: &Path) -> Result<()> {
    let files = FILES.iter().map(|(_, to)| *to).chain(COMPLETIONS.iter().map(|(_, to)| *to));
    for file in files.chain(["usr/share/man/man1/ringcall.1.gz", "usr/share/man/man1/ringcall-sweep.1.gz"]) {
        let length = fs::metadata(root.join(file)).with_context(|| file.to_owned())?.len();
        ensure!(length > 0, "{file} is empty");
    }
    let program = root.join("usr/bin/ringcall");
    let program = program.to_string_lossy();
    let said = read(&mut shell.command(&program, &["--version"]))?;
    ensure!(said == format!("ringcall {}\n", env!("CARGO_PKG_VERSION")), "it is {said}");
    let study = ["sweep", "--distances", "3", "--noises", "0.01", "--shots", "1000", "--json", "-"];
    let found = read(&mut shell.command(&program, &study))?;
    ensure!(found.contains("\"complete\": true"), "{found}");
    Ok(())
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
