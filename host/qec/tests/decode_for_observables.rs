//! Decoders for the observables alone against decoders of everything, on memory experiments.

use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges, ShotDecoder};
use ringcall_qec::sample::Sampler;

#[test]
fn predictions_are_those_of_all_parts() {
    for (basis, engine) in [
        (Basis::Z, MatchingEngine::SparseBlossom),
        (Basis::Z, MatchingEngine::CorrelatedBlossom),
        (Basis::X, MatchingEngine::CorrelatedBlossom),
    ] {
        let noise = CircuitNoise::uniform(0.006);
        let model = MemoryExperiment { distance: 5, rounds: 5, basis, noise }.detector_error_model().unwrap();
        let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
        let part = MatchingDecoder::for_observables(&graph, engine).unwrap();
        assert_eq!(part.kind(), engine);
        let mut decoders = [MatchingDecoder::new(&graph, engine).unwrap(), part].map(ShotDecoder::new);
        let mut sampler = Sampler::new(&model, 5).unwrap();
        let mut shot = sampler.new_shot();
        let mut predicted = [shot.observables.clone(), shot.observables.clone()];
        let (mut different, mut pairs) = (0, [0, 0]);
        for _ in 0..4_000 {
            sampler.sample_into(&mut shot).unwrap();
            for ((decoder, predicted), pairs) in decoders.iter_mut().zip(&mut predicted).zip(&mut pairs) {
                *pairs += decoder.decode(&shot.detectors, predicted).unwrap().corrections;
            }
            different += u32::from(predicted[0] != predicted[1]);
        }
        assert!(pairs[1] < 2 * pairs[0] / 3, "{pairs:?}: half of the pairs are of the other basis");
        // Ties of the first pass may be broken in another way.
        assert!(different <= 4, "{different} of 4,000 predictions differ");
    }
}
