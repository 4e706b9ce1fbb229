//! Side information as options: weights of edges, or read-outs of measurements, with each shot.

use crate::experiment::ExperimentArgs;
use crate::number;
use anyhow::Result;
use clap::{Args, ValueEnum};
use ringcall_decoder_service::{Problem, SideInformation};
use ringcall_qec::decode::{DecodingGraph, ParallelEdges, ReadoutWeights};
use ringcall_wire::readout::Readout;

/// How the read-out of a measurement is encoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ReadoutArg {
    /// Confidences of 4 bits
    Soft4,
    /// Confidences of 8 bits
    Soft8,
    /// Confidences as floating-point numbers
    SoftF32,
    /// Levels as bytes: 2 is an erasure
    Leakage8,
    /// Levels as integers of 32 bits: 2 is an erasure
    Leakage32,
}

impl From<ReadoutArg> for Readout {
    fn from(readout: ReadoutArg) -> Self {
        match readout {
            ReadoutArg::Soft4 => Self::Soft4,
            ReadoutArg::Soft8 => Self::Soft8,
            ReadoutArg::SoftF32 => Self::SoftF32,
            ReadoutArg::Leakage8 => Self::Leakage8,
            ReadoutArg::Leakage32 => Self::Leakage32,
        }
    }
}

impl ReadoutArg {
    /// The name as an option's value.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Soft4 => "soft4",
            Self::Soft8 => "soft8",
            Self::SoftF32 => "soft-f32",
            Self::Leakage8 => "leakage8",
            Self::Leakage32 => "leakage32",
        }
    }
}

/// The side information of requests.
#[derive(Debug, Clone, Copy, Default, Args)]
pub(crate) struct SideArgs {
    /// `decode_weighted`, with other weights of edges in each request, at most N; without this option it is not served
    #[arg(long, value_name = "N", value_parser = number::within::<u32>(1, 65_536))]
    pub(crate) weights: Option<u32>,
    /// `decode_readout`, with confidences or levels of the circuit's measurements in each request; without this option it is not
    /// served
    #[arg(long, value_enum, value_name = "ENCODING")]
    pub(crate) readout: Option<ReadoutArg>,
}

impl SideArgs {
    /// The options whose fields [`Given::refuse`](crate::usage::Given::refuse) takes.
    pub(crate) const FIELDS: [&'static str; 2] = ["weights", "readout"];

    /// The side information for shots of this experiment.
    ///
    /// # Errors
    /// [`Misuse`](crate::usage::Misuse): a read-out without a circuit, or a measurement without an edge in the model's
    /// graph.
    pub(crate) fn of(self, experiment: &ExperimentArgs, problem: &Problem) -> Result<Vec<SideInformation>> {
        let mut sides = Vec::new();
        sides.extend(self.weights.map(|most| SideInformation::Weights { most }));
        if let Some(readout) = self.readout {
            let graph = DecodingGraph::from_dem(problem.model(), ParallelEdges::Independent)?;
            let weights = ReadoutWeights::new(&experiment.circuit()?, &graph)?;
            sides.push(SideInformation::Readout { readout: readout.into(), weights });
        }
        Ok(sides)
    }
}
