//! Session of one decoder: collects measurements, decodes them, and hands out corrections.

use super::config::DecoderConfig;
use super::counters::{Counters, DecodeStats};
use super::engine::{Decoded, Engine};
use super::error::ConfigError;
use super::matrix;
use super::stream::Unexplained;
use crate::deadline::Cancellation;
use ringcall::wire::bits::packed_len;
use ringcall::wire::decoding::{DecodingStatus, EnqueueSyndromes, GetCorrections};
use std::sync::Arc;

/// The meaning of corrections after a second decode, if the first one's were not cleared.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Frame {
    /// The corrections of the last decode alone.
    #[default]
    Volume,
    /// The parity of each observable over all decodes since the last clearing: a running Pauli frame.
    Running,
}

/// The state of a session between two calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SessionState {
    /// More measurements are expected.
    Collecting,
    /// All measurements of a decode have come, and there are corrections.
    Ready,
    /// Measurements were malformed or too many, or no errors explain them. Only `reset_decoder` leaves this state.
    Failed,
}

/// A decoder with its session.
///
/// ```
/// use ringcall::wire::decoding::{DecodingStatus, GetCorrections};
/// use ringcall_decoder_service::decoding_server::{Config, Frame, Session};
///
/// let config: Config = "
/// decoders:
/// - {id: 0, type: pymatching, block_size: 3, syndrome_size: 2,
///    H_sparse: [0, 1, -1, 1, 2, -1], O_sparse: [0, -1], D_sparse: [0, -1, 1, -1]}
/// ".parse()?;
/// let mut session = Session::new(&config.decoders[0], Frame::Volume)?;
/// let mut corrections = [0];
/// assert_eq!(session.corrections(1, false, &mut corrections), Err(DecodingStatus::NotReady));
/// session.push(1, &[1]);
/// session.push(1, &[0]);
/// assert_eq!(session.corrections(1, true, &mut corrections), Ok(1));
/// assert_eq!(corrections, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Session {
    id: i64,
    frame: Frame,
    engine: Engine,
    /// For each measurement of a volume, the detectors that it flips.
    flips: Vec<Vec<u32>>,
    observables: usize,
    state: SessionState,
    /// The number of measurements of the volume so far.
    accepted: usize,
    /// Detectors of the volume so far, a bit each.
    detectors: Vec<u64>,
    defects: Vec<u32>,
    decoded: Vec<u8>,
    corrections: Vec<u8>,
    /// Shared with the sessions that this one replaced.
    counters: Arc<Counters>,
    /// The counts of the sessions that this one replaced.
    forced_before: u64,
    lost_before: usize,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session")
            .field("id", &self.id)
            .field("state", &self.state)
            .field("accepted", &self.accepted)
            .finish_non_exhaustive()
    }
}

impl Session {
    /// A session without measurements. It allocates all its memory here.
    ///
    /// # Errors
    /// The decoder cannot be built from these matrices.
    pub fn new(config: &DecoderConfig, frame: Frame) -> Result<Self, ConfigError> {
        let bytes = packed_len(config.observables());
        Ok(Self {
            id: config.id(),
            frame,
            engine: Engine::new(config)?,
            flips: if config.endless().is_some() {
                Vec::new()
            } else {
                matrix::columns(config.detector_measurements(), config.measurements())
            },
            observables: config.observables(),
            state: SessionState::Collecting,
            accepted: 0,
            detectors: vec![0; config.detectors().div_ceil(64)],
            defects: Vec::with_capacity(config.detectors()),
            decoded: vec![0; bytes],
            corrections: vec![0; bytes],
            counters: Arc::default(),
            forced_before: 0,
            lost_before: 0,
        })
    }

    /// The decoder's id.
    #[must_use]
    pub const fn id(&self) -> i64 {
        self.id
    }

    /// The fewest rounds of a run, for runs of any length: corrections of a shorter run are never ready.
    #[must_use]
    pub fn least_rounds(&self) -> Option<usize> {
        match &self.engine {
            Engine::Endless(stream) => Some(stream.least_rounds()),
            _ => None,
        }
    }

    /// For runs of any length, the number of decisions that later rounds might have changed, or with several cores the number of
    /// windows that were joined without a proof.
    #[must_use]
    pub fn forced(&self) -> u64 {
        let forced = match &self.engine {
            Engine::Endless(stream) => stream.forced(),
            _ => 0,
        };
        self.forced_before + forced
    }

    /// For runs that several cores share, the number of threads that died. The session's own thread does their work.
    #[must_use]
    pub fn lost_helpers(&self) -> usize {
        let lost = match &self.engine {
            Engine::Endless(stream) => stream.lost(),
            _ => 0,
        };
        self.lost_before + lost
    }

    /// The state of the session.
    #[must_use]
    pub const fn state(&self) -> SessionState {
        self.state
    }

    /// Volumes decoded.
    #[must_use]
    pub fn decodes(&self) -> u64 {
        self.stats().decodes
    }

    /// Volumes decoded, and how many of them have corrections that are only the best found.
    #[must_use]
    pub fn stats(&self) -> DecodeStats {
        self.counters.read()
    }

    pub(super) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The same session, whose decodes by belief propagation `cancellation` cuts off.
    pub(super) fn cancelled_by(mut self, cancellation: &Cancellation) -> Self {
        if let Engine::Relay(decoder) = &mut self.engine {
            decoder.cancelled_by(cancellation);
        }
        self
    }

    /// `enqueue_syndromes`: the status of a payload.
    pub fn enqueue(&mut self, payload: &[u8]) -> DecodingStatus {
        match EnqueueSyndromes::read(payload) {
            Ok(EnqueueSyndromes { num_syndromes, bits, .. }) => {
                self.push(num_syndromes as usize, bits);
                DecodingStatus::Ok
            }
            Err(_) => {
                // The lost measurements are unknown, so no volume is complete from here on.
                self.state = SessionState::Failed;
                DecodingStatus::BadRequest
            }
        }
    }

    /// Takes `count` measurements, and decodes if they complete a volume or a round of a run of any length. A session that has
    /// failed ignores them; a session that fails now reports it when corrections are asked for.
    ///
    /// # Panics
    /// `bits` has fewer than `count` bits.
    pub fn push(&mut self, count: usize, bits: &[u8]) {
        if self.state == SessionState::Failed || count == 0 {
            return;
        }
        if let Engine::Endless(stream) = &mut self.engine {
            self.state = match stream.push(count, bits) {
                Ok(()) => SessionState::Collecting,
                Err(Unexplained) => SessionState::Failed,
            };
            return;
        }
        if count > self.flips.len() - self.accepted {
            self.state = SessionState::Failed;
            return;
        }
        self.state = SessionState::Collecting;
        let flips = &self.flips[self.accepted..][..count];
        for (byte, flips) in bits[..packed_len(count)].iter().zip(flips.chunks(8)) {
            let mut left = *byte;
            while left != 0 {
                let bit = left.trailing_zeros() as usize;
                left &= left - 1;
                // Bits after the last measurement are ignored.
                for &detector in flips.get(bit).map_or(&[][..], Vec::as_slice) {
                    self.detectors[detector as usize / 64] ^= 1 << (detector % 64);
                }
            }
        }
        self.accepted += count;
        if self.accepted == self.flips.len() {
            self.decode();
        }
    }

    fn decode(&mut self) {
        let Self { detectors, defects, decoded, .. } = self;
        defects.clear();
        for (i, word) in (0..).zip(detectors.iter_mut()) {
            let mut left = std::mem::take(word);
            while left != 0 {
                defects.push(64 * i + left.trailing_zeros());
                left &= left - 1;
            }
        }
        self.accepted = 0;
        match self.engine.decode(defects, decoded) {
            Ok(outcome) => self.is_decoded(outcome),
            Err(Unexplained) => self.state = SessionState::Failed,
        }
    }

    /// Ends a run of any length. Returns false if the run is not complete.
    fn finish(&mut self) -> bool {
        let Engine::Endless(stream) = &mut self.engine else { return false };
        match stream.finish(&mut self.decoded) {
            Ok(false) => return false,
            Ok(true) => self.is_decoded(Decoded::Explained),
            Err(Unexplained) => self.state = SessionState::Failed,
        }
        true
    }

    fn is_decoded(&mut self, outcome: Decoded) {
        let Self { decoded, corrections, .. } = self;
        self.counters.count(outcome);
        match self.frame {
            Frame::Volume => corrections.copy_from_slice(decoded),
            Frame::Running => corrections.iter_mut().zip(decoded).for_each(|(sum, new)| *sum ^= *new),
        }
        self.state = SessionState::Ready;
    }

    /// `get_corrections`: writes the corrections to `result`. Returns their length in bytes.
    ///
    /// # Errors
    /// The status to answer with.
    pub fn get_corrections(&mut self, payload: &[u8], result: &mut [u8]) -> Result<usize, DecodingStatus> {
        let GetCorrections { return_size, reset, .. } =
            GetCorrections::read(payload).map_err(|_| DecodingStatus::BadRequest)?;
        self.corrections(return_size, reset, result)
    }

    /// Writes the corrections to `result`, and clears them if `reset` is set. Returns their length in bytes.
    ///
    /// # Errors
    /// [`BadRequest`](DecodingStatus::BadRequest) if `return_size` is not the number of observables,
    /// [`NotReady`](DecodingStatus::NotReady) while measurements are missing, [`InternalError`](DecodingStatus::InternalError) if
    /// the session has failed or `result` is too short.
    pub fn corrections(
        &mut self,
        return_size: i64,
        reset: bool,
        result: &mut [u8],
    ) -> Result<usize, DecodingStatus> {
        if return_size <= 0 {
            return Err(DecodingStatus::BadRequest);
        }
        if self.state == SessionState::Failed {
            return Err(DecodingStatus::InternalError);
        }
        if usize::try_from(return_size) != Ok(self.observables) {
            return Err(DecodingStatus::BadRequest);
        }
        if self.state == SessionState::Collecting && !self.finish() {
            return Err(DecodingStatus::NotReady);
        }
        if self.state == SessionState::Failed {
            return Err(DecodingStatus::InternalError);
        }
        let len = self.corrections.len();
        result.get_mut(..len).ok_or(DecodingStatus::InternalError)?.copy_from_slice(&self.corrections);
        if reset {
            self.corrections.fill(0);
            self.state = SessionState::Collecting;
        }
        Ok(len)
    }

    /// Clears measurements, corrections and a failure.
    pub fn reset(&mut self) {
        if let Engine::Endless(stream) = &mut self.engine {
            stream.restart();
        }
        self.accepted = 0;
        self.detectors.fill(0);
        self.corrections.fill(0);
        self.state = SessionState::Collecting;
    }

    /// Whether the next measurements begin a volume or a run, and nothing of the one before is left.
    pub(super) fn is_between(&self) -> bool {
        match (&self.engine, self.state) {
            (_, SessionState::Failed) => false,
            (Engine::Endless(stream), _) if !stream.is_between_runs() => false,
            (_, SessionState::Collecting) => self.accepted == 0,
            // Corrections that the next decode replaces or adds to.
            (_, SessionState::Ready) => self.frame == Frame::Volume,
        }
    }

    /// Swaps this session with `other`, and keeps the counts of the replaced one.
    pub(super) fn take_place_of(&mut self, other: &mut Self) {
        (self.counters, self.forced_before) = (Arc::clone(&other.counters), other.forced());
        self.lost_before = other.lost_helpers();
        std::mem::swap(self, other);
    }

    /// Fails the session, because its caller's last measurements were lost.
    pub(super) fn fail(&mut self) {
        self.state = SessionState::Failed;
    }
}
