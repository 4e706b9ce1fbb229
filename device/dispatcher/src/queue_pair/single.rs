//! An endpoint joined to the dispatch core: a request that arrives is checked, its function found and called, and the
//! response sent, all by one agent and with no ring of flags in between.
//!
//! The checks, the table and the statuses are those of every other dispatcher
//! ([`validate`]); a request's length is held against what was really received.

use ringcall_mlx5::doorbell::Doorbell;
use ringcall_mlx5::endpoint::{Arrived, Endpoint, Frame, RespondError, TxSlot};
use ringcall_mlx5::wait::{Bound, WaitEnd};
use ringcall_protocol::counters::Bank;
use ringcall_protocol::table::Table;
use ringcall_protocol::validate;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::status::{DispatchMode, Status};

pub use crate::ring::Returned;

/// How long a request is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Extent {
    /// What the completion says: requests of one message.
    #[default]
    Received,
    /// The whole slot: requests written by several messages, of which only the last is completed.
    Slot,
}

/// Private memory that handlers work in.
#[derive(Debug)]
pub struct Scratch<'a> {
    /// A request: as long as a request slot.
    pub request: &'a mut [u8],
    /// A response: as long as a response slot.
    pub response: &'a mut [u8],
}

/// One dispatcher over an endpoint.
///
/// `runs` says which modes are served here; `call` runs a function: entry, header, payload, room for the result.
pub struct Unified<'a, T: Table, R, C> {
    /// The functions.
    pub table: &'a T,
    /// Where requests and answers are counted.
    pub bank: &'a Bank,
    /// How long requests are.
    pub extent: Extent,
    /// Which modes are served.
    pub runs: R,
    /// Runs a function.
    pub call: C,
}

impl<T, R, C> Unified<'_, T, R, C>
where
    T: Table,
    R: Fn(DispatchMode) -> bool,
    C: FnMut(&T::Entry, &RequestHeader, &[u8], &mut [u8]) -> Returned,
{
    /// Serves requests until the endpoint is stopped, or dead, or `bound` passes without one; how many were served.
    ///
    /// `relax` is called between two turns of a wait.
    pub fn run<D: Doorbell>(
        &mut self,
        endpoint: &mut Endpoint<D>,
        scratch: &mut Scratch<'_>,
        bound: Bound,
        mut relax: impl FnMut(),
    ) -> (u64, WaitEnd) {
        let mut served = 0;
        loop {
            let arrived = match endpoint.wait_arrival(bound, &mut relax) {
                Ok(arrived) => arrived,
                Err(ended) => return (served, ended),
            };
            let slot = match endpoint.reserve(bound, &mut relax) {
                Ok(slot) => slot,
                Err(ended) => {
                    self.bank.count(Counter::Received);
                    self.bank.count(Counter::Dropped);
                    endpoint.release(arrived);
                    return (served, ended);
                }
            };
            if self.serve(endpoint, arrived, slot, scratch).is_ok() {
                served += 1;
            }
        }
    }

    /// Serves one request; the status it was answered with.
    ///
    /// # Errors
    /// The response could not be sent: counted as dropped.
    #[inline]
    pub fn serve<D: Doorbell>(
        &mut self,
        endpoint: &mut Endpoint<D>,
        arrived: Arrived,
        slot: TxSlot,
        scratch: &mut Scratch<'_>,
    ) -> Result<Status, RespondError> {
        self.bank.count(Counter::Received);
        let extent = match self.extent {
            Extent::Received => arrived.bytes(),
            Extent::Slot => endpoint.config().rx_stride,
        };
        let capacity =
            (endpoint.config().tx_stride as usize).min(scratch.response.len()).saturating_sub(HEADER_BYTES);
        let (header, status, len) = self.answer(endpoint, &arrived, extent, scratch, capacity);
        let counter = Counter::of_status(status);
        // Before anybody can see the response.
        self.bank.count(counter);
        let reply = ResponseHeader::reply(&header, status.0, len as u32).to_bytes();
        let sent = match scratch.response.get_mut(..HEADER_BYTES + len) {
            Some(frame) => {
                for (to, from) in frame.iter_mut().zip(reply) {
                    *to = from;
                }
                endpoint.respond(arrived, slot, Frame::Bytes(frame))
            }
            // No room for a header: not even an error can be told.
            None => endpoint.respond(arrived, slot, Frame::InSlot(0)),
        };
        if sent.is_err() {
            self.bank.count(Counter::Dropped);
        }
        sent.map(|()| status)
    }

    /// Checks and calls; the result, if there is one, is after the room for the response's header.
    #[inline]
    fn answer<D: Doorbell>(
        &mut self,
        endpoint: &Endpoint<D>,
        arrived: &Arrived,
        extent: u32,
        scratch: &mut Scratch<'_>,
        capacity: usize,
    ) -> (RequestHeader, Status, usize) {
        // A message too short for a header has none: what lies after it is another request's.
        let mut bytes = [0; HEADER_BYTES];
        let whole = extent as usize >= HEADER_BYTES && endpoint.read(arrived, 0, &mut bytes);
        let header = match RequestHeader::from_bytes(&bytes) {
            Ok(header) if whole => header,
            _ => return (RequestHeader::from_words([0; 3]), Status::BAD_MAGIC, 0),
        };
        let room = (extent as usize).min(scratch.request.len().saturating_add(HEADER_BYTES));
        let checked = validate::request(self.table, &header, (room - HEADER_BYTES) as u32, &self.runs);
        let entry = match checked {
            Ok(entry) => entry,
            Err(status) => return (header, status, 0),
        };
        let (Some(payload), Some(result)) = (
            scratch.request.get_mut(..header.arg_len as usize),
            scratch.response.get_mut(HEADER_BYTES..HEADER_BYTES + capacity),
        ) else {
            return (header, Status::ARG_TOO_LONG, 0);
        };
        if !endpoint.read(arrived, HEADER_BYTES as u32, payload) {
            return (header, Status::ARG_TOO_LONG, 0);
        }
        self.bank.count(Counter::Dispatched);
        let returned = (self.call)(entry, &header, payload, result);
        let len = returned.len as usize;
        let (status, len) = Status(returned.status).clamped(len, capacity);
        (header, status, len)
    }
}
