//! Decoders of C programs: matching and Relay-BP. The contract is in `ringcall_decoder.h`.
//!
//! Answers are written through the caller's pointers when a shot has been decoded, and nothing of the caller's is borrowed then: a
//! caller whose arrays overlap gets wrong answers, and no more.

pub(crate) mod api;
pub(crate) mod create;
mod matrix;
pub(crate) mod relay;
pub(crate) mod shots;
pub(crate) mod slot;
pub(crate) mod stream;

use crate::handles::Registry;
use crate::raw_ring::{aligned, array};
use crate::status::Fault;
use core::ffi::c_void;
use ringcall_matching::{MatchingError, RoundsError, set_bits};
use ringcall_qec::decode::{DecodeError, Decoder as Decode, Matched, MatchingDecoder, RelayDecoder};
use std::cell::RefCell;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::LocalKey;
use std::time::{Duration, Instant};

/// What the registry has is held for a moment only, so that a handle names nothing any more once it has been removed; calls hold the
/// decoder in it.
static DECODERS: Registry<Arc<Decoder>> = Registry::new("decoder");

/// The handle that a thread named last, and what it named.
type Latest<T> = RefCell<(usize, Weak<Arc<T>>)>;

thread_local! {
    static LATEST: Latest<Decoder> = const { RefCell::new((0, Weak::new())) };
}

/// What a handle names. A thread that names the same one again does not take the registry's lock, at which threads that decode would
/// wait for one another.
fn named<T>(
    registry: &Registry<Arc<T>>,
    latest: &'static LocalKey<Latest<T>>,
    handle: *const c_void,
) -> Result<Arc<T>, Fault> {
    let again = latest.try_with(|latest| {
        let (last, live) = &*latest.borrow();
        (*last == handle.addr()).then(|| live.upgrade()).flatten().map(|live| Arc::clone(&*live))
    });
    if let Ok(Some(again)) = again {
        return Ok(again);
    }
    let live = registry.get(handle)?;
    // A thread that is ending remembers nothing.
    let _ = latest.try_with(|latest| *latest.borrow_mut() = (handle.addr(), Arc::downgrade(&live)));
    Ok(Arc::clone(&live))
}

fn find(handle: *const c_void) -> Result<Arc<Decoder>, Fault> {
    named(&DECODERS, &LATEST, handle)
}

impl From<DecodeError> for Fault {
    #[cold]
    fn from(error: DecodeError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<MatchingError> for Fault {
    #[cold]
    fn from(error: MatchingError) -> Self {
        Self::invalid(error.to_string())
    }
}

impl From<RoundsError> for Fault {
    fn from(error: RoundsError) -> Self {
        Self::invalid(error.to_string())
    }
}

/// What decoders of one model share beside the tables.
#[derive(Debug)]
struct Model {
    num_detectors: usize,
    num_observables: usize,
    /// The round of each detector, or why it is not known.
    rounds: Result<Vec<u32>, String>,
}

/// A decoder: one shot at a time.
#[derive(Debug)]
pub(crate) struct Decoder {
    model: Arc<Model>,
    state: Mutex<State>,
}

/// What decodes.
#[derive(Debug, Clone)]
enum Engine {
    Matching(Box<MatchingDecoder>),
    Relay(Box<RelayDecoder>),
}

/// The step of Relay-BP's weights: priors are whole eighths.
const RELAY_WEIGHT_STEP: f64 = 0.125;

impl Engine {
    fn decoder(&mut self) -> &mut dyn Decode {
        match self {
            Self::Matching(matching) => &mut **matching,
            Self::Relay(relay) => &mut **relay,
        }
    }

    /// Detectors and observables.
    fn shape(&self) -> [usize; 2] {
        let [detectors, observables] = match self {
            Self::Matching(matching) => [matching.num_detectors(), matching.num_observables()],
            Self::Relay(relay) => [relay.num_detectors(), relay.num_observables()],
        };
        [detectors as usize, observables as usize]
    }

    fn weight_step(&self) -> f64 {
        match self {
            Self::Matching(matching) => matching.weight_step(),
            Self::Relay(_) => RELAY_WEIGHT_STEP,
        }
    }

    /// The weight as C programs see it: infinite where the correction does not explain the syndrome.
    fn weight(matched: &Matched) -> f64 {
        if matched.converged { matched.weight } else { f64::INFINITY }
    }
}

#[derive(Debug)]
struct State {
    engine: Engine,
    /// Scratch: a syndrome as words and as a list, and the observables of the answer.
    words: Vec<u64>,
    defects: Vec<u32>,
    observables: Vec<u8>,
}

impl Decoder {
    fn new(engine: Engine, rounds: Result<Vec<u32>, String>) -> Self {
        let [num_detectors, num_observables] = engine.shape();
        Self {
            model: Arc::new(Model { num_detectors, num_observables, rounds }),
            state: Mutex::new(State::new(engine)),
        }
    }

    /// Another one, with the same tables.
    fn another(&self) -> Result<Self, Fault> {
        let engine = self.state()?.engine.clone();
        Ok(Self { model: Arc::clone(&self.model), state: Mutex::new(State::new(engine)) })
    }

    fn state(&self) -> Result<MutexGuard<'_, State>, Fault> {
        unspoilt(&self.state, "decoder")
    }
}

/// What is behind a lock, unless a call panicked there, which leaves it in no state to go on from.
fn unspoilt<'a, T>(mutex: &'a Mutex<T>, what: &str) -> Result<MutexGuard<'a, T>, Fault> {
    mutex.lock().map_err(|_: PoisonError<_>| {
        Fault::internal(format!(
            "a fault of the library: an earlier call on this {what} panicked; destroy it"
        ))
    })
}

impl Model {
    /// Bytes of a packed syndrome.
    fn syndrome_bytes(&self) -> usize {
        self.num_detectors.div_ceil(8)
    }

    /// Bytes of the packed observables.
    fn observable_bytes(&self) -> usize {
        self.num_observables.div_ceil(8)
    }
}

impl State {
    fn new(engine: Engine) -> Self {
        let [detectors, observables] = engine.shape();
        Self {
            words: Vec::with_capacity(detectors.div_ceil(64)),
            defects: Vec::with_capacity(detectors),
            observables: vec![0; observables.div_ceil(8)],
            engine,
        }
    }

    /// Decodes detectors that fired; the observables are then in `observables`. The weight.
    fn decode(&mut self, defects: &[u32]) -> Result<f64, Fault> {
        Ok(Engine::weight(&self.engine.decoder().decode(defects, &mut self.observables)?))
    }

    fn decode_defects(&mut self) -> Result<f64, Fault> {
        Ok(Engine::weight(&self.engine.decoder().decode(&self.defects, &mut self.observables)?))
    }

    /// The same, for so long, if a limit is given.
    fn decode_within(&mut self, limit: Option<Duration>) -> Result<Matched, Fault> {
        let Self { engine, defects, observables, .. } = self;
        let decoder = engine.decoder();
        let Some(limit) = limit else { return Ok(decoder.decode(defects, observables)?) };
        let begin = Instant::now();
        Ok(decoder.decode_until(defects, observables, &mut || begin.elapsed() >= limit)?)
    }

    /// How many iterations the last shot took, and how many legs converged; 0 of matching.
    fn iterations(&self) -> [u32; 2] {
        match &self.engine {
            Engine::Matching(_) => [0; 2],
            Engine::Relay(relay) => {
                relay.outcome().map_or([0; 2], |outcome| [outcome.iterations, outcome.solutions])
            }
        }
    }

    /// Decodes a packed syndrome of just as many bytes as the detectors need.
    fn decode_bits(&mut self, syndrome: &[u8]) -> Result<f64, Fault> {
        self.read_bits(syndrome)?;
        self.decode_defects()
    }

    /// Lists the detectors of a packed syndrome.
    fn read_bits(&mut self, syndrome: &[u8]) -> Result<(), Fault> {
        let [detectors, _] = self.engine.shape();
        if let Some(&last) = syndrome.last().filter(|_| !detectors.is_multiple_of(8))
            && last >> (detectors % 8) != 0
        {
            return Err(Fault::invalid(format!(
                "the last byte of the syndrome is {last:#04x}: it has bits after those of {detectors} detectors"
            )));
        }
        self.words.clear();
        self.words.extend(syndrome.chunks(8).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        }));
        self.defects.clear();
        set_bits(&self.words, &mut self.defects);
        Ok(())
    }

    /// Decodes a syndrome of a byte for each detector.
    fn decode_bytes(&mut self, syndrome: &[u8]) -> Result<f64, Fault> {
        self.defects.clear();
        for (detector, &byte) in syndrome.iter().enumerate().filter(|(_, byte)| **byte != 0) {
            if byte != 1 {
                return Err(Fault::invalid(format!(
                    "detector {detector} of the syndrome is {byte}: it must be 0 or 1"
                )));
            }
            self.defects.push(detector as u32);
        }
        self.decode_defects()
    }
}

/// Where the answers of shots go, checked before anything is decoded.
struct Answers {
    observables: *mut u8,
    /// Bytes of each shot's.
    each: usize,
    weights: *mut f64,
}

impl Answers {
    /// For `shots` shots of `each` bytes in `room`; `weights` may be null.
    fn new(
        shots: usize,
        each: usize,
        observables: *mut u8,
        room: usize,
        weights: *mut f64,
    ) -> Result<Self, Fault> {
        let needed = shots.checked_mul(each).filter(|&needed| needed <= room);
        if needed.is_none() {
            return Err(Fault::invalid(format!(
                "room for {room} bytes of observables is too short: {shots} shots need {each} each"
            )));
        }
        if needed != Some(0) {
            aligned(observables.cast_const(), 1, "observables")?;
        }
        if !weights.is_null() {
            aligned(weights.cast_const(), align_of::<f64>(), "the weight")?;
        }
        Ok(Self { observables, each, weights })
    }

    /// Writes the answer of a shot; `observables` are `each`.
    ///
    /// # Safety
    /// `shot` is one of the shots, and what `new` was given may be written, as far as it said.
    unsafe fn write(&self, shot: usize, observables: impl Iterator<Item = u8>, weight: f64) {
        let first = shot * self.each;
        for (at, byte) in (first..first + self.each).zip(observables) {
            // SAFETY: within the room that was checked, and the caller's promise.
            unsafe { self.observables.wrapping_add(at).write(byte) };
        }
        if !self.weights.is_null() {
            // SAFETY: not null, aligned, and the caller's promise.
            unsafe { self.weights.wrapping_add(shot).write(weight) };
        }
    }
}
