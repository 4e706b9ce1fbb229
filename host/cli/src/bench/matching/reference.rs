//! Reference decoders, each in a process of its own; `oracles/src/core/main.rs` describes the protocol.

use super::Problem;
use anyhow::{Context, Result, anyhow, bail};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::time::Duration;

/// Longer than any block of requests takes.
const TIMEOUT: Duration = Duration::from_secs(300);
/// More bytes than a block's answers take.
const LONGEST: usize = 1 << 24;
/// The executable of `oracles`.
const CORE: &str = "ringcall-matching-core";
/// The program that calls the Python package.
const PIP: &str = include_str!("reference.py");
/// Its exit code if the package is missing.
const NO_PACKAGE: i32 = 3;

/// Time and answer of one request, all its shots together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Answer {
    pub(super) ns: u64,
    pub(super) weight: f64,
    pub(super) observables: u64,
}

/// Whether this machine has the decoder.
pub(super) enum Start {
    Running(Reference),
    /// The decoder is missing, for this reason.
    Absent(String),
}

/// A decoder in a process of its own, on one graph.
pub(super) struct Reference {
    child: Child,
    name: String,
    frames: Sender<Vec<u8>>,
    answers: Receiver<std::io::Result<Vec<u8>>>,
}

/// Starts PyMatching's C++ core: the named executable, or the one next to this program.
pub(super) fn start_core(asked: Option<&Path>, problem: &Problem) -> Result<Start> {
    let path = match asked {
        Some(path) => path.to_owned(),
        None => match beside_us() {
            Some(path) => path,
            None => {
                return Ok(Start::Absent(format!(
                    "there is no `{CORE}` beside `ringcall`; `cargo build --release --manifest-path \
                     oracles/Cargo.toml --target-dir target` builds it there"
                )));
            }
        },
    };
    let child = Reference::spawn(&mut Command::new(&path)).with_context(|| format!("{}", path.display()))?;
    Reference::greet(child, problem).map(Start::Running).with_context(|| format!("{}", path.display()))
}

fn beside_us() -> Option<PathBuf> {
    let path = std::env::current_exe().ok()?.parent()?.join(CORE);
    path.is_file().then_some(path)
}

/// Starts the Python package that `python3` finds.
pub(super) fn start_pip(problem: &Problem) -> Result<Start> {
    let Ok(child) = Reference::spawn(Command::new("python3").args(["-c", PIP])) else {
        return Ok(Start::Absent("there is no `python3`".to_owned()));
    };
    match Reference::greet(child, problem) {
        Ok(running) => Ok(Start::Running(running)),
        Err(error) if error.downcast_ref() == Some(&Ended(Some(NO_PACKAGE))) => {
            Ok(Start::Absent("`python3` has no package `pymatching`".to_owned()))
        }
        Err(error) => Err(error.context("the Python package `pymatching`")),
    }
}

/// The process ended instead of answering, with this exit code.
#[derive(Debug, PartialEq, Eq)]
struct Ended(Option<i32>);

impl std::fmt::Display for Ended {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "it ended instead of answering")?;
        self.0.map_or(Ok(()), |code| write!(f, ", with code {code}"))
    }
}

impl std::error::Error for Ended {}

impl Reference {
    fn spawn(command: &mut Command) -> std::io::Result<Child> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()
    }

    /// Sends the graph and receives the decoder's name.
    fn greet(mut child: Child, problem: &Problem) -> Result<Self> {
        let (frames, to_send) = channel::<Vec<u8>>();
        let (give, answers) = channel();
        let (input, output) = (child.stdin.take(), child.stdout.take());
        // Reads and writes block; on a thread of their own, waiting for them has a bound.
        std::thread::spawn(move || {
            let (Some(mut input), Some(mut output)) = (input, output) else { return };
            for frame in to_send {
                let answer = write(&mut input, &frame).and_then(|()| read(&mut output));
                if give.send(answer).is_err() {
                    return;
                }
            }
        });
        let mut this = Self { child, name: String::new(), frames, answers };
        let name = this.exchange(problem.graph_frame())?;
        this.name = String::from_utf8_lossy(&name).into_owned();
        Ok(this)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// Decodes these requests, one after the other.
    pub(super) fn decode(
        &mut self,
        problem: &Problem,
        requests: impl Iterator<Item = usize> + Clone,
    ) -> Result<Vec<Answer>> {
        let expected = requests.clone().count();
        let bytes = self.exchange(problem.frame(requests)).with_context(|| self.name.clone())?;
        let (answers, rest) = bytes.as_chunks::<24>();
        if answers.len() != expected || !rest.is_empty() {
            bail!("{}: {} bytes answer {expected} requests", self.name, bytes.len());
        }
        let word = |answer: &[u8; 24], index: usize| answer.as_chunks::<8>().0[index];
        Ok(answers
            .iter()
            .map(|answer| Answer {
                ns: u64::from_le_bytes(word(answer, 0)),
                weight: f64::from_le_bytes(word(answer, 1)),
                observables: u64::from_le_bytes(word(answer, 2)),
            })
            .collect())
    }

    fn exchange(&mut self, frame: Vec<u8>) -> Result<Vec<u8>> {
        self.frames.send(frame).map_err(|_| anyhow!("nobody sends to it any more"))?;
        match self.answers.recv_timeout(TIMEOUT) {
            Ok(Ok(answer)) => Ok(answer),
            // The process shares this one's standard error, where it says why.
            Ok(Err(_)) => bail!(Ended(self.end())),
            Err(_) => bail!("no answer within {} s", TIMEOUT.as_secs()),
        }
    }

    /// Waits a moment for a process that has closed its output to end. Returns its exit code.
    fn end(&mut self) -> Option<i32> {
        for _ in 0..100 {
            if let Ok(Some(status)) = self.child.try_wait() {
                return status.code();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        None
    }
}

impl Drop for Reference {
    fn drop(&mut self) {
        // A kill loses nothing of value.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn write(input: &mut impl Write, frame: &[u8]) -> std::io::Result<()> {
    let length = u32::try_from(frame.len()).map_err(|_| std::io::ErrorKind::InvalidInput)?;
    input.write_all(&length.to_le_bytes())?;
    input.write_all(frame)?;
    input.flush()
}

fn read(output: &mut impl Read) -> std::io::Result<Vec<u8>> {
    let mut length = [0; 4];
    output.read_exact(&mut length)?;
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        return Err(std::io::ErrorKind::InvalidData.into());
    }
    let mut frame = vec![0; length];
    output.read_exact(&mut frame)?;
    Ok(frame)
}
