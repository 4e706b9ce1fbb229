//! A study's state after anything that may happen to a file: lines lost, doubled, in another order, damaged, cut, of another study.
//! Either it is refused, or its counts are those of the lines that are there, by a reader that knows nothing but JSON.
#![no_main]

use arbitrary::Arbitrary;
use libfuzzer_sys::fuzz_target;
use ringcall_decoder_service::study::{Matching, Point, Relay, Setup, State, Stop, Study};
use ringcall_qec::code::Basis;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::OnceLock;

#[derive(Arbitrary, Debug)]
enum Change {
    Lose {
        line: u8,
    },
    Double {
        line: u8,
    },
    Swap {
        a: u8,
        b: u8,
    },
    Damage {
        line: u8,
        at: u16,
        by: u8,
    },
    /// A line of the study with another seed.
    Foreign {
        at: u8,
        line: u8,
    },
    /// A line of somebody else's.
    Insert {
        at: u8,
        text: Vec<u8>,
    },
}

/// Two small studies that differ by their seeds alone, and what they wrote.
struct Written {
    setup: Setup,
    point: Point,
    stop: Stop,
    own: Vec<Vec<u8>>,
    foreign: Vec<Vec<u8>>,
}

fn written() -> &'static Written {
    static WRITTEN: OnceLock<Written> = OnceLock::new();
    WRITTEN.get_or_init(|| {
        let point = Point::surface(3, 3, Basis::Z, 0.02);
        let study = |seed| Study {
            program: "fuzz".to_owned(),
            seed,
            batch_shots: 100,
            matching: Matching::Plain,
            relay: Relay::default(),
            predecoder: None,
            points: vec![point],
            stop: Stop { shots: 800, errors: None },
            threads: 1,
            shard: None,
            deadline: None,
            models: BTreeMap::new(),
        };
        let lines = |study: &Study<'_>| {
            let (mut state, mut log) = (State::new(study.setup()), Vec::new());
            study.run(&mut state, &mut log, &mut |_| true).expect("a study");
            log.split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect::<Vec<_>>()
        };
        let (one, other) = (study(1), study(2));
        let (own, foreign) = (lines(&one), lines(&other));
        assert!(own.len() > 8 && own != foreign);
        Written { setup: one.setup(), point, stop: one.stop, own, foreign }
    })
}

/// Shots and errors of the batches from 0 on without a gap, of lines that this study wrote.
fn counted(lines: &[Vec<u8>]) -> (u64, u64) {
    let number = |value: &Value| value.as_u64().expect("a number");
    let mut batches = BTreeMap::new();
    for line in lines {
        let record: Value = serde_json::from_slice(line).expect("a line of the study");
        batches.insert(
            number(&record["batch"]),
            (number(&record["tally"]["shots"]), number(&record["tally"]["errors"])),
        );
    }
    let whole = (0..).map_while(|batch| batches.get(&batch));
    whole.fold((0, 0), |sum, batch| (sum.0 + batch.0, sum.1 + batch.1))
}

fn change(lines: &mut Vec<Vec<u8>>, foreign: &[Vec<u8>], change: Change) {
    let pick = |line: u8| usize::from(line) % lines.len().max(1);
    match change {
        Change::Lose { line } if !lines.is_empty() => drop(lines.remove(pick(line))),
        Change::Double { line } if !lines.is_empty() && lines.len() < 32 => {
            lines.push(lines[pick(line)].clone())
        }
        Change::Swap { a, b } if !lines.is_empty() => {
            let (a, b) = (pick(a), pick(b));
            lines.swap(a, b);
        }
        Change::Damage { line, at, by } if !lines.is_empty() => {
            let line = pick(line);
            let length = lines[line].len();
            lines[line][usize::from(at) % length] ^= by;
        }
        Change::Foreign { at, line } => {
            let at = usize::from(at) % (lines.len() + 1);
            lines.insert(at, foreign[usize::from(line) % foreign.len()].clone());
        }
        Change::Insert { at, text } if !text.is_empty() => {
            let at = usize::from(at) % (lines.len() + 1);
            lines.insert(at, text);
        }
        _ => (),
    }
}

fuzz_target!(|input: (Vec<Change>, Option<u16>)| {
    let (changes, cut) = input;
    let Written { setup, point, stop, own, foreign } = written();
    let mut lines = own.clone();
    for one in changes.into_iter().take(16) {
        change(&mut lines, foreign, one);
    }
    let mut bytes = lines.concat();
    if let Some(cut) = cut {
        bytes.truncate(usize::from(cut) % (bytes.len() + 1));
    }
    let found = State::read(&mut &bytes[..], setup.clone());
    // What is really there, however it came about.
    let whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |end| end + 1);
    let there: Vec<Vec<u8>> =
        bytes[..whole].split_inclusive(|&byte| byte == b'\n').map(<[u8]>::to_vec).collect();
    let (head, records) = match there.split_first() {
        Some((head, records)) => (Some(head), records),
        None => (None, &[][..]),
    };
    let is_ours =
        head.is_none_or(|head| *head == own[0]) && records.iter().all(|line| own[1..].contains(line));
    match found {
        Ok((state, taken)) => {
            assert!(is_ours, "a line that the study did not write was believed");
            assert_eq!(taken as usize, whole);
            let counts = state.outcome(point, stop).counts;
            assert_eq!((counts.shots, counts.errors), counted(records));
        }
        // A part of a line may be refused as somebody else's; whole lines of the study alone never are.
        Err(error) => assert!(!is_ours || whole < bytes.len(), "{error}"),
    }
});
