//! Checks and times correlated matching on lines of `tests/data/make_correlated.py` from standard input.
//!
//! `check_correlated [THOROUGH [ROUNDS]]`: every THOROUGH-th shot is checked in full (100), and all are timed ROUNDS
//! times (3; the best counts).
#![allow(clippy::print_stdout)]

#[path = "../tests/common/correlated.rs"]
mod common;

use std::io::BufRead;
use std::time::{Duration, Instant};

use common::{Checker, Outcome};
use ringcall_matching::DecoderConfig;

fn main() {
    let mut args = std::env::args().skip(1).map(|arg| arg.parse::<usize>().expect("a number"));
    let thorough = args.next().unwrap_or(100).max(1);
    let rounds = args.next().unwrap_or(3).max(1);
    let mut wrong = 0;
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (model, shots) = common::parse(&line);
        let mut checker = Checker::new(model, &DecoderConfig::default());
        let [mut first, mut second, mut other, mut ours, mut theirs] = [0; 5];
        for (i, shot) in shots.iter().enumerate() {
            match checker.check(shot, i % thorough == 0) {
                Ok(Outcome::Same) => {}
                Ok(Outcome::FirstTie) => first += 1,
                Ok(Outcome::SecondTie) => second += 1,
                Err(e) => {
                    wrong += 1;
                    println!("{e}: shot {i}, defects {:?}", shot.defects);
                }
            }
            let Some((answer, truth)) = shot.answer.as_ref().and_then(|a| Some((a, a.truth.as_ref()?)))
            else {
                continue;
            };
            theirs += usize::from(answer.observables != *truth);
            let found = checker.predicted(shot);
            ours += usize::from(found != *truth);
            other += usize::from(found != answer.observables);
        }
        let mut times = vec![Duration::MAX; shots.len()];
        for _ in 0..rounds {
            for (shot, best) in shots.iter().zip(&mut times) {
                let begin = Instant::now();
                let _ = std::hint::black_box(
                    checker.decoder.decode(&shot.defects).map(ringcall_matching::Solution::weight),
                );
                *best = begin.elapsed().min(*best);
            }
        }
        times.sort_unstable();
        let mean = times.iter().sum::<Duration>().as_secs_f64() / times.len().max(1) as f64 * 1e6;
        let at = |q: f64| {
            times.get(((times.len().max(1) - 1) as f64 * q) as usize).map_or(0.0, |t| t.as_secs_f64() * 1e6)
        };
        println!(
            "{} detectors, {} shots: {wrong} wrong, {first} ties in the first pass, {second} in the second, {other} other predictions; logical errors {ours}, PyMatching {theirs}; us mean {mean:.2} p50 {:.2} p99 {:.2} max {:.2}",
            checker.decoder.graph().num_detectors(),
            shots.len(),
            at(0.5),
            at(0.99),
            at(1.0),
        );
    }
    std::process::exit(i32::from(wrong > 0));
}
