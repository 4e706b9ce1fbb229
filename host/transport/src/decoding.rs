//! Client of a decoding server: the three typed calls of one decoder over any wire.

use crate::{Caller, CallerError, RequestOutcome, Wire};
use ringcall::FunctionId;
use ringcall_wire::decoding::{
    DecodingStatus, EnqueueSyndromes, GetCorrections, MAX_SYNDROME_BITS, reset_decoder,
};
use ringcall_wire::function::names;
use ringcall_wire::status::Status;

/// Why a call of a decoding client has no result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum DecodingError {
    /// The server refused a call.
    #[error("{call} was answered {status}")]
    Refused {
        /// The function.
        call: &'static str,
        /// The server's status.
        status: DecodingStatus,
    },
    /// The dispatcher refused a call, or the server has no such function.
    #[error("{call} was answered {status}: is this a decoding server?")]
    Protocol {
        /// The function.
        call: &'static str,
        /// The dispatcher's status.
        status: Status,
    },
    /// A call was not sent or not answered.
    #[error("{call}: {error}")]
    Call {
        /// The function.
        call: &'static str,
        /// The caller's error.
        error: CallerError,
    },
    /// There are no measurements, more than a call takes, or more than the given bytes hold.
    #[error("{count} measurements in {bytes} bytes: from 1 to {MAX_SYNDROME_BITS}, eight a byte")]
    Count {
        /// The number of measurements.
        count: usize,
        /// Bytes given.
        bytes: usize,
    },
    /// The answer's length is not that of the corrections.
    #[error("{found} bytes of corrections, and {expected} were expected")]
    Length {
        /// Bytes of the answer.
        found: usize,
        /// Bytes of the corrections.
        expected: usize,
    },
}

/// One decoder of a decoding server.
///
/// Measurements are sent without waiting for the answers; the call that asks for corrections returns their outcome. A
/// server's ring serves one client at a time, in the order of its requests, so a client begins with
/// [`reset`](Self::reset), and its caller's window must be smaller than the ring.
///
/// ```
/// use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig, Status};
/// use ringcall_transport::{CallerOptions, DecodingClient, Link, OneThread, ThreadOptions, udp};
/// use std::time::Duration;
///
/// // In place of a server: corrections are always 1.
/// let ring = Ring::allocate(RingConfig { slots: 64, slot_bytes: 256 })?;
/// let table = FunctionTable::builder()
///     .host_call("reset_decoder", |_: &[u8], _: &mut [u8]| Ok(0))
///     .host_call("enqueue_syndromes", |_: &[u8], _: &mut [u8]| Ok(0))
///     .host_call("get_corrections", |_: &[u8], out: &mut [u8]| {
///         out[0] = 1;
///         Ok(1)
///     });
/// let dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).in_order().build()?;
/// let wire = udp::Udp::bind(&udp::UdpOptions::default())?;
/// let service = OneThread::start(Link::attach(wire, &ring)?, dispatcher, &ThreadOptions::default())?;
///
/// let options = CallerOptions { window: 32, ..CallerOptions::default() };
/// let caller = udp::Caller::connect(service.endpoint().address, &options)?;
/// let mut decoder = DecodingClient::new(caller, 0, 1);
/// decoder.reset()?;
/// let mut corrections = [0];
/// for round in 0..7 {
///     decoder.enqueue(48, &[round; 6])?;
/// }
/// decoder.finish(24, &[7; 3], true, &mut corrections)?;
/// assert_eq!(corrections, [1]);
/// # service.stop(Duration::from_secs(1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct DecodingClient<W: Wire> {
    caller: Caller<W>,
    decoder_id: i64,
    observables: usize,
    payload: Vec<u8>,
    /// Requests in flight with their functions, in the order of their ids.
    open: Vec<(u32, &'static str)>,
    /// The first call since the last corrections whose answer was not OK.
    failed: Option<DecodingError>,
}

impl<W: Wire> DecodingClient<W> {
    /// A client of decoder `decoder_id`, which has `observables` and whose ring `caller` calls.
    #[must_use]
    pub fn new(caller: Caller<W>, decoder_id: i64, observables: usize) -> Self {
        let open = Vec::with_capacity(caller.room());
        Self { caller, decoder_id, observables, payload: Vec::new(), open, failed: None }
    }

    /// Bytes of the corrections.
    #[must_use]
    pub const fn correction_bytes(&self) -> usize {
        self.observables.div_ceil(8)
    }

    /// The caller, for its counters.
    #[must_use]
    pub const fn caller(&self) -> &Caller<W> {
        &self.caller
    }

    /// Sends the first `count` bits of `bits` as measurements. Blocks for answers while the caller's window is full.
    ///
    /// # Errors
    /// [`DecodingError::Count`], or [`DecodingError::Call`] if the measurements could not be sent.
    pub fn enqueue(&mut self, count: usize, bits: &[u8]) -> Result<(), DecodingError> {
        self.stage(count, bits)?;
        self.caller.flush();
        Ok(())
    }

    /// Sends the last measurements of a decode and asks for its corrections in one step, which is the fastest way to
    /// get them, and waits for them. Clears the corrections on the server if `reset` is set.
    ///
    /// # Errors
    /// As for [`enqueue`](Self::enqueue) and [`corrections`](Self::corrections).
    pub fn finish(
        &mut self,
        count: usize,
        bits: &[u8],
        reset: bool,
        corrections: &mut [u8],
    ) -> Result<(), DecodingError> {
        self.stage(count, bits)?;
        self.corrections(reset, corrections)
    }

    /// Asks for the corrections of a decode and waits for them: a bit for each observable, in
    /// [`correction_bytes`](Self::correction_bytes). Clears them on the server if `reset` is set.
    ///
    /// # Errors
    /// [`DecodingError::Refused`], also if the server refused earlier measurements; an error of a lost call;
    /// [`DecodingError::Length`].
    pub fn corrections(&mut self, reset: bool, corrections: &mut [u8]) -> Result<(), DecodingError> {
        let expected = self.correction_bytes();
        if corrections.len() != expected {
            return Err(DecodingError::Length { found: corrections.len(), expected });
        }
        let return_size = i64::try_from(self.observables).unwrap_or(i64::MAX);
        let question = GetCorrections { decoder_id: self.decoder_id, return_size, reset };
        self.call(names::GET_CORRECTIONS, &question.to_bytes(), |result| {
            if result.len() == expected {
                corrections.copy_from_slice(result);
            }
            result.len()
        })
        .and_then(|found| {
            if found == expected { Ok(()) } else { Err(DecodingError::Length { found, expected }) }
        })
    }

    /// Resets the decoder: both sides forget measurements, corrections and failures.
    ///
    /// # Errors
    /// The server refused the call, or the call was lost.
    pub fn reset(&mut self) -> Result<(), DecodingError> {
        self.wait();
        self.failed = None;
        self.call(names::RESET_DECODER, &reset_decoder(self.decoder_id), |_| ())
    }

    /// Waits until every call so far is answered or lost. The next call that asks for corrections reports any refusal.
    pub fn wait(&mut self) {
        let mut turns = 0_u32;
        while !self.open.is_empty() {
            let before = self.open.len();
            self.turn(None, |_| ());
            turns = if self.open.len() < before { 0 } else { turns.saturating_add(1) };
            if turns > 16 {
                std::thread::yield_now();
            }
        }
    }

    /// Adds measurements to the caller's next batch.
    fn stage(&mut self, count: usize, bits: &[u8]) -> Result<(), DecodingError> {
        let refusal = DecodingError::Count { count, bytes: bits.len() };
        let num_syndromes = u32::try_from(count).map_err(|_| refusal)?;
        let request = EnqueueSyndromes { decoder_id: self.decoder_id, counter: 0, num_syndromes, bits };
        self.payload.resize(EnqueueSyndromes::bytes(count.min(MAX_SYNDROME_BITS)), 0);
        request.write(&mut self.payload).ok_or(refusal)?;
        let payload = std::mem::take(&mut self.payload);
        let sent = self.send(names::ENQUEUE_SYNDROMES, &payload);
        self.payload = payload;
        sent.map(drop)
    }

    /// Sends a request as soon as there is room for it.
    fn send(&mut self, call: &'static str, payload: &[u8]) -> Result<u32, DecodingError> {
        loop {
            match self.caller.send(FunctionId::of(call), 0, payload) {
                Ok(id) => {
                    self.open.push((id, call));
                    return Ok(id);
                }
                Err(CallerError::Full(_)) if !self.open.is_empty() => self.turn(None, |_| ()),
                Err(error) => return Err(DecodingError::Call { call, error }),
            }
        }
    }

    /// Sends a request, and waits for its answer and those of all earlier requests. Returns what `take` makes of the
    /// result.
    fn call<R>(
        &mut self,
        call: &'static str,
        payload: &[u8],
        mut take: impl FnMut(&[u8]) -> R,
    ) -> Result<R, DecodingError> {
        let id = self.send(call, payload)?;
        let mut taken = None;
        // Each request ends at its deadline at the latest.
        let mut turns = 0_u32;
        while !self.open.is_empty() {
            let before = self.open.len();
            self.turn(Some(id), |result| taken = Some(take(result)));
            turns = if self.open.len() < before { 0 } else { turns.saturating_add(1) };
            if turns > 16 {
                std::thread::yield_now();
            }
        }
        let lost = CallerError::Unsent;
        match self.failed.take() {
            Some(error) => Err(error),
            None => taken.ok_or(DecodingError::Call { call, error: lost }),
        }
    }

    /// Takes the arrived answers. `take` gets the result of the request `wanted`.
    fn turn(&mut self, wanted: Option<u32>, mut take: impl FnMut(&[u8])) {
        let Self { caller, open, failed, .. } = self;
        caller.poll(|ended| {
            let Some(index) = open.iter().position(|&(id, _)| id == ended.id) else { return };
            let (id, call) = open.remove(index);
            let error = match ended.outcome {
                RequestOutcome::Answered(header, result) => match DecodingStatus::of(header.status()) {
                    Some(DecodingStatus::Ok) => {
                        if wanted == Some(id) {
                            take(result);
                        }
                        return;
                    }
                    Some(status) => DecodingError::Refused { call, status },
                    None => DecodingError::Protocol { call, status: header.status() },
                },
                RequestOutcome::Lost => DecodingError::Call { call, error: CallerError::Lost(ended.took) },
                RequestOutcome::Unsent => DecodingError::Call { call, error: CallerError::Unsent },
            };
            failed.get_or_insert(error);
        });
    }
}
