//! Requests to send, and their right answers.

use super::side::{Doubts, Weights};
use crate::experiment::{self, ExperimentArgs, Syndromes};
use crate::memory::MemoryLimit;
use crate::side::SideArgs;
use crate::usage::misuse;
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall::{FunctionId, Status};
use ringcall_decoder_service::{
    Confidences, Problem, RequestBuffer, SideDecoder, SideInformation, WireForm, is_late,
};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::Shot;
use ringcall_wire::function::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FunctionArg {
    /// `rpc_increment`: every byte of the answer is checked
    Increment,
    /// `decode_syndrome` on sampled shots: answers are compared with a decoder of our own
    Decode,
    /// `decode_weighted`, the same with random weights of random edges
    DecodeWeighted,
    /// `decode_readout`, the same with random confidences or levels, and outcomes that are as wrong as those say
    DecodeReadout,
}

impl FunctionArg {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Increment => names::RPC_INCREMENT,
            Self::Decode => names::DECODE_SYNDROME,
            Self::DecodeWeighted => names::DECODE_WEIGHTED,
            Self::DecodeReadout => names::DECODE_READOUT,
        }
    }

    pub(super) fn id(self) -> FunctionId {
        FunctionId::of(self.name())
    }
}

pub(super) enum Source {
    Increment {
        bytes: usize,
        number: u64,
    },
    Decode {
        sampler: Box<Sampler>,
        shot: Shot,
        form: Box<WireForm>,
        request: RequestBuffer,
        coin: Xoshiro256PlusPlus,
    },
    Weighted {
        sampler: Box<Sampler>,
        shot: Shot,
        weights: Box<Weights>,
    },
    Readout {
        sampler: Box<Sampler>,
        shot: Shot,
        doubts: Box<Doubts>,
    },
}

impl Source {
    pub(super) fn next(&mut self, out: &mut Vec<u8>) -> bool {
        match self {
            Self::Increment { bytes, number } => {
                out.extend((0..*bytes as u64).map(|k| number.wrapping_mul(31).wrapping_add(k) as u8));
                *number += 1;
                true
            }
            Self::Decode { sampler, shot, form, request, coin } => {
                let sampled = sampler.sample_into(shot).is_ok();
                form.write_request(&shot.detectors, || coin.next_u64() >> 63 == 1, request);
                out.extend(&request.payload);
                sampled
            }
            Self::Weighted { sampler, shot, weights } => {
                sampler.sample_into(shot).is_ok() && weights.append(shot, out)
            }
            Self::Readout { sampler, shot, doubts } => {
                sampler.sample_into(shot).is_ok() && doubts.append(shot, out)
            }
        }
    }
}

/// Checks answers by the payload alone.
pub(super) enum Checker {
    Increment,
    Decode {
        decoder: Box<Syndromes>,
        expected: Vec<u8>,
        unconverged: u64,
        late: u64,
        confidences: Box<Confidences>,
    },
    Side {
        decoder: Box<SideDecoder>,
        expected: Vec<u8>,
        late: u64,
    },
    /// Checks only the answer's form, since the network's decisions are not known here.
    Form(Box<WireForm>),
}

impl Checker {
    pub(super) fn is_right(&mut self, payload: &[u8], status: Status, result: &[u8]) -> bool {
        status.is_ok()
            && match self {
                Self::Increment => payload.iter().map(|byte| byte.wrapping_add(1)).eq(result.iter().copied()),
                Self::Form(form) => form.read_result(result).is_some(),
                // What a service had no time for cannot be foreseen, and is no fault.
                Self::Decode { decoder, expected, unconverged, late, confidences } => {
                    let answer = decoder.answer_in(result);
                    let is_late = answer.as_ref().is_some_and(|answer| answer.outcome.is_late());
                    *late += u64::from(is_late);
                    *unconverged +=
                        u64::from(answer.as_ref().is_some_and(|answer| answer.outcome.converged == 0));
                    if let Some(confidence) = answer.and_then(|answer| answer.confidence) {
                        confidences.record(confidence, false);
                    }
                    is_late || decoder.answer(payload, expected).is_ok_and(|len| expected[..len] == *result)
                }
                Self::Side { decoder, expected, late } => {
                    let is_late = is_late(decoder.schema(), result);
                    *late += u64::from(is_late);
                    is_late || decoder.answer(payload, expected).is_ok_and(|len| expected[..len] == *result)
                }
            }
    }

    /// Confidences of the service's decoder; empty if it does not report them.
    pub(super) fn confidences(&self) -> Confidences {
        match self {
            Self::Decode { confidences, .. } => Confidences::clone(confidences),
            Self::Increment | Self::Form(_) | Self::Side { .. } => Confidences::default(),
        }
    }

    /// Answers that said that they are best guesses: the service's decoder found nothing that explains the syndrome.
    pub(super) fn unconverged(&self) -> u64 {
        match self {
            Self::Increment | Self::Form(_) | Self::Side { .. } => 0,
            Self::Decode { unconverged, .. } => *unconverged,
        }
    }

    /// Answers that said that their decode took longer than the service's deadline.
    pub(super) fn past_deadline(&self) -> u64 {
        match self {
            Self::Increment | Self::Form(_) => 0,
            Self::Decode { late, .. } | Self::Side { late, .. } => *late,
        }
    }
}

/// The requested function.
pub(super) struct Asked<'a> {
    pub(super) function: FunctionArg,
    pub(super) experiment: &'a ExperimentArgs,
    pub(super) side: SideArgs,
    /// Whether a model answers instead of a decoder: answers are then checked by their form alone.
    pub(super) model: bool,
    /// Payload bytes of `increment`.
    pub(super) payload_bytes: usize,
    pub(super) seed: u64,
}

fn source_of(problem: &Problem, sampler: Box<Sampler>, shot: Shot, seed: u64) -> Source {
    let form = Box::new(problem.form().clone());
    let coin = Xoshiro256PlusPlus::seed_from_u64(seed);
    Source::Decode { sampler, shot, form, request: RequestBuffer::default(), coin }
}

/// Source and checker of the work. `served` is the digest of the service's experiment, if it is known.
///
/// # Errors
/// The service has another experiment, or the form of the requests' side information is unknown.
pub(super) fn work(
    asked: &Asked<'_>,
    memory: MemoryLimit,
    served: Option<&str>,
) -> Result<(Source, Checker)> {
    let &Asked { function, experiment, side, model, payload_bytes, seed } = asked;
    let side = match function {
        FunctionArg::Increment => {
            return Ok((Source::Increment { bytes: payload_bytes, number: seed }, Checker::Increment));
        }
        FunctionArg::Decode => SideArgs::default(),
        FunctionArg::DecodeWeighted => {
            let weights = side.weights.context("decode_weighted needs --weights, or the endpoint's line")?;
            SideArgs { weights: Some(weights), readout: None }
        }
        FunctionArg::DecodeReadout => {
            let readout = side.readout.context("decode_readout needs --readout, or the endpoint's line")?;
            SideArgs { readout: Some(readout), weights: None }
        }
    };
    let problem = experiment.problem(memory, |decoding| decoding)?;
    let ours = experiment::digest(&problem);
    if let Some(served) = served.filter(|&served| served != ours) {
        bail!(
            "the service decodes another experiment, of digest {served} and not {ours}: give the --code, --distance, \
             --rounds, --basis, --p, --detectors, --dem or --circuit that it was given"
        );
    }
    let sampler = Box::new(Sampler::new(problem.model(), seed)?);
    let shot = sampler.new_shot();
    if model {
        let form = Box::new(problem.form().clone());
        return Ok((source_of(&problem, sampler, shot, seed), Checker::Form(form)));
    }
    // A slot has room for an answer, and so has this.
    let expected = vec![0; problem.slot_bytes()];
    let Some(side) = side.of(experiment, &problem)?.pop() else {
        let decoder = Box::new(Syndromes::new(&problem)?);
        let confidences = Box::default();
        let checker = Checker::Decode { decoder, expected, unconverged: 0, late: 0, confidences };
        return Ok((source_of(&problem, sampler, shot, seed), checker));
    };
    let decoder = Box::new(SideDecoder::new(&problem, side.clone()).map_err(misuse)?);
    let schema = *decoder.schema();
    let source = match side {
        SideInformation::Weights { most } => {
            let weights = Box::new(Weights::new(problem.model(), schema, most, seed)?);
            Source::Weighted { sampler, shot, weights }
        }
        SideInformation::Readout { readout, weights } => {
            let doubts = Box::new(Doubts::new(weights.flips().to_vec(), readout, schema, seed));
            Source::Readout { sampler, shot, doubts }
        }
    };
    Ok((source, Checker::Side { decoder, expected, late: 0 }))
}
