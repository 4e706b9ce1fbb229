//! Caller: a client over any wire, with many requests in flight, each with exactly one outcome.

mod table;

use crate::outbox::Tag;
use crate::stats::LiveCallerCounters;
use crate::wire::{BATCH, WireArrival};
use crate::{CallerStats, Outbox, TransportAddress, TransportError, Wire};
use ringcall::FunctionId;
use ringcall_gpu::clock;
use ringcall_wire::call::RoundTrip;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::io;
use std::time::Duration;
use table::{Answer, Table};

/// Options of a caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CallerOptions {
    /// The longest request or answer, header included: the bytes of the service's slots. Default: 16 KiB, as rings
    /// have.
    pub frame_bytes: usize,
    /// The most requests in flight. Default: 256.
    pub window: usize,
    /// How long a request may be in flight before it counts as lost. Requests are not sent again. Default: 1 s.
    pub deadline: Duration,
    /// Pads each request with zeros to a datagram of this many bytes, as the reference does; `None` sends no padding.
    /// Default: `None`.
    pub pad_to: Option<usize>,
    /// The id of the first request; the others count up from it. Default: 1.
    pub first_id: u32,
}

impl Default for CallerOptions {
    fn default() -> Self {
        Self {
            frame_bytes: 16 * 1024,
            window: 256,
            deadline: Duration::from_secs(1),
            pad_to: None,
            first_id: 1,
        }
    }
}

/// Why a request was not sent, or a call got no reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CallerError {
    /// The payload does not fit.
    #[error("a payload of {len} bytes does not fit a frame that takes {capacity}")]
    TooLong {
        /// Bytes offered.
        len: usize,
        /// Bytes that fit.
        capacity: usize,
    },
    /// As many requests as allowed are in flight.
    #[error("{0} requests are under way: take answers before sending more")]
    Full(usize),
    /// No answer came before the deadline.
    #[error("no answer within {0:?}: is a service there?")]
    Lost(Duration),
    /// The wire did not accept the request.
    #[error("the request could not be sent: nobody listens there, or there is no route")]
    Unsent,
}

/// How a request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RequestOutcome<'a> {
    /// An answer: header and result, as long as the header says.
    Answered(ResponseHeader, &'a [u8]),
    /// No answer before the deadline.
    Lost,
    /// The request was never sent.
    Unsent,
}

/// A request that has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EndedRequest<'a> {
    /// The request's id.
    pub id: u32,
    /// How long it was in flight.
    pub took: Duration,
    /// The request's outcome.
    pub outcome: RequestOutcome<'a>,
}

impl EndedRequest<'_> {
    /// The answer's status; `None` without an answer.
    #[must_use]
    pub fn status(&self) -> Option<Status> {
        match self.outcome {
            RequestOutcome::Answered(header, _) => Some(header.status()),
            RequestOutcome::Lost | RequestOutcome::Unsent => None,
        }
    }

    /// The answer's result; empty without one.
    #[must_use]
    pub fn result(&self) -> &[u8] {
        match self.outcome {
            RequestOutcome::Answered(_, result) => result,
            RequestOutcome::Lost | RequestOutcome::Unsent => &[],
        }
    }
}

/// A copied answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CallerReply {
    /// 0 for success, positive from the handler, negative from the protocol.
    pub status: Status,
    /// The request's id.
    pub request_id: u32,
    /// The result bytes.
    pub result: Vec<u8>,
}

/// A client over any wire. Answers are matched with requests by id and may come in any order. Each request ends once:
/// answered, lost at its deadline, or unsent. All other frames that come are counted ([`CallerStats`]).
///
/// ```no_run
/// use ringcall::FunctionId;
/// use ringcall_transport::{CallerOptions, udp};
///
/// let mut caller = udp::Caller::connect("10.0.0.7:4000".parse()?, &CallerOptions::default())?;
/// for shot in 0..100_u8 {
///     caller.send(FunctionId::of("rpc_increment"), 0, &[shot; 32])?;
/// }
/// while caller.waiting() > 0 {
///     caller.poll(|ended| println!("{}: {:?} after {:?}", ended.id, ended.outcome, ended.took));
/// }
/// println!("{}", caller.stats());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Caller<W: Wire> {
    wire: W,
    peer: W::Peer,
    options: CallerOptions,
    outbox: Outbox<W::Peer>,
    table: Table,
    counters: LiveCallerCounters,
    next_check_ns: u64,
}

impl<W: Wire> Caller<W> {
    /// A caller of `peer` over `wire`.
    ///
    /// # Errors
    /// Frames longer than the wire carries, or not enough memory for the buffers.
    pub fn new(mut wire: W, peer: W::Peer, options: &CallerOptions) -> Result<Self, TransportError> {
        let frame_bytes = options.frame_bytes.max(options.pad_to.unwrap_or(0)).max(HEADER_BYTES);
        let max = wire.max_frame_bytes();
        if frame_bytes > max {
            let slot_bytes = u32::try_from(frame_bytes).unwrap_or(u32::MAX);
            return Err(TransportError::SlotTooLong { slot_bytes, wire: wire.endpoint().transport, max });
        }
        wire.open(frame_bytes, frame_bytes)?;
        let outbox = Outbox::sealed(BATCH, frame_bytes, wire.key());
        Ok(Self {
            wire,
            peer,
            options: CallerOptions { frame_bytes, ..*options },
            outbox,
            table: Table::new(options.window, options.first_id),
            counters: LiveCallerCounters::default(),
            next_check_ns: 0,
        })
    }

    /// The address to which answers come.
    #[must_use]
    pub fn endpoint(&self) -> TransportAddress {
        self.wire.endpoint()
    }

    /// Its wire.
    #[must_use]
    pub const fn wire(&self) -> &W {
        &self.wire
    }

    /// Requests in flight.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.table.waiting()
    }

    /// Requests that can be sent before answers have to be taken.
    #[must_use]
    pub fn room(&self) -> usize {
        self.options.window - self.table.waiting()
    }

    /// The counters.
    #[must_use]
    pub fn stats(&self) -> CallerStats {
        CallerStats { waiting: self.table.waiting() as u64, ..self.counters.stats() }
    }

    /// Adds a request to the batch that the next [`flush`](Self::flush) or [`poll`](Self::poll) sends, and returns its
    /// id. A full batch is sent at once.
    ///
    /// # Errors
    /// The payload does not fit, or the window is full (which it may stay while the wire accepts nothing): nothing was
    /// sent.
    #[inline]
    pub fn send(
        &mut self,
        function: FunctionId,
        ptp_timestamp: u64,
        payload: &[u8],
    ) -> Result<u32, CallerError> {
        let capacity = self.options.frame_bytes - HEADER_BYTES;
        if payload.len() > capacity {
            return Err(CallerError::TooLong { len: payload.len(), capacity });
        }
        if self.outbox.room() == 0 {
            self.flush();
        }
        let full = CallerError::Full(self.table.waiting());
        if self.outbox.room() == 0 {
            return Err(full);
        }
        let (id, index) = self.table.open(clock::now_ns()).ok_or(full)?;
        self.counters.sent.one();
        // No longer than the frame, whose length is a u32.
        let header = RequestHeader::new(function.0, payload.len() as u32, id, ptp_timestamp);
        let pad_to = self.options.pad_to.unwrap_or(0);
        self.outbox.push(self.peer, index, Tag::Request(id), |out| {
            out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
            let len = HEADER_BYTES + payload.len();
            out[HEADER_BYTES..len].copy_from_slice(payload);
            if pad_to > len {
                out[len..pad_to].fill(0);
            }
            len.max(pad_to)
        });
        Ok(id)
    }

    /// Takes an id for a request that is never sent, which ends as lost at its deadline: for measuring how losses are
    /// reported.
    ///
    /// # Errors
    /// The window is full.
    pub fn withhold(&mut self) -> Result<u32, CallerError> {
        let (id, _) = self.table.open(clock::now_ns()).ok_or(CallerError::Full(self.table.waiting()))?;
        self.counters.sent.one();
        self.counters.withheld.one();
        Ok(id)
    }

    /// Sends the batch, as far as the wire accepts it.
    #[inline]
    pub fn flush(&mut self) {
        while !self.outbox.is_empty() {
            let sent = self.wire.send(&self.outbox);
            for _ in 0..sent.frames {
                self.outbox.pop();
            }
            match sent.error {
                None if sent.frames == 0 => return,
                None => (),
                Some(error) if crate::link::later(&error) => {
                    self.counters.blocked.one();
                    return;
                }
                // The error is that of an earlier datagram, which no socket took: the current one was not sent, and is
                // offered again.
                Some(error) if error.kind() == io::ErrorKind::ConnectionRefused => self.failed(&error),
                Some(_) => {
                    self.counters.errors.one();
                    if let Some(Tag::Request(id)) = self.outbox.pop() {
                        self.table.unsent(id);
                    }
                }
            }
        }
    }

    /// Sends the batch, takes a batch of arrived answers, and passes every ended request to `each`. Returns how many
    /// ended, without blocking.
    #[inline]
    pub fn poll(&mut self, mut each: impl FnMut(EndedRequest<'_>)) -> usize {
        self.flush();
        let Self { wire, table, counters, .. } = self;
        let mut ended = 0;
        // The clock is read once for each batch that is not empty.
        let mut now = 0;
        let outcome = wire.receive(BATCH, &mut |arrival| {
            let frame = match arrival {
                WireArrival::Frame(frame) => frame,
                WireArrival::WrongTag => return counters.wrong_tag.one(),
                _ => return counters.malformed.one(),
            };
            let Some((header, result)) = parse(frame.bytes) else { return counters.malformed.one() };
            match table.answer(header.request_id) {
                Answer::First { sent_ns } => {
                    if now == 0 {
                        now = clock::now_ns();
                    }
                    let negative = header.status().is_protocol_error();
                    if negative { &counters.refused } else { &counters.answered }.one();
                    ended += 1;
                    let took = Duration::from_nanos(now.saturating_sub(sent_ns));
                    each(EndedRequest {
                        id: header.request_id,
                        took,
                        outcome: RequestOutcome::Answered(header, result),
                    });
                }
                Answer::Again => counters.duplicates.one(),
                Answer::Late => counters.late.one(),
                Answer::Unknown => counters.strays.one(),
            }
        });
        if let Err(error) = outcome {
            self.failed(&error);
        }
        ended + self.overdue(&mut each)
    }

    #[cold]
    fn failed(&self, error: &io::Error) {
        self.counters.errors.one();
        if error.kind() == io::ErrorKind::ConnectionRefused {
            self.counters.closed.one();
        }
    }

    /// Ends requests that have timed out, and returns how many. Checks eight times within each deadline.
    #[inline]
    fn overdue(&mut self, each: &mut impl FnMut(EndedRequest<'_>)) -> usize {
        let mut ended = 0;
        let unsent = self.table.take_unsent();
        if self.table.waiting() == 0 && unsent.is_empty() {
            return 0;
        }
        for (id, _) in unsent {
            self.counters.unsent.one();
            ended += 1;
            each(EndedRequest { id, took: Duration::ZERO, outcome: RequestOutcome::Unsent });
        }
        let now = clock::now_ns();
        if now < self.next_check_ns {
            return ended;
        }
        let allowed = u64::try_from(self.options.deadline.as_nanos()).unwrap_or(u64::MAX);
        self.next_check_ns = now.saturating_add((allowed / 8).max(1000));
        let Self { table, counters, .. } = self;
        table.expire(now, allowed, |id, sent_ns| {
            counters.lost.one();
            ended += 1;
            each(EndedRequest {
                id,
                took: Duration::from_nanos(now.saturating_sub(sent_ns)),
                outcome: RequestOutcome::Lost,
            });
        });
        ended
    }

    /// Sends one request and waits for its answer. The caller should be otherwise idle: other requests that end
    /// meanwhile are counted, but their answers are discarded.
    ///
    /// # Errors
    /// As for [`send`](Self::send), or no answer before the deadline.
    pub fn call(&mut self, function: &str, payload: &[u8]) -> Result<CallerReply, CallerError> {
        self.call_id(FunctionId::of(function), payload)
    }

    fn call_id(&mut self, function: FunctionId, payload: &[u8]) -> Result<CallerReply, CallerError> {
        let id = self.send(function, 0, payload)?;
        let mut reply = None;
        let mut turns = 0_u32;
        while reply.is_none() {
            let ended = self.poll(|ended| {
                if ended.id == id {
                    reply = Some(match ended.outcome {
                        RequestOutcome::Answered(header, result) => Ok(CallerReply {
                            status: header.status(),
                            request_id: header.request_id,
                            result: result.to_vec(),
                        }),
                        RequestOutcome::Lost => Err(CallerError::Lost(ended.took)),
                        RequestOutcome::Unsent => Err(CallerError::Unsent),
                    });
                }
            });
            turns = if ended > 0 { 0 } else { turns.saturating_add(1) };
            if turns > 16 {
                std::thread::yield_now();
            }
        }
        reply.unwrap_or(Err(CallerError::Unsent))
    }

    /// Blocks until a frame arrives, or until `at_most`: for an idle caller.
    ///
    /// # Errors
    /// The operating system's error.
    pub fn wait(&mut self, at_most: Duration) -> io::Result<()> {
        self.flush();
        self.wire.wait(at_most)
    }
}

/// Header and result of an answer. The answer may be longer than its header says: the reference pads.
fn parse(bytes: &[u8]) -> Option<(ResponseHeader, &[u8])> {
    let header = ResponseHeader::from_bytes(bytes).ok()?.check_magic().ok()?;
    let result = bytes.get(HEADER_BYTES..)?.get(..header.result_len as usize)?;
    Some((header, result))
}

/// Typed calls of handlers, each within [`CallerOptions::deadline`].
impl<W: Wire> RoundTrip for Caller<W> {
    type Error = CallerError;

    fn round_trip(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        result: &mut [u8],
    ) -> Result<(Status, usize), CallerError> {
        let reply = self.call_id(function, payload)?;
        result.iter_mut().zip(&reply.result).for_each(|(out, byte)| *out = *byte);
        Ok((reply.status, reply.result.len()))
    }
}
