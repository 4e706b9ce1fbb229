//! Ordered statistics against brute force, and against `ldpc`'s on the same marginals.

mod common;

use proptest::prelude::*;
use ringcall_bp::{BpConfig, BpDecoder, BpGraph, OrderedStatistics};

fn weight(graph: &BpGraph, error: &[u32]) -> u32 {
    error.iter().map(|&column| u32::from(graph.priors()[column as usize])).sum()
}

/// Whether the columns are independent, by elimination of whole rows.
fn rank(graph: &BpGraph, columns: &[u32]) -> usize {
    let mut basis: Vec<u128> = Vec::new();
    for &column in columns {
        let mut vector =
            graph.column_checks(column as usize).iter().fold(0u128, |sum, check| sum ^ 1 << check);
        for &other in &basis {
            vector = vector.min(vector ^ other);
        }
        if vector != 0 {
            basis.push(vector);
        }
    }
    basis.len()
}

/// The first independent columns in the order of marginals, and the others.
fn split(graph: &BpGraph, marginals: &[i16]) -> (Vec<u32>, Vec<u32>) {
    let mut sorted: Vec<u32> = (0..graph.num_columns() as u32).collect();
    sorted.sort_by_key(|&column| (marginals[column as usize], column));
    let (mut basis, mut others) = (Vec::new(), Vec::new());
    for column in sorted {
        basis.push(column);
        if rank(graph, &basis) < basis.len() {
            others.extend(basis.pop());
        }
    }
    (basis, others)
}

/// The one error of basis columns that flips these checks, by trying all; `None` if none does.
fn by_trial(graph: &BpGraph, basis: &[u32], checks: u128) -> Option<Vec<u32>> {
    let vector = |column: u32| -> u128 {
        graph.column_checks(column as usize).iter().fold(0, |sum, check| sum ^ 1 << check)
    };
    let (mut state, mut set) = (0u128, 0u32);
    for step in 0..1u32 << basis.len() {
        if state == checks {
            return Some((0..basis.len()).filter(|at| set >> at & 1 == 1).map(|at| basis[at]).collect());
        }
        let at = (step + 1).trailing_zeros();
        if at as usize >= basis.len() {
            break;
        }
        set ^= 1 << at;
        state ^= vector(basis[at as usize]);
    }
    None
}

/// Graphs of up to 9 checks, so that at most 512 errors have columns of a basis alone.
fn small() -> impl Strategy<Value = (u32, common::Errors, Vec<u32>)> {
    (1u32..10).prop_flat_map(|checks| {
        let list = prop::collection::btree_set(0..checks, 0..5.min(checks as usize + 1));
        let error =
            (1e-4..0.5f64, list).prop_map(|(p, c)| (p, c.into_iter().collect(), vec![c_observable(p)]));
        let defects = prop::collection::btree_set(0..checks, 0..=checks as usize);
        (Just(checks), prop::collection::vec(error, 0..24), defects.prop_map(|d| d.into_iter().collect()))
    })
}

/// An observable that depends on the probability.
fn c_observable(p: f64) -> u32 {
    (p * 1e6) as u32 % 12
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn answers_equal_brute_force((checks, errors, defects) in small(), sweep in prop::option::of(0u32..8)) {
        let graph = common::graph(checks, 12, &errors);
        let order = sweep.map_or(OrderedStatistics::Zero, OrderedStatistics::CombinationSweep);
        let guess = BpConfig::min_sum(1);
        let mut plain = BpDecoder::new(&graph, &guess).unwrap();
        let mut decoder =
            BpDecoder::new(&graph, &BpConfig { ordered_statistics: Some(order), ..guess }).unwrap();
        let (mut bytes, mut plain_bytes) = ([0xff; 2], [0; 2]);
        // An earlier decode must not affect the next one.
        let _ = decoder.decode(&defects[..defects.len() / 2], &mut bytes).unwrap();
        let before = plain.decode(&defects, &mut plain_bytes).unwrap();
        let outcome = decoder.decode(&defects, &mut bytes).unwrap();
        prop_assert_eq!(decoder.marginals(), plain.marginals());
        prop_assert_eq!(common::flips(&graph, decoder.error()).1, bytes);
        prop_assert_eq!(weight(&graph, decoder.error()), outcome.weight);

        let (basis, others) = split(&graph, plain.marginals());
        let syndrome = defects.iter().fold(0u128, |sum, defect| sum | 1 << defect);
        let zero = by_trial(&graph, &basis, syndrome);
        if before.converged || zero.is_none() {
            prop_assert_eq!((outcome, decoder.error()), (before, plain.error()));
            return Ok(());
        }
        prop_assert!(outcome.converged && outcome.solutions == 0);
        prop_assert_eq!(common::flips(&graph, decoder.error()).0, defects);
        // Every candidate of the sweep: no other column, one, or two of the first.
        let mut candidates: Vec<Vec<u32>> = vec![vec![]];
        if let Some(first) = sweep {
            candidates.extend(others.iter().map(|&column| vec![column]));
            let first = &others[..others.len().min(first as usize)];
            for (at, &one) in first.iter().enumerate() {
                candidates.extend(first[at + 1..].iter().map(|&other| vec![one, other]));
            }
        }
        let least = candidates.iter().filter_map(|added| {
            let flipped = common::flips(&graph, added).0.iter().fold(0u128, |sum, check| sum | 1 << check);
            let rest = by_trial(&graph, &basis, syndrome ^ flipped)?;
            Some(weight(&graph, &rest) + weight(&graph, added))
        }).min();
        prop_assert_eq!(Some(outcome.weight), least);
    }
}

/// All errors of a small code: the sweep of all columns explains the defects, and finds no error lighter than the lightest.
#[test]
fn a_wider_sweep_is_no_heavier() {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(5);
    let errors: common::Errors = (0..90)
        .map(|_| (rng.random_range(0.002..0.2), (0..3).map(|_| rng.random_range(0..40)).collect(), vec![]))
        .collect();
    let graph = common::graph(40, 0, &errors);
    let orders = [OrderedStatistics::Zero]
        .into_iter()
        .chain([0, 7, 60].map(OrderedStatistics::CombinationSweep))
        .map(|order| BpConfig { ordered_statistics: Some(order), ..BpConfig::min_sum(4) });
    let mut decoders: Vec<BpDecoder> =
        orders.map(|config| BpDecoder::new(&graph, &config).unwrap()).collect();
    let mut lighter = [0; 3];
    for _ in 0..300 {
        let columns: Vec<u32> = (0..graph.num_columns() as u32).filter(|_| rng.random_bool(0.15)).collect();
        let defects = common::flips(&graph, &columns).0;
        let weights: Vec<u32> = decoders
            .iter_mut()
            .map(|decoder| {
                let outcome = decoder.decode(&defects, &mut []).unwrap();
                assert!(outcome.converged, "the defects are those of an error");
                assert_eq!(common::flips(&graph, decoder.error()).0, defects);
                outcome.weight
            })
            .collect();
        for (pair, lighter) in weights.windows(2).zip(&mut lighter) {
            assert!(pair[1] <= pair[0]);
            *lighter += u32::from(pair[1] < pair[0]);
        }
    }
    assert!(lighter.iter().all(|&count| count > 0), "{lighter:?}");
}

/// `ldpc`'s ordered statistics on the same marginals. `data/ordered_statistics.py` says how the file was made.
#[test]
fn weights_equal_those_of_ldpc() {
    let orders = [
        OrderedStatistics::Zero,
        OrderedStatistics::CombinationSweep(1),
        OrderedStatistics::CombinationSweep(7),
    ];
    let numbers = |text: &str, by: char| -> Vec<u32> {
        text.split(by).filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
    };
    let mut cases = 0;
    for line in include_str!("data/ordered_statistics.txt").lines() {
        let parts: Vec<&str> = line.split(" | ").collect();
        let errors: common::Errors = parts[1]
            .split(' ')
            .map(|column| {
                let (prior, checks) = column.split_once(':').unwrap();
                let prior: f64 = prior.parse().unwrap();
                (1.0 / (1.0 + (prior / 8.0).exp()), numbers(checks, ','), vec![])
            })
            .collect();
        let graph = common::graph(parts[0].parse().unwrap(), 0, &errors);
        let defects = numbers(parts[2], ',');
        for (order, expected) in orders.into_iter().zip(numbers(parts[3], ' ')) {
            let config = BpConfig { ordered_statistics: Some(order), ..BpConfig::min_sum(1) };
            let mut decoder = BpDecoder::new(&graph, &config).unwrap();
            let outcome = decoder.decode(&defects, &mut []).unwrap();
            assert!(outcome.converged && outcome.solutions == 0, "{line}");
            assert_eq!(outcome.weight, expected, "{order}: {line}");
        }
        cases += 1;
    }
    assert_eq!(cases, 200);
}

#[test]
fn orders_have_a_text() {
    for (text, order) in [
        ("0", OrderedStatistics::Zero),
        ("cs:0", OrderedStatistics::CombinationSweep(0)),
        ("cs:1000", OrderedStatistics::CombinationSweep(1000)),
    ] {
        assert_eq!((text.parse(), order.to_string()), (Ok(order), text.to_owned()));
    }
    for text in ["", "1", "cs", "cs:", "cs:1001", "cs:-1", "CS:3"] {
        assert!(text.parse::<OrderedStatistics>().is_err(), "{text}");
    }
}

/// A caller that cuts a decode off gets the answer after the next step, whatever the step.
#[test]
fn a_deadline_ends_every_step() {
    let line = include_str!("data/ordered_statistics.txt").lines().next().unwrap();
    let parts: Vec<&str> = line.split(" | ").collect();
    let numbers = |text: &str| -> Vec<u32> {
        text.split(',').filter(|part| !part.is_empty()).map(|part| part.parse().unwrap()).collect()
    };
    let columns = parts[1].split(' ').map(|column| column.split_once(':').unwrap().1);
    let errors: common::Errors = columns.map(|checks| (0.05, numbers(checks), vec![])).collect();
    let graph = common::graph(parts[0].parse().unwrap(), 0, &errors);
    let defects = numbers(parts[2]);
    let config = BpConfig {
        ordered_statistics: Some(OrderedStatistics::CombinationSweep(7)),
        max_iterations: 1,
        ..BpConfig::min_sum(1)
    };
    let mut decoder = BpDecoder::new(&graph, &config).unwrap();
    let mut steps = 0;
    let whole = decoder
        .decode_while(&defects, &mut [], || {
            steps += 1;
            true
        })
        .unwrap();
    assert!(whole.converged && !whole.cancelled && steps > 3, "{steps} steps");
    let mut explained = 0;
    for last in 1..steps {
        let mut left = last;
        let cut = decoder
            .decode_while(&defects, &mut [], || {
                left -= 1;
                left > 0
            })
            .unwrap();
        assert!(cut.cancelled, "step {last} of {steps}");
        assert_eq!(left, 0, "nothing is asked after the end");
        explained += u32::from(cut.converged);
    }
    // In the sweep there is an answer already.
    assert!(explained > 0);
    assert_eq!(decoder.decode(&defects, &mut []).unwrap(), whole);
}
