//! Report of a run.

use crate::fpga::faults::FaultStats;
use hdrhistogram::Histogram;
use ringcall_roce::ResponderStats;
use ringcall_roce::reliable::ConnectionStats;
use ringcall_wire::Status;
use serde::Serialize;
use std::collections::BTreeMap;

/// A distribution of times, ns; all 0 without any.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Latency {
    /// How many.
    pub count: u64,
    /// The shortest.
    pub min: u64,
    /// The mean.
    pub mean: f64,
    /// The median.
    pub p50: u64,
    /// Nine tenths are shorter.
    pub p90: u64,
    /// 99 in 100 are shorter.
    pub p99: u64,
    /// 999 in 1000 are shorter.
    pub p999: u64,
    /// The longest.
    pub max: u64,
}

impl Latency {
    /// Of a histogram of nanoseconds.
    #[must_use]
    pub fn of(histogram: &Histogram<u64>) -> Self {
        if histogram.is_empty() {
            return Self::default();
        }
        let at = |quantile| histogram.value_at_quantile(quantile);
        Self {
            count: histogram.len(),
            min: histogram.min(),
            mean: histogram.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            max: histogram.max(),
        }
    }
}

/// What came of a run: every request ended in one of [`Self::correct`], [`Self::wrong`], [`Self::refused`],
/// [`Self::lost`] and [`Self::unanswered`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Report {
    /// Requests sent.
    pub sent: u64,
    /// Answered rightly and in time.
    pub correct: u64,
    /// Answered in time, and the checker said no.
    pub wrong_content: u64,
    /// Answered in time, with another time than was sent.
    pub wrong_time: u64,
    /// Answered in time with a status of the protocol's, which is negative: the service has refused the request, or could
    /// not serve it.
    pub refused: u64,
    /// Refused requests, by the name of their status.
    pub refusals: BTreeMap<&'static str, u64>,
    /// The service's machine has said that no socket is bound to its port: the run ended there, early.
    pub closed: bool,
    /// Not answered, because a packet of the request or the answer was lost or damaged on purpose.
    pub lost: u64,
    /// Not answered in time, and nothing was done to it.
    pub unanswered: u64,
    /// Their numbers, the first hundred.
    pub unanswered_ids: Vec<u32>,
    /// Answers after their request had been given up; it stays unanswered.
    pub late: u64,
    /// Further answers to requests that had one.
    pub duplicate_answers: u64,
    /// Answers to requests that cannot have arrived whole.
    pub answered_though_lost: u64,
    /// Answers to requests that were never sent, or so long ago that they are forgotten.
    pub unexpected: u64,
    /// Messages that are no answer: too short, another magic, a longer result than came.
    pub malformed: u64,
    /// Answers without their tag, or with a wrong one: nothing of them was taken.
    pub wrong_tag: u64,
    /// Times that a due window had to wait for a free page.
    pub stalls: u64,
    /// Packets sent, before faults.
    pub packets: u64,
    /// Payload bytes in them.
    pub payload_bytes: u64,
    /// What went wrong on purpose.
    pub faults: FaultStats,
    /// What the answers' queue pair counted: gaps in the host's numbers among them.
    pub answers: ResponderStats,
    /// What a reliable connection counted: what was sent again, and what the host was told.
    pub reliable: Option<ConnectionStats>,
    /// From sending to answer, of correct and wrong ones.
    pub latency_ns: Latency,
    /// From the first request to the end.
    pub elapsed_s: f64,
    /// Answered requests a second.
    pub throughput_per_s: f64,
}

impl Report {
    /// Answered in time, and not as it should be.
    #[must_use]
    pub const fn wrong(&self) -> u64 {
        self.wrong_content + self.wrong_time
    }

    /// Answered in time, rightly or not.
    #[must_use]
    pub const fn answered(&self) -> u64 {
        self.correct + self.wrong() + self.refused
    }

    /// Counts a request that was refused with `status`.
    pub fn refuse(&mut self, status: Status) {
        self.refused += 1;
        *self.refusals.entry(status.name()).or_default() += 1;
    }

    /// Whether every request's end is known.
    #[must_use]
    pub const fn accounted(&self) -> bool {
        self.answered() + self.lost + self.unanswered == self.sent
    }

    /// Whether every request that could be answered was, rightly, once and in time.
    #[must_use]
    pub const fn clean(&self) -> bool {
        let odd = self.late
            + self.duplicate_answers
            + self.answered_though_lost
            + self.unexpected
            + self.malformed
            + self.unanswered
            + self.wrong()
            + self.refused;
        odd == 0 && !self.closed && self.accounted()
    }
}
