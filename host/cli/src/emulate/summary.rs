//! What came of a run, for people and for programs.

use super::work::FunctionArg;
use crate::serve::TransportArg;
use ringcall_roce::reliable::ConnectionCounts;
use ringcall_roce::{Reason, Refusals};
use ringcall_sim::fpga::{FaultCounts, Latency, Report};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;

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
    /// Answered with a status of the protocol's.
    refused: u64,
    /// Those, by the name of their status.
    refusals: BTreeMap<&'static str, u64>,
    /// Not answered, because of an injected fault.
    lost: u64,
    /// Not answered, and nothing was done to it.
    unanswered: u64,
    late: u64,
    /// Answered rightly or not, and marked: the decode took longer than the service's deadline.
    past_deadline: u64,
    duplicates: u64,
    unexpected: u64,
    malformed: u64,
    /// Answers without their tag, or with a wrong one.
    wrong_tag: u64,
    /// RoCE: packets of which nothing was taken, by reason.
    ignored: Refusals,
    /// RoCE: what a reliable connection counts.
    reliable: Option<ConnectionCounts>,
    /// No socket was bound to the service's port.
    closed: bool,
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
        past_deadline: u64,
    ) -> Self {
        let odd = report.unanswered + report.answered_though_lost + report.unexpected + report.malformed;
        let doubled = report.duplicate_answers <= report.faults.duplicated;
        Self {
            transport: transport.name(),
            function: function.name(),
            requests,
            sent: report.sent,
            answered: report.answered(),
            correct: report.correct,
            wrong: report.wrong(),
            refused: report.refused,
            refusals: report.refusals.clone(),
            lost: report.lost,
            unanswered: report.unanswered,
            late: report.late,
            past_deadline,
            duplicates: report.duplicate_answers,
            unexpected: report.unexpected + report.answered_though_lost,
            malformed: report.malformed,
            wrong_tag: report.wrong_tag,
            ignored: report.answers.refused,
            reliable: report.reliable,
            closed: report.closed,
            faults: report.faults,
            latency_ns: report.latency_ns,
            elapsed_s: report.elapsed_s,
            throughput_per_s: report.throughput_per_s,
            ok: report.accounted() && !report.closed && report.wrong() + report.refused + odd == 0 && doubled,
        }
    }

    /// Every request accounted for, and no answer wrong, refused, missing or too many.
    pub(super) const fn is_ok(&self) -> bool {
        self.ok
    }

    /// Why it is not, in one line, of the service at `address`.
    pub(super) fn complaint(&self, address: SocketAddr) -> String {
        if self.closed {
            return format!("nobody answers at {address}: no socket is bound to that port");
        }
        if self.answered == 0 && self.unanswered > 0 {
            return format!("nobody answers at {address}: no answer to {} requests in time", self.unanswered);
        }
        if self.refused > 0 {
            let statuses = self.refusals.iter().map(|(name, n)| format!("{name} {n}")).collect::<Vec<_>>();
            let (refused, sent) = (self.refused, self.sent);
            return format!("the service refused {refused} of {sent} requests: {}", statuses.join(", "));
        }
        "not every request was answered rightly and once".to_owned()
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
            "answered {} (correct {}, wrong {}, refused {}), lost on purpose {}, unanswered {}",
            self.answered, self.correct, self.wrong, self.refused, self.lost, self.unanswered
        )?;
        for (name, n) in &self.refusals {
            writeln!(f, "refused with {name}: {n}")?;
        }
        let Self { late, duplicates, unexpected, malformed, .. } = self;
        writeln!(f, "duplicates {duplicates}, late {late}, unexpected {unexpected}, malformed {malformed}")?;
        if self.wrong_tag > 0 {
            writeln!(f, "answers without their tag, or with a wrong one: {}", self.wrong_tag)?;
        }
        if self.past_deadline > 0 {
            writeln!(f, "decodes that took longer than the service's deadline: {}", self.past_deadline)?;
        }
        for reason in Reason::ALL.iter().filter(|&&reason| self.ignored.of(reason) > 0) {
            writeln!(f, "packets ignored: {} {} ({reason})", reason.name(), self.ignored.of(*reason))?;
        }
        if let Some(ConnectionCounts { requester, responder }) = self.reliable {
            writeln!(
                f,
                "connection: packets {}, resent {}, timeouts {}, told_sequence_error {}, told_not_ready {}, acks {}, \
                 sequence_errors {}",
                requester.packets,
                requester.retransmitted,
                requester.timeouts,
                requester.nak_sequence,
                requester.not_ready,
                responder.acks,
                responder.nak_sequence
            )?;
        }
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
