//! Live counters of a dispatcher: names and indices, the same for device, host and C.
//!
//! A dispatcher keeps an array of [`COUNT`] `u64`s and adds to the one whose index a [`Counter`] has. Indices are never
//! reused or reordered: new counters go to the end.
//!
//! ```
//! use ringcall_wire::{Counter, Status};
//! assert_eq!(Counter::of_status(Status::BAD_MAGIC), Counter::BadMagic);
//! assert_eq!(Counter::BadMagic.name(), "bad_magic");
//! ```

use crate::status::Status;

crate::named! {
    /// One counter.
    #[repr(usize)]
    pub enum Counter {
        Received = 0, "received", "RX flags seen set, whatever became of them";
        Dispatched = 1, "dispatched", "requests handed to a handler, graph or worker";
        Completed = 2, "completed", "responses published with status OK";
        HandlerErrors = 3, "handler_errors", "responses with a positive status";
        BadFlag = 4, "bad_flag", "requests refused: flag was not the slot's address";
        BadMagic = 5, "bad_magic", "requests refused: wrong magic";
        ArgTooLong = 6, "arg_too_long", "requests refused: arg_len past the slot";
        UnknownFunction = 7, "unknown_function", "requests refused: no such function id";
        WrongMode = 8, "wrong_mode", "requests refused: function of another dispatch mode";
        SchemaMismatch = 9, "schema_mismatch", "requests refused: arg_len not the schema's";
        ResultClamped = 10, "result_clamped", "responses whose length was clamped to the slot";
        HandlerPanics = 11, "handler_panics", "handlers that panicked";
        LaunchFailed = 12, "launch_failed", "graph or kernel launches that failed";
        TimedOut = 13, "timed_out", "requests without a completion in time";
        ShuttingDown = 14, "shutting_down", "requests refused while stopping";
        Abandoned = 15, "abandoned", "deferred completions dropped unanswered";
        NoWorker = 16, "no_worker", "requests for a function without a worker";
        Backpressure = 17, "backpressure", "requests refused or held back: queue full";
        EngineFailed = 18, "engine_failed", "inference engine or decoder failures";
        BadPayload = 19, "bad_payload", "requests refused: payload value out of range";
        Dropped = 20, "dropped", "requests or responses that left no answer behind";
        Queued = 21, "queued", "requests put on a function's queue to wait for a worker";
        LateResults = 22, "late_results", "completions that arrived after their request was answered";
        UnknownStatus = 23, "unknown_status", "responses with a negative status of no known meaning";
    }
}

/// Every counter, in the order of the indices.
pub const ALL: &[Counter] = Counter::ALL;

/// How many counters there are.
pub const COUNT: usize = ALL.len();

impl Counter {
    /// How many counters there are.
    pub const COUNT: usize = COUNT;

    /// Index in the array of counters, below [`COUNT`].
    #[must_use]
    pub const fn index(self) -> usize {
        self as usize
    }

    /// The counter that a response with this status belongs to: one for each protocol-level status,
    /// [`Counter::HandlerErrors`] for all positive ones, [`Counter::Completed`] for success and
    /// [`Counter::UnknownStatus`] for negative ones outside the registry.
    #[inline(always)]
    #[must_use]
    pub const fn of_status(status: Status) -> Self {
        // Success first and by itself: the match becomes a table, which on a device is a read of memory.
        if status.is_ok() { Self::Completed } else { Self::of_failure(status) }
    }

    const fn of_failure(status: Status) -> Self {
        match status {
            Status::BAD_FLAG => Self::BadFlag,
            Status::BAD_MAGIC => Self::BadMagic,
            Status::ARG_TOO_LONG => Self::ArgTooLong,
            Status::UNKNOWN_FUNCTION => Self::UnknownFunction,
            Status::WRONG_MODE => Self::WrongMode,
            Status::SCHEMA_MISMATCH => Self::SchemaMismatch,
            Status::RESULT_TOO_LONG => Self::ResultClamped,
            Status::HANDLER_PANIC => Self::HandlerPanics,
            Status::LAUNCH_FAILED => Self::LaunchFailed,
            Status::TIMED_OUT => Self::TimedOut,
            Status::SHUTTING_DOWN => Self::ShuttingDown,
            Status::ABANDONED => Self::Abandoned,
            Status::NO_WORKER => Self::NoWorker,
            Status::BACKPRESSURE => Self::Backpressure,
            Status::ENGINE_FAILED => Self::EngineFailed,
            Status::BAD_PAYLOAD => Self::BadPayload,
            Status(1..) => Self::HandlerErrors,
            Status(_) => Self::UnknownStatus,
        }
    }
}
