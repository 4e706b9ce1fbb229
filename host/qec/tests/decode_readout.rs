//! Weights from read-outs: equal to a model with the read-out's errors; known leakage; measurements without an edge.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_qec::circuit::{Circuit, CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{
    DecodeError, Decoder, DecodingGraph, MatchingDecoder, MatchingEngine, MatchingFactory, ParallelEdges,
    ReadoutWeights,
};
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::BitRow;

fn experiment(basis: Basis) -> MemoryExperiment {
    MemoryExperiment { distance: 3, rounds: 4, basis, noise: CircuitNoise::uniform(0.008) }
}

fn graph(model: &DetectorErrorModel) -> DecodingGraph {
    DecodingGraph::from_dem(model, ParallelEdges::Independent).unwrap()
}

fn uniform(rng: &mut Xoshiro256PlusPlus) -> f64 {
    (rng.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn flip(bits: &mut BitRow, which: &[u32]) {
    for &index in which {
        bits.flip(index).expect("it is there");
    }
}

/// A shot decodes to the weight and observables that it has on a model to which the shot's read-out errors were added.
#[test]
fn a_read_out_is_an_error_more_of_the_model() {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(11);
    let (mut differ, mut ties) = (0, 0);
    for basis in [Basis::Z, Basis::X] {
        let experiment = experiment(basis);
        let model = experiment.detector_error_model().unwrap();
        let graph_of_model = graph(&model);
        let mut readout = ReadoutWeights::new(&experiment.circuit().unwrap(), &graph_of_model).unwrap();
        assert_eq!(readout.measurements(), 4 * 8 + 9);
        let factory = MatchingFactory::new(&graph_of_model, MatchingEngine::SparseBlossom).unwrap();
        let mut decoder = factory.weighted();
        let mut usual = MatchingDecoder::new(&graph_of_model, MatchingEngine::SparseBlossom).unwrap();
        let mut sampler = Sampler::new(&model, 5).unwrap();
        let mut shot = sampler.new_shot();
        let mut defects = Vec::new();
        for _ in 0..400 {
            sampler.sample_into(&mut shot).unwrap();
            let mut theirs = model.clone();
            readout.clear();
            for measurement in 0..readout.measurements() {
                if rng.next_u64().is_multiple_of(3) {
                    continue;
                }
                // Certain, as good as certain, or in doubt.
                let ratio = [0.0, 60.0, 8.0 * uniform(&mut rng)][(rng.next_u64() % 3) as usize];
                readout.doubt(measurement, ratio);
                let flips = &readout.flips()[measurement as usize];
                if flips.detectors.is_empty() {
                    continue;
                }
                theirs.mechanisms.push(Mechanism {
                    probability: 1.0 / (1.0 + ratio.exp()),
                    detectors: flips.detectors.clone(),
                    observables: flips.observables.clone(),
                    components: Vec::new(),
                });
                if rng.next_u64().is_multiple_of(8) {
                    flip(&mut shot.detectors, &flips.detectors);
                }
            }
            defects.clear();
            shot.detectors.ones_into(&mut defects);
            let theirs = graph(&theirs);
            assert_eq!(theirs.edges().len(), graph_of_model.edges().len(), "no edge is new");
            let mut fresh = MatchingDecoder::new(&theirs, MatchingEngine::SparseBlossom).unwrap();
            let (mut expected, mut found) = ([0], [0]);
            let wanted = fresh.decode(&defects, &mut expected).unwrap();
            let matched = decoder.decode(&defects, readout.weights(), &mut found).unwrap();
            // Each edge is rounded on both grids.
            let most = 80.0 * (fresh.weight_step() + usual.weight_step());
            assert!((matched.weight - wanted.weight).abs() < most, "{} {}", matched.weight, wanted.weight);
            // An edge of weight zero makes solutions of equal weight.
            ties += u32::from(found != expected);
            usual.decode(&defects, &mut expected).unwrap();
            differ += u32::from(found != expected);
        }
    }
    assert!(
        differ > 20 && 2 * ties < differ,
        "{differ} answers changed, {ties} differ from the fresh model's"
    );
}

/// A decoder that is told which qubits had leaked errs less than one that sees their random outcomes alone.
#[test]
fn leakage_that_is_known_does_less_harm() {
    let experiment = experiment(Basis::Z);
    let model = experiment.detector_error_model().unwrap();
    let graph = graph(&model);
    let mut readout = ReadoutWeights::new(&experiment.circuit().unwrap(), &graph).unwrap();
    let mut decoder = MatchingFactory::new(&graph, MatchingEngine::SparseBlossom).unwrap().weighted();
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(3);
    let mut sampler = Sampler::new(&model, 8).unwrap();
    let mut shot = sampler.new_shot();
    let (mut defects, mut wrong) = (Vec::new(), [0; 2]);
    for _ in 0..4000 {
        sampler.sample_into(&mut shot).unwrap();
        readout.clear();
        for measurement in 0..readout.measurements() {
            if !rng.next_u64().is_multiple_of(12) {
                continue;
            }
            readout.doubt(measurement, 0.0);
            if rng.next_u64().is_multiple_of(2) {
                let flips = &readout.flips()[measurement as usize];
                flip(&mut shot.detectors, &flips.detectors);
                flip(&mut shot.observables, &flips.observables);
            }
        }
        defects.clear();
        shot.detectors.ones_into(&mut defects);
        for (weights, wrong) in [&[][..], readout.weights()].into_iter().zip(&mut wrong) {
            let mut found = [0];
            decoder.decode(&defects, weights, &mut found).unwrap();
            *wrong += u32::from(shot.observables.get(0) != Some(found[0] == 1));
        }
    }
    assert!(wrong[1] > 0 && 10 * wrong[1] < 7 * wrong[0], "{wrong:?}");
}

#[test]
fn a_measurement_without_an_edge_is_refused() {
    let refused = |circuit: &str, model: &str| {
        let circuit: Circuit = circuit.parse().unwrap();
        let model = ringcall_qec::dem::text::parse(model).unwrap();
        match ReadoutWeights::new(&circuit, &graph(&model)).unwrap_err() {
            DecodeError::Measurement { measurement, .. } => measurement,
            error => panic!("{error}"),
        }
    };
    let three = "M 0\nDETECTOR rec[-1]\nDETECTOR rec[-1]\nDETECTOR rec[-1]";
    assert_eq!(refused(three, "error(0.1) D0 D1\nerror(0.1) D2"), 0);
    let two = "M 0 1\nDETECTOR rec[-2]\nDETECTOR rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-1]";
    assert_eq!(refused(two, "error(0.1) D0\nerror(0.1) D0 D1"), 1, "no edge");
    assert_eq!(refused(two, "error(0.1) D0\nerror(0.1) D1"), 1, "another observable");
    assert_eq!(refused(two, "error(0.7) D0\nerror(0.1) D1 L0"), 0, "likelier than not");
    let model = ringcall_qec::dem::text::parse("error(0.1) D0\nerror(0.1) D1 L0").unwrap();
    let mut readout = ReadoutWeights::new(&two.parse().unwrap(), &graph(&model)).unwrap();
    // Measurements that do not exist, and ratios that are NaN, are ignored.
    readout.doubt(2, 0.0);
    readout.doubt(0, f64::NAN);
    readout.doubt(0, -1.0);
    assert_eq!((readout.weights(), readout.edge(1), readout.edge(2)), (&[][..], Some(1), None));
}

/// Records inside repeated blocks, and measurements that cancel, are counted as the circuit's analysis does.
#[test]
fn flips_are_those_of_the_circuits_model() {
    let text = "R 0\nREPEAT 3 {\n    M 0\n    DETECTOR rec[-1]\n}\nM 0\nDETECTOR rec[-1] rec[-2]\nOBSERVABLE_INCLUDE(0) rec[-1]\nOBSERVABLE_INCLUDE(0) rec[-2]\nOBSERVABLE_INCLUDE(0) rec[-2]";
    let flips = text.parse::<Circuit>().unwrap().measurement_flips();
    let detectors: Vec<_> = flips.iter().map(|flips| flips.detectors.clone()).collect();
    assert_eq!(detectors, [vec![0], vec![1], vec![2, 3], vec![3]]);
    let observables: Vec<_> = flips.iter().map(|flips| flips.observables.clone()).collect();
    assert_eq!(observables, [vec![], vec![], vec![], vec![0]]);
}
