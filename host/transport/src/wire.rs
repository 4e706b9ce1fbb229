//! `Wire`, the trait of a transport's network side: receiving and sending frames.

use crate::{Outbox, TransportAddress};
use ringcall_roce::reliable::ReliableError;
use ringcall_wire::tag::FrameKey;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The most frames that are moved at once.
pub const BATCH: usize = 32;

/// Moves frames between a network and this process. A wire knows nothing of rings: [`Link`](crate::Link) is a service
/// over any wire, [`Caller`](crate::Caller) a client.
///
/// A *frame* is a request or a response: 24 bytes of header, then the payload. A wire whose packets carry pieces of
/// frames assembles them in its own memory, and hands over whole frames; only complete and checked frames are written
/// to slots. No method but [`wait`](Self::wait) blocks.
pub trait Wire: Send {
    /// The recipient of an answer.
    type Peer: Copy + Send + fmt::Debug;

    /// Whether peers name the slot of a request ([`ReceivedFrame::slot`]). If so, a frame for a slot in use is refused. If not,
    /// any vacant slot is taken, and frames wait in the wire while there is none.
    const NAMES_SLOTS: bool;

    /// The wire's address.
    fn endpoint(&self) -> TransportAddress;

    /// The longest frame that the wire carries.
    fn max_frame_bytes(&self) -> usize;

    /// Allocates buffers for frames of up to `receive_bytes` and `send_bytes`, before any frame is received or sent.
    ///
    /// # Errors
    /// The operating system's error.
    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()>;

    /// Passes at most `limit` arrived frames (0 < `limit` <= [`BATCH`]) to `take`, without blocking. An empty wire is
    /// not an error.
    ///
    /// # Errors
    /// The operating system's error, which is counted; the wire is polled again.
    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, Self::Peer>)) -> io::Result<()>
    where
        Self: Sized;

    /// Sends the outbox's first frames, as many as it can without blocking.
    fn send(&mut self, outbox: &Outbox<Self::Peer>) -> Sent;

    /// Blocks until a frame may have arrived, or until `timeout`.
    ///
    /// # Errors
    /// The operating system's error.
    fn wait(&self, timeout: Duration) -> io::Result<()>;

    /// The key for [tags](ringcall_wire::tag) of sent frames, if they have tags.
    fn key(&self) -> Option<FrameKey> {
        None
    }

    /// A counter of the datagrams that the operating system has dropped for this wire, if there is one.
    fn kernel_drops(&self) -> Option<KernelDrops> {
        None
    }
}

/// An arrival at a wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireArrival<'a, P> {
    /// A frame.
    Frame(ReceivedFrame<'a, P>),
    /// A packet that is not in the wire's protocol: counted.
    Malformed,
    /// A packet of a peer that is not served: counted.
    Forbidden,
    /// A frame without its [tag](ringcall_wire::tag), or with a wrong one: counted.
    WrongTag,
    /// A packet whose invariant CRC is wrong: counted.
    WrongIcrc,
    /// A packet that brings another key than the window's: counted.
    WrongKey,
    /// A packet that continues a message of which an earlier packet is missing: counted.
    NoMessage,
    /// A packet that is not the next one of a reliable connection: counted.
    WrongPsn,
    /// The number of packets sent again because they were not acknowledged: counted.
    Resent(u64),
    /// A reliable connection has ended: counted by its reason.
    Broken(ConnectionEnd),
    /// A duplicate packet, by the wire's sequence numbers: counted.
    Repeated,
    /// The number of packets lost on the way, by the wire's sequence numbers: counted.
    Lost(u64),
    /// The number of frames given up because some of their packets never came: counted.
    Incomplete(u64),
    /// The number of peers that lost their entries to newcomers: counted.
    Evicted(u64),
}

/// Why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionEnd {
    /// The peer acknowledged nothing, although packets were sent again.
    Silent,
    /// The peer had no receive buffer in any attempt.
    NotReady,
    /// The peer refused an answer.
    Refused,
    /// The queue pair went into the error state.
    QueuePair,
    /// The device was removed.
    Device,
}

impl From<ReliableError> for ConnectionEnd {
    fn from(error: ReliableError) -> Self {
        match error {
            ReliableError::RetriesExceeded => Self::Silent,
            ReliableError::NotReadyRetriesExceeded => Self::NotReady,
            _ => Self::Refused,
        }
    }
}

/// A frame that has arrived. Its contents are an allegation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceivedFrame<'a, P> {
    /// The sender, which gets the answer.
    pub from: P,
    /// The slot of the request, if the wire [names slots](Wire::NAMES_SLOTS).
    pub slot: Option<u32>,
    /// Header and payload, and perhaps padding; cut to the length given to [`Wire::open`].
    pub bytes: &'a [u8],
    /// The frame's original length.
    pub len: usize,
}

/// The outcome of sending a batch.
#[derive(Debug)]
#[must_use]
pub struct Sent {
    /// The number of frames sent, from the first on.
    pub frames: usize,
    /// The error of the next frame. After [`WouldBlock`](io::ErrorKind::WouldBlock) it is offered again, after any
    /// other error it is given up.
    pub error: Option<io::Error>,
}

/// Reads a count of dropped datagrams on any thread. Cheap to clone.
#[derive(Clone)]
pub struct KernelDrops(Arc<dyn Fn() -> u64 + Send + Sync>);

impl KernelDrops {
    /// A count that `read` reads.
    pub fn new(read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The datagrams dropped so far.
    #[must_use]
    pub fn read(&self) -> u64 {
        (self.0)()
    }
}

impl fmt::Debug for KernelDrops {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("KernelDrops").finish_non_exhaustive()
    }
}
