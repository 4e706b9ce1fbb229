//! The decoder against PyMatching on circuits of distance 5 to 21, shot by shot.
//!
//! `tests/data/decode/pymatching_oracle.py` made the data and describes it. Both sides round weights to the same
//! whole steps, so weights must agree to the step: no tolerance is needed.

use ringcall_qec::code::{Basis, SurfaceCode};
use ringcall_qec::decode::{MatchingDecoder, MatchingEngine, ShotDecoder, SliceDecoder};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{Shot, ShotFormat, ShotWriter};
use ringcall_qec::stats::LogicalErrorRate;

mod cases;

/// The shots of a case, and the rest of its data file once that is known to be about these shots.
fn load(mut sampler: Sampler, count: usize, file: &str) -> (Vec<Shot>, Vec<u8>) {
    let mut writer = ShotWriter::new(Vec::new(), ShotFormat::B8, sampler.layout()).unwrap();
    let mut shots = vec![sampler.new_shot(); count];
    for shot in &mut shots {
        sampler.sample_into(shot).unwrap();
        writer.write(shot).unwrap();
    }
    let digest = cases::fnv1a(&writer.finish().unwrap()).to_le_bytes();
    let path = format!("{}/tests/data/decode/{file}", env!("CARGO_MANIFEST_DIR"));
    let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"));
    let rest = data.strip_prefix(&digest).unwrap_or_else(|| {
        panic!("{file} is about other shots: the model or the sampler changed; make it again with pymatching_oracle.py")
    });
    (shots, rest.to_vec())
}

fn memory(case: &cases::Memory) {
    let name = case.name();
    let model = case.model().unwrap();
    let sampler = Sampler::new(&model, case.seed()).unwrap();
    let (shots, data) = load(sampler, cases::SHOTS, &format!("{name}.memory.bin"));
    let (scale, data) = data.split_first_chunk::<8>().unwrap();
    let (weights, predictions) = data.split_at(4 * cases::SHOTS);
    assert_eq!(predictions.len(), cases::SHOTS / 8);
    let decoder = MatchingDecoder::from_dem(&model).unwrap();
    let scale = f64::from_le_bytes(*scale);
    let step = decoder.weight_step();
    assert!((step * scale - 1.0).abs() < 1e-12, "{name}: a step is {step}, PyMatching's {}", 1.0 / scale);
    let mut decoder = ShotDecoder::new(decoder);
    let mut predicted = shots[0].observables.clone();
    let (mut ours, mut theirs, mut ties) = (LogicalErrorRate::default(), LogicalErrorRate::default(), 0);
    for (number, shot) in shots.iter().enumerate() {
        let matched = decoder.decode(&shot.detectors, &mut predicted).unwrap();
        let expected = u32::from_le_bytes(weights[4 * number..][..4].try_into().unwrap());
        let found = (matched.weight / step).round() as u64 as u32;
        assert_eq!(found, expected, "{name}, shot {number}: steps of weight, modulo 2^32");
        let prediction = predictions[number / 8] >> (number % 8) & 1 == 1;
        let truth = shot.observables.get(0);
        ours.record(predicted != shot.observables);
        theirs.record(truth != Some(prediction));
        ties += u64::from(predicted.get(0) != Some(prediction));
    }
    eprintln!("{name}: {} logical errors, PyMatching {}, {ties} ties", ours.errors, theirs.errors);
    // A tie is a shot with two solutions of the same weight and other observables; both are right.
    assert!(ours.errors.abs_diff(theirs.errors) <= ties);
    assert!(ties * 100 < cases::SHOTS as u64, "{name}: {ties} ties are too many to be ties");
}

#[test]
fn same_weights_d05_and_d07() {
    cases::MEMORY.iter().filter(|case| case.distance <= 7).for_each(memory);
}

#[test]
fn same_weights_d13() {
    cases::MEMORY.iter().filter(|case| case.distance == 13).for_each(memory);
}

#[test]
fn same_weights_d21() {
    cases::MEMORY.iter().filter(|case| case.distance == 21).for_each(memory);
}

#[test]
fn same_number_of_corrections_in_slices() {
    for case in cases::SLICES {
        let name = case.name();
        let sampler = Sampler::new(&case.model(), case.seed()).unwrap();
        let (shots, data) = load(sampler, cases::RESIDUALS, &format!("{name}.slices.bin"));
        assert_eq!(data.len(), 2 * cases::RESIDUALS);
        let code = SurfaceCode::new(case.distance).unwrap();
        let rows = code.check_matrix(Basis::Z);
        let mut decoder =
            SliceDecoder::new(&rows, code.num_data(), case.slices(), MatchingEngine::default()).unwrap();
        for (number, shot) in shots.iter().enumerate() {
            let expected = i32::from(u16::from_le_bytes([data[2 * number], data[2 * number + 1]]));
            let packed = decoder.decode_bits(&shot.detectors).unwrap();
            assert_eq!(
                (packed.total_corrections, packed.converged),
                (expected, true),
                "{name}, shot {number}"
            );
            let detectors = &shot.detectors;
            let integers: Vec<i32> =
                (0..detectors.len()).map(|index| i32::from(detectors.get(index) == Some(true))).collect();
            assert_eq!(decoder.decode(&integers).unwrap(), packed, "{name}, shot {number}");
        }
    }
}
