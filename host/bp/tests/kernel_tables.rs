//! Tables of the GPU's kernel: every edge once in each block that touches it, no two arrays overlapping, and clear refusals.

use proptest::collection::vec;
use proptest::prelude::*;
use ringcall_bp::kernel::{KernelError, KernelShape, MEASURED, SHAPES, Tables, check_config};
use ringcall_bp::{BpConfig, BpGraph, BpGraphBuilder};
use std::collections::{BTreeMap, BTreeSet};

fn graph(checks: u32, observables: u32, errors: &[(f64, Vec<u32>, Vec<u32>)]) -> BpGraph {
    let mut builder = BpGraphBuilder::new(checks, observables);
    for (probability, flipped, observed) in errors {
        builder.error(*probability, flipped, observed).expect("in range");
    }
    builder.build().expect("small")
}

/// Graphs of up to 90 checks, some of which no column touches, with columns of up to 8 checks.
fn graphs() -> impl Strategy<Value = BpGraph> {
    (1_u32..90, 0_u32..33).prop_flat_map(|(checks, observables)| {
        let error = (
            0.0..=0.5,
            vec(0..checks, 0..=8),
            vec(0..observables.max(1), 0..=if observables == 0 { 0 } else { 3 }),
        );
        vec(error, 0..200).prop_map(move |errors| graph(checks, observables, &errors))
    })
}

/// The value of a half.
fn value(half: u32) -> u32 {
    let (exponent, mantissa) = (half >> 10, half & 1023);
    (1024 + mantissa) >> (25 - exponent)
}

fn check(graph: &BpGraph, tables: &Tables) {
    let shape = *tables.shape();
    let threads = shape.threads as usize;
    let stride = shape.stride();
    let rows = (0..graph.num_columns()).flat_map(|column| graph.column_checks(column)).fold(
        BTreeMap::<u32, u32>::new(),
        |mut degrees, &check| {
            *degrees.entry(check).or_default() += 1;
            degrees
        },
    );
    let longest = rows.values().copied().max().unwrap_or(0).div_ceil(2);
    assert_eq!(tables.shared_bytes(), shape.shared_bytes(longest));
    let mut owner = BTreeMap::new();
    for index in 0..shape.blocks as usize {
        let block = tables.block(index);
        for &check in &block.check_at[..block.own as usize] {
            assert_eq!(owner.insert(check, index), None, "check {check} has two blocks");
        }
    }
    assert_eq!(owner.len(), graph.num_checks());
    let mut counted = BTreeSet::new();
    for index in 0..shape.blocks as usize {
        let block = tables.block(index);
        assert!(block.check_at.len() < shape.positions as usize && !block.depth.is_empty());
        assert!(block.depth.len() * 32 <= threads);
        let mut taken = BTreeSet::new();
        let mut columns = BTreeSet::new();
        for thread in 0..threads {
            let mut first = 0;
            for (pass, &most) in shape.passes.iter().enumerate() {
                let degree = block.degrees[pass * threads / 32 + thread / 32];
                assert!(degree <= most);
                for lane in 0..2 {
                    let at = (pass * 2 + lane) * threads + thread;
                    let half = |word: u32| word >> (16 * lane) & 0xFFFF;
                    let mut found = Vec::new();
                    for edge in first..first + most {
                        let word = edge as usize * threads + thread;
                        let slot = half(block.slots[word]) / if shape.keeps_slots() { 2 } else { 1 };
                        let (row, position) = (slot / 2 / stride, slot / 2 % stride);
                        if shape.keeps_slots() {
                            assert_eq!(half(block.state_at[word]), position * 4);
                        }
                        let Some(&check) = block.check_at.get(position as usize) else {
                            assert_eq!((row, position), (longest, shape.positions - 1), "a pad");
                            continue;
                        };
                        found.push(check);
                        assert!(edge - first < degree, "an edge past the warp's degree");
                        if position < block.own {
                            assert!(taken.insert(slot), "two messages in slot {slot}");
                            assert!(row < block.depth[(position * shape.split / 32) as usize]);
                        } else {
                            assert_eq!(row, longest, "a message to a halo's check is never read");
                        }
                    }
                    if found.is_empty() {
                        assert_eq!((block.counted[thread] >> (2 * pass + lane) & 1, block.flips[at]), (0, 0));
                        continue;
                    }
                    let column = block.columns[at];
                    assert!(columns.insert(column), "column {column} twice in block {index}");
                    assert_eq!(found, graph.column_checks(column as usize));
                    let prior = half(block.priors[pass * threads + thread]);
                    assert_eq!(value(prior), u32::from(graph.priors()[column as usize]));
                    if block.counted[thread] >> (2 * pass + lane) & 1 == 1 {
                        assert!(counted.insert(column), "column {column} is counted twice");
                        let flips = graph.column_observables(column as usize);
                        assert_eq!(block.flips[at], flips.iter().fold(0, |bits, &o| bits | 1 << o));
                    }
                }
                first += most;
            }
        }
        let touching = (0..graph.num_columns() as u32)
            .filter(|&column| graph.column_checks(column as usize).iter().any(|check| owner[check] == index));
        assert!(columns.iter().copied().eq(touching));
        for position in 0..block.own as usize {
            let check = block.check_at[position];
            let range = block.push_begin[position] as usize..block.push_begin[position + 1] as usize;
            for &to in &block.pushes[range] {
                let other = tables.block((to >> 16) as usize);
                assert!(to >> 16 != index as u32 && to & 0xFFFF >= other.own);
                assert_eq!(other.check_at[(to & 0xFFFF) as usize], check);
            }
        }
    }
    assert_eq!(counted.len(), graph.num_columns());
    // Each halo's state has one sender.
    let pushes: usize = (0..shape.blocks as usize).map(|index| tables.block(index).pushes.len()).sum();
    let halos: usize = (0..shape.blocks as usize)
        .map(|index| tables.block(index).check_at.len() - tables.block(index).own as usize)
        .sum();
    assert_eq!(pushes, halos);
    for check in 0..graph.num_checks() as u32 {
        let bit =
            tables.disconnected().get(check as usize / 32).is_some_and(|word| word >> (check % 32) & 1 == 1);
        assert_eq!(bit, !rows.contains_key(&check), "check {check}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn tables_have_every_edge_of_the_graph(graph in graphs(), which in 0_usize..13) {
        let shape = *SHAPES.iter().chain(&MEASURED).nth(which).expect("one of 13");
        match Tables::new(&graph, &shape) {
            Ok(tables) => check(&graph, &tables),
            Err(KernelError::NoRoom { what, found, limit, .. }) => {
                let known =
                    ["checks of a block", "checks of one column in its pass", "words of messages of a block"];
                prop_assert!(known.contains(&what) && found > limit, "{found} {what}, {limit}");
            }
            Err(other) => prop_assert!(false, "{other}"),
        }
    }

    #[test]
    fn a_shape_is_found_for_every_small_graph(graph in graphs()) {
        let tables = Tables::choose(&graph, &SHAPES).expect("small");
        check(&graph, &tables);
        prop_assert!(check_config(&graph, &BpConfig::relay()).is_ok());
    }
}

#[test]
fn the_shapes_are_those_that_are_compiled() {
    let header =
        std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../kernels-cu/relay/shapes.h"));
    let header = header.expect("readable");
    let numbers =
        |text: &str| -> Vec<u32> { text.split(',').filter_map(|n| n.trim().parse().ok()).collect() };
    let compiled: BTreeMap<String, Vec<u32>> = header
        .lines()
        .filter_map(|line| line.trim().strip_prefix("X(")?.split(')').next()?.split_once(','))
        .map(|(name, rest)| (name.to_owned(), numbers(rest)))
        .collect();
    let known = SHAPES.iter().chain(&MEASURED).map(
        |&KernelShape { name, blocks, threads, split, positions, passes }| {
            (name.to_owned(), [&[blocks, threads, split, positions][..], passes].concat())
        },
    );
    assert_eq!(compiled, known.collect());
}

#[test]
fn what_does_not_fit_is_refused_with_the_limit() {
    let long = graph(9, 0, &[(0.1, (0..9).collect(), vec![])]);
    let error = check_config(&long, &BpConfig::relay()).expect_err("9 checks");
    assert_eq!(
        error.to_string(),
        "the GPU's Relay-BP takes at most 8 checks of one column, and the graph has 9"
    );
    let many = graph(1, 33, &[(0.1, vec![0], vec![32])]);
    let error = check_config(&many, &BpConfig::relay()).expect_err("33 observables");
    assert!(error.to_string().contains("at most 32 observables"), "{error}");
    assert!(Tables::new(&many, &SHAPES[0]).is_err());

    let large: Vec<_> = (0..70_000).map(|n| (0.1, vec![n % 5000, (n * 7 + 1) % 5000], vec![])).collect();
    let error = Tables::choose(&graph(5000, 0, &large), &SHAPES).expect_err("70,000 columns");
    assert!(matches!(error, KernelError::NoRoom { shape: "deep_16", .. }), "{error:?}");
    assert!(error.to_string().contains("the last shape that was tried, deep_16, has room for"), "{error}");

    let small = graph(1, 1, &[(0.1, vec![0], vec![0])]);
    for (config, says) in [
        (BpConfig::damped(10, 3), "`damping`"),
        (BpConfig { memory: (-103, 0), ..BpConfig::relay() }, "-102 to 102"),
        (BpConfig { legs: 2_000_000, ..BpConfig::relay() }, "67,108,863 iterations"),
        (BpConfig { lanes: 0, ..BpConfig::relay() }, "`lanes`"),
    ] {
        let error = check_config(&small, &config).expect_err(says);
        assert!(error.to_string().contains(says), "{error}");
    }
    assert!(check_config(&small, &BpConfig::relay()).is_ok());
}
