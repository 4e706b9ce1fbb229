//! The specification in its plainest form, and graphs to test it on.
#![allow(dead_code)]

use proptest::prelude::*;
use ringcall_bp::{BpConfig, BpGraph, BpGraphBuilder};

/// Errors as probability, checks and observables.
pub(crate) type Errors = Vec<(f64, Vec<u32>, Vec<u32>)>;

/// The graph of some errors.
pub(crate) fn graph(checks: u32, observables: u32, errors: &Errors) -> BpGraph {
    let mut builder = BpGraphBuilder::new(checks, observables);
    for (p, c, o) in errors {
        builder.error(*p, c, o).unwrap();
    }
    builder.build().unwrap()
}

/// Graphs of up to 80 checks and 150 errors of all degrees, with defects. Some defects have no explanation.
pub(crate) fn problems() -> impl Strategy<Value = (u32, Errors, Vec<u32>)> {
    (1u32..80).prop_flat_map(|checks| {
        let list = prop::collection::btree_set(0..checks, 0..9.min(checks as usize + 1));
        let error = (1e-4..0.5f64, list, prop::collection::btree_set(0u32..12, 0..3))
            .prop_map(|(p, c, o)| (p, c.into_iter().collect(), o.into_iter().collect()));
        let defects = prop::collection::btree_set(0..checks, 0..=checks as usize);
        (Just(checks), prop::collection::vec(error, 0..150), defects.prop_map(|d| d.into_iter().collect()))
    })
}

/// Configurations of all kinds.
pub(crate) fn configs() -> impl Strategy<Value = BpConfig> {
    let memory = (-128i16..=128, -128i16..=128).prop_map(|(a, b)| (a.min(b), a.max(b)));
    (
        -128i16..=128,
        memory,
        0i16..128,
        1u32..20,
        (1u32..12, 0u32..6),
        (1u32..5, 1u32..80, any::<u32>(), 1u32..5, 0u32..30),
    )
        .prop_map(|(first_memory, memory, damping, first_iterations, (leg_iterations, legs), rest)| {
            BpConfig {
                first_memory,
                memory,
                damping: if damping < 64 { 0 } else { damping },
                first_iterations,
                leg_iterations,
                legs,
                solutions: rest.0,
                max_iterations: rest.1,
                seed: rest.2,
                lanes: rest.3,
                lane_delay: rest.4,
                ordered_statistics: None,
            }
        })
}

/// The result of a decode: converged, solutions, iterations, weight, error, marginals.
pub(crate) type Answer = (bool, u32, u32, u32, Vec<u32>, Vec<i16>);

/// The quotient to the nearest integer, halves to even.
fn nearest(product: i64) -> i64 {
    let (quotient, rest) = (product.div_euclid(128), product.rem_euclid(128));
    quotient + i64::from(rest > 64 || (rest == 64 && quotient % 2 != 0))
}

/// The race of `docs/design/0024`: every lane runs to its end.
pub(crate) fn specification(graph: &BpGraph, config: &BpConfig, defects: &[u32]) -> Answer {
    let lanes: Vec<Answer> = (0..config.lanes).map(|lane| one_lane(graph, config, lane, defects)).collect();
    let finished = |answer: &&Answer| answer.0 && (answer.1 == config.solutions || answer.3 == 0);
    lanes.iter().filter(finished).min_by_key(|answer| answer.2).unwrap_or(&lanes[0]).clone()
}

/// The decoder of `docs/design/0024`, in wide integers, one edge at a time.
fn one_lane(graph: &BpGraph, config: &BpConfig, lane: u32, defects: &[u32]) -> Answer {
    let columns = graph.num_columns();
    let prior: Vec<i64> = graph.priors().iter().map(|&prior| prior.into()).collect();
    let mut rows: Vec<Vec<(usize, usize)>> = vec![Vec::new(); graph.num_checks()];
    for column in 0..columns {
        for (row, &check) in graph.column_checks(column).iter().enumerate() {
            rows[check as usize].push((column, row));
        }
    }
    let fired: Vec<bool> = (0..rows.len() as u32).map(|check| defects.contains(&check)).collect();
    let mut marginal = prior.clone();
    let mut wrong = vec![false; columns];
    let mut best: Option<(u32, Vec<bool>)> = None;
    let (mut solutions, mut iterations) = (0, if lane == 0 { 0 } else { config.lane_delay });
    let per_edge = |of: &dyn Fn(usize) -> i64| -> Vec<Vec<i64>> {
        (0..columns).map(|c| vec![of(c); graph.column_checks(c).len()]).collect()
    };
    let explicable = fired.iter().zip(&rows).all(|(&fired, row)| !fired || !row.is_empty());
    'legs: for leg in 0..=config.legs {
        let mut to_check = per_edge(&|column| prior[column]);
        let mut from_check = per_edge(&|_| 0);
        for _ in 0..if leg == 0 { config.first_iterations } else { config.leg_iterations } {
            if iterations >= config.max_iterations || !explicable {
                break 'legs;
            }
            iterations += 1;
            for (row, &fired) in rows.iter().zip(&fired) {
                for &(column, at) in row {
                    let others = || row.iter().filter(|&&(c, _)| c != column).map(|&(c, a)| to_check[c][a]);
                    let least = others().map(i64::abs).min().unwrap_or(127);
                    let negative = others().filter(|&m| m < 0).count() % 2 == 1;
                    from_check[column][at] = if negative ^ fired { -least } else { least };
                }
            }
            for column in 0..columns {
                let strength: i64 = config.memory_strength(lane, leg, column as u32).into();
                let bias = prior[column] + nearest(strength * (marginal[column] - prior[column]));
                let sum = bias + from_check[column].iter().sum::<i64>();
                marginal[column] = sum.clamp(-511, 511);
                wrong[column] = marginal[column] < 0;
                for (to, from) in to_check[column].iter_mut().zip(&from_check[column]) {
                    let next = (sum - from).clamp(-127, 127);
                    *to = next + nearest(i64::from(config.damping) * (*to - next));
                }
            }
            let explained = rows.iter().zip(&fired).all(|(row, &fired)| {
                row.iter().filter(|&&(column, _)| wrong[column]).count() % 2 == usize::from(fired)
            });
            if explained {
                solutions += 1;
                let weight = weight(graph, &wrong);
                if best.as_ref().is_none_or(|&(least, _)| weight < least) {
                    best = Some((weight, wrong.clone()));
                }
                if solutions == config.solutions || best.as_ref().is_some_and(|&(least, _)| least == 0) {
                    break 'legs;
                }
                break;
            }
        }
    }
    let converged = best.is_some();
    let (weight, error) = best.unwrap_or_else(|| (weight(graph, &wrong), wrong));
    let error = (0..columns as u32).filter(|&column| error[column as usize]).collect();
    (converged, solutions, iterations, weight, error, marginal.iter().map(|&m| m as i16).collect())
}

fn weight(graph: &BpGraph, wrong: &[bool]) -> u32 {
    wrong.iter().zip(graph.priors()).filter(|&(&wrong, _)| wrong).map(|(_, &prior)| u32::from(prior)).sum()
}

/// The checks and observables that columns flip, by the graph's own lists.
pub(crate) fn flips(graph: &BpGraph, error: &[u32]) -> (Vec<u32>, Vec<u8>) {
    let mut fired = vec![false; graph.num_checks()];
    let mut observables = vec![0u8; graph.observable_bytes()];
    for &column in error {
        for &check in graph.column_checks(column as usize) {
            fired[check as usize] ^= true;
        }
        for &o in graph.column_observables(column as usize) {
            observables[o as usize / 8] ^= 1 << (o % 8);
        }
    }
    ((0..fired.len() as u32).filter(|&check| fired[check as usize]).collect(), observables)
}
