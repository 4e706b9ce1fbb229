//! Counters of a simulated NIC.

/// Counts of one NIC.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct Stats {
    /// Messages that came in.
    pub rx_messages: u64,
    /// Messages that completed a receive request.
    pub rx_delivered: u64,
    /// Writes without immediate that were placed.
    pub rx_writes: u64,
    /// Messages dropped: no receive request was posted.
    pub rx_no_credit: u64,
    /// Messages dropped: they name memory that the peer may not write.
    pub rx_refused: u64,
    /// Receive requests that completed with an error.
    pub rx_errors: u64,
    /// Messages dropped: the queue pair is in the error state.
    pub rx_dead: u64,
    /// Messages sent.
    pub tx_sent: u64,
    /// Messages that the port lost.
    pub tx_lost: u64,
    /// Messages whose bytes were in the request.
    pub tx_inline: u64,
    /// Requests that were taken from a BlueFlame copy.
    pub tx_blue_flame: u64,
    /// Completions written for send requests that succeeded.
    pub tx_completions: u64,
    /// Send requests that failed.
    pub tx_errors: u64,
    /// Requests of either queue flushed.
    pub flushed: u64,
    /// Doorbells that were seen; rung twice between two looks, they are one.
    pub doorbells: u64,
    /// Faults that were planted.
    pub faults: u64,
}

/// A rule that software broke.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(usize)]
pub enum Violation {
    /// The doorbell was seen before the record said the same.
    DoorbellBeforeRecord,
    /// A doorbell for another queue pair.
    DoorbellQueuePair,
    /// A request that was rung for is not the one of its index: it was not written yet, or not visible.
    StaleRequest,
    /// A request's queue pair is another one.
    RequestQueuePair,
    /// A request that cannot be read: opcode, size or length.
    MalformedRequest,
    /// A request changed between fetch and execution.
    RequestOverwritten,
    /// A request's bytes in memory changed between fetch and execution.
    PayloadOverwritten,
    /// A BlueFlame copy differs from the queue's entry.
    BlueFlameDiffers,
    /// More send requests than the queue has entries for.
    SendOverrun,
    /// More receive requests than the queue has entries for.
    ReceiveOverCredit,
    /// A completion had no entry: the queue was full and is lost to the consumer.
    CompletionOverrun,
}

impl Violation {
    /// Every rule.
    pub const ALL: &[Self] = &[
        Self::DoorbellBeforeRecord,
        Self::DoorbellQueuePair,
        Self::StaleRequest,
        Self::RequestQueuePair,
        Self::MalformedRequest,
        Self::RequestOverwritten,
        Self::PayloadOverwritten,
        Self::BlueFlameDiffers,
        Self::SendOverrun,
        Self::ReceiveOverCredit,
        Self::CompletionOverrun,
    ];

    /// Its name, for logs and metrics.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::DoorbellBeforeRecord => "doorbell_before_record",
            Self::DoorbellQueuePair => "doorbell_queue_pair",
            Self::StaleRequest => "stale_request",
            Self::RequestQueuePair => "request_queue_pair",
            Self::MalformedRequest => "malformed_request",
            Self::RequestOverwritten => "request_overwritten",
            Self::PayloadOverwritten => "payload_overwritten",
            Self::BlueFlameDiffers => "blue_flame_differs",
            Self::SendOverrun => "send_overrun",
            Self::ReceiveOverCredit => "receive_over_credit",
            Self::CompletionOverrun => "completion_overrun",
        }
    }
}

/// How often each rule was broken.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Violations([u64; Violation::ALL.len()]);

impl Violations {
    pub(crate) fn count(&mut self, violation: Violation) {
        self.0[violation as usize] += 1;
    }

    /// How often this rule was broken.
    #[must_use]
    pub fn get(&self, violation: Violation) -> u64 {
        self.0[violation as usize]
    }

    /// The rules that were broken, and how often.
    pub fn broken(&self) -> impl Iterator<Item = (Violation, u64)> + '_ {
        Violation::ALL.iter().map(|&violation| (violation, self.get(violation))).filter(|&(_, n)| n > 0)
    }
}
