//! Side information through the pipeline: weights and read-outs in requests, their answers, and refusals.

use ringcall::wire::bits::packed_len;
use ringcall::wire::codec::PayloadEncoder;
use ringcall::wire::qec::{DecodeResponse, read_decode_result};
use ringcall::wire::readout::Readout;
use ringcall::wire::weighted::write_weighted_request;
use ringcall::{FunctionId, RingConfig, Status};
use ringcall_decoder_service::{Problem, ProblemError, SideDecoder, SideInformation};
use ringcall_pipeline::{CompletedRequest, Pipeline, RequestView, StageConfig, WorkerResources};
use ringcall_qec::circuit::{CircuitNoise, Code, Experiment, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{
    Decoder, DecoderOptions, DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges, ReadoutWeights,
};
use ringcall_qec::sample::Sampler;
use std::collections::HashMap;
use std::sync::mpsc;
use std::time::Duration;

fn experiment() -> MemoryExperiment {
    MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise: CircuitNoise::uniform(0.01) }
}

fn problem() -> Problem {
    Problem::new(experiment().detector_error_model().unwrap()).unwrap()
}

fn graph(problem: &Problem) -> DecodingGraph {
    DecodingGraph::from_dem(problem.model(), ParallelEdges::Independent).unwrap()
}

/// Puts requests through a pipeline whose last stage decodes with this side information: each one's status and result.
fn through_a_pipeline(side: &SideInformation, requests: &[Vec<u8>]) -> Vec<(Status, Vec<u8>)> {
    let problem = problem();
    let slot_bytes = u32::try_from(side.slot_bytes(&problem)).unwrap();
    let (function, schema) = (side.function(), side.schema(&problem));
    let (report, over) = mpsc::channel();
    let stage_side = side.clone();
    let pipeline = Pipeline::builder()
        .config(StageConfig {
            workers: 2,
            ring: RingConfig { slots: 4, slot_bytes },
            ..StageConfig::default()
        })
        .gpu_stage(move |_| {
            let nothing = |_: RequestView<'_>, _: &mut [u8]| Ok(0);
            Ok(WorkerResources::inline(function, schema, 1, nothing))
        })
        .cpu_stage(move |_| Ok(Box::new(SideDecoder::new(&problem, stage_side.clone())?)))
        .on_completion(move |completion: &CompletedRequest<'_>| {
            let result = completion.result.map(<[u8]>::to_vec).unwrap_or_default();
            let _ = report.send((completion.request_id, (completion.status, result)));
        })
        .build()
        .unwrap()
        .start()
        .unwrap();
    let mut injector = pipeline.injector().unwrap();
    for (id, request) in (0..).zip(requests) {
        injector.submit(FunctionId::of(function), request, id).unwrap();
    }
    let mut answers: HashMap<u64, _> = HashMap::new();
    while answers.len() < requests.len() {
        let (id, answer) = over.recv_timeout(Duration::from_secs(20)).expect("every request is answered");
        assert!(answers.insert(id, answer).is_none(), "once");
    }
    drop(injector);
    let _ = pipeline.stop(Duration::from_secs(5));
    (0..requests.len() as u64).map(|id| answers.remove(&id).unwrap()).collect()
}

/// Every answer is that of a decoder on a model with those weights; bad requests between them are refused.
#[test]
fn weights_travel_with_requests() {
    let problem = problem();
    let graph = graph(&problem);
    let side = SideInformation::Weights { most: 6 };
    let schema = side.schema(&problem);
    let largest = graph.edges().iter().map(|edge| edge.weight).fold(0.0, f64::max);
    let mut sampler = Sampler::new(problem.model(), 4).unwrap();
    let mut shot = sampler.new_shot();
    let mut requests = Vec::new();
    let mut expected = Vec::new();
    for turn in 0..200_u32 {
        sampler.sample_into(&mut shot).unwrap();
        let detectors: Vec<u8> = shot.detectors.iter_bytes().collect();
        let edges = graph.edges().len() as u32;
        let weights: Vec<(u32, f32)> = (0..turn % 7)
            .map(|i| ((turn * 13 + i * 5) % edges, (turn * 31 + i) as f32 % 17.0 / 17.0 * largest as f32))
            .collect();
        let mut request = vec![0; schema.args_bytes().unwrap() as usize];
        write_weighted_request(&schema, &mut request, &detectors, &weights).unwrap();
        let mut defects = Vec::new();
        shot.detectors.ones_into(&mut defects);
        // A graph of its own with the same grid, since the largest weight is the same.
        let mut theirs = DecodingGraph::new(problem.detectors() + 1, 1, ParallelEdges::Independent);
        for (index, edge) in (0..).zip(graph.edges()) {
            let other = weights.iter().find(|(of, _)| *of == index);
            let weight = other.map_or(edge.weight, |&(_, weight)| weight.into());
            theirs.add_edge(edge.node, edge.other, weight, &edge.observables).unwrap();
        }
        theirs.add_edge(problem.detectors(), None, largest, &[]).unwrap();
        let mut fresh = MatchingDecoder::for_observables(&theirs, MatchingEngine::SparseBlossom).unwrap();
        let mut observables = [0];
        let matched = fresh.decode(&defects, &mut observables).unwrap();
        expected.push((Status::OK, Some((observables[0], matched.corrections))));
        requests.push(request.clone());
        // An edge that does not exist, an edge twice, NaN, a negative weight, too many weights, and other bytes of the same
        // length.
        let mut bad = |change: &dyn Fn(&mut Vec<u8>)| {
            let mut request = vec![0; request.len()];
            write_weighted_request(&schema, &mut request, &detectors, &[(0, 1.0), (1, 1.0)]).unwrap();
            change(&mut request);
            requests.push(request);
            expected.push((Status::BAD_PAYLOAD, None));
        };
        let at = packed_len(problem.detectors() as usize);
        match turn % 6 {
            0 => bad(&|request| request[at + 4..at + 8].copy_from_slice(&edges.to_le_bytes())),
            1 => bad(&|request| request[at + 4] = 1),
            2 => bad(&|request| request[at + 28..at + 32].copy_from_slice(&f32::NAN.to_le_bytes())),
            3 => bad(&|request| request[at + 28..at + 32].copy_from_slice(&(-1.0_f32).to_le_bytes())),
            4 => bad(&|request| request[at] = 7),
            _ => bad(&|request| request.fill(0xFF)),
        }
    }
    let answers = through_a_pipeline(&side, &requests);
    let mut ties = 0;
    for (turn, ((status, result), (expected, answer))) in answers.iter().zip(&expected).enumerate() {
        assert_eq!(status, expected, "request {turn}");
        if let Some((observables, corrections)) = answer {
            let (bits, outcome) = read_decode_result(&schema, result).unwrap();
            assert_eq!(outcome.converged, 1);
            // Solutions of equal weight may differ.
            let same = u8::from(bits.get(0) == Some(true)) == *observables;
            ties += u32::from(!same || outcome.total_corrections != *corrections as i32);
        }
    }
    assert!(ties <= 12, "{ties} of 200 answers differ from a fresh graph's");
}

/// Each encoding goes from an encoder through the pipeline to the answer that its weights have.
#[test]
fn read_outs_travel_with_requests() {
    let problem = problem();
    let graph = graph(&problem);
    let weights = ReadoutWeights::new(&experiment().circuit().unwrap(), &graph).unwrap();
    let count = weights.measurements() as usize;
    let doubted = [3, 4, 9, 12];
    let detectors = syndrome_that_they_matter_to(&problem, &weights, &doubted);
    let mut answers = Vec::new();
    for readout in [Readout::Soft4, Readout::Soft8, Readout::SoftF32, Readout::Leakage8, Readout::Leakage32] {
        let side = SideInformation::Readout { readout, weights: weights.clone() };
        let schema = side.schema(&problem);
        let mut request = vec![0; schema.args_bytes().unwrap() as usize];
        let mut encoder = PayloadEncoder::args(&schema, &mut request).unwrap();
        encoder.packed_bits(&detectors).unwrap();
        let bytes = |sure, unsure| {
            (0..count).map(|at| if doubted.contains(&at) { unsure } else { sure }).collect::<Vec<u8>>()
        };
        let written = match readout {
            Readout::Soft4 => encoder.readout4(&bytes(15, 0)),
            Readout::Soft8 => encoder.bytes(&bytes(255, 0)),
            Readout::SoftF32 => {
                let floats: Vec<f32> = bytes(1, 0).into_iter().map(|sure| f32::from(sure) * 1e5).collect();
                encoder.array_f32(&floats)
            }
            Readout::Leakage8 => encoder.bytes(&bytes(1, 2)),
            Readout::Leakage32 => {
                let codes: Vec<i32> = bytes(0, 2).into_iter().map(i32::from).collect();
                encoder.array_i32(&codes)
            }
        };
        written.unwrap().finish().unwrap();
        let mut bad = request.clone();
        *bad.last_mut().unwrap() = 0xFF;
        let [good, bad]: [_; 2] = through_a_pipeline(&side, &[request, bad]).try_into().unwrap();
        assert_eq!(good.0, Status::OK, "{readout:?}");
        // Of eight bits every code is a confidence; 33 nibbles leave one that is unused.
        let refused = readout != Readout::Soft8;
        assert_eq!(bad.0, if refused { Status::BAD_PAYLOAD } else { Status::OK }, "{readout:?}");
        answers.push(good.1);
    }
    answers.dedup();
    assert_eq!(answers.len(), 1, "all encodings say the same");
    assert_ne!(answers[0], decoded(&problem, &weights, &detectors, &[]), "and something else than nothing");
}

/// The answer where the qubits of these measurements had leaked.
fn decoded(problem: &Problem, weights: &ReadoutWeights, detectors: &[u8], leaked: &[usize]) -> Vec<u8> {
    let side = SideInformation::Readout { readout: Readout::Leakage8, weights: weights.clone() };
    let mut decoder = SideDecoder::new(problem, side).unwrap();
    let mut request = detectors.to_vec();
    request.resize(decoder.schema().args_bytes().unwrap() as usize, 0);
    leaked.iter().for_each(|&at| request[detectors.len() + at] = 2);
    let mut result = vec![0; problem.result_bytes()];
    decoder.answer(&request, &mut result).unwrap();
    result
}

/// The first syndrome of three detectors that is decoded otherwise where these qubits had leaked.
fn syndrome_that_they_matter_to(problem: &Problem, weights: &ReadoutWeights, leaked: &[usize]) -> Vec<u8> {
    let n = problem.detectors() as usize;
    let triples = (0..n).flat_map(|a| (a + 1..n).flat_map(move |b| (b + 1..n).map(move |c| [a, b, c])));
    let packed = |triple: [usize; 3]| {
        let mut detectors = vec![0; packed_len(n)];
        triple.iter().for_each(|at| detectors[at / 8] |= 1 << (at % 8));
        detectors
    };
    let matters = |detectors: &Vec<u8>| {
        decoded(problem, weights, detectors, leaked) != decoded(problem, weights, detectors, &[])
    };
    triples.map(packed).find(matters).expect("some syndrome is decoded otherwise")
}

#[test]
fn what_cannot_have_weights_is_refused_and_lateness_is_said() {
    let color = Experiment { p: 0.003, distance: 3, rounds: 2, ..Experiment::of(Code::Color) };
    let relay = Problem::with_decoder(color.detector_error_model().unwrap(), &DecoderOptions::default());
    let refused = SideDecoder::new(&relay.unwrap(), SideInformation::Weights { most: 1 });
    assert!(matches!(refused.unwrap_err(), ProblemError::NoWeights));
    for (deadline, converged) in [(Duration::from_secs(3600), 1), (Duration::ZERO, DecodeResponse::LATE)] {
        let problem = problem().with_deadline(Some(deadline));
        let mut decoder = SideDecoder::new(&problem, SideInformation::Weights { most: 2 }).unwrap();
        let schema = *decoder.schema();
        let mut request = vec![0; schema.args_bytes().unwrap() as usize];
        write_weighted_request(&schema, &mut request, &[1, 0, 0], &[(0, 0.5)]).unwrap();
        let mut result = vec![0; problem.result_bytes()];
        let len = decoder.answer(&request, &mut result).unwrap();
        assert_eq!(read_decode_result(&schema, &result[..len]).unwrap().1.converged, converged);
        assert_eq!(decoder.answer(&request, &mut result[..1]), Err(Status::RESULT_TOO_LONG));
        assert_eq!(decoder.answer(&request[1..], &mut result), Err(Status::SCHEMA_MISMATCH));
    }
}

/// Nothing is allocated per request.
#[test]
fn answers_allocate_nothing() {
    let problem = problem();
    let weights = ReadoutWeights::new(&experiment().circuit().unwrap(), &graph(&problem)).unwrap();
    for side in
        [SideInformation::Weights { most: 40 }, SideInformation::Readout { readout: Readout::Soft8, weights }]
    {
        let mut decoder = SideDecoder::new(&problem, side).unwrap();
        let mut request = vec![0; decoder.schema().args_bytes().unwrap() as usize];
        request[0] = 0b1101;
        let mut result = vec![0; problem.result_bytes()];
        let measured = allocation_counter::measure(|| {
            for _ in 0..50 {
                assert!(decoder.answer(&request, &mut result).is_ok());
                assert!(decoder.answer(&[], &mut result).is_err());
            }
        });
        assert_eq!(measured.count_total, 0);
    }
}
