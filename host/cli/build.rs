//! The commit that the program is built from, for reports and `--version`: `RINGCALL_COMMIT` where that is set, else what git
//! says of the sources' own repository.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo:rerun-if-env-changed=RINGCALL_COMMIT");
    if std::env::var_os("RINGCALL_COMMIT").is_some() {
        return;
    }
    // Each commit and checkout adds a line. Of a package from a registry there is no such file, and no commit.
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
