//! Readers for the files of columns and of shots that `relay_bp_bench` describes.

use std::error::Error;

use ringcall_bp::{BpGraph, BpGraphBuilder};

/// The defects of a shot, and the observables that its errors flipped, eight a byte.
pub(crate) struct Shot {
    /// The checks that fired.
    pub(crate) defects: Vec<u32>,
    /// Bits of the observables.
    pub(crate) observables: Vec<u8>,
}

/// The graph of a file of columns.
pub(crate) fn problem(path: &str) -> Result<BpGraph, Box<dyn Error>> {
    let text = std::fs::read_to_string(path)?;
    let mut lines = text.lines();
    let header = numbers(lines.next().unwrap_or_default())?;
    let [checks, observables] = header[..] else {
        return Err("the first line has two numbers: checks and observables".into());
    };
    let mut builder = BpGraphBuilder::new(checks, observables);
    for line in lines {
        let (probability, rest) = line.split_once(' ').ok_or("a line has a probability and checks")?;
        let (checks, observables) = halves(rest)?;
        builder.error(probability.parse()?, &checks, &observables)?;
    }
    Ok(builder.build()?)
}

/// The shots of a file.
pub(crate) fn shots(path: &str, observable_bytes: usize) -> Result<Vec<Shot>, Box<dyn Error>> {
    let read = |line: &str| -> Result<Shot, Box<dyn Error>> {
        let (defects, flipped) = halves(line)?;
        let mut observables = vec![0; observable_bytes];
        for o in flipped {
            *observables.get_mut(o as usize / 8).ok_or("an observable is out of range")? ^= 1 << (o % 8);
        }
        Ok(Shot { defects, observables })
    };
    std::fs::read_to_string(path)?.lines().map(read).collect()
}

fn halves(line: &str) -> Result<(Vec<u32>, Vec<u32>), Box<dyn Error>> {
    let (before, after) = line.split_once('|').ok_or("a line has a bar before its observables")?;
    Ok((numbers(before)?, numbers(after)?))
}

fn numbers(text: &str) -> Result<Vec<u32>, Box<dyn Error>> {
    Ok(text.split_whitespace().map(str::parse).collect::<Result<_, _>>()?)
}
