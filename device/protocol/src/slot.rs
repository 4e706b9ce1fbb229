//! The life cycle of a slot as types.
//!
//! Each type is one step, can be made only by the step before it, and is used up by the step after it, so a slot
//! cannot be answered twice, cleared before it is answered, or reused before its answer was taken.
//!
//! | side | type | means | leaves by |
//! |---|---|---|---|
//! | producer | [`Vacant`] | both flags were seen 0 | [`Vacant::submit`] |
//! | dispatcher | [`Seen`] | its request flag was seen set | [`Seen::claim`] |
//! | dispatcher | [`Request`] | header copied, response slot free | [`Request::answer`], [`Request::take`] |
//! | worker | [`InFlight`] | marked; the holder answers | [`InFlight::answer`], [`InFlight::fail`] |
//! | consumer | [`Response`] | the answer is there | [`Response::release`] |

use crate::ring::{Body, RingMemory, SharedRing, SlotIndex};
use crate::validate;
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;

/// Producer: a slot both of whose flags were seen 0.
#[derive(Debug)]
#[must_use = "a vacant slot is there to be written"]
pub struct Vacant {
    slot: SlotIndex,
}

/// A payload longer than the slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TooLong {
    /// Bytes offered.
    pub len: usize,
    /// Bytes the slot takes.
    pub capacity: u32,
}

impl core::fmt::Display for TooLong {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        write!(f, "a payload of {} bytes does not fit a slot that takes {}", self.len, self.capacity)
    }
}

impl core::error::Error for TooLong {}

impl Vacant {
    /// The slot, if its previous request was consumed and its previous response taken.
    ///
    /// **rx is read before tx.** A dispatcher sets tx (mark or answer) before it clears rx, so rx = 0 seen with acquire
    /// (pairs with [`RingMemory::clear_rx`]) means that tx is seen set, until [`Response::release`] clears it. Read the
    /// other way round, tx = 0 may be from before the answer and rx = 0 from after it: the slot would look idle with
    /// an answer in it. `tests/loom_life_cycle.rs` has that mutant.
    #[inline(always)]
    pub fn probe(ring: &SharedRing, slot: SlotIndex) -> Option<Self> {
        (ring.rx(slot) == flag::FREE && ring.tx(slot) == flag::FREE).then_some(Self { slot })
    }

    /// The slot's number.
    #[must_use]
    pub fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// Writes the request and sets its flag.
    ///
    /// # Errors
    /// A payload that does not fit; the slot stays vacant.
    #[inline]
    pub fn submit(
        self,
        ring: &SharedRing,
        function_id: u32,
        request_id: u32,
        ptp_timestamp: u64,
        payload: &[u8],
    ) -> Result<(), TooLong> {
        let capacity = ring.geometry().request_capacity();
        let len = match u32::try_from(payload.len()) {
            Ok(len) if len <= capacity => len,
            _ => return Err(TooLong { len: payload.len(), capacity }),
        };
        let header = RequestHeader::new(function_id, len, request_id, ptp_timestamp);
        ring.write_request(self.slot, header.to_words(), payload);
        ring.publish_request(self.slot, ring.geometry().request_address(self.slot));
        Ok(())
    }
}

/// Dispatcher: a slot whose request flag was seen set, after the fence.
#[derive(Debug)]
#[must_use = "a request that was seen must be claimed or left for the next turn"]
pub struct Seen {
    slot: SlotIndex,
    value: u64,
}

impl Seen {
    /// For a poller that loaded the request flag itself and has made an acquire fence since ([`scan`](crate::scan), the
    /// warps of a device). A flag that lies is noticed by [`claim`](Self::claim).
    #[inline(always)]
    pub fn new(slot: SlotIndex, value: u64) -> Self {
        Self { slot, value }
    }

    /// The slot's number.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// Copies the header, if the slot's previous response was taken; `None` leaves the slot as it is, for a later turn.
    #[inline]
    pub fn claim<M: RingMemory>(self, memory: &M) -> Option<Request> {
        // The response is written only after the previous one was taken. The load pairs with `Response::release`.
        if memory.tx(self.slot) != flag::FREE {
            return None;
        }
        let header = RequestHeader::from_words(memory.request_header(self.slot));
        Some(Request { slot: self.slot, value: self.value, header })
    }
}

/// Dispatcher: a request. The header is a private copy: what the peer writes from now on changes nothing.
#[derive(Debug)]
#[must_use = "every request is answered or taken"]
pub struct Request {
    slot: SlotIndex,
    value: u64,
    header: RequestHeader,
}

impl Request {
    /// The slot's number.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// The private copy of the header: an allegation until [`validate`] has passed it.
    #[must_use]
    #[inline(always)]
    pub fn header(&self) -> &RequestHeader {
        &self.header
    }

    /// Checks the flag value and the header against the ring.
    ///
    /// # Errors
    /// The status to [`answer`](Self::answer) with.
    #[inline(always)]
    pub fn check<M: RingMemory>(&self, memory: &M) -> Result<(), Status> {
        validate::flag(memory.geometry(), self.slot, self.value)?;
        validate::header(&self.header, memory.geometry().request_capacity())
    }

    /// Copies the payload. At most the slot's capacity: `out` is cut to what the header alleges only after
    /// [`check`](Self::check).
    #[inline]
    pub fn read_payload<M: RingMemory>(&self, memory: &M, out: &mut [u8]) {
        memory.read_payload(self.slot, out);
    }

    /// Answers at once: response, response flag, then the request flag back to the producer.
    #[inline]
    pub fn answer<M: RingMemory>(self, memory: &M, status: Status, result: M::Body<'_>) -> Answered {
        let answered = write_answer(memory, self.slot, &self.header, status, result);
        memory.publish_tx(self.slot, memory.geometry().response_address(self.slot));
        memory.clear_rx(self.slot);
        answered
    }

    /// Sets the in-flight mark and keeps the request: for an answer that another agent may give as soon as it
    /// has the request, before the request flag is cleared. Orders nothing: what tells him, and
    /// [`hand_over`](Self::hand_over), do.
    #[inline]
    pub fn mark<M: RingMemory>(&self, memory: &M) {
        memory.mark_tx(self.slot);
    }

    /// Gives the request flag back after [`mark`](Self::mark): another agent answers.
    #[inline]
    pub fn hand_over<M: RingMemory>(self, memory: &M) {
        memory.clear_rx(self.slot);
    }

    /// Gives the request flag back without an answer: the slot is free, and its producer is told nothing.
    #[inline]
    pub fn drop_unanswered<M: RingMemory>(self, memory: &M) {
        memory.clear_rx(self.slot);
    }

    /// Leaves the request where it is: its flag still stands, and it is polled again.
    #[inline(always)]
    pub fn leave(self) {}

    /// Copies the header again, after a poll (acquire) that found the request flag to be `value`: for rings that other
    /// dispatchers serve, too. One of them may have answered what was seen; what was copied is then the next request, perhaps
    /// half written. But one whose flag is set is whole.
    #[inline]
    pub fn again<M: RingMemory>(self, memory: &M, value: u64) -> Option<Self> {
        Seen::new(self.slot, value).claim(memory)
    }

    /// Marks the slot in flight and gives the request flag back. The mark is stored first: the producer never sees
    /// both flags 0 in between.
    #[inline]
    pub fn take<M: RingMemory>(self, memory: &M) -> InFlight {
        memory.publish_tx(self.slot, flag::IN_FLIGHT);
        memory.clear_rx(self.slot);
        InFlight { slot: self.slot, header: self.header }
    }
}

/// What became of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub struct Answered {
    /// The status that was sent: [`Status::RESULT_TOO_LONG`] if the result had to be cut.
    pub status: Status,
    /// Result bytes sent.
    pub len: u32,
}

/// The holder owes the slot an answer. Cannot be cloned: the [`ledger`](crate::ledger) hands out one.
#[derive(Debug)]
#[must_use = "a request in flight must be answered or failed"]
pub struct InFlight {
    slot: SlotIndex,
    header: RequestHeader,
}

impl InFlight {
    /// For an agent that kept the slot and the header of a request itself, where no type can ([`ledger`](crate::ledger),
    /// the blocks of a device). Its own state makes sure that a request is resumed once.
    #[inline(always)]
    pub fn resume(slot: SlotIndex, header: RequestHeader) -> Self {
        Self { slot, header }
    }

    /// The slot's number.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// The private copy of the request header.
    #[must_use]
    #[inline(always)]
    pub fn header(&self) -> &RequestHeader {
        &self.header
    }

    /// Writes the response and sets its flag.
    #[inline]
    pub fn answer<M: RingMemory>(self, memory: &M, status: Status, result: M::Body<'_>) -> Answered {
        let answered = write_answer(memory, self.slot, &self.header, status, result);
        memory.publish_tx(self.slot, memory.geometry().response_address(self.slot));
        answered
    }

    /// Sets the error mark `0xDEAD…code`. A response with `status` is written too, for peers that read it.
    #[inline]
    pub fn fail<M: RingMemory>(self, memory: &M, status: Status, code: u16) {
        let _ = write_answer(memory, self.slot, &self.header, status, M::Body::EMPTY);
        memory.publish_tx(self.slot, flag::error(code));
    }
}

/// Writes header and result; a result that does not fit is cut, and says so.
#[inline]
fn write_answer<M: RingMemory>(
    memory: &M,
    slot: SlotIndex,
    header: &RequestHeader,
    status: Status,
    result: M::Body<'_>,
) -> Answered {
    let capacity = memory.geometry().result_capacity() as usize;
    let (status, _) = status.clamped(result.len(), capacity);
    let result = if result.len() > capacity { result.cut(capacity) } else { result };
    // No longer than the capacity, which is a u32.
    let len = result.len() as u32;
    memory.write_response(slot, ResponseHeader::reply(header, status.0, len).to_words(), result);
    Answered { status, len }
}

/// Consumer: a slot whose response flag holds an answer or an error mark.
#[derive(Debug)]
#[must_use = "a response must be released, or its slot is never free again"]
pub struct Response {
    slot: SlotIndex,
    error: Option<u16>,
    header: ResponseHeader,
}

impl Response {
    /// The response of `slot`, if there is one; in-flight marks are not responses.
    ///
    /// The flag's acquire load pairs with [`RingMemory::publish_tx`].
    #[inline]
    pub fn probe(ring: &SharedRing, slot: SlotIndex) -> Option<Self> {
        let error = match TxState::decode(ring.tx(slot)) {
            TxState::Empty | TxState::InFlight => return None,
            TxState::Error(code) => Some(code),
            TxState::Ready(_) => None,
        };
        let header = ResponseHeader::from_words(ring.response_header(slot));
        Some(Self { slot, error, header })
    }

    /// The slot's number.
    #[must_use]
    #[inline(always)]
    pub fn slot(&self) -> SlotIndex {
        self.slot
    }

    /// The error mark's code, if the flag was one.
    #[must_use]
    pub fn error(&self) -> Option<u16> {
        self.error
    }

    /// The response header.
    #[must_use]
    #[inline(always)]
    pub fn header(&self) -> &ResponseHeader {
        &self.header
    }

    /// Copies the result; the number of bytes copied: the least of what was sent, what fits a slot and `out`.
    #[inline]
    pub fn read(&self, ring: &SharedRing, out: &mut [u8]) -> usize {
        let sent = self.header.result_len.min(ring.geometry().result_capacity()) as usize;
        let len = sent.min(out.len());
        ring.read_result(self.slot, &mut out[..len]);
        len
    }

    /// Takes the response: the slot is idle again.
    #[inline(always)]
    pub fn release(self, ring: &SharedRing) {
        ring.clear_tx(self.slot);
    }
}
