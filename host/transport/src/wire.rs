//! `Wire`, the trait of a transport's network side: receiving and sending frames.

use crate::{Endpoint, Outbox};
use ringcall_roce::reliable::ReliableError;
use ringcall_wire::tag::FrameKey;
use std::fmt;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// The most frames that are moved at a time.
pub const BATCH: usize = 32;

/// Moves frames between a network and this process. It knows nothing of rings: [`Link`](crate::Link) is a service's end
/// over any wire, [`Caller`](crate::Caller) a client's.
///
/// A *frame* is a request or a response: 24 bytes of header, then the payload. A wire whose packets carry
/// pieces of frames puts them together in its own memory, and hands over whole ones; nothing is written into
/// a slot before a frame is complete and was found to be right. No method blocks but [`wait`](Self::wait).
pub trait Wire: Send {
    /// Where an answer goes.
    type Peer: Copy + Send + fmt::Debug;

    /// Whether peers say which slot a request is for ([`Frame::slot`]). Where they do not, any vacant slot is taken, and
    /// frames wait in the wire while there is none; where they do, a frame for a slot in use is refused.
    const NAMES_SLOTS: bool;

    /// Where this wire is reached.
    fn endpoint(&self) -> Endpoint;

    /// The longest frame that it carries.
    fn max_frame_bytes(&self) -> usize;

    /// Makes buffers, before anything is received or sent: for frames of up to so many bytes each way.
    ///
    /// # Errors
    /// The operating system refuses.
    fn open(&mut self, receive_bytes: usize, send_bytes: usize) -> io::Result<()>;

    /// Takes at most `limit` arrived frames (0 < `limit` <= [`BATCH`]) and passes them to `take`. Returns at once;
    /// nothing there is no error.
    ///
    /// # Errors
    /// What the operating system says; it is counted, and the wire is asked again.
    fn receive(&mut self, limit: usize, take: &mut impl FnMut(Arrival<'_, Self::Peer>)) -> io::Result<()>
    where
        Self: Sized;

    /// Sends the outbox's first frames, as many as go out at once.
    fn send(&mut self, outbox: &Outbox<Self::Peer>) -> Sent;

    /// Blocks until something may have arrived, or the time is over.
    ///
    /// # Errors
    /// What the operating system says.
    fn wait(&self, timeout: Duration) -> io::Result<()>;

    /// What [tags](ringcall_wire::tag) the frames that are sent, if anything does.
    fn key(&self) -> Option<FrameKey> {
        None
    }

    /// A counter of the datagrams that the operating system has dropped for this wire, if there is one.
    fn kernel_drops(&self) -> Option<KernelDrops> {
        None
    }
}

/// Something came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrival<'a, P> {
    /// A frame.
    Frame(Frame<'a, P>),
    /// A packet that is none of this wire's: counted.
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
    /// So many packets were sent again, since they were not acknowledged: counted.
    Resent(u64),
    /// A reliable connection has ended: counted by its reason.
    Broken(Broken),
    /// A packet that was here before, by the wire's sequence numbers: counted.
    Repeated,
    /// So many packets were lost on the way, by the wire's sequence numbers: counted.
    Lost(u64),
    /// So many frames were given up because packets of them never came: counted.
    Incomplete(u64),
    /// So many peers lost their entry to newcomers: counted.
    Evicted(u64),
}

/// Why a connection has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Broken {
    /// The peer acknowledged nothing, although packets were sent again.
    Silent,
    /// The peer had no receive buffer all the time.
    NotReady,
    /// The peer refused an answer.
    Refused,
    /// Its queue pair went into the error state.
    QueuePair,
    /// Its device was removed.
    Device,
}

impl From<ReliableError> for Broken {
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
pub struct Frame<'a, P> {
    /// Who sent it, and gets the answer.
    pub from: P,
    /// The slot that it is for, where the wire [names slots](Wire::NAMES_SLOTS).
    pub slot: Option<u32>,
    /// Header and payload, and perhaps padding; cut to the length given to [`Wire::open`].
    pub bytes: &'a [u8],
    /// How long it was.
    pub len: usize,
}

/// What became of a batch.
#[derive(Debug)]
#[must_use]
pub struct Sent {
    /// So many of the first frames are gone.
    pub frames: usize,
    /// What stopped the one after them. [`WouldBlock`](io::ErrorKind::WouldBlock): it is offered again; anything else:
    /// it is given up.
    pub error: Option<io::Error>,
}

/// Reads a count of dropped datagrams. Cheap to clone, for any thread.
#[derive(Clone)]
pub struct KernelDrops(Arc<dyn Fn() -> u64 + Send + Sync>);

impl KernelDrops {
    /// A count that `read` reads.
    pub fn new(read: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self(Arc::new(read))
    }

    /// The count so far.
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
