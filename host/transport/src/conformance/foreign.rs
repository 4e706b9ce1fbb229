//! A simulated foreign dispatcher, which breaks rules that Ringcall's dispatchers keep.

use super::{CaseResult, until};
use ringcall::Ring;
use ringcall_protocol::scan::Scan;
use ringcall_protocol::{InFlight, RingMemory, SharedRing};
use ringcall_wire::header::{RequestHeader, ResponseHeader};
use ringcall_wire::{Status, flag};

/// The simulated dispatcher's reaction to a request.
pub(super) enum Act {
    Answer(Vec<u8>),
    /// Takes the request and answers it later, or never.
    Hold,
    /// Sets an error mark and writes a response as Ringcall's dispatchers do.
    Fail(u16),
    /// Sets an error mark without writing the response slot.
    Mark(u16),
    /// Writes the answer to another request.
    Confuse,
}

pub(super) struct Foreign {
    ring: SharedRing,
    scan: Scan,
    pub(super) held: Vec<InFlight>,
    pub(super) served: usize,
}

impl Foreign {
    pub(super) fn new(ring: &Ring) -> Self {
        let ring = ring.shared().clone();
        let scan = Scan::new(ring.geometry().slots());
        Self { ring, scan, held: Vec::new(), served: 0 }
    }

    /// Serves the requests in the ring.
    pub(super) fn turn(&mut self, mut act: impl FnMut(&RequestHeader, &[u8]) -> Act) {
        let Self { ring, scan, held, served } = self;
        scan.full(ring, |seen| {
            let Some(request) = seen.claim(ring) else { return };
            *served += 1;
            let mut payload = vec![0; request.header().arg_len as usize];
            request.read_payload(ring, &mut payload);
            match act(request.header(), &payload) {
                Act::Answer(result) => {
                    let _ = request.answer(ring, Status::OK, &result);
                }
                Act::Hold => held.push(request.take(ring)),
                Act::Fail(code) => request.take(ring).fail(ring, Status::ENGINE_FAILED, code),
                Act::Mark(code) => {
                    let in_flight = request.take(ring);
                    ring.publish_tx(in_flight.slot(), flag::error(code));
                }
                Act::Confuse => {
                    let mut other = *request.header();
                    other.request_id ^= 0x55;
                    let in_flight = request.take(ring);
                    let header = ResponseHeader::reply(&other, 0, 4);
                    ring.write_response(in_flight.slot(), header.to_words(), &[1, 2, 3, 4]);
                    ring.publish_tx(in_flight.slot(), ring.geometry().response_address(in_flight.slot()));
                }
            }
        });
    }

    /// Serves until `count` requests were served.
    pub(super) fn serve(
        &mut self,
        count: usize,
        mut act: impl FnMut(&RequestHeader, &[u8]) -> Act,
    ) -> CaseResult {
        let target = self.served + count;
        until("requests reach the ring", || {
            self.turn(&mut act);
            self.served >= target
        })
    }

    /// Answers the held requests, the latest first.
    pub(super) fn answer_held(&mut self) {
        while let Some(in_flight) = self.held.pop() {
            let id = in_flight.header().request_id;
            let _ = in_flight.answer(&self.ring, Status::OK, &id.to_le_bytes());
        }
    }
}
