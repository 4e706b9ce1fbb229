//! A memory experiment that two processes agree on by a few numbers, and its decoder as a function.

use crate::matching::Matching;
use crate::memory::Estimate;
use anyhow::Result;
use clap::{Args, ValueEnum};
use ringcall::Status;
use ringcall_decoder_service::Problem;
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::Decoder;
use ringcall_wire::bits::{BitView, packed_len};
use ringcall_wire::qec::{DecodeResponse, write_decode_result};
use ringcall_wire::schema::HandlerSchema;
use std::fmt::{self, Write};

/// Basis of a memory experiment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum BasisArg {
    X,
    Z,
}

impl From<BasisArg> for Basis {
    fn from(basis: BasisArg) -> Self {
        match basis {
            BasisArg::X => Self::X,
            BasisArg::Z => Self::Z,
        }
    }
}

/// The options of an experiment: both ends of a service must be given the same.
#[derive(Debug, Clone, Args)]
pub(crate) struct Experiment {
    /// Code distance of the rotated surface code that is decoded, odd, at least 3
    #[arg(long, default_value_t = 5)]
    distance: u32,
    /// Rounds of syndrome extraction [default: the distance]
    #[arg(long)]
    rounds: Option<u32>,
    /// Strength of the circuit noise, each of Stim's four rates
    #[arg(long, default_value_t = 0.003)]
    p: f64,
    #[command(flatten)]
    pub(crate) matching: Matching,
}

impl Experiment {
    /// What its decoder takes.
    pub(crate) fn memory(&self) -> Estimate {
        let rounds = self.rounds.unwrap_or(self.distance);
        Estimate::process().experiment(self.distance, rounds)
    }

    /// The memory experiment in the Z basis.
    pub(crate) fn problem(&self) -> Result<Problem> {
        let rounds = self.rounds.unwrap_or(self.distance);
        let noise = CircuitNoise::uniform(self.p);
        let experiment = MemoryExperiment { distance: self.distance, rounds, basis: Basis::Z, noise };
        self.matching.problem(experiment.detector_error_model()?)
    }
}

/// A digest of the experiment, by which two processes know that they decode the same: CRC-32 of the error
/// model's text.
pub(crate) fn digest(problem: &Problem) -> String {
    struct Digest(crc32fast::Hasher);
    impl fmt::Write for Digest {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            self.0.update(text.as_bytes());
            Ok(())
        }
    }
    let mut digest = Digest(crc32fast::Hasher::new());
    // Hashing fails nowhere.
    let _ = write!(digest, "{}", problem.model());
    format!("{:08x}", digest.0.finalize())
}

/// `decode_syndrome` by matching alone, as the problem has it, on the calling thread. Nothing is allocated after it is made.
pub(crate) struct Syndromes {
    schema: HandlerSchema,
    detectors: usize,
    decoder: Box<dyn Decoder>,
    defects: Vec<u32>,
    observables: Vec<u8>,
}

impl Syndromes {
    pub(crate) fn new(problem: &Problem) -> Result<Self> {
        let (detectors, observables) = (problem.detectors() as usize, problem.observables() as usize);
        Ok(Self {
            schema: problem.schema(),
            detectors,
            decoder: problem.decoder()?,
            defects: Vec::with_capacity(detectors),
            observables: vec![0; packed_len(observables)],
        })
    }

    /// Takes a packed bit for each detector, writes observables, corrections and convergence.
    pub(crate) fn answer(&mut self, request: &[u8], result: &mut [u8]) -> Result<usize, Status> {
        let detectors = BitView::new(request, self.detectors).map_err(|_| Status::BAD_PAYLOAD)?;
        self.defects.clear();
        self.defects.extend(detectors.ones().map(|index| index as u32));
        let matched =
            self.decoder.decode(&self.defects, &mut self.observables).map_err(|_| Status::ENGINE_FAILED)?;
        let outcome = DecodeResponse {
            total_corrections: i32::try_from(matched.corrections).unwrap_or(i32::MAX),
            converged: matched.converged.into(),
        };
        write_decode_result(&self.schema, result, &self.observables, outcome)
            .map_err(|_| Status::RESULT_TOO_LONG)
    }
}
