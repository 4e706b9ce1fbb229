//! The matching decoder against the minimum over every set of edges, on small graphs of every kind.
//!
//! Graphs are drawn from a fixed seed, so that the tests are the same in every run.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_qec::decode::{
    DecodeError, Decoder, DecoderFactory, DecodingGraph, MatchingDecoder, MatchingEngine, MatchingFactory,
    ParallelEdges,
};

struct Random(Xoshiro256PlusPlus);

impl Random {
    fn below(&mut self, end: u64) -> u64 {
        self.0.next_u64() % end
    }
}

/// How weights are drawn.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Weights {
    One,
    Whole,
    Real,
    Signed,
}

fn graph(random: &mut Random, weights: Weights) -> DecodingGraph {
    let detectors = 2 + random.below(6) as u32;
    let observables = random.below(4) as u32;
    let mut graph = DecodingGraph::new(detectors, observables, ParallelEdges::SmallestWeight);
    for _ in 0..2 + random.below(11) {
        let node = random.below(u64::from(detectors)) as u32;
        let other = Some(random.below(u64::from(detectors)) as u32).filter(|&other| other != node);
        let mut weight = match weights {
            Weights::One => 1.0,
            Weights::Whole => random.below(20) as f64,
            Weights::Real | Weights::Signed => random.below(1 << 20) as f64 / 131_072.3,
        };
        if weights == Weights::Signed && random.below(3) == 0 {
            weight = -weight;
        }
        let flips: Vec<u32> = (0..observables).filter(|_| random.below(3) == 0).collect();
        graph.add_edge(node, other, weight, &flips).unwrap();
    }
    graph
}

/// The least weight of a syndrome, and the observables (as bits) and sizes of all sets of edges of that weight.
type Minimum = (f64, Vec<(u8, u32)>);

/// The minimum for each syndrome; none where no set of edges explains it.
fn minima(graph: &DecodingGraph) -> Vec<Option<Minimum>> {
    let mut best: Vec<Option<Minimum>> = vec![None; 1 << graph.num_detectors()];
    for set in 0u32..1 << graph.edges().len() {
        let (mut syndrome, mut weight, mut observables) = (0usize, 0.0, 0u8);
        for (_, edge) in graph.edges().iter().enumerate().filter(|(index, _)| set >> index & 1 == 1) {
            syndrome ^= 1 << edge.node;
            syndrome ^= edge.other.map_or(0, |other| 1 << other);
            weight += edge.weight;
            observables ^= edge.observables.iter().fold(0, |mask, index| mask | 1 << index);
        }
        let found = (observables, set.count_ones());
        match &mut best[syndrome] {
            // Whole steps of a 2^24th of the largest weight blur sums of up to 13 edges by less than this.
            Some((least, all)) if (weight - *least).abs() < 1e-5 => all.push(found),
            Some((least, _)) if weight > *least => {}
            entry => *entry = Some((weight, vec![found])),
        }
    }
    best
}

fn compare(seed: u64, weights: Weights, graphs: u32) {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(seed));
    let (mut decoded, mut refused) = (0, 0);
    for number in 0..graphs {
        let graph = graph(&mut random, weights);
        let mut decoder = MatchingDecoder::new(&graph, MatchingEngine::default()).unwrap();
        let mut observables = vec![0; (graph.num_observables() as usize).div_ceil(8)];
        for (syndrome, expected) in minima(&graph).iter().enumerate() {
            let mut defects: Vec<u32> =
                (0..graph.num_detectors()).filter(|&index| syndrome >> index & 1 == 1).collect();
            if number % 2 == 1 {
                defects.reverse(); // any order will do
            }
            let what = || format!("graph {number} {:?}, defects {defects:?}", graph.edges());
            match (decoder.decode(&defects, &mut observables), expected) {
                (Ok(matched), Some((weight, all))) => {
                    decoded += 1;
                    assert!(matched.converged);
                    assert!((matched.weight - weight).abs() < 1e-5, "{matched:?}, not {weight}: {}", what());
                    let mask = observables.first().copied().unwrap_or(0);
                    let answers = || all.iter().filter(|(observables, _)| *observables == mask);
                    assert!(
                        answers().next().is_some(),
                        "observables {mask:b} of none of {all:?}: {}",
                        what()
                    );
                    if weights == Weights::One {
                        let right = answers().any(|&(_, edges)| edges == matched.corrections);
                        assert!(right, "{} corrections: {}", matched.corrections, what());
                    }
                }
                (Err(DecodeError::OddParity { detector }), None) => {
                    refused += 1;
                    assert!(defects.contains(&detector));
                }
                (found, expected) => panic!("{found:?}, expected {expected:?}: {}", what()),
            }
        }
    }
    assert!(decoded > 10 * graphs && refused > graphs, "{decoded} {refused}");
}

#[test]
fn equal_weights() {
    compare(1, Weights::One, 1500);
}

#[test]
fn whole_weights() {
    compare(2, Weights::Whole, 1500);
}

#[test]
fn real_weights() {
    compare(3, Weights::Real, 1500);
}

#[test]
fn weights_of_both_signs() {
    compare(4, Weights::Signed, 1500);
}

#[test]
fn decoders_of_one_factory_agree_on_threads() {
    let mut random = Random(Xoshiro256PlusPlus::seed_from_u64(5));
    let graph = loop {
        let graph = graph(&mut random, Weights::Real);
        if graph.num_detectors() == 7 && graph.components().1.iter().all(|&open| open) {
            break graph;
        }
    };
    let factory = MatchingFactory::new(&graph, MatchingEngine::default()).unwrap();
    let all = |decoder: &mut dyn Decoder| -> Vec<_> {
        let mut observables = vec![0; (graph.num_observables() as usize).div_ceil(8)];
        (0..128u32)
            .map(|syndrome| {
                let defects: Vec<u32> = (0..7).filter(|index| syndrome >> index & 1 == 1).collect();
                (decoder.decode(&defects, &mut observables).unwrap(), observables.clone())
            })
            .collect()
    };
    let expected = all(&mut *factory.build().unwrap());
    std::thread::scope(|scope| {
        for _ in 0..3 {
            let mut decoder = factory.build().unwrap();
            let (all, expected) = (&all, &expected);
            scope.spawn(move || assert_eq!(&all(&mut *decoder), expected));
        }
    });
}
