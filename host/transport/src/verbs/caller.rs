//! Caller over an adapter's queue pair.

use crate::verbs::{endpoint, side, unsent};
use crate::wire::{BATCH, ReceivedFrame, Sent, Wire, WireArrival};
use crate::{Outbox, TransportAddress};
use ringcall_rdma::verbs::{
    PairFault, PairOptions, RemoteQueuePair, SendOperation, VerbsError, VerbsQueuePair, WorkCompletion,
};
use ringcall_roce::rendezvous::ConnectionSide;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use std::collections::VecDeque;
use std::io;
use std::time::Duration;

/// A service's window.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VerbsWindow {
    /// The window's key.
    pub key: u32,
    /// The window's first address.
    pub base: u64,
    /// Bytes from one page to the next.
    pub page_bytes: u32,
    /// Pages; at least as many as requests are in flight.
    pub pages: u32,
}

/// A client's wire. A request is an RDMA WRITE with immediate into a free page of the service's window, an answer is a
/// SEND. Call [`Self::connect`] before the first request.
#[derive(Debug)]
pub struct VerbsCaller {
    pair: VerbsQueuePair,
    window: Option<VerbsWindow>,
    free: VecDeque<u32>,
    /// Pages whose answers have not come, with the ids of their requests, the oldest first. If no page is free, the
    /// oldest request was given up.
    taken: VecDeque<(u32, u32)>,
    answer: Vec<u8>,
    fault: Option<PairFault>,
}

impl VerbsCaller {
    /// Opens the device. The queue pair has its number from now on, but no peer.
    ///
    /// # Errors
    /// See [`VerbsError`].
    pub fn open(options: PairOptions) -> Result<Self, VerbsError> {
        let (free, taken) = (VecDeque::new(), VecDeque::new());
        Ok(Self {
            pair: VerbsQueuePair::open(options)?,
            window: None,
            free,
            taken,
            answer: Vec::new(),
            fault: None,
        })
    }

    /// Message for the service about the caller's queue pair.
    #[must_use]
    pub fn side(&self) -> ConnectionSide {
        side(&self.pair)
    }

    /// Connects the queue pair to the service's.
    ///
    /// # Errors
    /// The driver's error.
    pub fn connect(&mut self, service: RemoteQueuePair, window: VerbsWindow) -> Result<(), VerbsError> {
        self.free = (0..window.pages).collect();
        self.taken = VecDeque::with_capacity(window.pages as usize);
        self.window = Some(window);
        self.fault = None;
        self.pair.connect(service)
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub const fn fault(&self) -> Option<PairFault> {
        self.fault
    }

    /// Frees the page of an answered request.
    fn free_page(&mut self, answer: &[u8]) {
        let header =
            answer.first_chunk::<HEADER_BYTES>().and_then(|bytes| ResponseHeader::from_bytes(bytes).ok());
        let id = header.map(|header| header.request_id);
        if let Some(index) = self.taken.iter().position(|&(_, taken)| Some(taken) == id)
            && let Some((page, _)) = self.taken.remove(index)
        {
            self.free.push_back(page);
        }
    }
}

impl Wire for VerbsCaller {
    type Peer = ();
    const NAMES_SLOTS: bool = true;

    fn endpoint(&self) -> TransportAddress {
        endpoint(&self.pair)
    }

    fn max_frame_bytes(&self) -> usize {
        let own = self.pair.options().slot_bytes;
        self.window.map_or(own, |window| window.page_bytes.min(own)) as usize
    }

    fn open(&mut self, receive_bytes: usize, _: usize) -> io::Result<()> {
        self.answer = vec![0; receive_bytes];
        Ok(())
    }

    fn receive(&mut self, limit: usize, take: &mut impl FnMut(WireArrival<'_, ()>)) -> io::Result<()> {
        for _ in 0..limit {
            match self.pair.poll() {
                Ok(None) => break,
                Ok(Some(WorkCompletion::Received { slot, bytes })) => {
                    let mut answer = std::mem::take(&mut self.answer);
                    let len = bytes as usize;
                    let here = len.min(answer.len());
                    self.pair.read(slot, &mut answer[..here]);
                    let released = self.pair.release(slot);
                    self.free_page(&answer[..here]);
                    take(WireArrival::Frame(ReceivedFrame {
                        from: (),
                        slot: None,
                        bytes: &answer[..here],
                        len,
                    }));
                    self.answer = answer;
                    released.map_err(io::Error::other)?;
                }
                Ok(Some(WorkCompletion::Written { .. })) => take(WireArrival::Malformed),
                Err(fault) => {
                    self.fault = Some(fault);
                    return Err(io::Error::other(fault));
                }
            }
        }
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<()>) -> Sent {
        let mut frames = 0;
        let Some(VerbsWindow { key, base, page_bytes, .. }) = self.window else {
            return Sent { frames, error: Some(io::ErrorKind::NotConnected.into()) };
        };
        for frame in outbox.frames().take(BATCH) {
            let oldest = || self.taken.front().map(|&(page, _)| page);
            let Some(page) = self.free.front().copied().or_else(oldest) else {
                return Sent { frames, error: Some(io::ErrorKind::InvalidInput.into()) };
            };
            let address = base + u64::from(page) * u64::from(page_bytes);
            let operation = SendOperation::WriteImmediate { address, key, immediate: page };
            if let Err(why) = self.pair.send(operation, frame.bytes) {
                return Sent { frames, error: Some(unsent(why)) };
            }
            if self.free.pop_front().is_none() {
                self.taken.pop_front();
            }
            let header = frame
                .bytes
                .first_chunk::<HEADER_BYTES>()
                .and_then(|bytes| RequestHeader::from_bytes(bytes).ok());
            self.taken.push_back((page, header.map_or(0, |header| header.request_id)));
            frames += 1;
        }
        Sent { frames, error: None }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        self.pair.wait(timeout)
    }
}
