//! Weights of a shot against a fresh graph with those weights, on graphs of any shape; bad lists; no allocation.

use allocation_counter::measure;
use proptest::prelude::*;
use ringcall_matching::{
    DecoderConfig, GraphBuilder, MatchingGraph, MergeStrategy, MwpmDecoder, Solution, WeightedDecoder,
    WeightsError,
};

const DETECTORS: u32 = 12;
/// Both graphs have an edge of this weight, which is not whole, so that their grids are the same.
const LARGEST: f64 = 40.5;

/// Two detectors or one and the boundary, and a weight.
type EdgeList = Vec<(u32, Option<u32>, f64)>;

/// The graph, in which the last edge stands apart.
fn graph(edges: &EdgeList) -> MatchingGraph {
    let mut b = GraphBuilder::new();
    b.ensure_detectors(DETECTORS as usize + 1).ensure_observables(3);
    for (i, &(u, v, weight)) in (0..).zip(edges) {
        b.merge_edge(u, v, weight, &[i % 3], None, MergeStrategy::KeepOriginal).unwrap();
    }
    b.boundary_edge(DETECTORS, LARGEST, &[]).unwrap();
    b.build().unwrap()
}

/// Whole weights make ties, zero included; others do not.
fn weight() -> impl Strategy<Value = f64> {
    prop_oneof![(0u32..6).prop_map(f64::from), 0.0..LARGEST]
}

fn edges() -> impl Strategy<Value = EdgeList> {
    let edge = (0..DETECTORS, prop::option::weighted(0.85, 0..DETECTORS), weight());
    prop::collection::vec(edge, 4..40).prop_map(|edges| {
        let mut seen = std::collections::HashSet::new();
        let ordered = edges.into_iter().map(|(u, v, w)| match v {
            Some(v) if v != u => (u.min(v), Some(u.max(v)), w),
            _ => (u, None, w),
        });
        ordered.filter(|edge| seen.insert((edge.0, edge.1))).collect()
    })
}

fn configs() -> [DecoderConfig; 2] {
    [256, 0].map(|near_entries| {
        let mut config = DecoderConfig::default();
        config.near_entries = near_entries;
        config
    })
}

/// A shot: which detectors fire, which edges get another weight, and whether that may be more than they have.
type ShotList = (Vec<bool>, Vec<(prop::sample::Index, f64)>, bool);

fn check(edges: &EdgeList, shots: &[ShotList]) -> Result<(), TestCaseError> {
    let usual = graph(edges);
    let mut decoders = configs().map(|c| WeightedDecoder::new(&MwpmDecoder::with_config(usual.clone(), &c)));
    for (fired, changes, up) in shots {
        let defects: Vec<u32> = (0..).zip(fired).filter(|x| *x.1).map(|x| x.0).collect();
        let mut theirs = edges.clone();
        let mut weights = std::collections::BTreeMap::new();
        for (index, weight) in changes {
            let edge = index.index(edges.len());
            let weight = if *up { *weight } else { weight.min(edges[edge].2) };
            theirs[edge].2 = weight;
            weights.insert(edge as u32, weight);
        }
        let weights: Vec<(u32, f64)> = weights.into_iter().collect();
        let fresh = graph(&theirs);
        let mut expected = MwpmDecoder::new(fresh.clone());
        let expected = expected.decode(&defects).map(Solution::grid_weight);
        for decoder in &mut decoders {
            let found = match (decoder.decode(&defects, &weights), &expected) {
                (Ok(solution), Ok(expected)) => {
                    prop_assert_eq!(solution.grid_weight(), *expected);
                    solution.clone()
                }
                (Err(WeightsError::Decode(found)), Err(expected)) => {
                    prop_assert_eq!(&found, expected);
                    continue;
                }
                (found, expected) => return Err(TestCaseError::fail(format!("{found:?}, {expected:?}"))),
            };
            decoder.verify().map_err(|e| TestCaseError::fail(e.to_string()))?;
            let mut flipped = vec![false; DETECTORS as usize + 1];
            defects.iter().for_each(|&d| flipped[d as usize] ^= true);
            let (mut sum, mut observables) = (0, 0u64);
            for &e in decoder.correction() {
                let edge = &fresh.edges()[e as usize];
                sum += fresh.grid_weight(e as usize);
                for d in [Some(edge.u), edge.v].into_iter().flatten() {
                    flipped[d as usize] ^= true;
                }
                edge.observables.iter().for_each(|o| observables ^= 1 << o);
            }
            prop_assert!(!flipped.contains(&true), "the correction does not explain the defects");
            prop_assert_eq!((sum, observables), (found.grid_weight(), found.observables()[0]));
        }
    }
    Ok(())
}

fn shots() -> impl Strategy<Value = Vec<ShotList>> {
    let changes = prop::collection::vec((any::<prop::sample::Index>(), weight()), 0..12);
    prop::collection::vec(
        (prop::collection::vec(any::<bool>(), DETECTORS as usize), changes, any::<bool>()),
        4,
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    /// Lighter, heavier or both, one shot after the other: as a fresh graph with those weights.
    #[test]
    fn a_shot_is_decoded_on_its_own_weights(edges in edges(), shots in shots()) {
        check(&edges, &shots)?;
    }
}

/// The same, a million shots: `cargo test --release -p ringcall-matching --test weighted -- --ignored`.
#[test]
#[ignore = "takes minutes"]
fn a_million_shots_are_decoded_on_their_own_weights() {
    let config = ProptestConfig { cases: 250_000, failure_persistence: None, ..ProptestConfig::default() };
    let mut runner = proptest::test_runner::TestRunner::new(config);
    runner.run(&(edges(), shots()), |(edges, shots)| check(&edges, &shots)).unwrap();
}

fn row() -> WeightedDecoder {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 3.0, &[0]).unwrap().edge(0, 1, 2.0, &[]).unwrap();
    b.edge(1, 2, -1.0, &[]).unwrap().boundary_edge(2, 4.0, &[]).unwrap();
    WeightedDecoder::new(&MwpmDecoder::new(b.build().unwrap()))
}

#[test]
fn bad_weights_are_refused_and_leave_nothing() {
    let mut decoder = row();
    let usual = decoder.decode(&[0, 1], &[]).unwrap().clone();
    let most = decoder.most_weight();
    for weight in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -1e-9, most * 1.001, f64::MAX] {
        let refused = decoder.decode(&[0, 1], &[(1, 0.5), (0, weight)]).unwrap_err();
        assert!(matches!(refused, WeightsError::OutOfRange { edge: 0, .. }), "{refused}");
        assert_eq!(decoder.correction(), []);
    }
    for (weights, refused) in [
        (&[(4, 1.0)][..], WeightsError::NoSuchEdge { edge: 4, edges: 4 }),
        (&[(u32::MAX, 1.0)], WeightsError::NoSuchEdge { edge: u32::MAX, edges: 4 }),
        (&[(1, 1.0), (0, 1.0), (1, 1.0)], WeightsError::Twice { edge: 1 }),
        (&[(2, 1.0)], WeightsError::Negative { edge: 2 }),
    ] {
        assert_eq!(decoder.decode(&[0, 1], weights).unwrap_err(), refused);
        assert_eq!(decoder.decode(&[0, 1], &[]).unwrap(), &usual);
        let heavier = decoder.decode(&[0, 1], &[(0, most), (1, 1.0)]).unwrap();
        assert_ne!(heavier, &usual);
    }
    assert!(matches!(decoder.decode(&[3], &[]), Err(WeightsError::Decode(_))));
    assert_eq!(decoder.decode(&[0, 1], &[]).unwrap(), &usual);
}

#[test]
fn nothing_is_allocated() {
    let side = 20;
    let mut b = GraphBuilder::new();
    for u in 0..side * side {
        if u % side == 0 || u % side == side - 1 {
            b.boundary_edge(u, 2.0, &[0]).unwrap();
        }
        if u % side != side - 1 {
            b.edge(u, u + 1, 3.0, &[]).unwrap();
        }
        if u + side < side * side {
            b.edge(u, u + side, 2.5, &[]).unwrap();
        }
    }
    let mut decoder = WeightedDecoder::new(&MwpmDecoder::new(b.build().unwrap()));
    let edges = decoder.graph().num_edges() as u32;
    let lower: Vec<(u32, f64)> = (0..edges).step_by(3).map(|e| (e, 0.5)).collect();
    let higher: Vec<(u32, f64)> = (0..edges).rev().map(|e| (e, f64::from(e % 7))).collect();
    let lists: Vec<Vec<u32>> = [2, 3, 7, 19].map(|step| (0..side * side).step_by(step).collect()).to_vec();
    let mut crossed = 0;
    let info = measure(|| {
        for defects in &lists {
            for weights in [&lower, &higher] {
                decoder.decode(defects, weights).unwrap();
                crossed += decoder.correction().len();
            }
            assert!(decoder.decode(defects, &[(edges, 1.0)]).is_err());
        }
    });
    assert_eq!(info.count_total, 0);
    assert!(crossed > 400);
}
