//! Decoders with a deadline for each decode.

use ringcall_gpu::clock;
use ringcall_qec::decode::{DecodeError, Decoder, Matched};
use std::time::Duration;

/// A decoder each of whose decodes is cut off after a given time.
pub(crate) struct Timed {
    decoder: Box<dyn Decoder>,
    deadline_ns: u64,
}

impl Timed {
    pub(crate) fn new(decoder: Box<dyn Decoder>, deadline: Duration) -> Self {
        Self { decoder, deadline_ns: u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX) }
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
        let begin = clock::now_ns();
        let mut expired = || clock::now_ns().saturating_sub(begin) >= self.deadline_ns;
        self.decoder.decode_until(defects, observables, &mut expired)
    }
}
