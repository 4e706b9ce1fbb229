//! Doorbells: how a NIC learns of new requests.

use crate::QueueError;
use crate::layout::{self, wqe};
use core::sync::atomic::Ordering;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::Words;

/// A queue pair's doorbell record: the receive counter and the send counter, in one aligned word with one writer.
///
/// Both counters are written by each store, so that nothing but aligned 64-bit stores is needed; the counter
/// that has not moved keeps its value.
#[derive(Debug)]
pub struct DoorbellRecord {
    window: Words,
    receive: u16,
    send: u16,
}

impl DoorbellRecord {
    /// A record in the first word of `window`, 0 so far.
    ///
    /// # Errors
    /// An empty window.
    pub fn new(window: Words) -> Result<Self, QueueError> {
        if window.is_empty() {
            return Err(QueueError::TooSmall { needed: 1, have: 0 });
        }
        Ok(Self { window, receive: 0, send: 0 })
    }

    /// Tells how many receive requests were posted. What was done before is visible to the NIC that sees it.
    #[inline(always)]
    pub fn publish_receive(&mut self, producer: u16) {
        self.receive = producer;
        self.publish();
    }

    /// Tells how many send requests were posted. What was done before is visible to the NIC that sees it.
    #[inline(always)]
    pub fn publish_send(&mut self, producer: u16) {
        self.send = producer;
        self.publish();
    }

    /// As [`publish_send`](Self::publish_send), for a caller that has fenced: a fence costs half a microsecond on a device.
    #[inline(always)]
    pub fn store_send(&mut self, producer: u16) {
        self.send = producer;
        self.store();
    }

    /// The same record with the counters that were written to it last. Writes nothing.
    #[must_use]
    pub fn resumed(mut self, receive: u16, send: u16) -> Self {
        (self.receive, self.send) = (receive, send);
        self
    }

    /// Tells both counters, for a caller that has fenced.
    #[inline(always)]
    pub fn store_both(&mut self, receive: u16, send: u16) {
        (self.receive, self.send) = (receive, send);
        self.store();
    }

    #[inline(always)]
    fn publish(&self) {
        barrier::publish_to_peer();
        self.store();
    }

    #[inline(always)]
    fn store(&self) {
        self.window.store(0, layout::record(self.receive, self.send), Ordering::Relaxed);
    }
}

/// The doorbell register of a UAR page: mapped memory here; on a device with special stores.
///
/// Both stores come after a release fence by the caller.
pub trait Doorbell {
    /// Copies a request to the BlueFlame buffer, so that the NIC need not fetch it. Not every register has one.
    fn copy(&mut self, wqe: &[u64; wqe::WORDS]);
    /// Rings: [`layout::doorbell`].
    fn ring(&mut self, value: u64);
}

/// Checks that a mapped register has room for this many bytes.
///
/// # Errors
/// [`QueueError::TooSmall`] if it has not.
pub fn register(uar: &Words, bytes: usize) -> Result<(), QueueError> {
    let (needed, have) = (bytes / 8, uar.len());
    if have < needed { Err(QueueError::TooSmall { needed, have }) } else { Ok(()) }
}

/// A doorbell register in mapped memory, without BlueFlame.
#[derive(Debug)]
pub struct Register(Words);

impl Register {
    /// The register in the first word of `uar`: a window that begins [`layout::UAR_DOORBELL`] bytes into the page.
    ///
    /// # Errors
    /// An empty window.
    pub fn new(uar: Words) -> Result<Self, QueueError> {
        register(&uar, 8)?;
        Ok(Self(uar))
    }
}

impl Doorbell for Register {
    #[inline(always)]
    fn copy(&mut self, _: &[u64; wqe::WORDS]) {}

    #[inline(always)]
    fn ring(&mut self, value: u64) {
        self.0.store(0, value, Ordering::Relaxed);
    }
}

/// A doorbell register in mapped memory with its BlueFlame buffer.
///
/// A NIC gets each store as a transaction. A reader that polls memory instead (the emulated NIC) takes a copy only if the
/// first word is the same before and after: it is written last, and the doorbell that follows changes it.
#[derive(Debug)]
pub struct BlueFlame(Words);

impl BlueFlame {
    /// The register and buffer in the first 8 words of `uar`: a window that begins [`layout::UAR_DOORBELL`] bytes into the
    /// page.
    ///
    /// # Errors
    /// A window of fewer.
    pub fn new(uar: Words) -> Result<Self, QueueError> {
        register(&uar, layout::BLUE_FLAME_BYTES)?;
        Ok(Self(uar))
    }
}

impl Doorbell for BlueFlame {
    #[inline(always)]
    fn copy(&mut self, wqe: &[u64; wqe::WORDS]) {
        // The first word holds the last doorbell: the caller's fence is between it and what follows.
        for (index, &word) in wqe.iter().enumerate().skip(1) {
            self.0.store(index, word, Ordering::Relaxed);
        }
        let [head, ..] = *wqe;
        self.0.store(0, head, Ordering::Release);
    }

    #[inline(always)]
    fn ring(&mut self, value: u64) {
        self.0.store(0, value, Ordering::Relaxed);
    }
}
