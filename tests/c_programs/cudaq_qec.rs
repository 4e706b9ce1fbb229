//! The decoder plug-in for CUDA-Q QEC (`bindings/cudaq-qec`), against stand-in headers of ours: compiled, loaded, driven.

use super::{INCLUDE, TURN, compiler, library_folder};
use std::path::Path;
use std::process::Command;
use std::sync::PoisonError;

const PACKAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../bindings/cudaq-qec");
const WARNINGS: [&str; 6] = ["-Wall", "-Wextra", "-Wpedantic", "-Wshadow", "-Wconversion", "-Werror"];

/// Runs a command and wants success.
fn succeed(command: &mut Command, what: &str) {
    let output = command.output().expect("it runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{what}: {}\n{stdout}{stderr}", output.status);
}

/// The test program over one of the two interfaces that the plug-in knows.
fn check(interface: &str) {
    let Some(compiler) = compiler("decoder_test.cpp") else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let (package, folder) = (Path::new(PACKAGE), library_folder());
    let out = tempfile::tempdir().expect("a folder");
    let [stand_in, plugin, program] = ["libstand-in.so", "libcudaq-qec-ringcall-decoder.so", "decoder_test"]
        .map(|name| out.path().join(name));
    let includes = [interface, "common"].map(|name| format!("-I{}/stand-in/{name}", package.display()));
    let build = |source: &str| {
        let mut command = Command::new(&compiler);
        command.args(["-std=c++20", "-g", "-O1", "-fPIC", "-pthread"]).args(WARNINGS).args(&includes);
        command.arg(package.join(source));
        command
    };
    succeed(build("stand-in/registry.cpp").arg("-shared").arg("-o").arg(&stand_in), "the stand-in");
    let ours = build("src/ringcall_decoder.cpp")
        .args(INCLUDE.map(|folder| format!("-I{folder}")))
        .args(["-shared", "-o"])
        .arg(&plugin)
        .args([format!("-L{}", folder.display()), format!("-Wl,-rpath,{}", folder.display())])
        .args(["-lringcall_c".as_ref(), stand_in.as_os_str()])
        .output()
        .expect("the compiler runs");
    assert!(ours.status.success(), "the plug-in: {}", String::from_utf8_lossy(&ours.stderr));
    succeed(build("tests/decoder_test.cpp").arg("-o").arg(&program).arg(&stand_in).arg("-ldl"), "the test");
    // Cargo's folder comes first in this variable otherwise, where an older library may lie.
    succeed(Command::new(&program).arg(&plugin).env("LD_LIBRARY_PATH", out.path()), interface);
}

#[test]
fn the_decoder_of_a_matrix_works() {
    check("matrices");
}

#[test]
fn the_decoder_of_inputs_works() {
    check("inputs");
}
