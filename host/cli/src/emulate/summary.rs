//! Results of a run of `emulate`, for people and for programs.

use super::work::{Checker, FunctionArg};
use crate::report::{ConfidenceRow, count};
use crate::serve::TransportArg;
use crate::style;
use ringcall_roce::reliable::ConnectionStats;
use ringcall_roce::{Reason, Refusals};
use ringcall_sim::fpga::{FaultStats, Latency, Report};
use serde::Serialize;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::time::Duration;

#[derive(Debug, Serialize)]
pub(super) struct Summary {
    transport: &'static str,
    function: &'static str,
    requests: u64,
    sent: u64,
    answered: u64,
    correct: u64,
    wrong: u64,
    /// Answers with an error status of the protocol.
    refused: u64,
    /// These answers, by the name of their status.
    refusals: BTreeMap<&'static str, u64>,
    /// Requests without an answer because of an injected fault.
    lost: u64,
    /// Requests without an answer and without an injected fault.
    unanswered: u64,
    late: u64,
    /// Answers, right or wrong, that say that the decode took longer than the service's deadline.
    past_deadline: u64,
    /// Answers that are best guesses: the service's decoder found nothing that explains the syndrome.
    unconverged: u64,
    /// Confidences of the service's decoder; empty if it does not report them.
    confidences: Vec<ConfidenceRow>,
    duplicates: u64,
    unexpected: u64,
    malformed: u64,
    /// Answers with a missing or wrong tag.
    wrong_tag: u64,
    /// RoCE: ignored packets, by reason.
    ignored: Refusals,
    /// RoCE: counters of a reliable connection.
    reliable: Option<ConnectionStats>,
    /// Whether no socket was bound to the service's port.
    closed: bool,
    faults: FaultStats,
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
        checker: &Checker,
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
            past_deadline: checker.past_deadline(),
            unconverged: checker.unconverged(),
            confidences: ConfidenceRow::all(&checker.confidences(), false),
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

    /// Whether every request is accounted for, and no answer is wrong, refused, missing or duplicate.
    pub(super) const fn is_ok(&self) -> bool {
        self.ok
    }

    /// Why the run failed, in one line; `address` is the service's.
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

/// Column at which the second column starts.
const LABEL: usize = 12;

impl Summary {
    /// The text for people, with counts above 0 or with every count.
    pub(super) fn shown(&self, verbose: bool) -> String {
        let title = format!(
            "{} over {}: {} requests sent of {}",
            self.function,
            self.transport,
            count(self.sent),
            count(self.requests)
        );
        let mut text = style::styled(style::HEADING, &style::paragraph("", 0, &title));
        let counts = [
            ("correct", self.correct, true),
            ("wrong", self.wrong, false),
            ("refused", self.refused, false),
            ("unanswered", self.unanswered, false),
            ("lost on purpose", self.lost, false),
            ("duplicates", self.duplicates, false),
            ("late", self.late, false),
            ("unexpected", self.unexpected, false),
            ("malformed", self.malformed, false),
        ];
        let shown = counts.into_iter().filter(|(_, n, always)| verbose || *always || *n > 0);
        let words: Vec<String> = shown.map(|(name, n, _)| format!("{name} {}", count(n))).collect();
        let mut row = |label: &str, words: &str| text += &style::paragraph(label, LABEL, words);
        row("answers", &words.join(", "));
        for (name, n) in &self.refusals {
            row("", &format!("refused with {name}: {}", count(*n)));
        }
        if self.wrong_tag > 0 {
            row("", &format!("without their tag, or with a wrong one: {}", count(self.wrong_tag)));
        }
        if self.past_deadline > 0 {
            row("", &format!("past the service's deadline: {}", count(self.past_deadline)));
        }
        if self.unconverged > 0 {
            row("", &format!("did not converge: {}", count(self.unconverged)));
        }
        if !self.confidences.is_empty() {
            row("confidence", &ConfidenceRow::words(&self.confidences));
        }
        for reason in Reason::ALL.iter().filter(|&&reason| self.ignored.of(reason) > 0) {
            row("ignored", &format!("{} {} ({reason})", reason.name(), count(self.ignored.of(*reason))));
        }
        if let Some(ConnectionStats { requester, responder }) = self.reliable {
            let counts = [
                ("packets", requester.packets),
                ("resent", requester.retransmitted),
                ("timeouts", requester.timeouts),
                ("told_sequence_error", requester.nak_sequence),
                ("told_not_ready", requester.not_ready),
                ("acks", responder.acks),
                ("sequence_errors", responder.nak_sequence),
            ];
            row("connection", &counts.map(|(name, n)| format!("{name} {n}")).join(", "));
        }
        if self.answered > 0 {
            row("latency", &latency(&self.latency_ns));
        }
        // Without answers there is no rate.
        if self.answered == 0 && !verbose {
            return text;
        }
        let elapsed = style::span(Duration::from_secs_f64(self.elapsed_s.max(0.0)));
        row("rate", &format!("{} over {elapsed}", style::per_second(self.throughput_per_s)));
        text
    }
}

/// Percentiles in a line.
pub(super) fn latency(latency: &Latency) -> String {
    let &Latency { p50, p99, p999, max, .. } = latency;
    let parts = [("p50", p50), ("p99", p99), ("p99.9", p999), ("max", max)];
    parts.map(|(name, ns)| format!("{name} {}", style::time(ns as f64 / 1e3))).join("   ")
}
