//! Decoders that are cut off when their time is up, or when they are cancelled.

use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use ringcall_qec::decode::{DecodeError, Decoder, Matched};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

/// Cancels decodes from any thread: those under way, and those that begin later. Clones cancel the same decodes.
///
/// ```
/// use ringcall_decoder_service::{Cancellation, Problem};
/// use ringcall_qec::decode::{DecoderFamily, DecoderOptions};
/// use std::time::Duration;
///
/// let model = ringcall_qec::dem::text::parse("error(0.1) D0 D1 D2 L0\nerror(0.1) D1")?;
/// let cancellation = Cancellation::default();
/// let options = DecoderOptions { family: Some(DecoderFamily::Relay), ..DecoderOptions::default() };
/// let problem = Problem::with_decoder(model, &options)?.cancelled_by(&cancellation);
/// let (mut decoder, mut observables) = (problem.decoder()?, [0]);
/// assert!(!decoder.decode(&[1], &mut observables)?.late);
/// cancellation.cancel_after(Duration::ZERO);
/// assert!(decoder.decode(&[1], &mut observables)?.late);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Cancellation {
    /// When, by the clock of this process; the largest value is never.
    at_ns: Arc<DeviceU64>,
}

impl Default for Cancellation {
    fn default() -> Self {
        Self { at_ns: Arc::new(DeviceU64::new(u64::MAX)) }
    }
}

impl Cancellation {
    /// Cancels decodes once so much time has passed from now on.
    pub fn cancel_after(&self, time: Duration) {
        let ns = u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        self.at_ns.store(clock::now_ns().saturating_add(ns), Ordering::Relaxed);
    }

    /// Whether decodes are cancelled. The clock is read only where an end was set.
    fn is_due(&self) -> bool {
        let at_ns = self.at_ns.load(Ordering::Relaxed);
        at_ns != u64::MAX && clock::now_ns() >= at_ns
    }
}

/// A decoder each of whose decodes may take so long, from its begin on, and that is cancelled.
pub(crate) struct Timed {
    decoder: Box<dyn Decoder>,
    deadline_ns: Option<u64>,
    cancellation: Cancellation,
}

impl Timed {
    pub(crate) fn new(
        decoder: Box<dyn Decoder>,
        deadline: Option<Duration>,
        cancellation: Cancellation,
    ) -> Self {
        let deadline_ns = deadline.map(|deadline| u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX));
        Self { decoder, deadline_ns, cancellation }
    }
}

impl Timed {
    /// The same decoder, cancelled by `cancellation` in place of its own.
    pub(crate) fn cancelled_by(&mut self, cancellation: &Cancellation) {
        self.cancellation = cancellation.clone();
    }
}

impl Decoder for Timed {
    fn num_detectors(&self) -> u32 {
        self.decoder.num_detectors()
    }

    fn num_observables(&self) -> u32 {
        self.decoder.num_observables()
    }

    fn decode(&mut self, defects: &[u32], observables: &mut [u8]) -> Result<Matched, DecodeError> {
        let Self { decoder, deadline_ns, cancellation } = self;
        match *deadline_ns {
            Some(deadline_ns) => {
                let begin = clock::now_ns();
                let mut expired =
                    || clock::now_ns().saturating_sub(begin) >= deadline_ns || cancellation.is_due();
                decoder.decode_until(defects, observables, &mut expired)
            }
            None => decoder.decode_until(defects, observables, &mut || cancellation.is_due()),
        }
    }
}
