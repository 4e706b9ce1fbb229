//! A study's worker thread: decodes batches of shots by all arms.

use super::{Cause, Matching, PlainCounts, Point, ShotCounts, Study, StudyError};
use crate::{Inference, Problem};
use ringcall::wire::bits::{BitView, packed_len};
use ringcall::wire::header::RequestHeader;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use ringcall_pipeline::{InferenceStage, RequestView};
use ringcall_qec::decode::{DecodeError, Decoder, DecoderFamily, MatchingEngine};
use ringcall_qec::dem::Mechanism;
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::Shot;
use std::sync::atomic::Ordering;

/// Prepared decoders of a point, shared by its threads.
pub(super) struct Prepared {
    point: Point,
    problem: Problem,
    /// The same problem in one pass, if plain matching is compared.
    plain: Option<Problem>,
    /// The inference of the second arm.
    inference: Option<Inference>,
    sampler: Sampler,
    /// The time after which a decode is late.
    pub(super) deadline_ns: Option<u64>,
}

impl Prepared {
    pub(super) fn new(point: Point, study: &Study<'_>) -> Result<Self, StudyError> {
        let &Study { matching, relay, .. } = study;
        let at = |source| StudyError::Point { point, source };
        let problem = match (matching, point.surface()) {
            (Matching::Slices, Some(experiment)) => Problem::by_slices(&experiment).map_err(|e| at(e.into())),
            (Matching::Slices, None) => Err(at("slices are the surface code's".into())),
            _ => {
                let model = match point.given {
                    Some(given) => {
                        study.models.get(&given.digest).cloned().ok_or("its error model is not there".into())
                    }
                    None => point.detector_error_model().map_err(Into::into),
                };
                model.map_err(at).and_then(|model| {
                    let matchable = model.mechanisms.iter().all(Mechanism::is_graphlike);
                    Problem::with_decoder(model, &matching.options(matchable, relay))
                        .map_err(|e| at(e.into()))
                })
            }
        }?;
        let sampler = Sampler::new(problem.model(), 0).map_err(|e| at(e.into()))?;
        let arm = study.predecoder.as_ref();
        let inference = arm.map(|arm| (arm.bind)(&point)).transpose().map_err(at)?;
        if let Some(inference) = &inference {
            inference.check(&problem).map_err(|e| at(e.into()))?;
        }
        let compared =
            matching == Matching::Both && problem.matching() == Some(MatchingEngine::CorrelatedBlossom);
        let plain = compared.then(|| problem.single_pass());
        Ok(Self { point, problem, plain, inference, sampler, deadline_ns: None })
    }
}

/// Shots that one arm decodes in a row, so that its time is measured once for all of them: one per bit of the word that marks an
/// arm's wrong shots.
const CHUNK: usize = 64;

/// One thread's decoders.
pub(super) struct Worker<'a> {
    prepared: &'a Prepared,
    stage: Option<Box<dyn InferenceStage>>,
    matching: Matcher,
    plain: Option<Matcher>,
    shot: Shot,
    /// For each shot of a chunk: packed detectors; a predecoder's residual and frame; observables.
    payloads: Vec<u8>,
    outputs: Vec<u8>,
    truth: Vec<u8>,
}

/// The result of a chunk.
#[derive(Default)]
struct Decoded {
    /// A bit for each shot that was decoded wrongly.
    wrong: u64,
    /// Observables that were predicted wrongly, over all shots.
    observable_errors: u64,
    /// Shots whose correction does not explain their syndrome.
    unconverged: u64,
    /// A bit for each shot that took too long.
    late: u64,
    /// Processor time of the thread.
    ns: u64,
}

/// A decoder, from packed detectors to packed observables.
struct Matcher {
    decoder: Box<dyn Decoder>,
    detectors: usize,
    defects: Vec<u32>,
    observables: Vec<u8>,
}

impl Matcher {
    fn new(problem: &Problem) -> Result<Self, DecodeError> {
        let detectors = problem.detectors() as usize;
        Ok(Self {
            decoder: problem.decoder()?,
            detectors,
            defects: Vec::with_capacity(detectors),
            observables: vec![0; packed_len(problem.observables() as usize)],
        })
    }

    /// Decodes shots, each with its true observables and those that a frame has flipped already.
    fn run<'a>(
        &mut self,
        shots: impl Iterator<Item = (&'a [u8], &'a [u8], &'a [u8])>,
        deadline_ns: Option<u64>,
    ) -> Result<Decoded, Cause> {
        let begin = processor_ns();
        let mut decoded = Decoded::default();
        for (place, (detectors, truth, frame)) in shots.enumerate() {
            self.defects.clear();
            self.defects.extend(BitView::new(detectors, self.detectors)?.ones().map(|index| index as u32));
            let from = deadline_ns.map(|_| processor_ns());
            let matched = self.decoder.decode(&self.defects, &mut self.observables)?;
            let is_late = |(from, deadline)| processor_ns() - from >= deadline;
            decoded.late |= u64::from(from.zip(deadline_ns).is_some_and(is_late)) << place;
            let wrong = wrong(&self.observables, truth, frame);
            decoded.wrong |= u64::from(wrong != 0) << place;
            decoded.observable_errors += wrong;
            decoded.unconverged += u64::from(!matched.converged);
        }
        decoded.ns = processor_ns() - begin;
        Ok(decoded)
    }
}

/// The processor time of this thread: unlike a clock, it stops while another thread has the core.
fn processor_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// The number of observables that differ from the truth without the frame, which may be empty.
fn wrong(observables: &[u8], truth: &[u8], frame: &[u8]) -> u64 {
    let frame = frame.iter().chain(std::iter::repeat(&0));
    observables.iter().zip(truth).zip(frame).map(|((a, b), c)| u64::from((a ^ b ^ c).count_ones())).sum()
}

fn ones(packed: &[u8]) -> u64 {
    packed.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

impl<'a> Worker<'a> {
    pub(super) fn new(prepared: &'a Prepared) -> Result<Self, StudyError> {
        let Prepared { point, problem, plain, inference, sampler, .. } = prepared;
        let at = |source| StudyError::Point { point: *point, source };
        let matcher = |problem| Matcher::new(problem).map_err(|e| at(e.into()));
        Ok(Self {
            prepared,
            stage: inference
                .as_ref()
                .map(|inference| inference.stage(problem))
                .transpose()
                .map_err(|e| at(e.into()))?,
            matching: matcher(problem)?,
            plain: plain.as_ref().map(matcher).transpose()?,
            shot: sampler.new_shot(),
            payloads: vec![0; CHUNK * problem.request_bytes()],
            outputs: vec![0; CHUNK * problem.inferred_bytes()],
            truth: vec![0; CHUNK * packed_len(problem.observables() as usize)],
        })
    }

    /// Decodes one batch; `None` if told to quit before the end.
    pub(super) fn batch(
        &mut self,
        seed: u64,
        shots: u32,
        quit: &DeviceU64,
    ) -> Result<Option<ShotCounts>, StudyError> {
        let mut sampler = self.prepared.sampler.reseeded(seed);
        let mut counts = ShotCounts::new(self.stage.is_some());
        counts.correlated = self.prepared.problem.matching() == Some(MatchingEngine::CorrelatedBlossom);
        counts.ensemble = self.prepared.problem.matching() == Some(MatchingEngine::Ensemble);
        counts.relay = self.prepared.problem.family() == DecoderFamily::Relay;
        counts.slices = self.prepared.problem.family() == DecoderFamily::Slices;
        counts.plain = self.plain.as_ref().map(|_| PlainCounts::new(self.stage.is_some()));
        let mut left = shots as usize;
        while left > 0 {
            let count = left.min(CHUNK);
            let done = self
                .chunk(count, &mut sampler, &mut counts, quit)
                .map_err(|source| StudyError::Point { point: self.prepared.point, source })?;
            if !done {
                return Ok(None);
            }
            left -= count;
        }
        Ok(Some(counts))
    }

    /// Decodes `count` shots by all arms. Returns false if told to quit before the end.
    fn chunk(
        &mut self,
        count: usize,
        sampler: &mut Sampler,
        counts: &mut ShotCounts,
        quit: &DeviceU64,
    ) -> Result<bool, Cause> {
        let Self { prepared, stage, matching, plain, shot, payloads, outputs, truth } = self;
        let (request_bytes, inferred_bytes) =
            (prepared.problem.request_bytes(), prepared.problem.inferred_bytes());
        let payloads = &mut payloads[..count * request_bytes];
        let frame_bytes = truth.len() / CHUNK;
        for (place, payload) in payloads.chunks_exact_mut(request_bytes).enumerate() {
            sampler.sample_into(shot)?;
            payload.iter_mut().zip(shot.detectors.iter_bytes()).for_each(|(place, byte)| *place = byte);
            let truth = &mut truth[place * frame_bytes..][..frame_bytes];
            truth.iter_mut().zip(shot.observables.iter_bytes()).for_each(|(place, byte)| *place = byte);
        }
        let truth = |place: usize| &truth[place * frame_bytes..][..frame_bytes];
        let payloads = || payloads.chunks_exact(request_bytes);
        let shots = || payloads().enumerate().map(|(place, payload)| (payload, truth(place), &[][..]));
        let quits = || quit.load(Ordering::Relaxed) != 0;
        if quits() {
            return Ok(false);
        }
        let deadline = prepared.deadline_ns;
        let Decoded { wrong, observable_errors, unconverged, late, ns } = matching.run(shots(), deadline)?;
        counts.late += errors(late);
        counts.late_or_wrong += if deadline.is_some() { errors(late | wrong) } else { 0 };
        counts.observable_errors += observable_errors;
        counts.unconverged += unconverged;
        counts.shots += count as u64;
        counts.detectors += (count * matching.detectors) as u64;
        counts.fired += payloads().map(ones).sum::<u64>();
        counts.errors += errors(wrong);
        counts.matching_ns += ns;
        let mut plain_wrong = 0;
        if let (Some(matching), Some(plain)) = (&mut *plain, &mut counts.plain) {
            let Decoded { wrong: found, late, ns, .. } = matching.run(shots(), deadline)?;
            plain.late += errors(late);
            plain.late_or_wrong += if deadline.is_some() { errors(late | found) } else { 0 };
            plain_wrong = found;
            plain.errors += errors(plain_wrong);
            plain.both += errors(plain_wrong & wrong);
            plain.matching_ns += ns;
        }

        let (Some(stage), Some(arm)) = (stage, &mut counts.predecoder) else { return Ok(true) };
        let header = RequestHeader::new(0, request_bytes as u32, 0, 0);
        let outputs = &mut outputs[..count * inferred_bytes];
        for (output, payload) in outputs.chunks_exact_mut(inferred_bytes).zip(payloads()) {
            if quits() {
                return Ok(false);
            }
            let begin = clock::now_ns();
            stage.infer(RequestView { header: &header, payload }, output)?;
            arm.inference_ns += clock::now_ns() - begin;
            arm.fired += ones(&output[..request_bytes]);
        }
        // An answer is the matching of the residual, and the frame.
        let left = || {
            outputs.chunks_exact(inferred_bytes).enumerate().map(|(place, output)| {
                let (residual, frame) = output.split_at(request_bytes);
                (residual, truth(place), frame)
            })
        };
        let Decoded { wrong: after_wrong, ns, .. } = matching.run(left(), None)?;
        arm.errors += errors(after_wrong);
        arm.both += errors(wrong & after_wrong);
        arm.matching_ns += ns;
        if let (Some(matching), Some(plain)) = (plain, &mut counts.plain) {
            let Decoded { wrong: found, ns, .. } = matching.run(left(), None)?;
            let after = plain.predecoder.get_or_insert_default();
            after.errors += errors(found);
            after.both += errors(plain_wrong & found);
            after.correlated_both += errors(plain_wrong & after_wrong);
            after.matching_ns += ns;
        }
        Ok(true)
    }
}

/// The number of wrong shots of a chunk.
fn errors(wrong: u64) -> u64 {
    wrong.count_ones().into()
}
