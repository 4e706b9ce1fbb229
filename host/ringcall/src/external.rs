//! External executors: functions that the dispatcher starts, and whose answers an agent outside of the process's code writes into
//! the slot.
//!
//! A CUDA graph that a host launches reads its request from the ring, writes the response and sets the response flag on
//! its own. The dispatcher checks the request, claims a worker of the executor for it, and is told when the worker has ended.

use ringcall_protocol::ring::{Geometry, SlotIndex};
use ringcall_wire::header::RequestHeader;
use ringcall_wire::status::Status;

pub use crate::worker::LaunchError;

/// What an executor answers to a claim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Claim {
    /// This worker, now.
    Worker(u32),
    /// A worker that is busy: the request stays in its slot and is offered again; later slots are served meanwhile.
    Later,
    /// No worker, now or later: none has the request's function and routing key, or all that have are broken. The request is answered
    /// [`NO_WORKER`](Status::NO_WORKER).
    Never,
}

/// When a slot under way gets its in-flight mark. Always before the request flag is given back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// Never. The request flag stands until the answer is there, so that the slot never looks free;
    /// [`claim`](ExternalExecutor::claim) then gets it offered again and must know it.
    Never,
    /// Before [`start`](ExternalExecutor::start), by the dispatcher: the answer may be there as soon as the request has begun.
    BeforeStart,
    /// In [`start`](ExternalExecutor::start), by the executor, after the work was submitted and before its answer can be there: a client that
    /// sees the mark knows that the work was submitted, and may wait for that instead of for a flag.
    InStart,
}

/// An executor of requests whose answers are written into the slot by an agent outside of this process's code (a CUDA graph). It
/// is called on the dispatcher's thread: no method may block.
pub trait ExternalExecutor: Send {
    /// Whether it answers in the ring of this shape, at these addresses: a dispatcher of another one is not built.
    fn is_for(&self, ring: &Geometry) -> bool {
        let _ = ring;
        true
    }

    /// Other dispatchers take requests from the ring, too ([`RingCompat::shared_ring`]): a slot's in-flight mark may be theirs. Called
    /// once, if at all, before anything else but [`is_for`](Self::is_for).
    fn share(&mut self) {}

    /// Called each turn of the dispatcher: collects the requests that have ended, and reports the status of each answer.
    fn service(&mut self, ended: &mut dyn FnMut(Status));

    /// Claims a worker for this request. `key` is its routing key: the payload's first eight bytes, 0 if there are fewer.
    fn claim(&mut self, slot: SlotIndex, header: &RequestHeader, key: u64) -> Claim;

    /// Starts the request of `slot`, which is checked; `worker` is the [`Claim::Worker`] of [`claim`](Self::claim). Marks the
    /// slot where that is [`Marks::InStart`].
    ///
    /// # Errors
    /// Nothing was started. The request is answered with the error mark.
    fn start(&mut self, worker: u32, slot: SlotIndex) -> Result<(), LaunchError>;

    /// When slots under way get the in-flight mark.
    fn marks(&self) -> Marks;

    /// Whether this slot is under way, or its end was not noticed yet: the dispatcher leaves it alone with
    /// any contents.
    fn serves(&self, slot: SlotIndex) -> bool;

    /// Nothing is under way.
    fn is_idle(&self) -> bool;
}

/// How a ring is read that other libraries share or fill.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct RingCompat {
    /// Any value but 0 in a request flag says that the request is there. Otherwise it must be its slot's address. It is
    /// never followed either way.
    pub any_flag: bool,
    /// Requests for functions that are not in the table, or are not run here, are left to another dispatcher
    /// of this ring. One that cannot be read (its magic or its length is wrong) belongs to no dispatcher: of
    /// the host dispatchers of this process that share the ring, known by the address of its request flags,
    /// one answers it. (Where responses lie in their requests' slots, one that has a response's magic is left:
    /// it may be one that was answered a moment ago.)
    pub shared_ring: bool,
    /// What becomes of requests that no function is for.
    pub bad_requests: BadRequests,
}

/// What becomes of bad requests ([`Status::is_bad_request`]): wrong magic, unknown function, wrong mode. They are counted in
/// any case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum BadRequests {
    /// Each is answered with its status.
    #[default]
    Answer,
    /// Those for unknown functions are taken out of their slots without an answer; the others are answered.
    DropUnknown,
    /// They are taken out of their slots without an answer, as CUDA-Q Realtime does.
    Drop,
}

impl BadRequests {
    /// The environment variable that chooses for programs whose source is not to be changed.
    pub const VARIABLE: &'static str = "RINGCALL_BAD_REQUESTS";

    /// What [`VARIABLE`](Self::VARIABLE) says: `answer` or `drop`; [`Answer`](Self::Answer) where it is not set.
    ///
    /// # Errors
    /// Another value: a line that says so.
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

    /// Whether a request refused so is dropped.
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
    /// Whether a request refused so is another dispatcher's.
    pub(crate) const fn leaves(self, status: Status) -> bool {
        self.shared_ring && matches!(status, Status::UNKNOWN_FUNCTION | Status::WRONG_MODE)
    }

    /// Whether a request refused so is any of the ring's dispatchers' to answer, since nothing says whose it is.
    pub(crate) const fn is_malformed(self, status: Status) -> bool {
        self.shared_ring && matches!(status, Status::BAD_MAGIC | Status::ARG_TOO_LONG)
    }
}
