//! What is said where something is missing. Needs nothing of NVIDIA's: a library that only says a version stands for
//! TensorRT up to the point where headers are looked for.

use ringcall_tensorrt::{Library, Search, TensorRtError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A shared library with the version functions alone; none without a C compiler.
fn stand_in(folder: &Path, major: u32) -> Option<PathBuf> {
    let functions: Vec<String> = [("Major", major), ("Minor", 4), ("Patch", 0), ("Build", 1)]
        .iter()
        .map(|(part, number)| format!("int getInferLib{part}Version(void) {{ return {number}; }}\n"))
        .collect();
    let (source, library) = (folder.join("stand_in.c"), folder.join(format!("libnvinfer.so.{major}")));
    fs::write(&source, functions.concat()).expect("written");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    status.is_ok_and(|status| status.success()).then_some(library)
}

/// `NvInferVersion.h` and its like, which say a version and do not compile.
fn headers(folder: &Path) {
    fs::create_dir(folder).expect("made");
    for name in ["NvInfer.h", "NvOnnxParser.h"] {
        fs::write(folder.join(name), "#error not TensorRT's\n").expect("written");
    }
    let lines = [("MAJOR", 11), ("MINOR", 4), ("PATCH", 0), ("BUILD", 1)]
        .map(|(part, number)| format!("#define NV_TENSORRT_{part} {number}\n"));
    fs::write(folder.join("NvInferVersion.h"), lines.concat()).expect("written");
}

fn open(search: &Search) -> TensorRtError {
    let why = Library::open(search).expect_err("something is missing");
    assert!(!why.to_string().contains('\n'), "one line: {why}");
    why
}

#[test]
fn each_missing_piece_is_one_clear_error() {
    let home = tempfile::tempdir().expect("a folder");
    let search = Search::new().with_cache(home.path().join("shims"));

    let why = open(&search.clone().with_library(home.path()));
    assert!(matches!(why, TensorRtError::NoLibrary { .. }), "{why}");
    assert!(why.to_string().contains("install TensorRT from NVIDIA's packages"), "{why}");

    let Some(library) = stand_in(home.path(), 11) else {
        eprintln!("skipped: the rest: no C compiler");
        return;
    };
    let search = search.with_library(library);
    let why = open(&search.clone().with_include(home.path()));
    assert!(matches!(why, TensorRtError::NoHeaders { .. }), "{why}");
    assert!(why.to_string().contains("no headers for TensorRT 11.4.0.1: install the package"), "{why}");

    let include = home.path().join("include");
    headers(&include);
    let search = search.with_include(&include);
    let why = open(&search.clone().with_compiler("no-such-compiler"));
    assert!(matches!(why, TensorRtError::NoCompiler { .. }), "{why}");
    assert!(why.to_string().contains("install g++ or clang++"), "{why}");

    let why = open(&search.clone().with_compiler("cc"));
    assert!(matches!(why, TensorRtError::Compiler { .. }), "{why}");
    assert!(why.to_string().contains("not TensorRT's"), "{why}");

    let file = home.path().join("a file");
    fs::write(&file, "").expect("written");
    let why = open(&search.with_cache(file.join("shims")));
    assert!(matches!(why, TensorRtError::Folder { .. }), "{why}");
    assert!(why.to_string().contains("RINGCALL_CACHE names another"), "{why}");
}

#[test]
fn a_library_that_is_too_old_or_another_is_refused() {
    let home = tempfile::tempdir().expect("a folder");
    let Some(library) = stand_in(home.path(), 8) else {
        eprintln!("skipped: no C compiler");
        return;
    };
    let why = open(&Search::new().with_library(library));
    assert!(why.to_string().contains("of version 8.4: TensorRT 10 is the oldest"), "{why}");
    let other = home.path().join("other.c");
    fs::write(&other, "int other(void) { return 0; }\n").expect("written");
    let library = home.path().join("libother.so");
    let status = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&other).status();
    assert!(status.expect("a compiler").success());
    let why = open(&Search::new().with_library(library));
    assert!(why.to_string().contains("it is no TensorRT 10 or later"), "{why}");
}
