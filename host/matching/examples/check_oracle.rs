//! Checks any number of problems from standard input: `tests/data/make.py random SEED COUNT | check_oracle`.
#![allow(clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::io::BufRead;

use ringcall_matching::Decoder;

fn main() {
    let (mut graphs, mut shots, mut ties, mut wrong) = (0u64, 0u64, 0u64, 0u64);
    for line in std::io::stdin().lock().lines().map_while(Result::ok) {
        let (graph, list) = common::parse(&line);
        graphs += 1;
        for config in common::configs() {
            let mut decoder = Decoder::with_config(graph.clone(), &config);
            for shot in &list {
                shots += 1;
                match common::check(&mut decoder, shot) {
                    Ok(same) => ties += u64::from(!same),
                    Err(e) => {
                        wrong += 1;
                        if wrong <= 20 {
                            println!("{e}: {config:?}, defects {:?}\n{line}", shot.defects);
                        }
                    }
                }
            }
        }
    }
    println!("{graphs} graphs, {shots} decodes, {wrong} wrong, {ties} predictions differ at ties");
    std::process::exit(i32::from(wrong > 0));
}
