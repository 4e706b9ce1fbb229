//! What came of a run, for people and for programs.

use super::work::FunctionArg;
use crate::serve::TransportArg;
use ringcall_emulator::{FaultCounts, Latency, Report};
use serde::Serialize;
use std::fmt;

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    transport: &'static str,
    function: &'static str,
    /// Asked for.
    requests: u64,
    sent: u64,
    answered: u64,
    correct: u64,
    wrong: u64,
    /// Not answered, because of an injected fault.
    lost: u64,
    /// Not answered, and nothing was done to it.
    unanswered: u64,
    late: u64,
    duplicates: u64,
    unexpected: u64,
    malformed: u64,
    faults: FaultCounts,
    latency_ns: Latency,
    elapsed_s: f64,
    throughput_per_s: f64,
    ok: bool,
}

impl Summary {
    pub(super) fn new(
        transport: TransportArg,
        function: FunctionArg,
        requests: u64,
        report: &Report,
    ) -> Self {
        let odd = report.unanswered + report.answered_though_lost + report.unexpected + report.malformed;
        let doubled = report.duplicate_answers <= report.faults.duplicated;
        Self {
            transport: transport.name(),
            function: function.name(),
            requests,
            sent: report.sent,
            answered: report.correct + report.wrong(),
            correct: report.correct,
            wrong: report.wrong(),
            lost: report.lost,
            unanswered: report.unanswered,
            late: report.late,
            duplicates: report.duplicate_answers,
            unexpected: report.unexpected + report.answered_though_lost,
            malformed: report.malformed,
            faults: report.faults,
            latency_ns: report.latency_ns,
            elapsed_s: report.elapsed_s,
            throughput_per_s: report.throughput_per_s,
            ok: report.accounted() && report.wrong() + odd == 0 && doubled,
        }
    }

    /// Every request accounted for, and no answer wrong, missing or too many.
    pub(super) const fn is_ok(&self) -> bool {
        self.ok
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "{} over {}: {} requests sent of {}",
            self.function, self.transport, self.sent, self.requests
        )?;
        writeln!(
            f,
            "answered {} (correct {}, wrong {}), lost on purpose {}, unanswered {}",
            self.answered, self.correct, self.wrong, self.lost, self.unanswered
        )?;
        let Self { late, duplicates, unexpected, malformed, .. } = self;
        writeln!(f, "duplicates {duplicates}, late {late}, unexpected {unexpected}, malformed {malformed}")?;
        let us = |ns: u64| ns as f64 / 1e3;
        let Latency { min, p50, p90, p99, p999, max, .. } = self.latency_ns;
        writeln!(
            f,
            "latency us: min {:.1}, p50 {:.1}, p90 {:.1}, p99 {:.1}, p99.9 {:.1}, max {:.1}",
            us(min),
            us(p50),
            us(p90),
            us(p99),
            us(p999),
            us(max)
        )?;
        writeln!(f, "{:.0} answers/s over {:.3} s", self.throughput_per_s, self.elapsed_s)
    }
}
