//! The fixture beside this file, compiled for the device. On a machine without a toolchain for devices this says so and
//! proves nothing.
//!
//! Builds `core` (half a minute); what is built is kept in the target folder and used again. That two clones build the same text is
//! proved by `cargo xtask ptx --check`, which compares with another clone's.

use ringcall_build::{Arch, Compiled, DeviceBuildError, DeviceCrate, Toolchain, compile, compiler_of};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Below it everything is built; no text may name it.
const FOLDER: &str = "a/folder far away";

fn toolchain() -> Option<Toolchain> {
    match Toolchain::find() {
        Ok(toolchain) => Some(toolchain),
        Err(error) => {
            eprintln!("skipped: {error}");
            None
        }
    }
}

/// One build at a time: tests share the folder.
fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::new(());
    ONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The path of [`FOLDER`].
fn folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join(FOLDER)
}

/// Copies the fixture into [`FOLDER`], since cargo writes a lock file beside a manifest.
fn fixture() -> PathBuf {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture");
    let to = folder().join("fixture");
    std::fs::create_dir_all(to.join("src")).expect("a folder");
    for file in ["Cargo.toml", "src/lib.rs", "src/sum.rs"] {
        std::fs::copy(from.join(file), to.join(file)).expect(file);
    }
    to
}

/// As PTX writes text.
fn as_numbers(text: &str) -> String {
    text.bytes().map(|byte| byte.to_string()).collect::<Vec<_>>().join(", ")
}

fn build(features: &[&str], toolchain: &Toolchain) -> Result<Compiled, DeviceBuildError> {
    let device_crate = DeviceCrate {
        manifest_dir: fixture(),
        features: features.iter().map(|&feature| feature.to_owned()).collect(),
        arch: Arch::SM_90,
        target_dir: folder().join("target"),
    };
    compile(&device_crate, toolchain)
}

#[test]
fn the_whole_program_is_in_the_text_and_nothing_of_the_machine() {
    let Some(toolchain) = toolchain() else { return };
    let _alone = alone();
    let first = build(&[], &toolchain).expect("it compiles");
    let ptx = &first.ptx;
    for part in [
        ".version 8.6\n",
        ".target sm_90\n",
        ".visible .entry fixture_kernel(",
        ".visible .func  (.param .b64 func_retval0) fixture_divide(",
    ] {
        assert!(ptx.contains(part), "no `{part}` in\n{ptx}");
    }
    assert!(!ptx.contains(".extern"), "something is missing:\n{ptx}");
    for (name, expected) in
        [("src/lib.rs", true), ("/rust/library/core/src/", true), ("/lib/rustlib/", false), (FOLDER, false)]
    {
        assert_eq!(ptx.contains(&as_numbers(name)), expected, "the file name `{name}` in\n{ptx}");
    }
    assert!(ptx.starts_with("// fixture for sm_90, by rustc "), "{ptx}");
    assert_eq!(compiler_of(ptx), Some(toolchain.version()));
    assert_eq!(first.warnings, "");
    let sources: Vec<_> = first.sources.iter().filter_map(|path| path.file_name()?.to_str()).collect();
    assert_eq!(sources, ["Cargo.lock", "Cargo.toml", "lib.rs", "sum.rs"]);

    // What cargo takes for fresh is there again, though the text was thrown away.
    let texts = folder().join("target/ptx");
    std::fs::remove_dir_all(texts).expect("texts");
    assert!(*ptx == build(&[], &toolchain).expect("it compiles").ptx);
    eprintln!("ran: {} bytes of PTX by {}", ptx.len(), toolchain.version());
}

#[test]
fn what_does_not_compile_is_shown_as_the_compiler_said_it() {
    let Some(toolchain) = toolchain() else { return };
    let _alone = alone();
    let error = build(&["mistyped"], &toolchain).expect_err("a text is no number").to_string();
    for part in ["`fixture` does not compile for sm_90", "error[E0308]: mismatched types", "src/lib.rs:"] {
        assert!(error.contains(part), "no `{part}` in {error}");
    }
    assert!(!error.contains("unstable feature"), "{error}");
    eprintln!("ran");
}

#[test]
fn what_a_gpu_cannot_do_is_explained() {
    let Some(toolchain) = toolchain() else { return };
    let _alone = alone();
    let error = build(&["compares"], &toolchain).expect_err("nothing defines memcmp").to_string();
    assert!(error.contains("calls memcmp, which nothing defines"), "{error}");
    let error = build(&["widens"], &toolchain).expect_err("no instruction").to_string();
    assert!(error.contains("128-bit integers"), "{error}");
    eprintln!("ran");
}
