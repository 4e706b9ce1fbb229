//! Shell commands: cargo, the nightly cargo, and tools from `cargo install`.

use crate::files::write;
use anyhow::{Context, Result, bail};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The repository, and where its tools build.
pub(crate) struct Shell {
    root: PathBuf,
    target: PathBuf,
}

impl Shell {
    pub(crate) fn new() -> Result<Self> {
        let manifest_dir = std::env::var_os("CARGO_MANIFEST_DIR").context("run it as `cargo xtask`")?;
        let root =
            Path::new(&manifest_dir).parent().context("xtask is a folder of the repository")?.to_path_buf();
        let target = match std::env::var_os("CARGO_TARGET_DIR") {
            Some(dir) => std::path::absolute(dir).context("CARGO_TARGET_DIR")?,
            None => root.join("target"),
        };
        Ok(Self { root, target })
    }

    /// The repository's root.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// A separate build folder below the target folder, so that runs with other flags do not undo each other.
    pub(crate) fn target(&self, name: &str) -> PathBuf {
        self.target.join(name)
    }

    /// `cargo ARGS` with the toolchain of the repository.
    pub(crate) fn cargo(&self, args: &[&str]) -> Command {
        self.command("cargo", args)
    }

    /// `cargo ARGS` with the nightly toolchain. (Not `cargo +nightly`: inside a cargo of another toolchain the word
    /// `cargo` may no longer be rustup's.)
    pub(crate) fn nightly_cargo(&self, args: &[&str]) -> Command {
        let mut command = self.command("rustup", &["run", "nightly", "cargo"]);
        command.args(args);
        command
    }

    /// Any command, run from the root, without standard input.
    pub(crate) fn command(&self, program: &str, args: &[&str]) -> Command {
        let mut command = Command::new(program);
        command.args(args).current_dir(&self.root).stdin(Stdio::null());
        // `cargo run` describes xtask in these; build scripts of a nested cargo would see them change and run again.
        for (name, _) in std::env::vars_os() {
            let name = name.to_string_lossy();
            if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") || name == "CARGO" {
                command.env_remove(&*name);
            }
        }
        command
    }

    /// Whether rustup has a nightly. Asks for the list, since asking the toolchain itself might start a download.
    pub(crate) fn has_nightly(&self) -> bool {
        self.command("rustup", &["toolchain", "list"]).output().is_ok_and(|output| {
            String::from_utf8_lossy(&output.stdout).lines().any(|l| l.starts_with("nightly"))
        })
    }

    /// The machine's own target triple.
    pub(crate) fn host(&self) -> Result<String> {
        let text = read(&mut self.command("rustc", &["-vV"]))?;
        text.lines()
            .find_map(|line| line.strip_prefix("host: "))
            .map(str::to_owned)
            .context("`rustc -vV` names no host")
    }

    /// Installs Python packages into a folder; options of pip's may stand before their names.
    pub(crate) fn pip(&self, folder: &Path, packages: &[&str]) -> Result<()> {
        let mut install =
            self.command("python3", &["-m", "pip", "install", "--quiet", "--no-compile", "--upgrade"]);
        install.args(["--disable-pip-version-check", "--target"]).arg(folder).args(packages);
        run(&mut install)
    }

    /// The same once for each list of them.
    pub(crate) fn pip_once(&self, folder: &Path, packages: &[&str]) -> Result<()> {
        let (list, done) = (packages.join("\n"), folder.join("installed.txt"));
        if std::fs::read_to_string(&done).is_ok_and(|text| text == list) {
            return Ok(());
        }
        self.pip(folder, packages)?;
        write(&done, &list)
    }

    /// The path of a tool from crates.io in exactly this version, built once and kept below the target folder.
    ///
    /// Built for a short build rather than a fast tool: a tool's own profile (one code generation unit, whole-program
    /// optimisation) costs minutes, and these tools run for seconds.
    pub(crate) fn tool(&self, name: &str, version: &str) -> Result<PathBuf> {
        self.tool_with(name, version, &[])
    }

    /// The same with more options of `cargo install`, such as features.
    pub(crate) fn tool_with(&self, name: &str, version: &str, options: &[&str]) -> Result<PathBuf> {
        let root = self.target("tools").join(format!("{name}-{version}"));
        let path = root.join("bin").join(name);
        if path.is_file() {
            return Ok(path);
        }
        let exact = format!("={version}");
        let mut install = self.cargo(&["install", "--locked", name, "--version", &exact, "--root"]);
        install.arg(&root).args(options).env("CARGO_TARGET_DIR", self.target("tools").join("build"));
        for (key, value) in [("OPT_LEVEL", "0"), ("LTO", "off"), ("CODEGEN_UNITS", "16"), ("DEBUG", "false")]
        {
            install.env(format!("CARGO_PROFILE_RELEASE_{key}"), value);
        }
        run(&mut install)?;
        Ok(path)
    }
}

/// Arguments of a cargo build that optimises nothing, for programs that run for a second: level 0 also for the crates that the profile
/// `dev` has at level 2.
pub(crate) const NOT_OPTIMISED: &[&str] = &[
    "--config",
    "profile.dev.opt-level=0",
    "--config",
    "profile.dev.package.ringcall-bp.opt-level=0",
    "--config",
    "profile.dev.package.ringcall-matching.opt-level=0",
    "--config",
    "profile.dev.package.ringcall-protocol.opt-level=0",
    "--config",
    "profile.dev.package.ringcall-qec.opt-level=0",
];

/// Cargo's profile of what users install, and the folder of its builds. The profile `release` is for a short build from a clone.
pub(crate) const PACKAGED: &str = "packaged";

/// Runs a command to its end and shows what it is.
pub(crate) fn run(command: &mut Command) -> Result<()> {
    println!("$ {}", shown(command));
    let status = command.status().with_context(|| format!("cannot start {}", shown(command)))?;
    if !status.success() {
        bail!("{status}: {}", shown(command));
    }
    Ok(())
}

/// Runs a command and gives its standard output; its standard error goes through.
pub(crate) fn read(command: &mut Command) -> Result<String> {
    let output = command
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot start {}", shown(command)))?;
    if !output.status.success() {
        bail!("{}: {}", output.status, shown(command));
    }
    String::from_utf8(output.stdout).with_context(|| format!("not UTF-8 from {}", shown(command)))
}

/// The command as one would type it, with the environment it sets.
pub(crate) fn shown(command: &Command) -> String {
    let mut words = Vec::new();
    for (name, value) in command.get_envs() {
        if let Some(value) = value {
            words.push(format!("{}={}", name.to_string_lossy(), quoted(&value.to_string_lossy())));
        }
    }
    words.push(command.get_program().to_string_lossy().into_owned());
    words.extend(command.get_args().map(|arg| quoted(&arg.to_string_lossy())));
    words.join(" ")
}

fn quoted(word: &str) -> String {
    if !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=+,:@".contains(c)) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_shown_as_one_would_type_it() {
        let mut command = Command::new("cargo");
        command.args(["test", "--test", "loom_*"]).env("RUSTFLAGS", "--cfg loom").env_remove("GONE");
        assert_eq!(shown(&command), "RUSTFLAGS='--cfg loom' cargo test --test 'loom_*'");
    }

    #[test]
    fn a_failing_command_is_an_error_that_names_it() {
        let error = run(&mut Command::new("false")).expect_err("false fails");
        assert!(error.to_string().contains("false"), "{error}");
        assert!(run(&mut Command::new("/no/such/program")).is_err());
        assert_eq!(read(Command::new("echo").arg("hello")).expect("echo works"), "hello\n");
    }
}
