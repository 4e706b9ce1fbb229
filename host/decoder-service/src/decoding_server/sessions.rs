//! All sessions of a server, found by the decoder's id, and the three calls as functions of a ring.

use super::config::Config;
use super::counters::{Counters, DecodeStats};
use super::error::ConfigError;
use super::session::{Frame, Session};
use crate::deadline::Cancellation;
use ringcall::Status;
use ringcall::table::TableBuilder;
use ringcall::wire::decoding::{DecodingStatus, RESET_DECODER_BYTES, decoder_id};
use ringcall::wire::names;
use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

/// A session, and whether measurements for it were dropped.
#[derive(Debug)]
struct SessionEntry {
    id: i64,
    session: Mutex<Session>,
    /// Those of the session and of its replacements.
    counters: Arc<Counters>,
    /// 1 from a drop until the next reset. Any thread sets it.
    dropped: DeviceU64,
    /// The session's replacement while `is_replaced` is 1; then the replaced session.
    other: Mutex<Option<Session>>,
    is_replaced: DeviceU64,
}

/// The sessions of a server, shared by its rings.
///
/// A call never waits. If another thread's call on the same decoder is under way, the call is answered
/// [`Busy`](DecodingStatus::Busy), and measurements are answered [`SyndromesDropped`](DecodingStatus::SyndromesDropped). With one
/// ring per decoder this does not happen.
///
/// ```
/// use ringcall::wire::decoding::{DecodingStatus, EnqueueSyndromes, GetCorrections, reset_decoder};
/// use ringcall_decoder_service::decoding_server::{Config, Frame, Sessions};
///
/// let config: Config = "
/// decoders:
/// - {id: 7, type: pymatching, block_size: 3, syndrome_size: 2,
///    H_sparse: [0, 1, -1, 1, 2, -1], O_sparse: [0, -1], D_sparse: [0, -1, 1, -1]}
/// ".parse()?;
/// let sessions = Sessions::new(&config, Frame::Volume)?;
/// assert_eq!(sessions.reset_decoder(&reset_decoder(7)), DecodingStatus::Ok);
/// assert_eq!(sessions.reset_decoder(&reset_decoder(8)), DecodingStatus::InvalidDecoder);
///
/// let mut payload = [0; 33];
/// let round = EnqueueSyndromes { decoder_id: 7, counter: 0, num_syndromes: 2, bits: &[0b01] };
/// let len = round.write(&mut payload).expect("it fits");
/// assert_eq!(sessions.enqueue_syndromes(&payload[..len]), DecodingStatus::Ok);
///
/// let question = GetCorrections { decoder_id: 7, return_size: 1, reset: true };
/// let mut corrections = [0];
/// assert_eq!(sessions.get_corrections(&question.to_bytes(), &mut corrections), Ok(1));
/// assert_eq!(corrections, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Sessions {
    /// Sorted by id.
    entries: Box<[SessionEntry]>,
    /// Ends decodes that a stop cannot wait for.
    cancellation: Cancellation,
}

impl Sessions {
    /// The sessions of every decoder of a configuration.
    ///
    /// # Errors
    /// A decoder that cannot be built from its matrices.
    pub fn new(config: &Config, frame: Frame) -> Result<Self, ConfigError> {
        let sessions = config.decoders.iter().map(|decoder| Session::new(decoder, frame));
        Ok(Self::of(sessions.collect::<Result<_, _>>()?))
    }

    /// A server of these sessions, each of a different decoder.
    #[must_use]
    pub fn of(sessions: Vec<Session>) -> Self {
        let cancellation = Cancellation::default();
        let mut entries: Box<[SessionEntry]> = sessions
            .into_iter()
            .map(|session| SessionEntry {
                id: session.id(),
                counters: Arc::clone(session.counters()),
                session: Mutex::new(session.cancelled_by(&cancellation)),
                dropped: DeviceU64::new(0),
                other: Mutex::new(None),
                is_replaced: DeviceU64::new(0),
            })
            .collect();
        entries.sort_by_key(|entry| entry.id);
        Self { entries, cancellation }
    }

    /// Replaces the sessions by new ones with the same ids, while calls are answered. Returns false, and replaces nothing, if the
    /// ids are not exactly those served. Each session is replaced between two volumes or runs: with the first measurements of
    /// one, or with a reset. No call finds its decoder busy because of a replacement.
    #[must_use]
    pub fn replace(&self, mut sessions: Vec<Session>) -> bool {
        sessions.sort_by_key(Session::id);
        if !sessions.iter().map(Session::id).eq(self.entries.iter().map(|entry| entry.id)) {
            return false;
        }
        for (entry, session) in self.entries.iter().zip(sessions) {
            let mut other = entry.other();
            *other = Some(session.cancelled_by(&self.cancellation));
            entry.is_replaced.store(1, Ordering::Release);
        }
        true
    }

    /// Frees replaced sessions. Returns whether every replacement has been made.
    pub fn free_replaced(&self) -> bool {
        let mut all = true;
        for entry in &self.entries {
            let mut other = entry.other();
            match entry.is_replaced.load(Ordering::Acquire) {
                0 => drop(other.take()),
                _ => all = false,
            }
        }
        all
    }

    fn entry(&self, payload: &[u8]) -> Result<&SessionEntry, DecodingStatus> {
        let id = decoder_id(payload).ok_or(DecodingStatus::BadRequest)?;
        self.entry_of(id).ok_or(DecodingStatus::InvalidDecoder)
    }

    /// Cuts decodes by belief propagation off once so much time has passed, those under way and later ones: their corrections are
    /// then the best found so far. Matching takes microseconds, and comes to its end.
    pub fn cancel_after(&self, time: Duration) {
        self.cancellation.cancel_after(time);
    }

    fn entry_of(&self, id: i64) -> Option<&SessionEntry> {
        let index = self.entries.binary_search_by_key(&id, |entry| entry.id).ok()?;
        self.entries.get(index)
    }

    /// The volumes and runs that a decoder decoded so far, those of replaced sessions included. `None` if there is no such decoder.
    #[must_use]
    pub fn stats(&self, id: i64) -> Option<DecodeStats> {
        Some(self.entry_of(id)?.counters.read())
    }

    /// The same of all decoders together.
    #[must_use]
    pub fn total(&self) -> DecodeStats {
        self.entries.iter().map(|entry| entry.counters.read()).fold(DecodeStats::default(), |sum, more| {
            DecodeStats {
                decodes: sum.decodes + more.decodes,
                unconverged: sum.unconverged + more.unconverged,
                late: sum.late + more.late,
            }
        })
    }

    /// The number of a decoder's decisions that later rounds might have changed, for runs of any length, or with several cores the
    /// number of windows that were joined without a proof. `None` if there is no such decoder or a call on it is under way.
    #[must_use]
    pub fn forced(&self, id: i64) -> Option<u64> {
        Some(self.entry_of(id)?.lock()?.forced())
    }

    /// The number of a decoder's threads that died, for runs that several cores share. `None` if there is no such decoder or a call
    /// on it is under way.
    #[must_use]
    pub fn lost_helpers(&self, id: i64) -> Option<usize> {
        Some(self.entry_of(id)?.lock()?.lost_helpers())
    }

    /// `enqueue_syndromes`.
    pub fn enqueue_syndromes(&self, payload: &[u8]) -> DecodingStatus {
        let entry = match self.entry(payload) {
            Ok(entry) => entry,
            Err(status) => return status,
        };
        match entry.lock() {
            Some(mut session) => {
                if session.is_between() {
                    entry.replace(&mut session);
                }
                session.enqueue(payload)
            }
            None => {
                entry.dropped.store(1, Ordering::Release);
                DecodingStatus::SyndromesDropped
            }
        }
    }

    /// `get_corrections`: writes them to `result`. Returns their length in bytes.
    ///
    /// # Errors
    /// The status to answer with.
    pub fn get_corrections(&self, payload: &[u8], result: &mut [u8]) -> Result<usize, DecodingStatus> {
        let entry = self.entry(payload)?;
        let mut session = entry.lock().ok_or(DecodingStatus::Busy)?;
        // Pairs with the store of `enqueue_syndromes`.
        if entry.dropped.load(Ordering::Acquire) != 0 {
            return Err(DecodingStatus::SyndromesDropped);
        }
        session.get_corrections(payload, result)
    }

    /// `reset_decoder`.
    pub fn reset_decoder(&self, payload: &[u8]) -> DecodingStatus {
        if payload.len() < RESET_DECODER_BYTES {
            return DecodingStatus::BadRequest;
        }
        match self.entry(payload).map(|entry| (entry, entry.lock())) {
            Ok((entry, Some(mut session))) => {
                entry.dropped.store(0, Ordering::Release);
                entry.replace(&mut session);
                session.reset();
                DecodingStatus::Ok
            }
            Ok((_, None)) => DecodingStatus::Busy,
            Err(status) => status,
        }
    }

    /// Adds the three calls to a ring's table. Every ring with these calls serves every decoder. Requests build on one another,
    /// so the ring's dispatcher serves them [in order](ringcall::dispatcher::HostDispatcherBuilder::in_order).
    #[must_use]
    pub fn serve(self: &Arc<Self>, table: TableBuilder) -> TableBuilder {
        let done = |status: DecodingStatus| match status {
            DecodingStatus::Ok => Ok(0),
            refusal => Err(refusal.status()),
        };
        let (enqueue, corrections, reset) = (Arc::clone(self), Arc::clone(self), Arc::clone(self));
        table
            .host_call(
                names::ENQUEUE_SYNDROMES,
                move |request: &[u8], _: &mut [u8]| -> Result<usize, Status> {
                    done(enqueue.enqueue_syndromes(request))
                },
            )
            .host_call(names::GET_CORRECTIONS, move |request: &[u8], result: &mut [u8]| {
                corrections.get_corrections(request, result).map_err(DecodingStatus::status)
            })
            .host_call(names::RESET_DECODER, move |request: &[u8], _: &mut [u8]| {
                done(reset.reset_decoder(request))
            })
    }
}

impl SessionEntry {
    /// The session, if no other call has it.
    fn lock(&self) -> Option<MutexGuard<'_, Session>> {
        match self.session.try_lock() {
            Ok(session) => Some(session),
            Err(TryLockError::WouldBlock) => None,
            // A call panicked in the middle of its work.
            Err(TryLockError::Poisoned(poisoned)) => {
                let mut session = poisoned.into_inner();
                session.fail();
                self.session.clear_poison();
                Some(session)
            }
        }
    }

    fn other(&self) -> MutexGuard<'_, Option<Session>> {
        self.other.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Replaces the session if a replacement waits. A call does not wait for one that is just being stored: a later call finds
    /// it.
    fn replace(&self, session: &mut Session) {
        if self.is_replaced.load(Ordering::Acquire) == 0 {
            return;
        }
        if let Ok(mut other) = self.other.try_lock()
            && let Some(other) = other.as_mut()
        {
            other.take_place_of(session);
            self.is_replaced.store(0, Ordering::Release);
        }
    }

    #[cfg(test)]
    fn hold(&self) -> MutexGuard<'_, Session> {
        self.session.lock().expect("no panic")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall::wire::decoding::{EnqueueSyndromes, GetCorrections, reset_decoder};

    const CONFIG: &str = "decoders:\n- {id: 7, type: pymatching, block_size: 3, syndrome_size: 2, \
                          H_sparse: [0, 1, -1, 1, 2, -1], O_sparse: [0, -1], D_sparse: [0, -1, 1, -1]}";

    fn round() -> [u8; 33] {
        let mut payload = [0; 33];
        let round = EnqueueSyndromes { decoder_id: 7, counter: 0, num_syndromes: 2, bits: &[1] };
        assert_eq!(round.write(&mut payload), Some(33));
        payload
    }

    #[test]
    fn a_second_call_on_a_decoder_does_not_wait() {
        let sessions = Sessions::new(&CONFIG.parse().expect("valid"), Frame::Volume).expect("a decoder");
        let question = GetCorrections { decoder_id: 7, return_size: 1, reset: true }.to_bytes();
        let get = || sessions.get_corrections(&question, &mut [0]);
        let other = sessions.entries[0].hold();
        assert_eq!(get(), Err(DecodingStatus::Busy));
        assert_eq!(sessions.reset_decoder(&reset_decoder(7)), DecodingStatus::Busy);
        assert_eq!(sessions.enqueue_syndromes(&round()), DecodingStatus::SyndromesDropped);
        drop(other);
        // Each answer reports the drop until a reset.
        assert_eq!(sessions.enqueue_syndromes(&round()), DecodingStatus::Ok);
        assert_eq!(
            (get(), get()),
            (Err(DecodingStatus::SyndromesDropped), Err(DecodingStatus::SyndromesDropped))
        );
        assert_eq!(sessions.reset_decoder(&reset_decoder(7)), DecodingStatus::Ok);
        assert_eq!(get(), Err(DecodingStatus::NotReady));
        assert_eq!(sessions.enqueue_syndromes(&round()), DecodingStatus::Ok);
        assert_eq!(get(), Ok(1));
    }

    #[test]
    fn a_decoder_is_replaced_between_two_volumes() {
        // One measurement more than in the first configuration.
        const LARGER: &str = "decoders:\n- {id: 7, type: pymatching, block_size: 3, syndrome_size: 2, \
                              H_sparse: [0, 1, -1, 1, 2, -1], O_sparse: [0, -1], D_sparse: [0, 2, -1, 1, -1]}";
        let config = |text: &str| -> Config { text.parse().expect("valid") };
        let sessions = Sessions::new(&config(CONFIG), Frame::Volume).expect("a decoder");
        let renewed = |text| vec![Session::new(&config(text).decoders[0], Frame::Volume).expect("a decoder")];
        let bits = |count: u32, bits: u8| {
            let mut payload = [0; 33];
            let round = EnqueueSyndromes { decoder_id: 7, counter: 0, num_syndromes: count, bits: &[bits] };
            let len = round.write(&mut payload).expect("it fits");
            sessions.enqueue_syndromes(&payload[..len])
        };
        let get = |reset| {
            let question = GetCorrections { decoder_id: 7, return_size: 1, reset };
            let mut corrections = [9];
            sessions.get_corrections(&question.to_bytes(), &mut corrections).map(|_| corrections[0])
        };
        assert_eq!(bits(1, 1), DecodingStatus::Ok);
        assert!(sessions.replace(renewed(LARGER)));
        // The volume under way ends with the decoder that it began with.
        assert!(!sessions.free_replaced());
        assert_eq!((bits(1, 0), get(false), get(true)), (DecodingStatus::Ok, Ok(1), Ok(1)));
        assert_eq!((bits(2, 0), get(true)), (DecodingStatus::Ok, Err(DecodingStatus::NotReady)));
        assert!(sessions.free_replaced());
        assert_eq!((bits(1, 1), get(true)), (DecodingStatus::Ok, Ok(1)));
        assert_eq!(sessions.stats(7).map(|counts| counts.decodes), Some(2), "of both");
        // A reset ends any volume.
        assert_eq!(bits(1, 0), DecodingStatus::Ok);
        assert!(sessions.replace(renewed(CONFIG)));
        assert_eq!(sessions.reset_decoder(&reset_decoder(7)), DecodingStatus::Ok);
        assert_eq!((bits(2, 1), get(true)), (DecodingStatus::Ok, Ok(1)));
        let other = config(&CONFIG.replace("id: 7", "id: 8"));
        let other = Session::new(&other.decoders[0], Frame::Volume).expect("a decoder");
        assert!(!sessions.replace(vec![other]), "another id");
    }

    #[test]
    fn a_call_that_panicked_leaves_a_failed_session() {
        let sessions = Sessions::new(&CONFIG.parse().expect("valid"), Frame::Volume).expect("a decoder");
        let panicked = std::thread::scope(|scope| {
            let call = || {
                let _session = sessions.entries[0].hold();
                panic!("as a decoder might");
            };
            scope.spawn(call).join().is_err()
        });
        assert!(panicked);
        let question = GetCorrections { decoder_id: 7, return_size: 1, reset: true }.to_bytes();
        assert_eq!(sessions.get_corrections(&question, &mut [0]), Err(DecodingStatus::InternalError));
        assert_eq!(sessions.reset_decoder(&reset_decoder(7)), DecodingStatus::Ok);
        assert_eq!(sessions.enqueue_syndromes(&round()), DecodingStatus::Ok);
        assert_eq!(sessions.get_corrections(&question, &mut [0]), Ok(1));
    }
}
