//! A signal that ends a command at once: no exit handler runs, the message is printed, and no reader of the output is needed.

use rustix::process::{Pid, Signal, kill_process};
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// A library whose destructor makes a file. The destructor runs if a process ends through its exit handlers.
fn library(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("handler.c"), folder.join("libhandler.so"));
    let text = "#include <fcntl.h>\n#include <stdlib.h>\n#include <unistd.h>\n\
        __attribute__((destructor)) static void told(void) {\n\
          const char *path = getenv(\"RINGCALL_TEST_HANDLER\");\n\
          if (path) close(open(path, O_CREAT | O_WRONLY, 0600));\n}\n";
    std::fs::write(&source, text).expect("written");
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&source).status();
    assert!(compiled.expect("a C compiler").success());
    library
}

fn ringcall(args: &[&str], folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringcall"));
    command
        .args(args)
        .env("LD_PRELOAD", library(folder))
        .env("RINGCALL_TEST_HANDLER", folder.join("told"))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    command
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).expect("it runs");
}

/// The exit code, once the process has ended. If it has not ended within a minute, the test kills it and fails.
fn ended(child: &mut Child) -> Option<i32> {
    let begin = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("a child") {
            return status.code();
        }
        if begin.elapsed() > Duration::from_secs(60) {
            child.kill().expect("it runs");
            panic!("it goes on for a minute after the signal");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn a_signal_ends_a_command_without_its_exit_handlers() {
    let folder = tempfile::tempdir().expect("a folder");
    let told = folder.path().join("told");
    let output = ringcall(&["--version"], folder.path()).output().expect("ran");
    assert!(output.status.success() && told.exists(), "a process that ends by itself runs its handlers");
    std::fs::remove_file(&told).expect("removed");

    for (number, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        let args = ["bench", "floor-host", "--trips", "1e12", "--json"];
        let json = folder.path().join("rows.json");
        let mut command = ringcall(&args, folder.path());
        let mut child = command.arg(&json).spawn().expect("started");
        let mut lines = BufReader::new(child.stdout.take().expect("piped"));
        let mut heading = String::new();
        lines.read_line(&mut heading).expect("a line");
        assert!(heading.starts_with("a round trip"), "{heading}");
        signal(&child, number);
        assert_eq!(ended(&mut child), Some(code));
        let mut said = String::new();
        child.stderr.take().expect("piped").read_to_string(&mut said).expect("text");
        let words = format!("ringcall: stopped by signal {} before it had finished", code - 128);
        assert!(said.lines().any(|line| line == words), "{said}");
        assert!(!told.exists(), "an exit handler ran beside the threads that measure");
        assert!(!json.exists(), "no row was there to write");
    }
}

/// The main thread holds standard output and waits for a reader.
#[test]
fn a_signal_ends_a_command_whose_output_nobody_reads() {
    let folder = tempfile::tempdir().expect("a folder");
    let dem = format!("{}/tests/data/predict/surface.dem", env!("CARGO_MANIFEST_DIR"));
    let mut command = ringcall(&["predict", "--dem", &dem, "--in", "/dev/zero"], folder.path());
    let mut child = command.spawn().expect("started");
    // The first byte says that more bytes follow than a pipe holds.
    let mut out = child.stdout.take().expect("piped");
    out.read_exact(&mut [0]).expect("a byte");
    std::thread::sleep(Duration::from_millis(300));
    signal(&child, Signal::INT);
    assert_eq!(ended(&mut child), Some(130));
    assert!(!folder.path().join("told").exists());
    drop(out);
}
