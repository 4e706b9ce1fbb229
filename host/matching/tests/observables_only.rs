//! Decoders for the observables alone: the same observables, with the parts left out that have no bearing on them.

use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall_matching::{
    DecoderConfig, ErrorPart, GraphBuilder, MatchingError, MatchingGraph, MwpmDecoder, ParallelConfig,
    ParallelDecoder, StreamingDecoder,
};
use std::num::NonZeroU32;

const LENGTH: u32 = 30;

/// Three lines of detectors with errors of uneven probabilities: observable 0 on the first, errors common to the first two, and a third on
/// its own.
fn lines(rng: &mut Rng, common: bool) -> MatchingGraph {
    let mut b = GraphBuilder::new();
    let node = |line: u32, i: u32| line * LENGTH + i;
    for line in 0..3 {
        for i in 0..=LENGTH {
            let detectors: Vec<u32> = match i {
                0 => vec![node(line, 0)],
                LENGTH => vec![node(line, LENGTH - 1)],
                _ => vec![node(line, i - 1), node(line, i)],
            };
            let observables: &[u32] = if line == 0 && i == 0 { &[0] } else { &[] };
            let part = ErrorPart { detectors: &detectors, observables };
            b.error(rng.random_range(0.02..0.2), &[part]).unwrap();
            if common && line == 1 {
                let other: Vec<u32> = detectors.iter().map(|d| d - LENGTH).collect();
                let observables: &[u32] = if i == 0 { &[0] } else { &[] };
                let parts = [
                    ErrorPart { detectors: &other, observables },
                    ErrorPart { detectors: &detectors, observables: &[] },
                ];
                b.error(rng.random_range(0.02..0.2), &parts).unwrap();
            }
        }
    }
    b.build().unwrap()
}

fn decoders(graph: &MatchingGraph, correlations: bool) -> [MwpmDecoder; 2] {
    [false, true].map(|observables_only| {
        let mut config = DecoderConfig::default();
        (config.correlations, config.observables_only) = (correlations, observables_only);
        MwpmDecoder::with_config(graph.clone(), &config)
    })
}

/// The grid weight of those edges of the last correction that lie on the first line.
fn weight_of_first_line(decoder: &mut MwpmDecoder) -> i64 {
    let edges = decoder.correction().to_vec();
    let graph = decoder.graph();
    edges
        .iter()
        .map(|&e| e as usize)
        .filter(|&e| graph.edges()[e].u < LENGTH)
        .map(|e| graph.grid_weight(e))
        .sum()
}

proptest! {
    #[test]
    fn observables_are_those_of_the_whole(seed in any::<u64>(), density in 0.02..0.5f64) {
        let mut rng = Rng::seed_from_u64(seed);
        for (common, correlations) in [(false, false), (true, false), (true, true)] {
            let graph = lines(&mut rng, common);
            let [mut whole, mut part] = decoders(&graph, correlations);
            prop_assert_eq!(part.makes_second_pass(), correlations);
            let rounds: Vec<u32> = (0..3 * LENGTH).map(|d| d % LENGTH).collect();
            let mut stream = StreamingDecoder::new(&part, &rounds).unwrap();
            let mut in_slabs = ParallelConfig::new(2.try_into().unwrap());
            (in_slabs.least_defects, in_slabs.least_rounds) = (0, NonZeroU32::new(1));
            let mut parallel = ParallelDecoder::new(&part, &rounds, &in_slabs).unwrap();
            for _ in 0..8 {
                let defects: Vec<u32> = (0..3 * LENGTH).filter(|_| rng.random_bool(density)).collect();
                let expected = whole.decode(&defects).unwrap().observables().to_vec();
                let solution = part.decode(&defects).unwrap();
                prop_assert_eq!(solution.observables(), &expected[..]);
                prop_assert!(solution.pairs().iter().all(|pair| pair.a < LENGTH));
                if !correlations {
                    let weight = solution.grid_weight();
                    prop_assert_eq!(weight, weight_of_first_line(&mut whole));
                }
                part.verify().unwrap();
                prop_assert!(part.correction().iter().all(|&e| graph.edges()[e as usize].u < LENGTH));
                prop_assert_eq!(parallel.decode(&defects).unwrap().observables(), &expected[..]);
                let mut last = Vec::new();
                for round in 0..LENGTH {
                    let of_round: Vec<u32> = defects.iter().copied().filter(|d| d % LENGTH == round).collect();
                    if let Some(solution) = stream.push_round(&of_round).unwrap() {
                        last = solution.observables().to_vec();
                    }
                }
                prop_assert_eq!(last, expected);
            }
        }
    }
}

proptest! {
    #[test]
    fn nothing_depends_on_detectors_that_are_left_out(seed in any::<u64>(), density in 0.02..0.5f64) {
        let mut rng = Rng::seed_from_u64(seed);
        for (common, correlations, first_left_out) in [(false, false, 1), (true, false, 1), (true, true, 2)] {
            let graph = lines(&mut rng, common);
            let [whole, part] = decoders(&graph, correlations);
            // A decoder that matches once leaves out more than that which it is made of.
            for (mut part, first_left_out) in [(part.single_pass(), 1), (part, first_left_out)] {
                prop_assert!((0..3 * LENGTH).all(|d| part.leaves_out(d) == (d >= first_left_out * LENGTH)));
                for _ in 0..8 {
                    let defects: Vec<u32> = (0..3 * LENGTH).filter(|_| rng.random_bool(density)).collect();
                    let kept: Vec<u32> = defects.iter().copied().filter(|&d| !part.leaves_out(d)).collect();
                    let all = part.decode(&defects).unwrap().clone();
                    prop_assert_eq!(part.decode(&kept).unwrap(), &all);
                }
            }
            prop_assert!((0..3 * LENGTH).all(|d| !whole.leaves_out(d)));
        }
    }
}

#[test]
fn nothing_is_left_out_where_nothing_speaks_and_errors_stay_errors() {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 1.0, &[]).unwrap().edge(0, 1, 1.0, &[]).unwrap();
    b.edge(2, 3, 1.0, &[]).unwrap();
    let mut config = DecoderConfig::default();
    config.observables_only = true;
    let mut decoder = MwpmDecoder::with_config(b.build().unwrap(), &config);
    assert_eq!(decoder.decode(&[1]).unwrap().pairs().len(), 1);
    b.ensure_observables(1).boundary_edge(4, 1.0, &[0]).unwrap();
    let mut decoder = MwpmDecoder::with_config(b.build().unwrap(), &config);
    assert_eq!(decoder.decode(&[1, 4]).unwrap().pairs().len(), 1);
    assert_eq!([0, 2, 4].map(|detector| decoder.leaves_out(detector)), [true, false, false]);
    // A single detector of a part without a boundary cannot be explained, even in a part that flips no observable.
    assert_eq!(decoder.decode(&[2]).unwrap_err(), MatchingError::OddParity { detector: 2 });
    assert!(matches!(decoder.decode(&[9]), Err(MatchingError::DefectOutOfRange { .. })));
}

#[test]
fn negative_weights_of_silent_parts_do_not_count() {
    let mut b = GraphBuilder::new();
    b.boundary_edge(0, 2.0, &[0]).unwrap().boundary_edge(1, -3.0, &[]).unwrap();
    let mut config = DecoderConfig::default();
    config.observables_only = true;
    let mut decoder = MwpmDecoder::with_config(b.build().unwrap(), &config);
    let solution = decoder.decode(&[0]).unwrap();
    assert_eq!((solution.observables(), solution.weight()), (&[1][..], 2.0));
}

#[test]
fn it_allocates_nothing() {
    let mut rng = Rng::seed_from_u64(4);
    let graph = lines(&mut rng, true);
    for correlations in [false, true] {
        let [_, mut part] = decoders(&graph, correlations);
        let lists: Vec<Vec<u32>> =
            (0..20).map(|_| (0..3 * LENGTH).filter(|_| rng.random_bool(0.3)).collect()).collect();
        let info = allocation_counter::measure(|| {
            for list in &lists {
                std::hint::black_box(part.decode(list).unwrap().observables());
            }
        });
        assert_eq!(info.count_total, 0);
    }
}
