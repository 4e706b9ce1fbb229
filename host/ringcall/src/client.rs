//! A producer and consumer in one thread: for tests, benchmarks, and programs without a NIC.

use crate::{FunctionId, Ring};
use ringcall_gpu::hint;
use ringcall_protocol::ring::SlotIndex;
use ringcall_protocol::slot::{Response, TooLong, Vacant};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::call::RoundTrip;
use ringcall_wire::flag::{FREE, IN_FLIGHT};
use ringcall_wire::status::Status;
use std::cell::Cell;
use std::marker::PhantomData;
use std::time::{Duration, Instant};

/// The far end of a ring: writes requests and takes responses. A ring has one client, and one thread at a time uses
/// it.
#[derive(Debug)]
pub struct Client {
    ring: SharedRing,
    next: SlotIndex,
    next_id: u32,
    _not_sync: PhantomData<Cell<()>>,
}

/// A response, copied out of its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply {
    /// 0 for success, positive from the handler, negative from the protocol.
    pub status: Status,
    /// The code of the error mark, if the response flag held one.
    pub error: Option<u16>,
    /// The id of the request.
    pub request_id: u32,
    /// The request's time stamp, echoed.
    pub ptp_timestamp: u64,
    /// The result bytes.
    pub result: Vec<u8>,
}

/// Why a call returned no reply.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The payload does not fit a slot.
    #[error("{0}")]
    TooLong(#[from] TooLong),
    /// Every slot is taken.
    #[error("every slot of the ring is taken: take responses before sending more")]
    Full,
    /// No reply came in time. The slot stays taken until the reply comes.
    #[error("no reply within {0:?}: is a dispatcher running on this ring?")]
    TimedOut(Duration),
}

impl Client {
    /// A client of `ring`.
    ///
    /// # Panics
    /// Never: a ring has a slot 0.
    #[must_use]
    pub fn new(ring: &Ring) -> Self {
        let shared = ring.shared().clone();
        let next = shared.geometry().slot(0).expect("a ring has slots");
        Self { ring: shared, next, next_id: 0, _not_sync: PhantomData }
    }

    /// Writes a request into the next slot, if the slot is free. Returns the slot.
    ///
    /// Slots are used in ring order, so a response that was not taken blocks the ring: take responses.
    ///
    /// # Errors
    /// The slot is taken, or the payload does not fit.
    #[inline]
    pub fn send(
        &mut self,
        function: FunctionId,
        request_id: u32,
        ptp_timestamp: u64,
        payload: &[u8],
    ) -> Result<SlotIndex, CallError> {
        let slot = self.next;
        let vacant = Vacant::probe(&self.ring, slot).ok_or(CallError::Full)?;
        vacant.submit(&self.ring, function.0, request_id, ptp_timestamp, payload)?;
        self.next = self.ring.geometry().next(slot);
        Ok(slot)
    }

    /// Takes the response of `slot`, if there is one, and passes it to `use_it` before the slot is freed.
    #[inline]
    pub fn take<R>(&self, slot: SlotIndex, use_it: impl FnOnce(&Response, &SharedRing) -> R) -> Option<R> {
        let response = Response::probe(&self.ring, slot)?;
        let out = use_it(&response, &self.ring);
        response.release(&self.ring);
        Some(out)
    }

    /// Takes every response in the ring. Returns how many it took. Reads whole cache lines of flags and fetches the
    /// responses of a line together.
    #[inline]
    pub fn take_all(&self, mut use_it: impl FnMut(&Response, &SharedRing)) -> usize {
        let slots = self.ring.geometry().slots();
        let mut taken = 0;
        for group in 0..slots.div_ceil(8) {
            let flags = self.ring.tx_group(group);
            let there = |flag: u64| flag != FREE && flag != IN_FLIGHT;
            if !flags.iter().any(|&flag| there(flag)) {
                continue;
            }
            let slot = |i: usize| self.ring.geometry().slot(group * 8 + i as u32);
            for (i, _) in flags.into_iter().enumerate().filter(|&(_, flag)| there(flag)) {
                if let Some(slot) = slot(i) {
                    self.ring.prefetch_response(slot);
                }
            }
            for (i, _) in flags.into_iter().enumerate().filter(|&(_, flag)| there(flag)) {
                if let Some(slot) = slot(i) {
                    taken += usize::from(self.take(slot, &mut use_it).is_some());
                }
            }
        }
        taken
    }

    /// Sends one request and waits for its reply.
    ///
    /// # Errors
    /// A payload that does not fit, no free slot, or no reply within `timeout`.
    pub fn call(&mut self, function: &str, payload: &[u8], timeout: Duration) -> Result<Reply, CallError> {
        self.call_id(FunctionId::of(function), payload, timeout)
    }

    /// A caller for typed calls; each call waits at most `timeout`.
    ///
    /// ```
    /// use ringcall::{Client, FunctionTable, HostDispatcher, Ring, RingConfig, wire::call::RoundTrip};
    /// use std::time::Duration;
    ///
    /// let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 64 })?;
    /// let table = FunctionTable::builder()
    ///     .host_call("double", |request: &[u8], result: &mut [u8]| {
    ///         result[0] = 2 * request[0];
    ///         Ok(1)
    ///     })
    ///     .build(&ring)?;
    /// let dispatcher = HostDispatcher::builder(&ring, table).build()?.start()?;
    /// let mut result = [0; 1];
    /// // Of a handler: `double::call(&mut client.within(…), 21)`.
    /// let mut client = Client::new(&ring);
    /// client.within(Duration::from_secs(5)).round_trip(ringcall::FunctionId::of("double"), &[21], &mut result)?;
    /// assert_eq!(result, [42]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn within(&mut self, timeout: Duration) -> Within<'_> {
        Within { client: self, timeout }
    }

    /// Sends one request and waits for its reply.
    fn call_id(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        timeout: Duration,
    ) -> Result<Reply, CallError> {
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let begin = Instant::now();
        // An answer is published just before its request flag is cleared. On a small ring the next request may use
        // that slot.
        let slot = loop {
            match self.send(function, id, 0, payload) {
                Err(CallError::Full) if begin.elapsed() < timeout => std::thread::yield_now(),
                sent => break sent?,
            }
        };
        self.wait(slot, timeout)
    }

    /// Waits for the response of `slot`.
    ///
    /// # Errors
    /// None within `timeout`.
    pub fn wait(&self, slot: SlotIndex, timeout: Duration) -> Result<Reply, CallError> {
        let begin = Instant::now();
        let mut turns = 0_u32;
        loop {
            let reply = self.take(slot, |response, ring| {
                let header = response.header();
                let sent = header.result_len.min(ring.geometry().result_capacity()) as usize;
                let mut result = vec![0; sent];
                response.read(ring, &mut result);
                Reply {
                    status: Status(header.status),
                    error: response.error(),
                    request_id: header.request_id,
                    ptp_timestamp: header.ptp_timestamp,
                    result,
                }
            });
            if let Some(reply) = reply {
                return Ok(reply);
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(64) {
                std::thread::yield_now();
                if begin.elapsed() > timeout {
                    return Err(CallError::TimedOut(timeout));
                }
            } else {
                hint::spin();
            }
        }
    }

    /// The slot that the next [`send`](Self::send) will use.
    #[must_use]
    pub fn next_slot(&self) -> SlotIndex {
        self.next
    }

    /// The ring, for tests that write into it directly.
    #[must_use]
    pub fn ring(&self) -> &SharedRing {
        &self.ring
    }
}

/// A client whose calls wait a bounded time: [`Client::within`].
#[derive(Debug)]
pub struct Within<'a> {
    client: &'a mut Client,
    timeout: Duration,
}

impl RoundTrip for Within<'_> {
    type Error = CallError;

    fn round_trip(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        result: &mut [u8],
    ) -> Result<(Status, usize), CallError> {
        let reply = self.client.call_id(function, payload, self.timeout)?;
        result.iter_mut().zip(&reply.result).for_each(|(out, byte)| *out = *byte);
        Ok((reply.status, reply.result.len()))
    }
}
