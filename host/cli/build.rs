//! Build script: the commit of the sources, for reports and `--version`, from `RINGCALL_COMMIT` or else from the
//! sources' git repository.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RINGCALL_COMMIT");
    if std::env::var_os("RINGCALL_COMMIT").is_some() {
        return;
    }
    // Each commit and checkout appends a line to this file. The sources of a package from a registry have neither the
    // file nor a commit.
    let log = Path::new("../../.git/logs/HEAD");
    if !log.exists() {
        return;
    }
    println!("cargo:rerun-if-changed={}", log.display());
    let git = Command::new("git").args(["rev-parse", "--short=10", "HEAD"]).output();
    if let Some(output) = git.ok().filter(|output| output.status.success()) {
        println!("cargo:rustc-env=RINGCALL_COMMIT={}", String::from_utf8_lossy(&output.stdout).trim());
    }
}
