//! Link: a service over any wire, which puts requests from frames into slots and sends answers as frames.

use crate::admit::{Admission, Reason, admission};
use crate::latency::LiveFunctions;
use crate::outbox::Tag;
use crate::slots::{Asked, Slots};
use crate::stats::{Count, LiveCounters};
use crate::wire::{BATCH, ConnectionEnd, ReceivedFrame, WireArrival};
use crate::{Outbox, TransportAddress, TransportError, TransportWatch, UnifiedTransport, Wire};
use ringcall::Ring;
use ringcall_gpu::clock;
use ringcall_protocol::slot::Response;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::status::Status;
use std::cell::Cell;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// A wire attached to a ring. The link is the ring's only producer and consumer.
///
/// ```
/// use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
/// use ringcall_transport::{Link, UnifiedTransport, udp};
/// use std::time::Duration;
///
/// let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 64 })?;
/// let table = FunctionTable::builder().host_call("count", |bytes: &[u8], out: &mut [u8]| {
///     out[0] = bytes.len() as u8;
///     Ok(1)
/// });
/// let mut dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.into_stepper();
/// let mut link = Link::attach(udp::Udp::bind(&udp::UdpOptions::default())?, &ring)?;
///
/// // One thread: caller, transport and dispatcher in turn.
/// let mut caller = udp::Caller::connect(link.endpoint().address, &Default::default())?;
/// caller.send(ringcall::FunctionId::of("count"), 0, &[7; 5])?;
/// let mut answer = Vec::new();
/// while answer.is_empty() {
///     link.poll();
///     dispatcher.step();
///     link.publish();
///     caller.poll(|ended| answer.extend_from_slice(ended.result()));
/// }
/// assert_eq!(answer, [5]);
/// let report = link.stop(Duration::from_secs(1), &mut || { dispatcher.step(); });
/// assert_eq!((report.stats.answered, report.dropped), (1, 0));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Link<W: Wire> {
    wire: W,
    endpoint: TransportAddress,
    slots: Slots<W::Peer>,
    outbox: Outbox<W::Peer>,
    counters: Arc<LiveCounters>,
    functions: Arc<LiveFunctions>,
    request_bytes: usize,
    drops_bad_requests: bool,
    closed: bool,
}

/// The most answers and refusals that wait for the wire: a few batches.
const OUTBOX: usize = 2 * BATCH;

/// Batches refused after the deadline of a stop, limited so that a sender without pause cannot delay the end.
const LAST_BATCHES: usize = 256;

/// Attempts to send the rest at the end, with a yield between them.
const LAST_TRIES: usize = 1000;

impl<W: Wire> Link<W> {
    /// Attaches `wire` to `ring`. The link takes over both sides of the ring's flags, except for the dispatcher's part.
    ///
    /// # Errors
    /// Slots that are longer than the wire's longest frame, or not enough memory for the buffers.
    pub fn attach(mut wire: W, ring: &Ring) -> Result<Self, TransportError> {
        let endpoint = wire.endpoint();
        let geometry = *ring.geometry();
        let (request, response) = (geometry.rx_stride(), geometry.tx_stride());
        for slot_bytes in [request, response] {
            let max = wire.max_frame_bytes();
            if slot_bytes as usize > max {
                return Err(TransportError::SlotTooLong { slot_bytes, wire: endpoint.transport, max });
            }
        }
        wire.open(request as usize, response as usize)?;
        let outbox = Outbox::sealed(OUTBOX, response as usize, wire.key());
        Ok(Self {
            wire,
            endpoint,
            slots: Slots::new(ring.shared().clone()),
            outbox,
            counters: Arc::default(),
            functions: Arc::default(),
            request_bytes: request as usize,
            drops_bad_requests: false,
            closed: false,
        })
    }

    /// For a dispatcher that drops bad requests without an answer, as CUDA-Q Realtime does: the link likewise drops
    /// frames with a wrong magic or a wrong length, counted, and gives up requests whose slots were emptied without an
    /// answer. By default each sender gets an error.
    ///
    /// The dispatcher must mark slots in flight: without marks, a slot whose graph is running looks emptied.
    #[must_use]
    pub fn drop_bad_requests(mut self, drop: bool) -> Self {
        self.drops_bad_requests = drop;
        self
    }

    /// Sends waiting frames. Returns whether all were sent.
    fn flush(&mut self) -> bool {
        while !self.outbox.is_empty() {
            let sent = self.wire.send(&self.outbox);
            for _ in 0..sent.frames {
                if self.outbox.pop() == Some(Tag::Answer) {
                    self.counters.answered.one();
                }
            }
            match sent.error {
                None if sent.frames == 0 => return false,
                None => (),
                Some(error) if later(&error) => {
                    self.counters.blocked.one();
                    return false;
                }
                // The error is that of the first remaining frame, whose peer may be unreachable. Other peers may not
                // be.
                Some(_) => {
                    self.counters.errors.one();
                    if self.outbox.pop() == Some(Tag::Answer) {
                        self.counters.unsent.one();
                    }
                }
            }
        }
        true
    }

    fn update_under_way(&self) {
        // Answers in the outbox have left their slots but were not sent yet.
        let waiting = self.outbox.answers() as u64;
        self.counters.under_way.set(u64::from(self.slots.under_way()) + waiting);
    }
}

/// Whether the wire only has no room now.
pub(crate) fn later(error: &io::Error) -> bool {
    use io::ErrorKind::{Interrupted, OutOfMemory, WouldBlock};
    // ENOBUFS has no separate kind.
    matches!(error.kind(), WouldBlock | Interrupted | OutOfMemory)
        || error.raw_os_error() == Some(rustix::io::Errno::NOBUFS.raw_os_error())
}

impl<W: Wire> UnifiedTransport for Link<W> {
    fn endpoint(&self) -> &TransportAddress {
        &self.endpoint
    }

    fn poll(&mut self) -> usize {
        let Self { wire, slots, outbox, counters, request_bytes, drops_bad_requests, closed, .. } = self;
        let rules = AdmissionRules {
            request_bytes: *request_bytes,
            drops_bad_requests: *drops_bad_requests,
            closed: *closed,
        };
        // Every received frame may need room for a refusal.
        let mut limit = outbox.room().min(BATCH);
        if !W::NAMES_SLOTS && !*closed {
            let mut vacant = slots.restock(counters);
            if vacant == 0 && *drops_bad_requests {
                slots.reclaim(counters);
                vacant = slots.restock(counters);
            }
            if vacant == 0 {
                counters.full.one();
            }
            limit = limit.min(vacant);
        }
        if limit == 0 {
            return 0;
        }
        let frames = Cell::new(0);
        let came = || frames.set(frames.get() + 1);
        let ignore = |counter: &Count| {
            came();
            counters.received.one();
            counter.one();
        };
        let outcome = wire.receive(limit, &mut |arrival| match arrival {
            WireArrival::Frame(frame) => {
                came();
                counters.received.one();
                admit::<W>(&frame, slots, outbox, counters, &rules);
            }
            WireArrival::Lost(n) => counters.lost.add(n),
            WireArrival::Incomplete(n) => counters.incomplete.add(n),
            WireArrival::Evicted(n) => counters.evicted.add(n),
            WireArrival::Malformed => ignore(&counters.malformed),
            WireArrival::Forbidden => ignore(&counters.forbidden),
            WireArrival::WrongTag => ignore(&counters.wrong_tag),
            WireArrival::WrongIcrc => ignore(&counters.wrong_icrc),
            WireArrival::WrongKey => ignore(&counters.wrong_key),
            WireArrival::NoMessage => ignore(&counters.no_message),
            WireArrival::WrongPsn => ignore(&counters.wrong_psn),
            WireArrival::Repeated => ignore(&counters.repeated),
            WireArrival::Resent(n) => counters.resent.add(n),
            WireArrival::Broken(why) => match why {
                ConnectionEnd::Silent => &counters.broken_silent,
                ConnectionEnd::NotReady => &counters.broken_not_ready,
                ConnectionEnd::Refused => &counters.broken_refused,
                ConnectionEnd::QueuePair => &counters.broken_queue_pair,
                ConnectionEnd::Device => &counters.device_removed,
            }
            .one(),
        });
        if outcome.is_err() {
            counters.errors.one();
        }
        if frames.get() > 0 {
            self.update_under_way();
        }
        frames.get()
    }

    fn publish(&mut self) -> usize {
        if self.slots.under_way() == 0 && self.outbox.is_empty() {
            return 0;
        }
        if self.closed && self.drops_bad_requests {
            self.slots.reclaim(&self.counters);
        }
        let before = self.counters.answered.get();
        loop {
            let Self { slots, outbox, counters, functions, .. } = self;
            let mut left = false;
            slots.harvest(|response, asked, ring| {
                left = outbox.room() == 0;
                if !left {
                    let status = take(response, asked, ring, outbox, counters);
                    let ns = clock::now_ns().saturating_sub(asked.at);
                    functions.record(asked.header.function_id, status, ns);
                }
                !left
            });
            if !self.flush() || !left {
                break;
            }
        }
        self.update_under_way();
        (self.counters.answered.get() - before) as usize
    }

    fn under_way(&self) -> u32 {
        self.slots.under_way() + self.outbox.answers() as u32
    }

    fn doze(&mut self, at_most: Duration) -> bool {
        if self.drops_bad_requests && self.slots.under_way() > 0 {
            self.slots.reclaim(&self.counters);
            self.update_under_way();
        }
        if self.slots.under_way() > 0 || !self.outbox.is_empty() {
            return false;
        }
        if self.wire.wait(at_most).is_err() {
            self.counters.errors.one();
        }
        true
    }

    fn close(&mut self) {
        self.closed = true;
    }

    fn give_up(&mut self) {
        self.close();
        for (slot, asked) in self.slots.give_up() {
            self.counters.dropped.one();
            // A last attempt to send makes room for them.
            if self.outbox.room() > 0 || self.flush() {
                let header = ResponseHeader::reply(&asked.header, Status::SHUTTING_DOWN.0, 0);
                self.outbox.push(asked.from, slot, Tag::Refusal, |out| write_header(out, &header));
            }
        }
        for _ in 0..LAST_BATCHES {
            if self.poll() == 0 {
                break;
            }
            self.flush();
        }
        for _ in 0..LAST_TRIES {
            if self.flush() {
                break;
            }
            std::thread::yield_now();
        }
        while let Some(tag) = self.outbox.pop() {
            if tag == Tag::Answer {
                self.counters.unsent.one();
            }
        }
        self.update_under_way();
    }

    fn watch(&self) -> TransportWatch {
        TransportWatch::new(Arc::clone(&self.counters), Arc::clone(&self.functions), self.wire.kernel_drops())
    }
}

/// The rules by which frames get slots.
struct AdmissionRules {
    request_bytes: usize,
    drops_bad_requests: bool,
    closed: bool,
}

/// Gives a frame a slot, or sends a refusal.
#[inline]
fn admit<W: Wire>(
    frame: &ReceivedFrame<'_, W::Peer>,
    slots: &mut Slots<W::Peer>,
    outbox: &mut Outbox<W::Peer>,
    counters: &LiveCounters,
    rules: &AdmissionRules,
) {
    let refused = match admission(frame.bytes, frame.len, rules.request_bytes) {
        Admission::Runt => return counters.runts.one(),
        Admission::Stray => return counters.strays.one(),
        Admission::Refuse(header, reason) => (header, reason),
        Admission::Request(header, _) if rules.closed => (header, Reason::Stopping),
        Admission::Request(header, payload) => {
            let vacant = match frame.slot {
                Some(index) if W::NAMES_SLOTS => slots.named(index, counters),
                _ => slots.any().ok_or(Reason::SlotTaken),
            };
            match vacant {
                Ok(vacant) => {
                    if slots.submit(vacant, frame.from, &header, payload) {
                        return counters.requests.one();
                    }
                    (header, Reason::Oversize)
                }
                Err(reason) => (header, reason),
            }
        }
    };
    let (header, reason) = refused;
    match reason {
        Reason::Oversize => &counters.oversize,
        Reason::Truncated => &counters.truncated,
        Reason::BadMagic => &counters.bad_magic,
        Reason::BadSlot => &counters.bad_slot,
        Reason::SlotTaken => &counters.slot_taken,
        Reason::Stopping => &counters.stopping,
    }
    .one();
    if rules.drops_bad_requests && reason.is_bad_frame() {
        return;
    }
    let reply = ResponseHeader::reply(&header, reason.status().0, 0);
    outbox.push(frame.from, frame.slot.unwrap_or(0), Tag::Refusal, |out| write_header(out, &reply));
}

/// Copies an answer out of its slot, if it is for this request, with the length that it states. Returns its status.
#[inline]
fn take<P: Copy>(
    response: &Response,
    asked: &Asked<P>,
    ring: &SharedRing,
    outbox: &mut Outbox<P>,
    counters: &LiveCounters,
) -> i32 {
    let slot = response.slot().get();
    let (header, len) = answer(response, &asked.header, ring.geometry().result_capacity(), counters);
    outbox.push(asked.from, slot, Tag::Answer, |out| {
        let begin = write_header(out, &header);
        begin + response.read(ring, &mut out[begin..begin + len as usize])
    });
    header.status
}

/// The header to send and the number of result bytes to follow. A slot's response is an allegation, too: a foreign
/// dispatcher may leave old bytes there.
fn answer(
    response: &Response,
    asked: &RequestHeader,
    capacity: u32,
    counters: &LiveCounters,
) -> (ResponseHeader, u32) {
    let mut header = *response.header();
    let ours = header.has_magic() && header.request_id == asked.request_id;
    if response.error().is_some() {
        counters.error_marks.one();
        // With the error mark, Ringcall's dispatchers leave a header that says what failed.
        let says = ours && header.status < 0;
        let status = if says { header.status } else { Status::LAUNCH_FAILED.0 };
        return (ResponseHeader::reply(asked, status, 0), 0);
    }
    if !ours {
        counters.bad_answers.one();
        return (ResponseHeader::reply(asked, Status::ABANDONED.0, 0), 0);
    }
    if header.result_len > capacity {
        header.result_len = capacity;
        if header.status().is_ok() {
            header.status = Status::RESULT_TOO_LONG.0;
        }
    }
    (header, header.result_len)
}

fn write_header(out: &mut [u8], header: &ResponseHeader) -> usize {
    out[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    HEADER_BYTES
}
