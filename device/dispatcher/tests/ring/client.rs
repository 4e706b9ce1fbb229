//! Producer and consumer in one, which knows what every answer has to be.

use crate::harness::{Setup, slot_of};
use ringcall_protocol::{Response, RingMemory, SharedRing, Vacant};
use ringcall_wire::flag;
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::sync::Arc;

/// A request and its answer.
#[derive(Debug, Clone)]
pub(crate) struct Ask {
    pub(crate) function: u32,
    pub(crate) payload: Vec<u8>,
    pub(crate) status: Status,
    pub(crate) result: Vec<u8>,
}

impl Ask {
    /// Of a function that adds one to every byte.
    pub(crate) fn increment(function: u32, payload: Vec<u8>) -> Self {
        let result = payload.iter().map(|byte| byte.wrapping_add(1)).collect();
        Self { function, payload, status: Status::OK, result }
    }

    /// Answered with a status and no result.
    pub(crate) fn refused(function: u32, payload: Vec<u8>, status: Status) -> Self {
        Self { function, payload, status, result: Vec::new() }
    }
}

/// `len` bytes that differ with `seed`.
pub(crate) fn bytes(seed: u64, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let next = |state: &mut u64| {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (*state >> 56) as u8
    };
    (0..len).map(|_| next(&mut state)).collect()
}

/// Increments with payloads of all lengths that fit both ways.
pub(crate) fn increments(ring: &SharedRing, function: u32, count: u64) -> impl Iterator<Item = Ask> + use<> {
    let room = ring.geometry().request_capacity().min(ring.geometry().result_capacity()) as usize;
    (0..count).map(move |i| {
        let len = (i as usize).wrapping_mul(7919) % (room + 1);
        Ask::increment(function, bytes(i, len))
    })
}

/// A request whose answer was not taken yet.
#[derive(Debug)]
struct Sent {
    header: RequestHeader,
    status: Status,
    result: Vec<u8>,
}

/// The only producer and consumer of its slots.
pub(crate) struct Client {
    setup: Arc<Setup>,
    sent: Vec<Option<Sent>>,
    slots: std::ops::Range<u32>,
    number: u32,
}

impl Client {
    /// Of all slots.
    pub(crate) fn new(setup: &Arc<Setup>) -> Self {
        let slots = 0..setup.ring().geometry().slots();
        Self::of(setup, slots)
    }

    /// Of some slots.
    pub(crate) fn of(setup: &Arc<Setup>, slots: std::ops::Range<u32>) -> Self {
        let sent = (0..slots.end).map(|_| None).collect();
        Self { setup: Arc::clone(setup), sent, slots, number: 0 }
    }

    fn ring(&self) -> &SharedRing {
        self.setup.ring()
    }

    pub(crate) fn outstanding(&self) -> usize {
        self.sent.iter().flatten().count()
    }

    /// Sends, if the slot is vacant.
    pub(crate) fn try_send(&mut self, slot: u32, ask: &Ask) -> bool {
        if self.sent[slot as usize].is_some() {
            return false;
        }
        let Some(vacant) = Vacant::probe(self.ring(), slot_of(self.ring(), slot)) else { return false };
        let number = self.number;
        self.number = number.wrapping_add(1);
        let time = u64::from(number) << 20 | u64::from(slot);
        let header = RequestHeader::new(ask.function, ask.payload.len() as u32, number, time);
        vacant.submit(self.ring(), ask.function, number, time, &ask.payload).expect("a payload that fits");
        self.sent[slot as usize] = Some(Sent { header, status: ask.status, result: ask.result.clone() });
        true
    }

    /// Sends as soon as the slot is vacant.
    #[track_caller]
    pub(crate) fn send(&mut self, slot: u32, ask: &Ask) {
        let setup = Arc::clone(&self.setup);
        setup.wait("a vacant slot", || self.try_send(slot, ask));
    }

    /// Writes anything, as soon as the slot is vacant: `raw` starts with a header.
    #[track_caller]
    pub(crate) fn forge(&mut self, slot: u32, raw: &[u8], flag: u64, status: Status, result: Vec<u8>) {
        let setup = Arc::clone(&self.setup);
        let index = slot_of(setup.ring(), slot);
        setup.wait("a vacant slot", || {
            self.sent[slot as usize].is_none() && Vacant::probe(setup.ring(), index).is_some()
        });
        let header = RequestHeader::from_bytes(raw).expect("a header");
        setup.ring().forge_request(index, raw, flag);
        self.sent[slot as usize] = Some(Sent { header, status, result });
    }

    /// Takes and checks the answer, if there is one.
    #[track_caller]
    pub(crate) fn try_take(&mut self, slot: u32) -> bool {
        let index = slot_of(self.ring(), slot);
        let Some(sent) = &self.sent[slot as usize] else { return false };
        // From the request until its answer is taken the slot never looks vacant.
        assert!(Vacant::probe(self.ring(), index).is_none(), "slot {slot} is vacant, {sent:?} unanswered");
        let Some(response) = Response::probe(self.ring(), index) else { return false };
        assert_eq!(self.ring().tx(index), self.ring().geometry().response_address(index));
        let expected = ResponseHeader::reply(&sent.header, sent.status.0, sent.result.len() as u32);
        assert_eq!(*response.header(), expected, "slot {slot}: {}", response.header().status());
        let mut result = vec![0; sent.result.len()];
        assert_eq!(response.read(self.ring(), &mut result), result.len());
        assert_eq!(result, sent.result, "slot {slot}, request {}", sent.header.request_id);
        response.release(self.ring());
        self.sent[slot as usize] = None;
        true
    }

    /// Takes and checks the answer.
    #[track_caller]
    pub(crate) fn take(&mut self, slot: u32) {
        let setup = Arc::clone(&self.setup);
        setup.wait("an answer", || self.try_take(slot));
    }

    /// Whether the slot holds a request whose answer was not taken.
    pub(crate) fn is_waiting(&self, slot: u32) -> bool {
        self.sent[slot as usize].is_some()
    }

    /// Whether the answer is there, not taken.
    pub(crate) fn is_answered(&self, slot: u32) -> bool {
        !matches!(self.ring().tx(slot_of(self.ring(), slot)), flag::FREE | flag::IN_FLIGHT)
    }

    /// Sends all requests, each to the first vacant slot, and takes all answers.
    #[track_caller]
    pub(crate) fn drive(&mut self, asks: impl IntoIterator<Item = Ask>) {
        let setup = Arc::clone(&self.setup);
        let mut asks = asks.into_iter().peekable();
        setup.wait("all answers", || {
            // A whole round of the slots between two looks at the clock, so that the ring fills.
            for slot in self.slots.clone() {
                self.try_take(slot);
                if asks.peek().is_some_and(|ask| self.try_send(slot, ask)) {
                    asks.next();
                }
            }
            asks.peek().is_none() && self.outstanding() == 0
        });
    }
}
