//! The graph's end of a mailbox: how kernels of a launched graph read the request and answer it.
//!
//! The graph's first kernel reads the request from the mailbox. The graph's last kernel answers the request. The mailbox
//! belongs to this launch until [`Child::finish`].

use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::launch::io;
use ringcall_wire::status::Status;

/// A launch, as its graph's kernels see it.
#[derive(Debug)]
pub struct Child<'a> {
    mailbox: &'a Words,
}

/// Windows over the response slot and flag whose addresses the mailbox has.
#[derive(Debug)]
pub struct ResponseWindows<'a> {
    /// The response slot.
    pub slot: &'a Words,
    /// The response flag: one word.
    pub flag: &'a Words,
}

impl<'a> Child<'a> {
    /// The launch whose mailbox this is.
    #[must_use]
    pub fn new(mailbox: &'a Words) -> Self {
        Self { mailbox }
    }

    fn word(&self, index: usize) -> u64 {
        self.mailbox.load(index, Ordering::Relaxed)
    }

    /// The request's header, as the dispatcher checked it.
    #[must_use]
    pub fn header(&self) -> RequestHeader {
        RequestHeader::from_words(core::array::from_fn(|i| self.word(io::HEADER + i)))
    }

    /// Payload bytes.
    #[must_use]
    pub fn arg_len(&self) -> u32 {
        self.word(io::ARG_LEN) as u32
    }

    /// Eight bytes of the payload, from byte `8 * index`; the words after the payload have their old
    /// contents.
    #[must_use]
    pub fn payload_word(&self, index: usize) -> u64 {
        let at = io::PAYLOAD / 8 + index;
        if at < self.mailbox.len() { self.word(at) } else { 0 }
    }

    /// Address of the response slot and its flag; `None` for a follow-up, which sends no response.
    #[must_use]
    pub fn response_addresses(&self) -> Option<(u64, u64)> {
        let slot = self.word(io::TX_SLOT);
        (slot != 0).then(|| (slot, self.word(io::TX_FLAG)))
    }

    /// Bytes of a result that fit.
    #[must_use]
    pub fn capacity(&self) -> u32 {
        self.word(io::TX_CAPACITY) as u32
    }

    /// Answers. By one thread, after all that wrote the result with [`set_result_word`](Self::set_result_word) are past a
    /// barrier; a result that is longer than the slot takes is cut, and says so.
    pub fn answer(
        &self,
        response: &ResponseWindows<'_>,
        counters: Option<&[DeviceU64]>,
        status: Status,
        len: u32,
    ) {
        let (status, len) = status.clamped(len, self.capacity());
        count(counters, Counter::of_status(status));
        let header = ResponseHeader::reply(&self.header(), status.0, len).to_words();
        for (i, word) in header.into_iter().enumerate() {
            response.slot.store(i, word, Ordering::Relaxed);
        }
        // Release: response before flag. Pairs with the consumer's acquire.
        response.flag.store(0, self.word(io::TX_VALUE), Ordering::Release);
    }

    /// Sets eight bytes of the result, from byte `8 * index`; nothing past the slot. By any thread of the graph.
    pub fn set_result_word(&self, response: &ResponseWindows<'_>, index: usize, value: u64) {
        if index < (self.capacity() as usize) / 8 {
            response.slot.store(HEADER_WORDS + index, value, Ordering::Relaxed);
        }
    }

    /// The launch is over: the mailbox and the executable may be used again. By one thread, last.
    pub fn finish(&self, finished: &DeviceU64) {
        // Release, both: an agent that reads the counter sees everything this graph did.
        finished.fetch_add(1, Ordering::Release);
        self.mailbox.store(io::STATE, io::IDLE, Ordering::Release);
    }
}

/// Counts one in the children's own counters, which any thread of any child may add to.
pub fn count(counters: Option<&[DeviceU64]>, counter: Counter) {
    if let Some(word) = counters.and_then(|words| words.get(counter.index())) {
        word.fetch_add(1, Ordering::Relaxed);
    }
}

/// Bytes of a mailbox for payloads of up to `capacity` bytes, on separate cache lines.
#[must_use]
pub const fn mailbox_bytes(capacity: u32) -> u32 {
    (io::PAYLOAD as u32 + capacity).next_multiple_of(128)
}

const _: () = assert!(HEADER_BYTES == HEADER_WORDS * 8);
