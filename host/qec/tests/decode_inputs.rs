//! What graphs and decoders refuse, and that a refusal leaves them sound; how graphs are built.

use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::{Basis, SurfaceCode};
use ringcall_qec::decode::{
    DecodeError, Decoder, DecoderFactory, DecoderInput, DecodingGraph, MatchingDecoder, MatchingEngine,
    ParallelEdges, Params, Registry, ShotDecoder, SliceDecoder, SliceFactory, get,
};
use ringcall_qec::dem::{Component, DetectorErrorModel, Mechanism};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::BitRow;

fn error(probability: f64, parts: &[(&[u32], &[u32])]) -> Mechanism {
    let part = |&(detectors, observables): &(&[u32], &[u32])| Component {
        detectors: detectors.to_vec(),
        observables: observables.to_vec(),
    };
    match parts {
        [only] => {
            let Component { detectors, observables } = part(only);
            Mechanism { probability, detectors, observables, components: Vec::new() }
        }
        _ => {
            let odd = |lists: Vec<&[u32]>| {
                let all: Vec<u32> = lists.concat();
                (0..64).filter(|value| all.iter().filter(|other| *other == value).count() % 2 == 1).collect()
            };
            Mechanism {
                probability,
                detectors: odd(parts.iter().map(|part| part.0).collect()),
                observables: odd(parts.iter().map(|part| part.1).collect()),
                components: parts.iter().map(part).collect(),
            }
        }
    }
}

fn model(num_detectors: u32, num_observables: u32, mechanisms: Vec<Mechanism>) -> DetectorErrorModel {
    DetectorErrorModel { num_detectors, num_observables, mechanisms, coordinates: Vec::new() }
}

/// `(node, other, weight, observables)` of each edge.
fn edges(graph: &DecodingGraph) -> Vec<(u32, Option<u32>, f64, Vec<u32>)> {
    graph.edges().iter().map(|edge| (edge.node, edge.other, edge.weight, edge.observables.clone())).collect()
}

fn weight(p: f64) -> f64 {
    ((1.0 - p) / p).ln()
}

#[test]
fn edges_of_a_model() {
    let model = model(
        4,
        2,
        vec![
            error(0.1, &[(&[0, 1], &[]), (&[2], &[1])]),
            error(0.2, &[(&[2], &[1])]),
            error(0.0, &[(&[3], &[0])]),
            error(0.3, &[(&[], &[0])]),
            error(0.5, &[(&[1, 3], &[])]),
            error(0.6, &[(&[0], &[0])]),
        ],
    );
    // The values that PyMatching 2.4 gives for the same model (0.26 = 0.1 * 0.8 + 0.2 * 0.9).
    let expected = [
        (0, Some(1), weight(0.1), vec![]),
        (2, None, 1.045_968_555_182_687_6, vec![1]),
        (1, Some(3), 0.0, vec![]),
        (0, None, -0.405_465_108_108_164_3, vec![0]),
    ];
    let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
    for (found, expected) in edges(&graph).iter().zip(&expected) {
        assert_eq!((found.0, found.1, &found.3), (expected.0, expected.1, &expected.3));
        assert!((found.2 - expected.2).abs() < 1e-14, "{found:?} {expected:?}");
    }
    assert_eq!((graph.edges().len(), graph.observable_conflicts()), (4, 0));
    assert_eq!(graph.components(), (vec![0, 0, 1, 0], vec![true, true]));
    let smallest = DecodingGraph::from_dem(&model, ParallelEdges::SmallestWeight).unwrap();
    assert_eq!(smallest.edges()[1].weight, weight(0.2));
}

#[test]
fn parallel_edges_with_other_observables() {
    let mechanisms =
        vec![error(0.2, &[(&[0], &[])]), error(0.1, &[(&[0], &[0])]), error(0.3, &[(&[0], &[1])])];
    let model = model(1, 2, mechanisms);
    let independent = DecodingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
    assert_eq!((independent.observable_conflicts(), independent.edges()[0].observables.len()), (2, 0));
    let smallest = DecodingGraph::from_dem(&model, ParallelEdges::SmallestWeight).unwrap();
    assert_eq!(edges(&smallest), [(0, None, weight(0.3), vec![1])]);
    assert_eq!(smallest.observable_conflicts(), 2);
}

#[test]
fn merged_weights_stay_exact_at_the_extremes() {
    for (a, b) in [(1e-200, 1e-210), (0.5, 0.3), (0.9, 0.8), (0.9, 1e-9), (1e-12, 1e-12)] {
        let model = model(1, 0, vec![error(a, &[(&[0], &[])]), error(b, &[(&[0], &[])])]);
        let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
        let p: f64 = a * (1.0 - b) + b * (1.0 - a);
        let expected = weight(p);
        let found = graph.edges()[0].weight;
        assert!((found - expected).abs() <= 1e-12 * expected.abs().max(1e-3), "{a} {b}: {found} {expected}");
    }
}

#[test]
fn models_without_a_graph() {
    let build = |mechanisms| DecodingGraph::from_dem(&model(4, 1, mechanisms), ParallelEdges::Independent);
    let hyperedge = vec![error(0.1, &[(&[0], &[])]), error(0.1, &[(&[0, 1, 2], &[])])];
    assert_eq!(build(hyperedge).unwrap_err(), DecodeError::Hyperedge { mechanism: 1, count: 3 });
    assert_eq!(build(vec![error(1.0, &[(&[0], &[])])]).unwrap_err(), DecodeError::Certain { mechanism: 0 });
    for bad in [error(f64::NAN, &[(&[0], &[])]), error(-0.1, &[(&[0], &[])]), error(0.1, &[(&[4], &[])])] {
        assert!(matches!(build(vec![bad]).unwrap_err(), DecodeError::Model(_)));
    }
    let likely = model(1, 0, vec![error(0.1, &[(&[0], &[])]), error(0.6, &[(&[0], &[])])]);
    let graph = DecodingGraph::from_dem(&likely, ParallelEdges::Independent).unwrap();
    let refused = MatchingDecoder::new(&graph, MatchingEngine::CorrelatedBlossom).unwrap_err();
    assert_eq!(refused, DecodeError::Likely { mechanism: 1, probability: 0.6 });
}

#[test]
fn edges_that_make_no_sense() {
    let mut graph = DecodingGraph::new(2, 1, ParallelEdges::Independent);
    let mut add = |node, other, weight, observables: &[u32]| graph.add_edge(node, other, weight, observables);
    assert_eq!(add(2, None, 1.0, &[]), Err(DecodeError::Detector { detector: 2, count: 2 }));
    assert_eq!(add(0, Some(9), 1.0, &[]), Err(DecodeError::Detector { detector: 9, count: 2 }));
    assert_eq!(add(0, None, 1.0, &[1]), Err(DecodeError::Observable { observable: 1, count: 1 }));
    assert_eq!(add(1, Some(1), 1.0, &[]), Err(DecodeError::SelfLoop { node: 1 }));
    for weight in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        assert!(matches!(add(0, None, weight, &[]), Err(DecodeError::Weight { node: 0, .. })));
    }
    assert!(graph.edges().is_empty(), "a refused edge is not added");
    graph.add_edge(0, None, 1e9, &[]).unwrap();
    graph.add_edge(0, Some(1), 0.25, &[]).unwrap();
    let refused = MatchingDecoder::new(&graph, MatchingEngine::default()).unwrap_err();
    assert_eq!(refused, DecodeError::WeightRange { smallest: 0.25, largest: 1e9 });
    let mut tiny = DecodingGraph::new(1, 0, ParallelEdges::Independent);
    tiny.add_edge(0, None, f64::from_bits(1), &[]).unwrap();
    let result = MatchingDecoder::new(&tiny, MatchingEngine::default());
    assert!(matches!(result, Err(DecodeError::WeightRange { .. })));
}

#[test]
fn check_matrices_that_make_no_sense() {
    let build = |rows: &[Vec<u32>], weights: Option<&[f64]>| {
        DecodingGraph::from_check_matrix(rows, 3, weights, ParallelEdges::SmallestWeight)
            .unwrap_err()
            .to_string()
    };
    assert!(build(&[vec![0], vec![3]], None).contains("row 1 of the check matrix names column 3"));
    assert!(build(&[vec![0, 1, 0]], None).contains("names column 0, which it names twice"));
    assert!(build(&[vec![2], vec![2], vec![2]], None).contains("column 2 of the check matrix is in 3 rows"));
    assert!(build(&[vec![0]], Some(&[1.0])).contains("1 given, 3 needed"));
    assert!(build(&[vec![0]], Some(&[f64::NAN, 1.0, 1.0])).contains("weight NaN"));
}

/// A square with a boundary at detector 0, and a pair without boundary; detector 6 has no edges at all.
fn decoder() -> MatchingDecoder {
    let mut graph = DecodingGraph::new(7, 9, ParallelEdges::Independent);
    for (node, other, weight, observable) in [
        (0, None, 1.5, 8),
        (0, Some(1), 1.0, 0),
        (1, Some(2), 1.0, 1),
        (2, Some(3), 1.0, 2),
        (4, Some(5), 2.0, 3),
    ] {
        graph.add_edge(node, other, weight, &[observable]).unwrap();
    }
    MatchingDecoder::new(&graph, MatchingEngine::default()).unwrap()
}

#[test]
fn refused_syndromes_leave_the_decoder_sound() {
    let mut decoder = decoder();
    let right = |decoder: &mut MatchingDecoder| {
        let mut observables = [0xff, 0xff];
        let matched = decoder.decode(&[5, 3, 4], &mut observables).unwrap();
        assert!((matched.weight - 6.5).abs() < 1e-6, "{matched:?}");
        assert_eq!((observables, matched.corrections, matched.converged), ([0b1111, 1], 2, true));
    };
    right(&mut decoder);
    let bad: [(&[u32], DecodeError); 7] = [
        (&[1, 7], DecodeError::Detector { detector: 7, count: 7 }),
        (&[u32::MAX], DecodeError::Detector { detector: u32::MAX, count: 7 }),
        (&[3, 1, 3], DecodeError::Duplicate { detector: 3 }),
        (&[4], DecodeError::OddParity { detector: 4 }),
        (&[6, 0], DecodeError::OddParity { detector: 6 }),
        (&[4, 6, 0], DecodeError::OddParity { detector: 4 }),
        (&[4, 5, 6], DecodeError::OddParity { detector: 6 }),
    ];
    for (defects, expected) in &bad {
        assert_eq!(decoder.decode(defects, &mut [0; 2]).as_ref(), Err(expected));
        right(&mut decoder);
    }
    let length = DecodeError::Length { what: "bytes for observables", expected: 2, found: 1 };
    assert_eq!(decoder.decode(&[], &mut [0]), Err(length));
    right(&mut decoder);
    let mut observables = [0xff; 2];
    let matched = decoder.decode(&[], &mut observables).unwrap();
    assert_eq!((matched.weight, matched.corrections, observables), (0.0, 0, [0, 0]), "an empty syndrome");
}

#[test]
fn sixty_four_observables() {
    let mechanisms = (0..64).map(|index| error(0.1, &[(&[index], &[index])])).collect();
    let mut decoder = MatchingDecoder::from_dem(&model(64, 64, mechanisms)).unwrap();
    let mut observables = [0; 8];
    decoder.decode(&[63, 0, 31], &mut observables).unwrap();
    assert_eq!(u64::from_le_bytes(observables), 1 << 63 | 1 << 31 | 1);
}

#[test]
fn more_observables_than_a_word_has_bits() {
    let mechanisms = (0..70).map(|index| error(0.1, &[(&[index], &[index])])).collect();
    let mut decoder = MatchingDecoder::from_dem(&model(70, 70, mechanisms)).unwrap();
    let mut observables = [0xff; 9];
    decoder.decode(&[69, 3, 64], &mut observables).unwrap();
    assert_eq!(observables, [8, 0, 0, 0, 0, 0, 0, 0, 0b10_0001]);
}

#[test]
fn graphs_without_edges_or_detectors() {
    let empty = DecodingGraph::new(0, 0, ParallelEdges::Independent);
    let mut decoder = MatchingDecoder::new(&empty, MatchingEngine::default()).unwrap();
    assert_eq!(decoder.decode(&[], &mut []).unwrap().weight, 0.0);
    assert_eq!(decoder.decode(&[0], &mut []), Err(DecodeError::Detector { detector: 0, count: 0 }));
    let mut zeros = DecodingGraph::new(2, 1, ParallelEdges::Independent);
    zeros.add_edge(0, Some(1), 0.0, &[0]).unwrap();
    let mut decoder = MatchingDecoder::new(&zeros, MatchingEngine::default()).unwrap();
    let mut observables = [0];
    let matched = decoder.decode(&[1, 0], &mut observables).unwrap();
    assert_eq!((matched.weight, matched.corrections, observables), (0.0, 1, [1]));
}

#[test]
fn rows_of_the_wrong_length() {
    let mut decoder = ShotDecoder::new(decoder());
    let length = |what, expected, found| DecodeError::Length { what, expected, found };
    let mut observables = BitRow::new(9);
    let result = decoder.decode(&BitRow::new(8), &mut observables);
    assert_eq!(result, Err(length("detectors", 7, 8)));
    let result = decoder.decode(&BitRow::new(7), &mut BitRow::new(10));
    assert_eq!(result, Err(length("observables", 9, 10)));
    let mut detectors = BitRow::new(7);
    detectors.set(0, true);
    decoder.decode(&detectors, &mut observables).unwrap();
    assert_eq!(observables.iter_ones().collect::<Vec<_>>(), [8]);
}

#[test]
fn residuals_that_make_no_sense() {
    let rows = [[0, 1], [1, 2]];
    let mut decoder = SliceDecoder::new(&rows, 3, 3, MatchingEngine::default()).unwrap();
    assert_eq!(decoder.num_detectors(), 6);
    let length = DecodeError::Length { what: "residual detectors", expected: 6, found: 5 };
    assert_eq!(decoder.decode(&[0; 5]), Err(length.clone()));
    assert_eq!(decoder.decode_bits(&BitRow::new(5)), Err(length));
    let value = DecodeError::Residual { index: 4, value: -1 };
    assert_eq!(decoder.decode(&[1, 0, 0, 0, -1, 2]), Err(value));
    assert_eq!(decoder.decode(&[0, 0, 1, 1, 0, 1]).unwrap().total_corrections, 2);
    // A loop of checks has no boundary: one defect in the second slice cannot be explained.
    let ring = [[0, 1], [1, 2], [2, 0]];
    let mut decoder = SliceDecoder::new(&ring, 3, 2, MatchingEngine::default()).unwrap();
    assert_eq!(decoder.decode(&[1, 1, 0, 0, 1, 0]), Err(DecodeError::OddParity { detector: 1 }));
    assert_eq!(decoder.decode(&[1, 1, 0, 0, 1, 1]).unwrap().total_corrections, 2);
    assert!(SliceDecoder::new(&ring, 3, u32::MAX, MatchingEngine::default()).is_err());
}

#[test]
fn slices_are_matched_alone() {
    for (basis, rounds) in [(Basis::Z, 4), (Basis::X, 3), (Basis::Z, 1)] {
        let experiment = MemoryExperiment { distance: 5, rounds, basis, noise: CircuitNoise::uniform(0.02) };
        let model = experiment.detector_error_model().unwrap();
        let layout = experiment.detector_layout().unwrap();
        let code = SurfaceCode::new(5).unwrap();
        let factory = SliceFactory::new(&experiment, true).unwrap();
        assert_eq!(factory.slices(), 2 * rounds as usize);
        let mut decoder = factory.build().unwrap();
        let one = |basis| {
            let rows = code.check_matrix(basis);
            SliceDecoder::new(&rows, code.num_data(), 1, MatchingEngine::default()).unwrap()
        };
        let mut alone = [one(Basis::X), one(Basis::Z)];
        let (mut sampler, mut fired) = (Sampler::new(&model, 3).unwrap(), Vec::new());
        let mut shot = sampler.new_shot();
        for _ in 0..50 {
            sampler.sample_into(&mut shot).unwrap();
            fired.clear();
            shot.detectors.ones_into(&mut fired);
            let expected: i32 = layout
                .slices()
                .map(|(basis, _, detectors)| {
                    let residual: Vec<i32> =
                        detectors.iter().map(|id| i32::from(fired.contains(id))).collect();
                    alone[usize::from(basis == Basis::Z)].decode(&residual).unwrap().total_corrections
                })
                .sum();
            let found = decoder.decode(&fired, &mut [0]).unwrap();
            assert_eq!((found.corrections as i32, found.converged), (expected, true));
        }
        // An error on one data qubit before a round: its two detectors lie in one slice, whose correction is the error.
        let row = code.logical(basis)[2];
        let checks = &code.checks_on_data(basis)[row as usize];
        let slice = layout.layer(basis, 0).unwrap();
        let defects: Vec<u32> = checks.iter().map(|&check| slice[check as usize]).collect();
        let mut observables = [0];
        assert_eq!(decoder.decode(&defects, &mut observables).unwrap().corrections, 1);
        assert_eq!(observables, [1]);
        assert!(decoder.decode(&[model.num_detectors], &mut [0]).is_err());
        assert!(decoder.decode(&[], &mut []).is_err());
    }
}

#[test]
fn decoders_by_name() {
    let model = model(2, 1, vec![error(0.1, &[(&[0], &[])]), error(0.1, &[(&[0, 1], &[0])])]);
    let input = DecoderInput::Model(&model);
    let (rows, none) = ([&[0_u32, 1][..], &[1, 2]], Params::new());
    let checks = DecoderInput::Checks { rows: &rows, columns: 3 };
    for (name, input, bytes) in [("pymatching", input, 1), ("pymatching", checks, 0), ("relay", input, 1)] {
        let mut decoder = get(name, input, &none).unwrap().build().unwrap();
        let mut observables = vec![0; bytes];
        assert_eq!(decoder.decode(&[0], &mut observables).unwrap().corrections, 1, "{name}");
    }
    let why = |name, input, params: &Params| match get(name, input, params) {
        Err(error) => error.to_string(),
        Ok(_) => panic!("{name} was taken"),
    };
    assert!(why("pymatch", input, &none).contains("pymatching, relay"));
    assert!(why("relay", checks, &none).contains("for a model"));
    assert!(why("pymatching", input, &none.clone().with("weights", 3.0)).contains("no parameter `weights`"));
    assert!(
        why("pymatching", input, &none.clone().with("merge_strategy", "best")).contains("smallest_weight")
    );
    assert!(
        why("pymatching", checks, &none.clone().with("enable_correlations", true)).contains("for a model")
    );
    assert!(why("relay", input, &none.clone().with("solutions", 0_u32)).contains("from 1"));
    let mut registry = Registry::new();
    assert!(registry.register("relay", |input, params| get("relay", input, params)).is_err());
    registry.register("ours", |input, params| get("relay", input, params)).unwrap();
    assert!(registry.of_model("ours", &model, &none).is_ok());
    assert_eq!(registry.names().collect::<Vec<_>>(), ["ours", "pymatching", "relay"]);
}
