//! Checks any number of problems from standard input, and counts them by what they contain:
//! `tests/data/make.py random SEED COUNT | check_oracle`.
//!
//! `check_oracle --usual N` decodes under the default trade-offs alone and proves no more than the first N answers of each graph:
//! for circuits of many detectors (`make.py circuit D P SHOTS SEED`).
#![allow(clippy::print_stdout)]

#[path = "../tests/common/mod.rs"]
mod common;

use std::collections::{BTreeMap, HashSet};
use std::error::Error;
use std::io::BufRead;
use std::num::NonZeroU32;

use ringcall_matching::{
    DecoderConfig, MatchingGraph, MwpmDecoder, ParallelConfig, ParallelDecoder, Solution, StreamingDecoder,
};

/// Numbers of graphs, of cases (a graph with defects), and of decodes whose prediction differs at a tie.
#[derive(Default)]
struct Count {
    graphs: u64,
    cases: u64,
    decodes: u64,
    odd: u64,
    ties: u64,
    wrong: u64,
}

/// What a problem contains.
fn modes(line: &str, graph: &MatchingGraph) -> Vec<String> {
    let mut edges = line.split('|').next().unwrap_or_default().split(';');
    let strategy = edges.next().and_then(|head| head.split(' ').nth(2)).unwrap_or_default();
    let mut modes = vec!["all".to_owned(), format!("merge strategy {strategy}")];
    let (mut ends, mut parallel, mut parallel_boundary) = (HashSet::new(), false, false);
    for edge in edges {
        let mut words = edge.split(' ');
        let (u, v) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        if !ends.insert((u.min(v), u.max(v))) {
            *(if v == "b" { &mut parallel_boundary } else { &mut parallel }) = true;
        }
    }
    let mut add = |is: bool, what: &str| {
        if is {
            modes.push(what.to_owned());
        }
    };
    let (edges, n) = (graph.edges(), graph.num_detectors());
    let parts = parts(graph);
    add(parallel, "parallel edges");
    add(parallel_boundary, "parallel edges to the boundary");
    add(edges.iter().any(|e| e.weight < 0.0), "negative weights");
    add(edges.iter().any(|e| e.weight == 0.0), "zero weights");
    add(edges.iter().all(|e| e.weight.fract() == 0.0), "whole weights (ties)");
    add(parts.len() > 1, "several parts");
    add(parts.iter().all(|open| !open), "no boundary");
    add(parts.contains(&true) && parts.contains(&false), "parts with and without boundary");
    add(edges.len() >= 3 * n, "dense (3 edges a detector or more)");
    add(graph.num_observables() > 64, "over 64 observables");
    add(n > 512, "over 512 detectors");
    modes
}

/// For each connected part, whether it has a boundary.
fn parts(graph: &MatchingGraph) -> Vec<bool> {
    let mut part: Vec<usize> = (0..graph.num_detectors()).collect();
    fn root(part: &mut [usize], mut at: usize) -> usize {
        while part[at] != at {
            part[at] = part[part[at]];
            at = part[at];
        }
        at
    }
    for edge in graph.edges() {
        if let Some(v) = edge.v {
            let (a, b) = (root(&mut part, edge.u as usize), root(&mut part, v as usize));
            part[a] = b;
        }
    }
    let mut open = BTreeMap::new();
    for d in 0..part.len() {
        open.entry(root(&mut part, d)).or_insert(false);
    }
    for edge in graph.edges().iter().filter(|edge| edge.v.is_none()) {
        open.insert(root(&mut part, edge.u as usize), true);
    }
    open.into_values().collect()
}

/// Decodes round by round, and on two cores, with rounds that are unrelated to the graph. Returns the number of cases, and of
/// those without the expected weight or a proof.
fn in_parts(graph: &MatchingGraph, list: &[common::Shot]) -> Result<(u64, u64), Box<dyn Error>> {
    let n = graph.num_detectors() as u32;
    let whole = MwpmDecoder::new(graph.clone());
    let rounds: Vec<u32> = (0..n).map(|i| i.wrapping_mul(2_654_435_761) >> 29).collect();
    let mut config = ParallelConfig::new(2.try_into()?);
    (config.least_defects, config.least_rounds) = (0, NonZeroU32::new(1));
    let mut stream = StreamingDecoder::new(&whole, &rounds)?;
    let mut cores = ParallelDecoder::new(&whole, &rounds, &config)?;
    let (mut cases, mut wrong) = (0, 0);
    let near = |a: f64, b: f64| (a - b).abs() * graph.scale() < 0.25;
    for shot in list {
        let Some((expected, _)) = &shot.answer else { continue };
        cases += 1;
        let right = near(cores.decode(&shot.defects)?.weight(), *expected) && cores.verify().is_ok();
        let mut streamed = None;
        for round in 0..stream.num_rounds() as u32 {
            let defects: Vec<u32> =
                shot.defects.iter().copied().filter(|&d| rounds[d as usize] == round).collect();
            streamed = stream.push_round(&defects)?.map(Solution::weight);
        }
        let right =
            right && streamed.is_some_and(|weight| near(weight, *expected)) && stream.verify().is_ok();
        wrong += u64::from(!right);
    }
    Ok((cases, wrong))
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let (configs, proofs) = match (args.next().as_deref(), args.next()) {
        (None, _) => (common::configs().to_vec(), usize::MAX),
        (Some("--usual"), Some(n)) => (vec![DecoderConfig::default()], n.parse()?),
        _ => return Err("usage: check_oracle [--usual PROOFS]".into()),
    };
    let mut counts: BTreeMap<String, Count> = BTreeMap::new();
    let mut failures = 0u64;
    let mut in_parts_total = (0u64, 0u64);
    for line in std::io::stdin().lock().lines() {
        let line = line?;
        let (graph, list) = common::parse(&line);
        let mut count = Count { graphs: 1, ..Count::default() };
        count.cases = list.len() as u64;
        count.odd = list.iter().filter(|shot| shot.answer.is_none()).count() as u64;
        for config in &configs {
            let mut decoder = MwpmDecoder::with_config(graph.clone(), config);
            for (index, shot) in list.iter().enumerate() {
                count.decodes += 1;
                match common::check(&mut decoder, shot, index < proofs) {
                    Ok(same) => count.ties += u64::from(!same),
                    Err(e) => {
                        count.wrong += 1;
                        failures += 1;
                        if failures <= 20 {
                            println!("{e}: {config:?}, defects {:?}\n{line}", shot.defects);
                        }
                    }
                }
            }
        }
        let (cases, wrong) = in_parts(&graph, &list)?;
        in_parts_total.0 += cases;
        in_parts_total.1 += wrong;
        failures += wrong;
        for mode in modes(&line, &graph) {
            let sum = counts.entry(mode).or_default();
            sum.graphs += count.graphs;
            sum.cases += count.cases;
            sum.decodes += count.decodes;
            sum.odd += count.odd;
            sum.ties += count.ties;
            sum.wrong += count.wrong;
        }
    }
    println!(
        "{:36} {:>8} {:>9} {:>10} {:>9} {:>8} {:>6}",
        "", "graphs", "cases", "decodes", "odd", "ties", "wrong"
    );
    for (mode, Count { graphs, cases, decodes, odd, ties, wrong }) in &counts {
        println!("{mode:36} {graphs:8} {cases:9} {decodes:10} {odd:9} {ties:8} {wrong:6}");
    }
    println!(
        "cases: a graph with defects; odd: no correction, found by both; ties: the weight is equal, the prediction not"
    );
    let (cases, wrong) = in_parts_total;
    println!("the same in parts, round by round and on two cores: {cases} cases, {wrong} wrong");
    if failures > 0 {
        return Err(format!("{failures} answers are wrong").into());
    }
    Ok(())
}
