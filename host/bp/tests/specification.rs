//! Answers against the specification in its plainest form, and invariants of every answer.

mod common;

use proptest::prelude::*;
use ringcall_bp::{BpConfig, BpDecoder};

proptest! {
    #![proptest_config(ProptestConfig { cases: 600, ..ProptestConfig::default() })]

    #[test]
    fn answers_equal_the_specification((checks, errors, defects) in common::problems(), config in common::configs()) {
        let graph = common::graph(checks, 12, &errors);
        let mut decoder = BpDecoder::new(&graph, &config).unwrap();
        let mut observables = [0xff; 2];
        // An earlier decode must not affect the next one.
        let _ = decoder.decode(&defects[..defects.len() / 2], &mut observables).unwrap();
        let outcome = decoder.decode(&defects, &mut observables).unwrap();
        let found = (
            outcome.converged,
            outcome.solutions,
            outcome.iterations,
            outcome.weight,
            decoder.error().to_vec(),
            decoder.marginals().to_vec(),
        );
        prop_assert_eq!(found, common::specification(&graph, &config, &defects));
        prop_assert_eq!(common::flips(&graph, decoder.error()).1, observables);
    }

    #[test]
    fn a_converged_error_explains_the_defects((checks, errors, _) in common::problems(), pick in any::<u64>()) {
        // The defects of a random eighth of the errors.
        let graph = common::graph(checks, 12, &errors);
        let happened: Vec<u32> =
            (0..graph.num_columns() as u32).filter(|c| pick.rotate_left(*c).is_multiple_of(8)).collect();
        let defects = common::flips(&graph, &happened).0;
        let mut decoder = BpDecoder::new(&graph, &BpConfig { legs: 20, ..BpConfig::relay() }).unwrap();
        let mut observables = [0; 2];
        let outcome = decoder.decode(&defects, &mut observables).unwrap();
        let (explained, flipped) = common::flips(&graph, decoder.error());
        prop_assert_eq!(outcome.converged, explained == defects);
        prop_assert_eq!(flipped, observables);
    }
}

/// Min-sum is exact on trees while no message is capped: it finds the lighter of the two explanations for every syndrome.
#[test]
fn a_repetition_code_is_decoded_exactly() {
    let bits = 9u32;
    let errors: common::Errors = (0..bits)
        .map(|bit| {
            let checks = [bit.checked_sub(1), (bit < bits - 1).then_some(bit)];
            (0.1 + 0.02 * f64::from(bit), checks.into_iter().flatten().collect(), vec![bit % 3])
        })
        .collect();
    let graph = common::graph(bits - 1, 3, &errors);
    let mut decoder = BpDecoder::new(&graph, &BpConfig::min_sum(20)).unwrap();
    let weight = |error: u32| -> u32 {
        (0..bits).filter(|bit| error >> bit & 1 == 1).map(|bit| u32::from(graph.priors()[bit as usize])).sum()
    };
    let mut decided = 0;
    for error in 0..1u32 << (bits - 1) {
        let other = !error & ((1 << bits) - 1);
        let columns: Vec<u32> = (0..bits).filter(|bit| error >> bit & 1 == 1).collect();
        let defects = common::flips(&graph, &columns).0;
        let mut observables = [0];
        let outcome = decoder.decode(&defects, &mut observables).unwrap();
        if weight(error) == weight(other) {
            continue;
        }
        decided += 1;
        assert!(outcome.converged, "{error:b}");
        assert_eq!(outcome.weight, weight(error).min(weight(other)), "{error:b}");
    }
    assert!(decided > 200);
}

/// The lightest of several solutions wins: never heavier than the first, and on loopy graphs sometimes lighter.
#[test]
fn more_solutions_are_no_heavier() {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(1);
    let errors: common::Errors = (0..120)
        .map(|_| (rng.random_range(0.002..0.05), (0..3).map(|_| rng.random_range(0..40)).collect(), vec![]))
        .collect();
    let graph = common::graph(40, 0, &errors);
    let mut first = BpDecoder::new(&graph, &BpConfig::relay()).unwrap();
    let mut best = BpDecoder::new(&graph, &BpConfig { solutions: 8, ..BpConfig::relay() }).unwrap();
    let (mut lighter, mut several) = (0, 0);
    for _ in 0..300 {
        let columns: Vec<u32> = (0..graph.num_columns() as u32).filter(|_| rng.random_bool(0.06)).collect();
        let defects = common::flips(&graph, &columns).0;
        let one = first.decode(&defects, &mut []).unwrap();
        let eight = best.decode(&defects, &mut []).unwrap();
        assert!(one.converged <= eight.converged);
        if one.converged {
            assert!(eight.weight <= one.weight);
            lighter += u32::from(eight.weight < one.weight);
            several += u32::from(eight.solutions > 1);
        }
    }
    assert!(several > 200, "{several}");
    assert!(lighter > 0, "{lighter}");
}

#[test]
fn a_seed_decides_the_legs() {
    let config = BpConfig::relay();
    let draw =
        |config: &BpConfig, leg| (0..2000).map(|c| config.memory_strength(0, leg, c)).collect::<Vec<_>>();
    assert_eq!(draw(&config, 3), draw(&config.clone(), 3));
    assert_ne!(draw(&config, 3), draw(&config, 4));
    assert_ne!(draw(&config, 3), draw(&BpConfig { seed: 1, ..config.clone() }, 3));
    let values = draw(&config, 1);
    // All 116 values occur, and their mean is that of the interval.
    assert_eq!(values.iter().collect::<std::collections::BTreeSet<_>>().len(), 116);
    let mean = values.iter().map(|&g| f64::from(g)).sum::<f64>() / 2000.0;
    assert!((mean - 26.5).abs() < 3.0, "{mean}");
}
