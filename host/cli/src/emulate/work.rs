//! The requests that are sent, and which answers are right.

use crate::experiment::{self, ExperimentArgs, Syndromes};
use crate::memory::MemoryLimit;
use anyhow::{Result, bail};
use clap::ValueEnum;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall::{FunctionId, Status};
use ringcall_decoder_service::{Problem, RequestBuffer, WireForm};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::Shot;
use ringcall_wire::function::names;

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(super) enum FunctionArg {
    /// `rpc_increment`: every byte of the answer is checked
    Increment,
    /// `decode_syndrome` on sampled shots: answers are compared with a decoder of our own
    Decode,
}

impl FunctionArg {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Increment => names::RPC_INCREMENT,
            Self::Decode => names::DECODE_SYNDROME,
        }
    }

    pub(super) fn id(self) -> FunctionId {
        FunctionId::of(self.name())
    }
}

/// Makes payloads, one after the other.
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
}

impl Source {
    /// Appends the next payload.
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
        }
    }
}

/// Judges answers by the payload alone.
pub(super) enum Checker {
    Increment,
    Decode {
        decoder: Box<Syndromes>,
        expected: Vec<u8>,
    },
    /// Whether it is an answer at all: what a network decides is not known here.
    Form(Box<WireForm>),
}

impl Checker {
    pub(super) fn is_right(&mut self, payload: &[u8], status: Status, result: &[u8]) -> bool {
        status.is_ok()
            && match self {
                Self::Increment => payload.iter().map(|byte| byte.wrapping_add(1)).eq(result.iter().copied()),
                Self::Form(form) => form.read_result(result).is_some(),
                Self::Decode { decoder, expected } => {
                    // What a service had no time for cannot be foreseen, and is no fault.
                    decoder.answer(payload, expected).is_ok_and(|len| expected[..len] == *result)
                        || decoder.is_late(result)
                }
            }
    }
}

fn source_of(problem: &Problem, sampler: Box<Sampler>, shot: Shot, seed: u64) -> Source {
    let form = Box::new(problem.form().clone());
    let coin = Xoshiro256PlusPlus::seed_from_u64(seed);
    Source::Decode { sampler, shot, form, request: RequestBuffer::default(), coin }
}

/// Both ends of the work. Of a `model` answers are judged by their form alone. `served` is the digest of the experiment that the service decodes, where it is known.
///
/// # Errors
/// It is another experiment.
pub(super) fn work(
    function: FunctionArg,
    experiment: &ExperimentArgs,
    memory: MemoryLimit,
    served: Option<&str>,
    model: bool,
    payload_bytes: usize,
    seed: u64,
) -> Result<(Source, Checker)> {
    Ok(match function {
        FunctionArg::Increment => {
            (Source::Increment { bytes: payload_bytes, number: seed }, Checker::Increment)
        }
        FunctionArg::Decode => {
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
                return Ok((
                    source_of(&problem, sampler, shot, seed),
                    Checker::Form(Box::new(problem.form().clone())),
                ));
            }
            let decoder = Box::new(Syndromes::new(&problem)?);
            // Slots hold an answer; so does this.
            let expected = vec![0; problem.slot_bytes()];
            (source_of(&problem, sampler, shot, seed), Checker::Decode { decoder, expected })
        }
    })
}
