//! C and C++ programs against the library as a C program gets it: compiled, linked, run.
//!
//! Without a C compiler each test says so and passes. With `RINGCALL_C_SANITIZE` set (`address,undefined`, say) the programs
//! are compiled with these sanitizers; with `RINGCALL_C_VALGRIND` they run under valgrind.

#![allow(clippy::print_stdout)] // says what was skipped

use decoder_cases::Case;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

mod cudaq_qec;
mod decoder_cases;

const PROGRAMS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/c_programs");
/// What an installed tree has in one folder.
const INCLUDE: [&str; 3] = [
    concat!(env!("CARGO_MANIFEST_DIR"), "/include"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../bridge/include"),
    concat!(env!("CARGO_MANIFEST_DIR"), "/../rdma/include"),
];

/// Where cargo has put `libringcall_c.so`: beside this test.
fn library_folder() -> PathBuf {
    let test = std::env::current_exe().expect("a test knows where it is");
    let folder = test.parent().expect("in a folder").to_owned();
    assert!(folder.join("libringcall_c.so").is_file(), "no libringcall_c.so in {}", folder.display());
    folder
}

fn compiler(source: &str) -> Option<String> {
    let (variable, default) = if source.ends_with(".cpp") { ("CXX", "c++") } else { ("CC", "cc") };
    let name = std::env::var(variable).unwrap_or_else(|_| default.to_owned());
    let works = Command::new(&name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !works {
        println!("skipped: there is no compiler `{name}`");
    }
    works.then_some(name)
}

/// One program at a time: each has threads that poll.
static TURN: Mutex<()> = Mutex::new(());

/// As [`check_with`], without arguments.
fn check(source: &str, flags: &[&str]) {
    check_with(source, flags, &[]);
}

/// Compiles a program with all warnings as errors, runs it, and wants success.
fn check_with(source: &str, flags: &[&str], arguments: &[&str]) {
    let Some(compiler) = compiler(source) else { return };
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let folder = library_folder();
    let out = tempfile::tempdir().expect("a folder");
    let program = out.path().join("program");
    let standard = if source.ends_with(".cpp") { "-std=c++17" } else { "-std=c11" };
    let mut compile = Command::new(compiler);
    compile
        .args([standard, "-D_GNU_SOURCE", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-pthread"])
        .args(flags)
        .args(INCLUDE.map(|folder| format!("-I{folder}")))
        .arg(Path::new(PROGRAMS).join(source))
        .arg("-o")
        .arg(&program)
        .arg(format!("-L{}", folder.display()))
        .args(["-lringcall_c", "-ldl", "-lm"])
        .arg(format!("-Wl,-rpath,{}", folder.display()));
    if let Ok(sanitizers) = std::env::var("RINGCALL_C_SANITIZE") {
        compile.arg(format!("-fsanitize={sanitizers}")).arg("-fno-sanitize-recover=all");
    }
    let compiled = compile.output().expect("the compiler runs");
    assert!(compiled.status.success(), "{source}: {}", String::from_utf8_lossy(&compiled.stderr));
    let mut run = if std::env::var_os("RINGCALL_C_VALGRIND").is_some() {
        let mut valgrind = Command::new("valgrind");
        valgrind.args(["-q", "--error-exitcode=9", "--leak-check=full", "--errors-for-leak-kinds=definite"]);
        valgrind.arg("--fair-sched=yes").arg(&program);
        valgrind
    } else {
        Command::new(&program)
    };
    run.args(arguments);
    // The library is not instrumented: what its copies and allocations do is not looked at.
    run.env("TSAN_OPTIONS", "ignore_noninstrumented_modules=1");
    // Cargo's names another folder first, where an older library may lie.
    run.env_remove("LD_LIBRARY_PATH");
    let cuda = ringcall_cuda::driver::Driver::load();
    if cuda.is_err() {
        run.env("RINGCALL_TEST_NO_CUDA", "1");
    }
    let ran = run.output().expect("the program runs");
    let (stdout, stderr) = (String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(ran.status.success(), "{source}: {}\n{stdout}{stderr}", ran.status);
}

#[test]
fn layouts_are_those_of_the_rust_side() {
    for entry in ["168", "176", "192"] {
        let define = format!("-DCUDAQ_REALTIME_ENTRY_BYTES={entry}");
        check("layout.c", &[&define]);
        check("layout.cpp", &[&define]);
    }
}

#[test]
fn ring_helpers_write_and_read_slots() {
    check("ring_helpers.c", &[]);
}

#[test]
fn the_host_path_answers_everything() {
    check("host_path.c", &[]);
}

#[test]
fn invalid_arguments_are_refused() {
    check("invalid.c", &[]);
}

#[test]
fn device_code_is_looked_at() {
    check("modules.c", &[]);
}

#[test]
fn a_transport_is_driven_from_one_thread() {
    check("unified.c", &[]);
}

#[test]
fn a_loop_works_the_queues_that_a_context_names() {
    check("hsb.c", &[]);
}

#[test]
fn the_wiring_example_answers_every_request() {
    check_with("../../examples/c/hsb.c", &[], &["2000"]);
}

#[test]
fn a_roce_transceiver_without_a_device_says_so() {
    // With one: `cargo xtask rdma`.
    check("roce.c", &[]);
}

#[test]
fn two_dispatchers_share_a_ring() {
    check("shared_ring.c", &[]);
}

#[test]
fn tables_of_all_three_layouts_are_read() {
    for entry in ["168", "176", "192"] {
        check("entries.c", &[&format!("-DCUDAQ_REALTIME_ENTRY_BYTES={entry}")]);
    }
}

#[test]
fn schemas_of_a_table_are_checked_only_where_that_is_asked_for() {
    check("schemas.c", &[]);
}

#[test]
fn a_pipeline_in_cpp_completes_every_request() {
    // RINGCALL_C_REQUESTS=1000000 for a long run.
    let requests = std::env::var("RINGCALL_C_REQUESTS").ok();
    let arguments: Vec<&str> = requests.as_deref().into_iter().collect();
    check_with("pipeline.cpp", &[], &arguments);
}

#[test]
fn programs_written_from_the_specification_run() {
    check("specification.cpp", &["-DCUDAQ_REALTIME_ENTRY_BYTES=168"]);
    check("specification.cpp", &["-DEARLIER_NAMES"]);
    check("specification.cpp", &["-DCUDAQ_REALTIME_API_VERSION=2"]);
}

#[test]
fn bad_requests_are_answered_or_dropped_as_is_asked_for() {
    check("bad_requests.c", &[]);
}

#[test]
fn plain_names_have_the_signatures_of_today_or_those_asked_for() {
    for bytes in ["168", "176", "192"] {
        let entries = format!("-DCUDAQ_REALTIME_ENTRY_BYTES={bytes}");
        check("signatures.c", &[&entries]);
        check("signatures.c", &[&entries, "-DCUDAQ_REALTIME_API_VERSION=1"]);
        check("signatures.c", &[&entries, "-DCUDAQ_REALTIME_API_VERSION=2"]);
    }
}

/// A provider is loaded through this library and served: by a ring that it fills, and from the dispatcher's thread.
fn serve(library: &Path, arguments: &[&str]) {
    let library = library.to_str().expect("a path of words");
    for more in [&["--num-slots=5"][..], &["--num-slots=5", "--unified"]] {
        check_with("bridge.c", &[], &[&[library], arguments, more].concat());
    }
}

#[test]
fn a_provider_written_in_c_is_served() {
    let Some(compiler) = compiler("provider.c") else { return };
    let folder = tempfile::tempdir().expect("a folder");
    let library = folder.path().join("libprovider.so");
    let mut compile = Command::new(compiler);
    compile.args(["-std=c11", "-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-pthread"]);
    compile.args(INCLUDE.map(|include| format!("-I{include}"))).arg("-o").arg(&library);
    compile.arg(concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/c-provider/provider.c"));
    let compiled = compile.output().expect("the compiler runs");
    assert!(compiled.status.success(), "{}", String::from_utf8_lossy(&compiled.stderr));
    let path = folder.path().join("service");
    serve(&library, &[&format!("--path={}", path.display())]);
}

#[test]
fn our_udp_provider_is_served() {
    let library = library_folder().join("libcudaq_realtime_bridge_udp.so");
    assert!(library.is_file(), "no {}", library.display());
    serve(&library, &["--port=0"]);
}

/// A case in its own folder, which lasts as long as the program.
fn answers(cases: impl IntoIterator<Item = Case>) {
    for case in cases {
        let arguments: Vec<&str> = case.arguments.iter().map(String::as_str).collect();
        check_with("decoder_answers.c", &[], &arguments);
    }
}

#[test]
fn a_models_shots_are_decoded_as_rust_and_pymatching_do() {
    let folder = tempfile::tempdir().expect("a folder");
    answers([decoder_cases::memory_experiment(folder.path())]);
}

#[test]
fn a_check_matrix_is_decoded_as_rust_and_pymatching_do() {
    let folder = tempfile::tempdir().expect("a folder");
    answers(decoder_cases::matrices(folder.path()));
}

#[test]
fn correlated_shots_are_decoded_as_rust_and_pymatching_do() {
    let folder = tempfile::tempdir().expect("a folder");
    answers([decoder_cases::correlated_circuit(folder.path())]);
}

#[test]
fn a_decoder_is_owned_and_shared_by_threads() {
    check("decoder.cpp", &[]);
}

#[test]
fn invalid_arguments_of_decoders_are_refused() {
    check("decoder_invalid.c", &[]);
}

#[test]
fn relay_decoders_decode_alone_and_over_a_ring() {
    check("relay.c", &[]);
}
