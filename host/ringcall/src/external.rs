//! External executors: functions that the dispatcher starts, and whose answers an agent outside of the process's code writes into
//! the slot.
//!
//! A CUDA graph that a host launches reads its request from the ring, writes the response and sets the response flag
//! on its own. The dispatcher checks the request, claims a worker of the executor for it, and polls the executor for
//! workers that have ended.

use ringcall_protocol::ring::{Geometry, SlotIndex};
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;

pub use crate::worker::LaunchError;

/// An executor's answer to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ExecutorClaim {
    /// This worker takes the request now.
    Worker(u32),
    /// The worker is busy: the request stays in its slot and is offered again. Other slots are served meanwhile.
    Later,
    /// No worker will take the request: none has its function and routing key, or all workers with them have failed.
    /// The request is answered [`NO_WORKER`](Status::NO_WORKER).
    Never,
}

/// When a slot gets its in-flight mark: always before the request flag is cleared.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Never. The request flag stays set until the answer is written, so that the slot never looks free. The
    /// dispatcher offers the slot to [`claim`](ExternalExecutor::claim) again, which must recognise it.
    Never,
    /// Before [`start`](ExternalExecutor::start), by the dispatcher: the answer may come as soon as the request has
    /// begun.
    BeforeStart,
    /// In [`start`](ExternalExecutor::start), by the executor, after it submitted the work and before the answer can
    /// come. A client that sees the mark knows that the work was submitted, and may wait for the work instead of
    /// polling a flag.
    InStart,
}

/// An executor of requests whose answers are written into the slot by an agent outside of this process's code (a CUDA graph). It
/// is called on the dispatcher's thread: no method may block.
pub trait ExternalExecutor: Send {
    /// Whether the executor answers in the ring of this shape at these addresses. A dispatcher of another ring is not
    /// built.
    fn is_for(&self, ring: &Geometry) -> bool {
        let _ = ring;
        true
    }

    /// Says that other dispatchers take requests from the ring, too ([`RingCompat::shared_ring`]), so that a slot's
    /// in-flight mark may be another dispatcher's. Called at most once, before all other methods except
    /// [`is_for`](Self::is_for).
    fn share(&mut self) {}

    /// Collects the requests that have ended and reports the status of each answer. Called in each turn of the
    /// dispatcher.
    fn service(&mut self, ended: &mut dyn FnMut(Status));

    /// Claims a worker for this request. `key` is its routing key: the payload's first eight bytes, 0 if there are fewer.
    fn claim(&mut self, slot: SlotIndex, header: &RequestHeader, key: u64) -> ExecutorClaim;

    /// Starts the checked request of `slot` on `worker`, the [`ExecutorClaim::Worker`] that [`claim`](Self::claim) returned.
    /// Marks the slot if [`Marks::InStart`] says so.
    ///
    /// # Errors
    /// Nothing was started. The request is answered with the error mark.
    fn start(&mut self, worker: u32, slot: SlotIndex) -> Result<(), LaunchError>;

    /// When slots get the in-flight mark.
    fn marks(&self) -> Marks;

    /// Whether the slot's request is in flight, or its end was not collected yet. The dispatcher then does not touch
    /// the slot.
    fn serves(&self, slot: SlotIndex) -> bool;

    /// Whether no request is in flight.
    fn is_idle(&self) -> bool;
}

/// Rules for a ring that another library shares or fills.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingCompat {
    /// Every request flag except 0 counts as a request. By default the flag must be its slot's address. In both cases
    /// the address is never dereferenced.
    pub any_flag: bool,
    /// Requests for functions that are not in the table, or are not run here, are left to another dispatcher of this
    /// ring. A malformed request (wrong magic or length) belongs to no dispatcher: one of this process's host
    /// dispatchers that share the ring, which is identified by the address of its request flags, answers it. (On a
    /// ring whose responses are written into the requests' slots, a slot with a response's magic is left: its request
    /// may just have been answered.)
    pub shared_ring: bool,
    /// How bad requests are treated.
    pub bad_requests: BadRequests,
}

/// How bad requests ([`Status::is_bad_request`]) are treated: wrong magic, unknown function, wrong mode. They are
/// always counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BadRequests {
    /// Each bad request is answered with its status.
    #[default]
    Answer,
    /// Requests for unknown functions are removed from their slots without an answer; other bad requests are
    /// answered.
    DropUnknown,
    /// Bad requests are removed from their slots without an answer, as by CUDA-Q Realtime.
    Drop,
}

impl BadRequests {
    /// The environment variable for programs whose source must not change.
    pub const VARIABLE: &'static str = "RINGCALL_BAD_REQUESTS";

    /// Reads [`VARIABLE`](Self::VARIABLE): `answer` or `drop`; [`Answer`](Self::Answer) if it is not set.
    ///
    /// # Errors
    /// A line about any other value.
    pub fn from_environment() -> Result<Self, String> {
        match std::env::var_os(Self::VARIABLE) {
            None => Ok(Self::Answer),
            Some(value) => Self::from_value(&value.to_string_lossy()),
        }
    }

    fn from_value(value: &str) -> Result<Self, String> {
        match value {
            "answer" => Ok(Self::Answer),
            "drop" => Ok(Self::Drop),
            other => Err(format!("{} is `{other}`: take `answer` or `drop`", Self::VARIABLE)),
        }
    }

    /// Whether a request with this status is dropped.
    #[must_use]
    pub fn drops(self, status: Status) -> bool {
        match self {
            Self::Answer => false,
            Self::DropUnknown => status == Status::UNKNOWN_FUNCTION,
            Self::Drop => status.is_bad_request(),
        }
    }
}

impl RingCompat {
    /// Whether a request with this status is another dispatcher's.
    pub(crate) const fn leaves(self, status: Status) -> bool {
        self.shared_ring && matches!(status, Status::UNKNOWN_FUNCTION | Status::WRONG_MODE)
    }

    /// Whether any of the ring's dispatchers may answer a request with this status, since it names no dispatcher.
    pub(crate) const fn is_malformed(self, status: Status) -> bool {
        self.shared_ring && matches!(status, Status::BAD_MAGIC | Status::ARG_TOO_LONG)
    }
}
