//! Memory of a command: estimated before anything large is allocated, and refused above a limit.

mod estimate;
mod limit;

use crate::doctor::machine::Machine;
use crate::usage::Misuse;
use anyhow::{Result, bail};
use bytesize::ByteSize;
pub(crate) use estimate::Estimate;
pub(crate) use limit::free;
use ringcall_qec::dem::text::Limits;
use std::path::Path;

/// Estimates from this many bytes on are printed.
const WORTH_A_LINE: u64 = 1 << 30;

/// The option that bounds a command's memory.
#[derive(Debug, Clone, Copy, clap::Args)]
pub(crate) struct MemoryLimit {
    /// The most memory that the configuration may take, as estimated before it starts: 4GiB, 512M; more is
    /// refused [default: 80% of the memory that the machine and its control group leave free]
    #[arg(long, value_name = "SIZE")]
    max_memory: Option<ByteSize>,
}

impl MemoryLimit {
    /// The limit in bytes, if there is one.
    fn allowed(self) -> Option<u64> {
        match self.max_memory {
            Some(size) => Some(size.as_u64()),
            None => free(&Machine::at(Path::new("/"))).map(|free| free / 5 * 4),
        }
    }

    /// Limits for reading an error model's file, whose model alone must not exceed the allowed memory: reading takes
    /// memory before anything can be estimated.
    pub(crate) fn of_model(self) -> Limits {
        let limits = Limits::default();
        let Some(allowed) = self.allowed() else { return limits };
        Limits {
            instructions: limits.instructions.min(allowed / estimate::MECHANISM),
            targets: limits.targets.min(allowed / size_of::<u32>() as u64),
            ..limits
        }
    }

    /// Admits an estimate while the process has other parts `there`. A given limit is for both; free memory is for the
    /// new part only.
    pub(crate) fn admit_beside(self, made: Estimate, there: &Estimate) -> Result<()> {
        match self.max_memory {
            Some(_) => self.admit(&made.beside(there)),
            None => self.admit(&made),
        }
    }

    /// Refuses a configuration that exceeds the limit. Prints the estimate if it is large, or if a limit was given.
    ///
    /// # Errors
    /// [`Misuse`] with one line: the needed memory and its largest purpose, the allowed memory, and the options that
    /// help.
    pub(crate) fn admit(self, estimate: &Estimate) -> Result<()> {
        let needed = estimate.bytes();
        if let Some(allowed) = self.allowed()
            && needed > allowed
        {
            let whose = match self.max_memory {
                Some(_) => "--max-memory".to_owned(),
                None => "80% of what is free; --max-memory SIZE sets another limit".to_owned(),
            };
            bail!(Misuse(format!(
                "this takes about {} of memory, most of it for {}, and may take {} ({whose})",
                shown(needed),
                estimate.largest(),
                shown(allowed),
            )));
        }
        if self.max_memory.is_some() || needed >= WORTH_A_LINE {
            eprintln!("ringcall: takes about {} of memory", shown(needed));
        }
        Ok(())
    }
}

fn shown(bytes: u64) -> String {
    ByteSize(bytes).display().iec().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::{DecoderArgs, MatchingArg, RelayArgs};
    use ringcall_qec::circuit::{Code, Experiment};
    use ringcall_qec::decode::OrderedStatistics;

    fn limit(text: &str) -> MemoryLimit {
        MemoryLimit { max_memory: Some(text.parse().expect("a size")) }
    }

    #[test]
    fn what_does_not_fit_is_refused_by_name() {
        let ring = Estimate::process().ring(65_536, 65_536);
        let error = limit("4GiB").admit(&ring).expect_err("8 GiB");
        assert!(error.is::<Misuse>());
        let line = error.to_string();
        assert!(
            line.contains("8.0 GiB") && line.contains("--slot-bytes") && line.contains("4.0 GiB"),
            "{line}"
        );
        limit("9GiB").admit(&ring).expect("it fits");
    }

    #[test]
    fn a_limit_is_for_what_is_made_and_what_is_there() {
        let half = Estimate::process().ring(4096, 65_536);
        limit("700MiB").admit(&half).expect("512 MiB");
        assert!(limit("700MiB").admit_beside(half.clone(), &half).is_err(), "twice as much");
        limit("1100MiB").admit_beside(half.clone(), &half).expect("1024 MiB");
    }

    #[test]
    fn what_decoders_do_further_takes_more() {
        let decoders = |code, further: &DecoderArgs| {
            Estimate::process().experiment(&Experiment::of(code)).further(further).workers(4).bytes()
        };
        let neither = DecoderArgs::default();
        let ensemble = DecoderArgs { kind: Some(MatchingArg::Ensemble), ..DecoderArgs::default() };
        assert!(decoders(Code::Surface, &ensemble) > decoders(Code::Surface, &neither));
        let [zero, swept] =
            [OrderedStatistics::Zero, OrderedStatistics::CombinationSweep(100)].map(|order| {
                let relay = RelayArgs { ordered: Some(order), ..RelayArgs::default() };
                decoders(Code::Bb144, &DecoderArgs { relay, ..DecoderArgs::default() })
            });
        assert!(swept > zero && zero > decoders(Code::Bb144, &neither));
    }

    #[test]
    fn an_experiment_that_overflows_every_size_is_refused_too() {
        let huge = Estimate::process().surface(u32::MAX, u32::MAX);
        assert!(limit("1TiB").admit(&huge).is_err());
    }
}
