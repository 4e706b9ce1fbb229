//! Runs of rounds through a window that moves, and through windows that helper threads decode: the least weight of the whole run,
//! or it is said that something was forced. With correlations, all defects are explained, twice in the same way.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_matching::{
    EndlessConfig, EndlessDecoder, GraphBuilder, MatchingGraph, MergeStrategy, MwpmDecoder,
    SharedEndlessConfig, SharedEndlessDecoder,
};
use std::num::NonZeroUsize;

const CHECKS: u32 = 4;
const ROUNDS: u32 = 48;

/// An edge that every round has: where it begins, to which check of which later round it leads, and what it weighs.
#[derive(Clone, Copy)]
struct Step {
    from: u32,
    later: u32,
    to: u32,
    weight: f64,
}

fn graph(rounds: u32, steps: &[Step], correlated: bool) -> Option<MatchingGraph> {
    let mut builder = GraphBuilder::new();
    builder.ensure_detectors((CHECKS * rounds) as usize);
    for t in 0..rounds {
        // Each check has a way to the boundary.
        for c in 0..CHECKS {
            let _ = builder.boundary_edge(t * CHECKS + c, 20.0 + f64::from(c), &[c]).ok()?;
        }
        for step in steps.iter().filter(|step| t + step.later < rounds) {
            let (u, v) = (t * CHECKS + step.from, (t + step.later) * CHECKS + step.to);
            builder
                .merge_edge(u, (u != v).then_some(v), step.weight, &[], None, MergeStrategy::SmallestWeight)
                .ok()?;
        }
        if correlated {
            // A way to the boundary goes with an edge along the checks.
            let (a, b) = (t * CHECKS, t * CHECKS + CHECKS - 1);
            let (along, out) = ([a, a + 1], [b]);
            let parts = [&along[..], &out[..]]
                .map(|detectors| ringcall_matching::ErrorPart { detectors, observables: &[] });
            builder.error(0.01, &parts).ok()?;
        }
    }
    builder.build().ok()
}

/// The same run in windows that overlap, on one core or with a helper: it must not depend on which thread decodes which window. In one
/// pass the whole run has a least weight, which is `expected`.
fn shared(bits: u8, short: &MatchingGraph, of: &[u32], rounds: &[Vec<u32>], expected: Option<f64>) {
    let found = [1, 2].map(|cores| {
        let mut config = SharedEndlessConfig::new(NonZeroUsize::new(cores).expect("not 0"));
        config.correlations = expected.is_none();
        (config.overlap, config.step) = (1 + usize::from(bits % 16), 1 + usize::from(bits / 16));
        let mut run = SharedEndlessDecoder::new(short, of, &config, |_| ()).ok()?;
        if run.least_rounds() > rounds.len() {
            return None;
        }
        let (before, tail) = rounds.split_at(rounds.len() - run.tail_rounds());
        for round in before {
            run.push_round(round).expect("checks of the code");
        }
        let tail: Vec<&[u32]> = tail.iter().map(Vec::as_slice).collect();
        let answer = run.finish(&tail).expect("a run that is long enough").to_vec();
        Some((answer, run.weight(), run.forced()))
    });
    assert_eq!(found[0], found[1], "the answer depends on who decodes");
    let ([Some((_, weight, forced)), _], Some(expected)) = (found, expected) else { return };
    assert!(weight > expected - 1e-6, "{weight} is less than the least weight {expected}");
    assert!(weight < expected + 1e-6 || forced > 0, "{weight} instead of {expected}, and not said");
}

fuzz_target!(|data: &[u8]| {
    let [margin, count, rest @ ..] = data else { return };
    let (edges, bits) = rest.split_at(rest.len().min(usize::from(count % 16) * 2));
    let steps: Vec<Step> = edges
        .chunks_exact(2)
        .map(|bytes| Step {
            from: u32::from(bytes[0]) % CHECKS,
            later: u32::from(bytes[0] >> 2) % 3,
            to: u32::from(bytes[0] >> 4) % CHECKS,
            weight: f64::from(bytes[1] % 32),
        })
        .collect();
    let (Some(short), Some(whole)) = (graph(9, &steps, false), graph(ROUNDS, &steps, false)) else { return };
    let of: Vec<u32> = (0..CHECKS * 9).map(|i| i / CHECKS).collect();
    let mut config = EndlessConfig::default();
    config.margin = usize::from(margin % 12);
    config.batch = usize::from(margin / 12);
    let Ok(mut endless) = EndlessDecoder::new(&short, &of, &config) else { return };
    if endless.least_rounds() > ROUNDS as usize {
        return;
    }
    let fires = |i: u32| bits.get(i as usize / 8).is_some_and(|byte| byte >> (i % 8) & 1 == 1);
    let rounds: Vec<Vec<u32>> =
        (0..ROUNDS).map(|t| (0..CHECKS).filter(|c| fires(t * CHECKS + c)).collect()).collect();
    let defects: Vec<u32> = (0..ROUNDS * CHECKS).filter(|&i| fires(i)).collect();
    let expected = MwpmDecoder::new(whole).decode(&defects).expect("every check has a boundary").weight();
    let (before, tail) = rounds.split_at(rounds.len() - endless.tail_rounds());
    for (t, round) in before.iter().enumerate() {
        endless.push_round(round).expect("checks of the code");
        if t % 5 == 2 {
            endless.rehearse();
        }
    }
    let tail: Vec<&[u32]> = tail.iter().map(Vec::as_slice).collect();
    endless.finish(&tail).expect("a run that is long enough");
    let found = endless.weight();
    assert!(found > expected - 1e-6, "{found} is less than the least weight {expected}");
    assert!(found < expected + 1e-6 || endless.forced() > 0, "{found} instead of {expected}, and not said");
    shared(*margin, &short, &of, &rounds, Some(expected));
    let Some(short) = graph(9, &steps, true) else { return };
    shared(*margin, &short, &of, &rounds, None);
    config.correlations = true;
    let Ok(mut twice) = EndlessDecoder::new(&short, &of, &config) else { return };
    if twice.least_rounds() > ROUNDS as usize {
        return;
    }
    let (before, tail) = rounds.split_at(rounds.len() - twice.tail_rounds());
    let tail: Vec<&[u32]> = tail.iter().map(Vec::as_slice).collect();
    // What is rehearsed changes nothing.
    let [first, second] = [false, true].map(|rehearses| {
        for round in before {
            twice.push_round(round).expect("checks of the code");
            if rehearses {
                twice.rehearse();
            }
        }
        let answer = twice.finish(&tail).expect("a run that is long enough").to_vec();
        (answer, twice.weight().to_bits(), twice.forced())
    });
    assert_eq!(first, second);
});
