//! PyMatching's C++ core as a server on standard input and output, for `ringcall bench matching`.
//!
//! Frames are a length (`u32`) and that many bytes, all numbers little-endian. The first asked for is the graph:
//! detectors, observables (at most 64), `u32` each, then edges of two ends (`u32`, the second `u32::MAX` for the boundary), a
//! weight (`f64`) and a mask of observables (`u64`). It is answered by the server's name. Every further one is a list of
//! requests, each a number of shots, and for each shot the number of its defects and these, all `u32`. It is answered
//! by three numbers a request: nanoseconds (`u64`), weight (`f64`), mask of observables (`u64`), of its shots together.
//! The end of input ends the server.

mod ffi;

use std::io::{Read, Write};

use anyhow::{Context, Result, bail};

use ffi::{Core, Edge};

/// Longer than any graph or list of requests that makes sense.
const LONGEST: usize = 1 << 30;

fn main() -> Result<()> {
    let (mut input, mut output) = (std::io::stdin().lock(), std::io::stdout().lock());
    let Some(frame) = read(&mut input)? else { return Ok(()) };
    let mut core = graph(&frame)?;
    write(&mut output, format!("PyMatching's C++ core, {}", env!("CORE_VERSION")).as_bytes())?;
    while let Some(frame) = read(&mut input)? {
        let mut rest = Words(&frame);
        let (mut answers, mut defects, mut offsets) = (Vec::new(), Vec::new(), Vec::new());
        while !rest.0.is_empty() {
            defects.clear();
            offsets.clear();
            offsets.push(0);
            for _ in 0..rest.u32()? {
                for _ in 0..rest.u32()? {
                    defects.push(rest.u32()?);
                }
                offsets.push(defects.len() as u32);
            }
            let answer = core.decode(&defects, &offsets)?;
            answers.extend(answer.ns.to_le_bytes());
            answers.extend(answer.weight.to_le_bytes());
            answers.extend(answer.observables.to_le_bytes());
        }
        write(&mut output, &answers)?;
    }
    Ok(())
}

fn graph(frame: &[u8]) -> Result<Core> {
    let mut rest = Words(frame);
    let (detectors, observables) = (rest.u32()?, rest.u32()?);
    let mut edges = Vec::new();
    while !rest.0.is_empty() {
        let (u, v) = (rest.u32()?, rest.u32()?);
        let weight = f64::from_le_bytes(rest.take()?);
        edges.push(Edge { u, v, weight, observables: u64::from_le_bytes(rest.take()?) });
    }
    Core::new(detectors, observables, &edges)
}

/// What is left of a frame.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn take<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (word, rest) = self.0.split_first_chunk().context("the frame ends within a number")?;
        self.0 = rest;
        Ok(*word)
    }

    fn u32(&mut self) -> Result<u32> {
        Ok(u32::from_le_bytes(self.take()?))
    }
}

/// The next frame, if there is one.
fn read(input: &mut impl Read) -> Result<Option<Vec<u8>>> {
    let mut length = [0; 4];
    match input.read_exact(&mut length) {
        Err(e) if e.kind() == std::io::ErrorKind::UnexpectedEof => return Ok(None),
        other => other?,
    }
    let length = u32::from_le_bytes(length) as usize;
    if length > LONGEST {
        bail!("a frame of {length} bytes is too long");
    }
    let mut frame = vec![0; length];
    input.read_exact(&mut frame)?;
    Ok(Some(frame))
}

fn write(output: &mut impl Write, frame: &[u8]) -> Result<()> {
    output.write_all(&u32::try_from(frame.len())?.to_le_bytes())?;
    output.write_all(frame)?;
    Ok(output.flush()?)
}
