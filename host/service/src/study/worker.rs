//! One thread's part: batches of shots, decoded by both arms.

use super::{Arm, Cause, Matching, PlainTally, Point, StudyError, Tally};
use crate::{Inference, Problem};
use ringcall::wire::bits::{BitView, packed_len};
use ringcall::wire::header::RequestHeader;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use ringcall_pipeline::{InferenceStage, RequestView};
use ringcall_qec::decode::{DecodeError, Decoder, MatchingEngine};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::Shot;
use std::sync::atomic::Ordering;

/// What the threads of a point share.
pub(super) struct Prepared {
    point: Point,
    problem: Problem,
    /// The same in one pass, where that is compared.
    plain: Option<Problem>,
    /// Of the second arm.
    inference: Option<Inference>,
    sampler: Sampler,
}

impl Prepared {
    pub(super) fn new(point: Point, matching: Matching, arm: Option<&Arm<'_>>) -> Result<Self, StudyError> {
        let at = |source| StudyError::Point { point, source };
        let problem =
            point.experiment().detector_error_model().map_err(|e| at(e.into())).and_then(|model| {
                Problem::with_matching(model, matching.engine()).map_err(|e| at(e.into()))
            })?;
        let sampler = Sampler::new(problem.model(), 0).map_err(|e| at(e.into()))?;
        let inference = arm.map(|arm| (arm.bind)(&point)).transpose().map_err(at)?;
        if let Some(inference) = &inference {
            inference.check(&problem).map_err(|e| at(e.into()))?;
        }
        let compared = matching == Matching::Both && problem.matching() == MatchingEngine::CorrelatedBlossom;
        let plain = compared.then(|| problem.single_pass());
        Ok(Self { point, problem, plain, inference, sampler })
    }
}

/// One thread's decoders.
pub(super) struct Worker<'a> {
    prepared: &'a Prepared,
    stage: Option<Box<dyn InferenceStage>>,
    matching: Matcher,
    plain: Option<Matcher>,
    shot: Shot,
    payload: Vec<u8>,
    /// Residual, then frame.
    output: Vec<u8>,
}

/// Matching, from packed detectors to packed observables.
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

    /// The predicted observables, and the time it took, ns.
    fn run(&mut self, detectors: &[u8]) -> Result<(u64, u64), Cause> {
        let begin = clock::now_ns();
        self.defects.clear();
        self.defects.extend(BitView::new(detectors, self.detectors)?.ones().map(|index| index as u32));
        self.decoder.decode(&self.defects, &mut self.observables)?;
        Ok((word(&self.observables), clock::now_ns() - begin))
    }
}

/// At most 64 observables, which a [`Problem`] checks.
fn word(packed: &[u8]) -> u64 {
    packed.iter().rev().fold(0, |word, &byte| word << 8 | u64::from(byte))
}

fn ones(packed: &[u8]) -> u64 {
    packed.iter().map(|byte| u64::from(byte.count_ones())).sum()
}

impl<'a> Worker<'a> {
    pub(super) fn new(prepared: &'a Prepared) -> Result<Self, StudyError> {
        let Prepared { point, problem, plain, inference, sampler } = prepared;
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
            payload: vec![0; problem.request_bytes()],
            output: vec![0; problem.inferred_bytes()],
        })
    }

    /// Decodes one batch; `None` if it was to quit before the end.
    pub(super) fn batch(
        &mut self,
        seed: u64,
        shots: u32,
        quit: &DeviceU64,
    ) -> Result<Option<Tally>, StudyError> {
        let mut sampler = self.prepared.sampler.reseeded(seed);
        let mut tally = Tally::new(self.stage.is_some());
        tally.correlated = self.prepared.problem.matching() == MatchingEngine::CorrelatedBlossom;
        tally.plain = self.plain.as_ref().map(|_| PlainTally::new(self.stage.is_some()));
        for _ in 0..shots {
            if quit.load(Ordering::Relaxed) != 0 {
                return Ok(None);
            }
            self.one(&mut sampler, &mut tally)
                .map_err(|source| StudyError::Point { point: self.prepared.point, source })?;
        }
        Ok(Some(tally))
    }

    fn one(&mut self, sampler: &mut Sampler, tally: &mut Tally) -> Result<(), Cause> {
        sampler.sample_into(&mut self.shot)?;
        for (place, byte) in self.payload.iter_mut().zip(self.shot.detectors.iter_bytes()) {
            *place = byte;
        }
        let truth = self.shot.observables.words().first().copied().unwrap_or(0);
        let (predicted, ns) = self.matching.run(&self.payload)?;
        let wrong = predicted != truth;
        tally.shots += 1;
        tally.detectors += self.matching.detectors as u64;
        tally.fired += ones(&self.payload);
        tally.errors += u64::from(wrong);
        tally.matching_ns += ns;
        let mut plain_wrong = false;
        if let (Some(matching), Some(plain)) = (&mut self.plain, &mut tally.plain) {
            let (predicted, ns) = matching.run(&self.payload)?;
            plain_wrong = predicted != truth;
            plain.errors += u64::from(plain_wrong);
            plain.both += u64::from(plain_wrong && wrong);
            plain.matching_ns += ns;
        }

        let (Some(stage), Some(arm)) = (&mut self.stage, &mut tally.predecoder) else { return Ok(()) };
        let header = RequestHeader::new(0, self.payload.len() as u32, 0, 0);
        let begin = clock::now_ns();
        stage.infer(RequestView { header: &header, payload: &self.payload }, &mut self.output)?;
        arm.inference_ns += clock::now_ns() - begin;
        let (residual, frame) = self.output.split_at(self.payload.len());
        let (predicted, ns) = self.matching.run(residual)?;
        let also_wrong = predicted ^ word(frame) != truth;
        arm.fired += ones(residual);
        arm.errors += u64::from(also_wrong);
        arm.both += u64::from(wrong && also_wrong);
        arm.matching_ns += ns;
        if let (Some(matching), Some(plain)) = (&mut self.plain, &mut tally.plain) {
            let (predicted, ns) = matching.run(residual)?;
            let after_wrong = predicted ^ word(frame) != truth;
            let after = plain.predecoder.get_or_insert_default();
            after.errors += u64::from(after_wrong);
            after.both += u64::from(plain_wrong && after_wrong);
            after.correlated_both += u64::from(plain_wrong && also_wrong);
            after.matching_ns += ns;
        }
        Ok(())
    }
}
