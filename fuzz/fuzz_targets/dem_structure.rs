//! Error models by their structure: instructions, nested repetitions and shifts, written as text and read, against a reader that
//! knows nothing but the list of errors that the text stands for.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringcall_qec::dem::text::{self, Limits};
use std::fmt::Write;

#[derive(Arbitrary, Debug)]
enum Instruction {
    /// Parts, each with detectors and observables.
    Error {
        p: u8,
        parts: Vec<(Vec<u8>, Vec<u8>)>,
        tagged: bool,
    },
    Detector {
        coordinates: Vec<i8>,
        detectors: Vec<u8>,
    },
    Observable {
        observable: u8,
    },
    Shift {
        coordinates: Vec<i8>,
        by: u8,
    },
    Repeat {
        count: u8,
        body: Vec<Instruction>,
    },
}

/// An error as the text stands for it: detectors and observables that flip, each an odd number of times.
#[derive(Debug, PartialEq)]
struct Flips {
    p: f64,
    detectors: Vec<u32>,
    observables: Vec<u32>,
}

#[derive(Default)]
struct Expected {
    errors: Vec<Flips>,
    detectors: u64,
    observables: u64,
    shift: u64,
    instructions: usize,
}

const MOST_DETECTORS: u64 = 1 << 12;
const MOST_INSTRUCTIONS: usize = 1 << 10;

fn odd(mut targets: Vec<u32>) -> Vec<u32> {
    targets.sort_unstable();
    targets.chunk_by(|a, b| a == b).filter(|same| same.len() % 2 == 1).map(|same| same[0]).collect()
}

impl Expected {
    /// What the instructions stand for; `None` where it is more than this target wants to see.
    fn take(&mut self, instructions: &[Instruction], depth: usize) -> Option<()> {
        for instruction in instructions {
            self.instructions += 1;
            if self.instructions > MOST_INSTRUCTIONS || depth > 4 {
                return None;
            }
            match instruction {
                Instruction::Error { p, parts, .. } => {
                    let all = |of: fn(&(Vec<u8>, Vec<u8>)) -> &Vec<u8>, shift: u64| -> Vec<u32> {
                        parts.iter().flat_map(of).map(|&index| (u64::from(index) + shift) as u32).collect()
                    };
                    let (detectors, observables) = (all(|part| &part.0, self.shift), all(|part| &part.1, 0));
                    for &detector in &detectors {
                        self.detectors = self.detectors.max(u64::from(detector) + 1);
                    }
                    for &observable in &observables {
                        self.observables = self.observables.max(u64::from(observable) + 1);
                    }
                    let p = probability(*p);
                    self.errors.push(Flips { p, detectors: odd(detectors), observables: odd(observables) });
                }
                Instruction::Detector { detectors, .. } => {
                    for &detector in detectors {
                        self.detectors = self.detectors.max(u64::from(detector) + self.shift + 1);
                    }
                }
                Instruction::Observable { observable } => {
                    self.observables = self.observables.max(u64::from(*observable) + 1);
                }
                Instruction::Shift { by, .. } => self.shift += u64::from(*by),
                Instruction::Repeat { count, body } => {
                    for _ in 0..count % 8 {
                        self.take(body, depth + 1)?;
                    }
                }
            }
            if self.shift + 256 > MOST_DETECTORS {
                return None;
            }
        }
        Some(())
    }
}

fn probability(p: u8) -> f64 {
    f64::from(p % 128) / 256.0
}

fn write(text: &mut String, instructions: &[Instruction], indent: usize) {
    let space = " ".repeat(indent);
    let numbers = |list: &[i8]| {
        let list: Vec<String> = list.iter().map(ToString::to_string).collect();
        if list.is_empty() { String::new() } else { format!("({})", list.join(", ")) }
    };
    for instruction in instructions {
        let _ = match instruction {
            Instruction::Error { p, parts, tagged } => {
                let _ =
                    write!(text, "{space}error{}({})", if *tagged { "[a tag]" } else { "" }, probability(*p));
                for (i, (detectors, observables)) in parts.iter().enumerate() {
                    let _ = text.write_str(if i > 0 { " ^" } else { "" });
                    detectors.iter().for_each(|d| drop(write!(text, " D{d}")));
                    observables.iter().for_each(|l| drop(write!(text, " L{l}")));
                }
                writeln!(text)
            }
            Instruction::Detector { coordinates, detectors } => {
                let _ = write!(text, "{space}detector{}", numbers(coordinates));
                detectors.iter().for_each(|d| drop(write!(text, " D{d}")));
                writeln!(text)
            }
            Instruction::Observable { observable } => {
                writeln!(text, "{space}logical_observable L{observable}")
            }
            Instruction::Shift { coordinates, by } => {
                writeln!(text, "{space}shift_detectors{} {by}", numbers(coordinates))
            }
            Instruction::Repeat { count, body } => {
                let _ = writeln!(text, "{space}repeat {} {{", count % 8);
                write(text, body, indent + 2);
                writeln!(text, "{space}}}")
            }
        };
    }
}

fuzz_target!(|instructions: Vec<Instruction>| {
    let mut expected = Expected::default();
    if expected.take(&instructions, 0).is_none() {
        return;
    }
    let mut text = String::new();
    write(&mut text, &instructions, 0);
    let limits = Limits { detectors: 1 << 13, observables: 1 << 9, instructions: 1 << 14, targets: 1 << 20 };
    // What Stim does not write may be refused (an empty part, a repetition of nothing), and what is read is what it stands for.
    let Ok(model) = text::parse_with_limits(text.as_bytes(), limits) else { return };
    model.validate().expect("what was read is a model");
    assert!(u64::from(model.num_detectors) >= expected.detectors, "{text}");
    assert!(u64::from(model.num_observables) >= expected.observables, "{text}");
    let found = model.mechanisms.iter().map(|mechanism| Flips {
        p: mechanism.probability,
        detectors: mechanism.detectors.clone(),
        observables: mechanism.observables.clone(),
    });
    // Errors that flip nothing, or never happen, may be left out.
    let counts =
        |flips: &Flips| flips.p > 0.0 && !(flips.detectors.is_empty() && flips.observables.is_empty());
    let found: Vec<Flips> = found.filter(counts).collect();
    let expected: Vec<Flips> = expected.errors.into_iter().filter(counts).collect();
    assert_eq!(found, expected, "{text}");
});
