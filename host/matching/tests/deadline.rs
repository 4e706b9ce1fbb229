//! Decodes that are cut off after a number of clock checks: the best answer so far, and an unaffected next decode.

use proptest::prelude::*;
use ringcall_matching::{DecoderConfig, ErrorPart, GraphBuilder, MatchingGraph, MwpmDecoder, Progress};

/// A grid of checks with weights of all sizes and errors of two parts. `open` says whether it has boundaries.
fn grid(side: u32, weights: &[u32], open: bool) -> MatchingGraph {
    let mut b = GraphBuilder::new();
    let mut at = 0;
    let mut p = || {
        at += 1;
        0.002 * f64::from(weights[at % weights.len()])
    };
    let node = |x: u32, y: u32| y * side + x;
    for y in 0..side {
        for x in 0..side {
            if x + 1 < side {
                let (right, down) = ([node(x, y), node(x + 1, y)], [node(x, y), node(x, y + 1)]);
                b.error(p(), &[part(&right)]).unwrap();
                if y + 1 < side {
                    b.error(p(), &[part(&right), part(&down)]).unwrap();
                }
            }
            if y + 1 < side {
                b.error(p(), &[part(&[node(x, y), node(x, y + 1)])]).unwrap();
            }
        }
        if open {
            b.error(p(), &[ErrorPart { detectors: &[node(0, y)], observables: &[0] }]).unwrap();
            b.error(p(), &[part(&[node(side - 1, y)])]).unwrap();
        }
    }
    b.build().unwrap()
}

fn part(detectors: &[u32]) -> ErrorPart<'_> {
    ErrorPart { detectors, observables: &[] }
}

/// The detectors that a set of edges flips.
fn explained(graph: &MatchingGraph, correction: &[u32]) -> Vec<u32> {
    let mut odd = vec![false; graph.num_detectors()];
    for edge in correction.iter().map(|&edge| &graph.edges()[edge as usize]) {
        odd[edge.u as usize] ^= true;
        edge.v.into_iter().for_each(|v| odd[v as usize] ^= true);
    }
    (0..odd.len() as u32).filter(|&i| odd[i as usize]).collect()
}

fn decoder(graph: &MatchingGraph, correlations: bool) -> MwpmDecoder {
    let mut config = DecoderConfig::default();
    (config.correlations, config.pair_table) = (correlations, false);
    MwpmDecoder::with_config(graph.clone(), &config)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(150))]

    /// Whenever time is up, the answer explains the syndrome, and says how far it came.
    #[test]
    fn an_answer_that_is_cut_off_explains_the_syndrome(
        weights in prop::collection::vec(1u32..40, 7),
        fired in prop::collection::vec(any::<bool>(), 14 * 14),
        twice in any::<bool>(),
    ) {
        let graph = grid(14, &weights, true);
        let defects: Vec<u32> = (0..196).filter(|&i| fired[i as usize]).collect();
        let (mut cut, mut whole, mut once) = (decoder(&graph, twice), decoder(&graph, twice), decoder(&graph, false));
        let expected = whole.decode(&defects).unwrap().clone();
        let first = once.decode(&defects).unwrap().weight();
        let mut counts = [0; 3];
        for budget in 0..200 {
            let mut looks = 0;
            let (solution, progress) = cut
                .decode_until(&defects, || {
                    looks += 1;
                    looks > budget
                })
                .unwrap();
            let solution = solution.clone();
            prop_assert_eq!(explained(&graph, cut.correction()), defects.clone());
            match progress {
                Progress::Part { explained } => {
                    prop_assert!(explained && solution.weight() > first - 1e-6);
                    counts[0] += 1;
                }
                Progress::FirstPass => {
                    prop_assert!(twice && (solution.weight() - first).abs() < 1e-6);
                    counts[1] += 1;
                }
                Progress::SecondPass => panic!("a decoder makes two passes"),
                Progress::Done => {
                    prop_assert_eq!(solution, expected.clone());
                    cut.verify().unwrap();
                    counts[2] += 1;
                }
            }
            // What was cut off leaves nothing behind.
            prop_assert_eq!(cut.decode(&defects).unwrap(), &expected);
            if progress == Progress::Done {
                break;
            }
        }
        prop_assert!(counts[0] > 0 && counts[2] == 1 && (counts[1] > 0) == twice, "{:?}", counts);
    }
}

#[test]
fn without_a_boundary_some_defects_may_be_left() {
    let graph = grid(14, &[3, 17, 5, 29, 11], false);
    let defects: Vec<u32> = (0..196).filter(|i| i % 3 == 0).collect();
    let mut decoder = decoder(&graph, false);
    let (_, progress) = decoder.decode_until(&defects, || true).unwrap();
    assert_eq!(progress, Progress::Part { explained: false });
    let left = explained(&graph, decoder.correction());
    assert!(left.len() < defects.len() && left.iter().all(|node| defects.contains(node)));
    let (_, progress) = decoder.decode_until(&defects, || false).unwrap();
    assert_eq!(progress, Progress::Done);
    decoder.verify().unwrap();
}

#[test]
fn nothing_is_allocated() {
    let graph = grid(14, &[3, 17, 5, 29, 11], true);
    let defects: Vec<u32> = (0..196).filter(|i| i % 3 == 0).collect();
    let mut decoder = decoder(&graph, true);
    decoder.decode(&defects).unwrap();
    for budget in [0, 1, 5, 10, 20, 1000] {
        let info = allocation_counter::measure(|| {
            let mut looks = 0;
            decoder
                .decode_until(&defects, || {
                    looks += 1;
                    looks > budget
                })
                .unwrap();
        });
        assert_eq!(info.count_total, 0, "{budget}");
    }
}
