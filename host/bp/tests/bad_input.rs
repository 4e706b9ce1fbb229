//! Degenerate graphs, configurations and syndromes: a clear answer or a clear error.

mod common;

use ringcall_bp::{
    BpConfig, BpDecoder, BpError, BpGraphBuilder, BpMatrix, MAX_CHECKS, MAX_COLUMN_CHECKS, MAX_OBSERVABLES,
    OrderedStatistics,
};

#[test]
fn probabilities_from_0_to_a_half_are_taken() {
    let mut builder = BpGraphBuilder::new(2, 1);
    for probability in [f64::NAN, -1e-9, 0.500001, 1.0, f64::INFINITY] {
        let refused = builder.error(probability, &[0], &[]).unwrap_err();
        assert!(matches!(refused, BpError::Probability { .. }), "{probability}");
        assert!(refused.to_string().contains("between 0 and 0.5"));
    }
    builder.error(0.0, &[0], &[]).unwrap().error(0.5, &[0], &[]).unwrap();
    builder.error(f64::MIN_POSITIVE, &[1], &[0]).unwrap().error(5e-324, &[0, 1], &[0]).unwrap();
    let graph = builder.build().unwrap();
    assert_eq!(graph.num_columns(), 3);
    assert_eq!(graph.priors(), [1, 127, 127]);
    assert_eq!([0, 1, 2, 3, 4].map(|error| graph.column_of(error)), [None, Some(0), Some(1), Some(2), None]);
}

#[test]
fn errors_that_flip_the_same_are_one_column() {
    let mut builder = BpGraphBuilder::new(3, 2);
    builder.error(0.1, &[2, 0], &[1]).unwrap();
    builder.error(0.3, &[0, 2], &[]).unwrap();
    builder.error(0.2, &[0, 1, 2, 1], &[1, 0, 0]).unwrap();
    builder.error(0.2, &[1, 1], &[0]).unwrap();
    let graph = builder.build().unwrap();
    assert_eq!(graph.num_columns(), 2);
    assert_eq!(graph.column_checks(0), [0, 2]);
    assert_eq!(graph.column_observables(0), [1]);
    assert!((graph.probabilities()[0] - (0.1 * 0.8 + 0.2 * 0.9)).abs() < 1e-15);
    assert_eq!([0, 1, 2, 3].map(|error| graph.column_of(error)), [Some(0), Some(1), Some(0), None]);
}

#[test]
fn indices_out_of_range_are_refused_and_leave_the_builder_as_it_was() {
    let mut builder = BpGraphBuilder::new(2, 1);
    assert_eq!(
        builder.error(0.1, &[0, 2], &[]).unwrap_err(),
        BpError::CheckOutOfRange { check: 2, checks: 2 }
    );
    assert_eq!(
        builder.error(0.1, &[0], &[1]).unwrap_err(),
        BpError::ObservableOutOfRange { observable: 1, observables: 1 }
    );
    let graph = builder.error(0.1, &[0], &[0]).unwrap().build().unwrap();
    assert_eq!(graph.num_columns(), 1);

    let mut decoder = BpDecoder::new(&graph, &BpConfig::relay()).unwrap();
    let mut observables = [0x55];
    let refused = decoder.decode(&[0, 2], &mut observables);
    assert_eq!(refused, Err(BpError::CheckOutOfRange { check: 2, checks: 2 }));
    let refused = decoder.decode(&[0, 0], &mut observables);
    assert_eq!(refused, Err(BpError::DuplicateDefect { defect: 0 }));
    let refused = decoder.decode(&[0], &mut []);
    assert_eq!(refused, Err(BpError::ObservablesLength { found: 0, expected: 1 }));
    assert_eq!(observables, [0x55]);
    assert!(decoder.decode(&[0], &mut observables).unwrap().converged);
    assert_eq!(observables, [1]);
}

#[test]
fn sizes_are_bounded() {
    let refused = BpGraphBuilder::new(u32::MAX, 0).build().unwrap_err();
    assert_eq!(refused, BpError::TooLarge { what: "checks", limit: MAX_CHECKS as usize });
    let refused = BpGraphBuilder::new(0, u32::MAX).build().unwrap_err();
    assert_eq!(refused, BpError::TooLarge { what: "observables", limit: MAX_OBSERVABLES as usize });

    let mut builder = BpGraphBuilder::new(1000, 0);
    let list: Vec<u32> = (0..=MAX_COLUMN_CHECKS as u32).collect();
    let refused = builder.error(0.1, &list, &[]).unwrap_err();
    assert_eq!(refused, BpError::ColumnTooLong { checks: 251, limit: 250 });
    // The longest column that is accepted: its sums are exact.
    builder.error(0.5, &list[1..], &[]).unwrap();
    for check in 1..=MAX_COLUMN_CHECKS as u32 {
        builder.error(1e-9, &[check], &[]).unwrap();
    }
    let graph = builder.build().unwrap();
    let config = BpConfig { first_memory: 128, legs: 2, ..BpConfig::relay() };
    let mut decoder = BpDecoder::new(&graph, &config).unwrap();
    let outcome = decoder.decode(&list[1..], &mut []).unwrap();
    let found = (outcome.converged, outcome.solutions, outcome.iterations, outcome.weight);
    let expected = common::specification(&graph, &config, &list[1..]);
    assert_eq!(found, (expected.0, expected.1, expected.2, expected.3));
    assert_eq!(decoder.error(), [0]);
}

#[test]
fn a_check_matrix_is_checked() {
    let rows: [&[u32]; 2] = [&[0, 1], &[1, 2, 2]];
    let matrix = BpMatrix { probabilities: &[0.1; 3], checks: &rows, observables: &[] };
    let graph = matrix.build().unwrap();
    assert_eq!(graph.num_columns(), 2);
    assert_eq!([0, 1, 2].map(|error| graph.column_of(error)), [Some(0), Some(1), None]);
    let matrix = BpMatrix { probabilities: &[0.1; 2], ..matrix };
    assert_eq!(matrix.build().unwrap_err(), BpError::ColumnOutOfRange { column: 2, columns: 2 });
}

#[test]
fn configurations_are_checked() {
    let graph = BpGraphBuilder::new(1, 0).build().unwrap();
    let relay = BpConfig::relay();
    for config in [
        BpConfig { first_memory: 129, ..relay.clone() },
        BpConfig { memory: (-129, 0), ..relay.clone() },
        BpConfig { memory: (0, 129), ..relay.clone() },
        BpConfig { memory: (1, 0), ..relay.clone() },
        BpConfig { damping: -1, ..relay.clone() },
        BpConfig { damping: 128, ..relay.clone() },
        BpConfig { first_iterations: 0, ..relay.clone() },
        BpConfig { leg_iterations: 0, ..relay.clone() },
        BpConfig { solutions: 0, ..relay.clone() },
        BpConfig { max_iterations: 0, ..relay.clone() },
        BpConfig { lanes: 0, ..relay.clone() },
        BpConfig { lanes: 65, ..relay.clone() },
        BpConfig { lane_delay: 1_000_001, ..relay.clone() },
        BpConfig { ordered_statistics: Some(OrderedStatistics::CombinationSweep(1001)), ..relay.clone() },
    ] {
        assert!(matches!(BpDecoder::new(&graph, &config), Err(BpError::Config { .. })), "{config:?}");
    }
    assert!(BpDecoder::new(&graph, &BpConfig { leg_iterations: 0, legs: 0, ..relay }).is_ok());
}

#[test]
fn an_empty_graph_explains_nothing_but_nothing() {
    for checks in [0, 1, 70] {
        let graph = BpGraphBuilder::new(checks, 9).build().unwrap();
        let mut decoder = BpDecoder::new(&graph, &BpConfig::relay()).unwrap();
        let mut observables = [0xff; 2];
        let outcome = decoder.decode(&[], &mut observables).unwrap();
        assert!(outcome.converged);
        assert_eq!((outcome.solutions, outcome.iterations, outcome.weight), (1, 1, 0));
        assert_eq!(observables, [0; 2]);
        if checks > 0 {
            // A check without a column fires: no iteration could explain it.
            let outcome = decoder.decode(&[checks - 1], &mut observables).unwrap();
            assert!(!outcome.converged);
            assert_eq!((outcome.solutions, outcome.iterations, outcome.weight), (0, 0, 0));
            assert_eq!(decoder.error(), [0u32; 0]);
        }
    }
}

#[test]
fn what_no_error_explains_ends_with_a_best_guess() {
    // Two checks that only fire together.
    let graph = common::graph(2, 1, &vec![(0.1, vec![0, 1], vec![0])]);
    let config = BpConfig { legs: 3, ..BpConfig::relay() };
    let mut decoder = BpDecoder::new(&graph, &config).unwrap();
    let mut observables = [0];
    let outcome = decoder.decode(&[0], &mut observables).unwrap();
    assert!(!outcome.converged && !outcome.cancelled);
    assert_eq!((outcome.solutions, outcome.iterations), (0, 80 + 3 * 60));
    assert_eq!(common::flips(&graph, decoder.error()).1, observables);
}

#[test]
fn budgets_and_callers_end_a_decode() {
    let graph = common::graph(2, 1, &vec![(0.1, vec![0, 1], vec![0])]);
    let config = BpConfig { max_iterations: 100, ..BpConfig::relay() };
    let mut decoder = BpDecoder::new(&graph, &config).unwrap();
    assert_eq!(decoder.decode(&[0], &mut [0]).unwrap().iterations, 100);

    let mut asked = 0;
    let outcome = decoder.decode_while(&[0], &mut [0], || {
        asked += 1;
        asked <= 7
    });
    let outcome = outcome.unwrap();
    assert!(outcome.cancelled && !outcome.converged);
    assert_eq!((asked, outcome.iterations), (8, 7));
    // Cancelled before the first iteration: no error, and the priors.
    let outcome = decoder.decode_while(&[0, 1], &mut [0], || false).unwrap();
    assert!(outcome.cancelled && !outcome.converged);
    assert_eq!((outcome.iterations, outcome.weight), (0, 0));
    assert_eq!(decoder.marginals(), [18]);
    assert_eq!(decoder.error(), [0u32; 0]);
}

/// A million errors that flip 40 checks each.
#[test]
fn a_million_errors_of_weight_40() {
    use rand::{RngExt, SeedableRng};
    let mut rng = rand_xoshiro::Xoshiro256PlusPlus::seed_from_u64(2);
    let checks = 20_000;
    let mut builder = BpGraphBuilder::new(checks, 1);
    for _ in 0..1_000_000 {
        let list: [u32; 40] = std::array::from_fn(|_| rng.random_range(0..checks));
        builder.error(0.001, &list, &[0]).unwrap();
    }
    let graph = builder.build().unwrap();
    assert_eq!(graph.num_columns(), 1_000_000);
    drop(builder);
    // Too large for the GPU's kernel, whose error says so.
    let refused = ringcall_bp::kernel::check_config(&graph, &BpConfig::relay()).unwrap_err().to_string();
    assert!(refused.contains("at most 8 checks of one column, and the graph has 40"), "{refused}");
    let mut decoder = BpDecoder::new(&graph, &BpConfig { max_iterations: 5, ..BpConfig::relay() }).unwrap();
    let defects = graph.column_checks(123_456).to_vec();
    let mut observables = [0];
    let outcome = decoder.decode(&defects, &mut observables).unwrap();
    assert!(outcome.converged);
    assert_eq!(decoder.error(), [123_456]);
    assert_eq!(observables, [1]);
}
