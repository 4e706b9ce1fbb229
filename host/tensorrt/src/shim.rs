//! The shim, compiled once for each set of headers and compiler, and kept.

use crate::folder::{self, Key};
use crate::{Search, TensorRtError};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

const HEADER: &str = include_str!("../shim/shim.h");
const SOURCE: &str = include_str!("../shim/shim.cpp");
/// A replacement for CUDA's header, without which TensorRT's headers cannot be read.
const CUDA_HEADER: &str = include_str!("../shim/cuda/cuda_runtime_api.h");
/// Hidden symbols, so that shims for several versions do not meet in one process.
const FLAGS: [&str; 9] = [
    "-std=c++17",
    "-O2",
    "-fPIC",
    "-shared",
    "-fvisibility=hidden",
    "-fvisibility-inlines-hidden",
    "-Wno-deprecated-declarations",
    "-Wl,-z,defs",
    "-Wl,-z,now",
];
/// It takes seconds.
const TIMEOUT: Duration = Duration::from_secs(180);

/// A compiled shim's file; compiles it if it is not there yet. `afresh` compiles it even if it is.
pub(crate) fn compiled(search: &Search, headers: &Path, afresh: bool) -> Result<PathBuf, TensorRtError> {
    let folder = match &search.cache {
        Some(path) => path.clone(),
        None => folder::user("tensorrt-shim")?,
    };
    folder::prepare(&folder)?;
    let (compiler, version) = compiler(search)?;
    let mut key = Key::default();
    key.add("shim.h", HEADER.as_bytes())
        .add("shim.cpp", SOURCE.as_bytes())
        .add("cuda", CUDA_HEADER.as_bytes());
    key.add("flags", FLAGS.join(" ").as_bytes()).add(&compiler, version.as_bytes());
    let unreadable =
        |why: std::io::Error| TensorRtError::Folder { path: headers.to_owned(), why: why.to_string() };
    for (name, path) in own_headers(headers).map_err(unreadable)? {
        key.add(&name, &fs::read(path).map_err(unreadable)?);
    }
    let path = folder.join(format!("{}.so", key.finish()));
    if afresh || !path.is_file() {
        compile(&compiler, headers, &folder, &path)?;
    }
    Ok(path)
}

/// TensorRT's headers in a folder, which may have thousands of others.
fn own_headers(folder: &Path) -> std::io::Result<Vec<(String, PathBuf)>> {
    let mut all = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.starts_with("Nv") && name.ends_with(".h") {
            all.push((name, entry.path()));
        }
    }
    all.sort_unstable();
    Ok(all)
}

/// The first compiler that reports its version, and the version.
fn compiler(search: &Search) -> Result<(String, String), TensorRtError> {
    let named = search.compiler.clone().or_else(|| std::env::var("CXX").ok().filter(|name| !name.is_empty()));
    let tried = match named {
        Some(name) => vec![name],
        None => ["c++", "g++", "clang++"].map(str::to_owned).to_vec(),
    };
    for name in &tried {
        let output = Command::new(name).arg("--version").stdin(Stdio::null()).output();
        if let Ok(output) = output
            && output.status.success()
        {
            return Ok((name.clone(), String::from_utf8_lossy(&output.stdout).into_owned()));
        }
    }
    Err(TensorRtError::NoCompiler { tried })
}

fn compile(compiler: &str, headers: &Path, folder: &Path, path: &Path) -> Result<(), TensorRtError> {
    let unusable =
        |why: std::io::Error| TensorRtError::Folder { path: folder.to_owned(), why: why.to_string() };
    // Everything beside its path, so that the rename is one step; the folder goes away in every case.
    let work = tempfile::tempdir_in(folder).map_err(unusable)?;
    let at = |name: &str| work.path().join(name);
    fs::create_dir(at("cuda")).map_err(unusable)?;
    for (name, text) in [("shim.h", HEADER), ("shim.cpp", SOURCE), ("cuda/cuda_runtime_api.h", CUDA_HEADER)] {
        fs::write(at(name), text).map_err(unusable)?;
    }
    let log = fs::File::create(at("log")).map_err(unusable)?;
    let failed = |log: String| TensorRtError::Compiler {
        compiler: compiler.to_owned(),
        headers: headers.to_owned(),
        log,
    };
    let mut command = Command::new(compiler);
    command.args(FLAGS).arg("-isystem").arg(headers).arg("-idirafter").arg(at("cuda"));
    command.arg(at("shim.cpp")).arg("-o").arg(at("shim.so"));
    let both = log.try_clone().map_err(unusable)?;
    command.stdin(Stdio::null()).stdout(both).stderr(log);
    let mut child = command.spawn().map_err(|why| failed(why.to_string()))?;
    let begun = Instant::now();
    let status = loop {
        match child.try_wait().map_err(|why| failed(why.to_string()))? {
            Some(status) => break status,
            None if begun.elapsed() > TIMEOUT => {
                // It may have ended just now, and then there is nothing to kill.
                let _ = child.kill();
                let _ = child.wait();
                return Err(failed(format!("no end within {} s", TIMEOUT.as_secs())));
            }
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    };
    if !status.success() {
        let text = fs::read(at("log")).unwrap_or_default();
        return Err(failed(first_error(&String::from_utf8_lossy(&text), &status.to_string())));
    }
    fs::File::open(at("shim.so")).and_then(|file| file.sync_all()).map_err(unusable)?;
    fs::rename(at("shim.so"), path).map_err(unusable)
}

/// The line that names the fault: the rest of a compiler's pages follows from it.
fn first_error(log: &str, status: &str) -> String {
    let line = log.lines().find(|line| line.contains("error")).or_else(|| log.lines().next());
    line.map_or_else(|| status.to_owned(), |line| line.trim().chars().take(400).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn search(cache: &Path) -> Search {
        Search::new().with_cache(cache)
    }

    fn entries(folder: &Path) -> usize {
        fs::read_dir(folder).expect("listed").count()
    }

    #[test]
    fn without_a_compiler_the_error_says_what_to_install() {
        let home = tempfile::tempdir().expect("a folder");
        let search = search(&home.path().join("cache")).with_compiler("no-such-compiler");
        let why = compiled(&search, home.path(), false).expect_err("no compiler").to_string();
        assert!(why.contains("install g++ or clang++") && why.contains("no-such-compiler"), "{why}");
    }

    #[test]
    fn headers_that_do_not_compile_are_named_with_the_first_error_and_leave_nothing() {
        let home = tempfile::tempdir().expect("a folder");
        let (cache, headers) = (home.path().join("cache"), home.path().join("include"));
        fs::create_dir(&headers).expect("made");
        fs::write(headers.join("NvInfer.h"), "#error these are no headers\n").expect("written");
        let why = match compiled(&search(&cache), &headers, false) {
            Err(TensorRtError::NoCompiler { .. }) => {
                eprintln!("skipped: no C++ compiler");
                return;
            }
            other => other.expect_err("no headers").to_string(),
        };
        assert!(why.contains("these are no headers") && why.contains("include"), "{why}");
        assert!(!why.contains('\n'), "{why}");
        assert_eq!(entries(&cache), 0, "nothing is left behind");
    }

    #[test]
    fn only_tensorrts_headers_make_the_key() {
        let home = tempfile::tempdir().expect("a folder");
        for name in ["NvInfer.h", "NvOnnxParser.h", "stdio.h", "NvInfer.h.orig"] {
            fs::write(home.path().join(name), "").expect("written");
        }
        let names: Vec<String> =
            own_headers(home.path()).expect("read").into_iter().map(|(name, _)| name).collect();
        assert_eq!(names, ["NvInfer.h", "NvOnnxParser.h"]);
    }
}
