//! Times decoding of a graph and a list of shots from text files, and checks every weight given with them.
//!
//! `matching_bench GRAPH SHOTS [NEAR_ENTRIES [ROUNDS]]`, where the first line of GRAPH is `DETECTORS OBSERVABLES`, each further one an edge
//! `U V WEIGHT OBSERVABLE...` (V is `b` for the boundary), and each line of SHOTS is `WEIGHT OBSERVABLES DEFECT...`
//! (OBSERVABLES as a bit mask in decimal). `tests/data/make.py` writes such files.
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::time::Instant;

use ringcall_matching::{DecoderConfig, GraphBuilder, MatchingGraph, MergeStrategy, MwpmDecoder};

struct Shot {
    weight: f64,
    observables: u64,
    defects: Vec<u32>,
}

fn read_graph(text: &str) -> Result<MatchingGraph, Box<dyn Error>> {
    let mut lines = text.lines();
    let mut head = lines.next().ok_or("the graph file is empty")?.split_whitespace();
    let mut count = || head.next().ok_or("the first line needs two numbers");
    let mut b = GraphBuilder::new();
    b.ensure_detectors(count()?.parse()?);
    b.ensure_observables(count()?.parse()?);
    for line in lines {
        let mut words = line.split_whitespace();
        let mut word = || words.next().ok_or("an edge needs two ends and a weight");
        let (u, v, w) = (word()?.parse()?, word()?, word()?.parse()?);
        let v = if v == "b" { None } else { Some(v.parse()?) };
        let observables = words.map(str::parse).collect::<Result<Vec<u32>, _>>()?;
        b.merge_edge(u, v, w, &observables, None, MergeStrategy::Disallow)?;
    }
    Ok(b.build()?)
}

fn read_shots(text: &str) -> Result<Vec<Shot>, Box<dyn Error>> {
    let shot = |line: &str| -> Result<Shot, Box<dyn Error>> {
        let mut words = line.split_whitespace();
        let mut word = || words.next().ok_or("a shot needs a weight and observables");
        let (weight, observables) = (word()?.parse()?, word()?.parse()?);
        Ok(Shot { weight, observables, defects: words.map(str::parse).collect::<Result<_, _>>()? })
    };
    text.lines().map(shot).collect()
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut args = std::env::args().skip(1);
    let graph = args.next().ok_or("usage: matching_bench GRAPH SHOTS [NEAR_ENTRIES [ROUNDS]]")?;
    let shots = args.next().ok_or("usage: matching_bench GRAPH SHOTS [NEAR_ENTRIES [ROUNDS]]")?;
    let mut config = DecoderConfig::default();
    if let Some(entries) = args.next() {
        config.near_entries = entries.parse()?;
    }
    let rounds = args.next().map_or(Ok(9), |n| n.parse())?;
    let graph = read_graph(&std::fs::read_to_string(graph)?)?;
    let shots = read_shots(&std::fs::read_to_string(shots)?)?;
    let begin = Instant::now();
    let mut decoder = MwpmDecoder::with_config(graph, &config);
    let built = begin.elapsed();
    let (mut wrong, mut ties) = (0, 0);
    for (index, shot) in shots.iter().enumerate() {
        let s = decoder.decode(&shot.defects)?;
        wrong += usize::from((s.weight() - shot.weight).abs() > 1e-9 * (1.0 + shot.weight.abs()));
        ties += usize::from(s.observables()[0] != shot.observables);
        if index < 50 && rounds < 50 && decoder.verify().is_err() {
            println!("not proven: {:?}", decoder.verify());
            wrong += 1;
        }
    }
    // The best of several rounds of each shot, to leave out other load on the machine.
    let mut times = vec![u128::MAX; shots.len()];
    for _ in 0..rounds {
        for (shot, best) in shots.iter().zip(&mut times) {
            let begin = Instant::now();
            std::hint::black_box(decoder.decode(&shot.defects)?);
            *best = begin.elapsed().as_nanos().min(*best);
        }
    }
    let mut whole = f64::INFINITY;
    for _ in 0..rounds {
        let begin = Instant::now();
        for shot in &shots {
            std::hint::black_box(decoder.decode(&shot.defects)?);
        }
        whole = whole.min(begin.elapsed().as_secs_f64());
    }
    let mean = times.iter().sum::<u128>() as f64 / times.len() as f64 / 1e3;
    times.sort_unstable();
    let at = |q: f64| times[((times.len() - 1) as f64 * q) as usize] as f64 / 1e3;
    println!(
        "build {:.0} ms; {} shots, {wrong} weights differ, {ties} predictions differ; us/shot untimed {:.3} mean {:.2} p50 {:.2} p99 {:.2} max {:.2}",
        built.as_secs_f64() * 1e3,
        shots.len(),
        whole / shots.len() as f64 * 1e6,
        mean,
        at(0.5),
        at(0.99),
        at(1.0)
    );
    Ok(())
}
