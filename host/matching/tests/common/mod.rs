//! Reading problems with known answers (written by `tests/data/make.py`), and checking a decoder on them.

use ringcall_matching::{
    DecoderConfig, GraphBuilder, MatchingError, MatchingGraph, MergeStrategy, MwpmDecoder, Solution,
};

/// What is expected of one list of defects.
pub(crate) struct Shot {
    /// The detectors that fired.
    pub(crate) defects: Vec<u32>,
    /// The weight, and the observables predicted; `None` where there is no correction.
    pub(crate) answer: Option<(f64, Vec<u32>)>,
}

fn list(text: &str) -> Vec<u32> {
    text.split(',').filter(|s| !s.is_empty()).map(|s| s.parse().expect("an index")).collect()
}

/// Reads one line.
pub(crate) fn parse(line: &str) -> (MatchingGraph, Vec<Shot>) {
    let mut fields = line.split('|');
    let mut edges = fields.next().expect("a graph").split(';');
    let head: Vec<&str> = edges.next().expect("a head").split(' ').collect();
    let merge = match head[2] {
        "disallow" => MergeStrategy::Disallow,
        "independent" => MergeStrategy::Independent,
        "smallest-weight" => MergeStrategy::SmallestWeight,
        "keep-original" => MergeStrategy::KeepOriginal,
        "replace" => MergeStrategy::Replace,
        other => panic!("unknown strategy {other}"),
    };
    let mut builder = GraphBuilder::new();
    builder
        .ensure_detectors(head[0].parse().expect("a count"))
        .ensure_observables(head[1].parse().expect("a count"));
    for edge in edges {
        let words: Vec<&str> = edge.split(' ').collect();
        let u = words[0].parse().expect("a detector");
        let v = (words[1] != "b").then(|| words[1].parse().expect("a detector"));
        let weight = words[2].parse().expect("a weight");
        let probability = words[3].parse().ok().filter(|p| *p >= 0.0);
        builder.merge_edge(u, v, weight, &list(words[4]), probability, merge).expect("a good edge");
    }
    let shots = fields.map(|field| {
        let (defects, answer) = field.split_once('=').expect("an answer");
        let answer = (answer != "odd").then(|| {
            let (weight, observables) = answer.split_once(' ').expect("a weight");
            (weight.parse().expect("a weight"), list(observables))
        });
        Shot { defects: list(defects), answer }
    });
    (builder.build().expect("a good graph"), shots.collect())
}

/// The trade-offs to test under: the usual one, and without the pair table with long lists, short ones and none.
pub(crate) fn configs() -> [DecoderConfig; 4] {
    [(1024, true), (256, false), (16, false), (0, false)].map(|(near_entries, pair_table)| {
        let mut config = DecoderConfig::default();
        config.near_entries = near_entries;
        config.pair_table = pair_table;
        config
    })
}

/// Decodes a shot and checks it: the weight, that the correction explains the defects, weighs that much and flips the
/// observables predicted, and, if `prove` says so, the certificate. Says whether the prediction is also the expected one
/// (at a tie it need not be).
pub(crate) fn check(decoder: &mut MwpmDecoder, shot: &Shot, prove: bool) -> Result<bool, String> {
    let solution = match (decoder.decode(&shot.defects), &shot.answer) {
        (Err(MatchingError::OddParity { .. }), None) => return Ok(true),
        (Err(e), _) => return Err(format!("failed: {e}")),
        (Ok(s), None) => return Err(format!("weight {} where there is no correction", s.weight())),
        (Ok(s), Some(_)) => s.clone(),
    };
    let (weight, observables) = shot.answer.as_ref().expect("checked above");
    let scale = decoder.graph().scale();
    if (solution.weight() - weight).abs() * scale > 0.25 {
        return Err(format!("weight {} instead of {weight}", solution.weight()));
    }
    if prove {
        decoder.verify().map_err(|e| e.to_string())?;
    }
    let edges = decoder.correction().to_vec();
    explains(decoder.graph(), &edges, &shot.defects, &solution)?;
    Ok((0..decoder.graph().num_observables()).all(|o| solution.flips(o) == observables.contains(&(o as u32))))
}

/// Checks that these edges explain the defects, weigh what the solution says, and flip what it predicts.
pub(crate) fn explains(
    graph: &MatchingGraph,
    edges: &[u32],
    defects: &[u32],
    solution: &Solution,
) -> Result<(), String> {
    let mut flipped = vec![false; graph.num_detectors()];
    let mut predicted = vec![false; graph.num_observables()];
    let mut sum = 0;
    for &e in edges {
        let edge = &graph.edges()[e as usize];
        sum += graph.grid_weight(e as usize);
        for d in [Some(edge.u), edge.v].into_iter().flatten() {
            flipped[d as usize] ^= true;
        }
        for &o in &edge.observables {
            predicted[o as usize] ^= true;
        }
    }
    for &d in defects {
        flipped[d as usize] ^= true;
    }
    if flipped.contains(&true) {
        return Err("the correction does not explain the defects".into());
    }
    if sum != solution.grid_weight() {
        return Err(format!("the correction weighs {sum}, not {}", solution.grid_weight()));
    }
    if (0..predicted.len()).any(|o| predicted[o] != solution.flips(o)) {
        return Err("the correction does not flip the observables predicted".into());
    }
    Ok(())
}
