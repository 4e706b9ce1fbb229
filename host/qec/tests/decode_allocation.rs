//! Sampling, shot files and decoding allocate nothing once warm.

use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{
    BpConfig, DecodeError, Decoder, DecodingGraph, Matched, MatchingDecoder, MatchingEngine, ParallelEdges,
    RelayDecoder, ShotDecoder, SliceDecoder,
};
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{ShotFormat, ShotReader, ShotWriter};

/// Allocations of this thread while `work` runs.
fn allocations(work: impl FnOnce()) -> u64 {
    allocation_counter::measure(work).count_total
}

/// A square grid of detectors with errors between neighbours, a boundary on either side, and one observable there.
fn grid(side: u32, probability: f64) -> DetectorErrorModel {
    let mut mechanisms = Vec::new();
    let mut add = |detectors: Vec<u32>, observables: Vec<u32>| {
        // Distinct probabilities, so that weights are not whole and classes have unequal members.
        let probability = probability * (1.0 + mechanisms.len() as f64 / 1e4);
        mechanisms.push(Mechanism { probability, detectors, observables, components: Vec::new() });
    };
    for row in 0..side {
        add(vec![row * side], vec![0]);
        add(vec![row * side + side - 1], vec![]);
        for column in 0..side {
            let here = row * side + column;
            if column + 1 < side {
                add(vec![here, here + 1], vec![]);
            }
            if row + 1 < side {
                add(vec![here, here + side], vec![]);
            }
        }
    }
    DetectorErrorModel { num_detectors: side * side, num_observables: 1, mechanisms, coordinates: Vec::new() }
}

/// A decoder without work, to measure the layers around it.
struct Nothing(u32);

impl Decoder for Nothing {
    fn num_detectors(&self) -> u32 {
        self.0
    }

    fn num_observables(&self) -> u32 {
        1
    }

    fn decode(&mut self, defects: &[u32], _: &mut [u8]) -> Result<Matched, DecodeError> {
        Ok(Matched {
            weight: 0.0,
            corrections: defects.len() as u32,
            converged: true,
            late: false,
            confidence: None,
        })
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1, 2, 3]))), 1);
}

#[test]
fn sampling_and_dense_decoding() {
    let model = grid(30, 0.01);
    let mut sampler = Sampler::new(&model, 1).unwrap();
    let mut shot = sampler.new_shot();
    let mut decoder = ShotDecoder::new(Nothing(model.num_detectors));
    let mut predicted = shot.observables.clone();
    let mut defects = 0;
    let counted = allocations(|| {
        for _ in 0..1000 {
            sampler.sample_into(&mut shot).unwrap();
            defects += decoder.decode(&shot.detectors, &mut predicted).unwrap().corrections;
        }
    });
    assert_eq!(counted, 0);
    assert!(defects > 10_000);
}

#[test]
fn shot_files() {
    let mut sampler = Sampler::new(&grid(30, 0.01), 1).unwrap();
    let mut shot = sampler.new_shot();
    for format in ShotFormat::ALL {
        let mut output = vec![0; 1 << 21];
        let mut writer = ShotWriter::new(&mut output[..], format, sampler.layout()).unwrap();
        let mut write = || {
            sampler.sample_into(&mut shot).unwrap();
            writer.write(&shot).unwrap();
        };
        (0..124).for_each(|_| write()); // a `dets` line has no fixed length
        assert_eq!(allocations(|| (0..900).for_each(|_| write())), 0, "writing {format}");
        writer.finish().unwrap();
        let mut reader = ShotReader::new(&output[..], format, sampler.layout()).unwrap();
        let counted = allocations(|| {
            for _ in 0..1024 {
                assert!(reader.read(&mut shot).unwrap());
            }
        });
        assert_eq!(counted, 0, "reading {format}");
    }
}

#[test]
fn refusals() {
    let mut decoder = MatchingDecoder::from_dem(&grid(10, 0.01)).unwrap();
    let mut refused = 0;
    let counted = allocations(|| {
        for bad in [&[100][..], &[3, 4, 3], &[u32::MAX]] {
            refused += u32::from(decoder.decode(bad, &mut [0]).is_err());
        }
    });
    assert_eq!((counted, refused), (0, 3));
}

#[test]
fn matching() {
    let model = grid(30, 0.02);
    let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
    let mut sampler = Sampler::new(&model, 4).unwrap();
    let mut decoder = ShotDecoder::new(MatchingDecoder::new(&graph, MatchingEngine::default()).unwrap());
    let mut shot = sampler.new_shot();
    let mut predicted = shot.observables.clone();
    let mut pairs = 0;
    let counted = allocations(|| {
        for _ in 0..2000 {
            sampler.sample_into(&mut shot).unwrap();
            pairs += decoder.decode(&shot.detectors, &mut predicted).unwrap().corrections;
        }
    });
    assert_eq!(counted, 0);
    assert!(pairs > 10_000);
}

#[test]
fn correlated_matching() {
    let noise = CircuitNoise::uniform(0.005);
    let memory = MemoryExperiment { distance: 7, rounds: 7, basis: Basis::Z, noise };
    let model = memory.detector_error_model().unwrap();
    let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
    let mut sampler = Sampler::new(&model, 5).unwrap();
    let plain = MatchingDecoder::new(&graph, MatchingEngine::SparseBlossom).unwrap();
    let twice = MatchingDecoder::new(&graph, MatchingEngine::CorrelatedBlossom).unwrap();
    let (mut plain, mut twice) = (ShotDecoder::new(plain), ShotDecoder::new(twice));
    let mut shot = sampler.new_shot();
    let mut predicted = shot.observables.clone();
    let mut lighter = 0;
    let counted = allocations(|| {
        for _ in 0..500 {
            sampler.sample_into(&mut shot).unwrap();
            let once = plain.decode(&shot.detectors, &mut predicted).unwrap();
            lighter += u32::from(twice.decode(&shot.detectors, &mut predicted).unwrap().weight < once.weight);
        }
    });
    assert_eq!(counted, 0);
    assert!(lighter > 450, "{lighter}: weights are lowered in nearly every shot");
}

#[test]
fn slices() {
    let rows: Vec<[u32; 2]> = (0..40).map(|check| [check, check + 1]).collect();
    let mut decoder = SliceDecoder::new(&rows, 41, 20, MatchingEngine::default()).unwrap();
    let mut residual = vec![0; 800];
    (0..20).for_each(|slice| residual[slice * 40 + slice] = 1);
    let mut total = 0;
    let mut decode = || total += decoder.decode(&residual).unwrap().total_corrections;
    decode();
    assert_eq!(allocations(|| (0..50).for_each(|_| decode())), 0);
    assert_eq!(total, 51 * 210);
}

#[test]
fn belief_propagation() {
    let mut model = grid(8, 0.03);
    // One likely error, so that its way is counted, too.
    model.mechanisms[5].probability = 0.9;
    let mut sampler = Sampler::new(&model, 1).unwrap();
    let mut shot = sampler.new_shot();
    let config = BpConfig { legs: 3, ..BpConfig::relay() };
    let mut decoder = ShotDecoder::new(RelayDecoder::from_dem(&model, &config).unwrap());
    let mut predicted = shot.observables.clone();
    let mut corrections = 0;
    let counted = allocations(|| {
        for _ in 0..300 {
            sampler.sample_into(&mut shot).unwrap();
            corrections += decoder.decode(&shot.detectors, &mut predicted).unwrap().corrections;
        }
    });
    assert_eq!(counted, 0);
    assert!(corrections > 300);
}
