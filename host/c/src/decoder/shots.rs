//! Decoding of shots with an outcome for each.

use super::{Answers, Engine, array, find};
use crate::raw_ring::aligned;
use crate::status::{Fault, status};
use core::ffi::{c_int, c_void};
use ringcall_qec::decode::Matched;
use ringcall_wire::qec::DecodeResponse;
use std::time::Duration;

/// A decoder's outcome for an answer.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ringcall_decoder_outcome_t {
    /// As `total_corrections` of `decode_syndrome`.
    pub corrections: i32,
    /// As `converged` of `decode_syndrome`.
    pub converged: i32,
    /// Iterations of Relay-BP.
    pub iterations: u32,
    /// Legs of Relay-BP that converged.
    pub solutions: u32,
    /// The weight.
    pub weight: f64,
    /// The logarithm of the odds that the observables are right; NaN where the decoder does not say.
    pub confidence: f64,
}

const _: () = assert!(size_of::<ringcall_decoder_outcome_t>() == 32);

/// How long a shot may take: no limit where it is 0.
pub(super) fn limit(ns: u64) -> Option<Duration> {
    (ns > 0).then(|| Duration::from_nanos(ns))
}

/// What `decode_syndrome` says of an answer.
pub(super) fn response(matched: &Matched) -> DecodeResponse {
    let converged = match matched {
        Matched { late: true, .. } => DecodeResponse::LATE,
        Matched { converged, .. } => i32::from(*converged),
    };
    DecodeResponse { total_corrections: i32::try_from(matched.corrections).unwrap_or(i32::MAX), converged }
}

/// Decodes packed shots, one after the other, each within a limit, and says of each how it ended.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_decode_shots(
    decoder: *const c_void,
    limit_ns: u64,
    shots: usize,
    syndromes: *const u8,
    syndromes_bytes: usize,
    out_observables: *mut u8,
    out_bytes: usize,
    out_outcomes: *mut ringcall_decoder_outcome_t,
    out_decoded: *mut usize,
) -> c_int {
    status(|| {
        let decoder = find(decoder)?;
        let (each, answer) = (decoder.model.syndrome_bytes(), decoder.model.observable_bytes());
        super::api::check_batch(shots, each, syndromes, syndromes_bytes, out_decoded)?;
        let answers = Answers::new(shots, answer, out_observables, out_bytes, core::ptr::null_mut())?;
        if shots > 0 {
            aligned(out_outcomes.cast_const(), align_of::<f64>(), "out_outcomes")?;
        }
        let mut state = decoder.state()?;
        let mut decoded = 0;
        let ended = (0..shots).try_for_each(|shot| {
            // SAFETY: within the bytes that were counted, and the header's contract; not used when the answer is written.
            let syndrome = unsafe { array(syndromes.wrapping_add(shot * each), each, "syndromes") }?;
            let decode = state.read_bits(syndrome).and_then(|()| state.decode_within(limit(limit_ns)));
            let matched = decode.map_err(|fault| fault.of_shot(shot))?;
            let DecodeResponse { total_corrections, converged } = response(&matched);
            let [iterations, solutions] = state.iterations();
            let outcome = ringcall_decoder_outcome_t {
                corrections: total_corrections,
                converged,
                iterations,
                solutions,
                weight: Engine::weight(&matched),
                confidence: matched.confidence.unwrap_or(f64::NAN),
            };
            // SAFETY: the header's contract.
            unsafe { answers.write(shot, state.observables.iter().copied(), outcome.weight) };
            // SAFETY: aligned, not null, and the header's contract: one for each shot.
            unsafe { out_outcomes.wrapping_add(shot).write(outcome) };
            decoded += 1;
            Ok::<(), Fault>(())
        });
        if !out_decoded.is_null() {
            // SAFETY: not null, aligned, and the header's contract.
            unsafe { out_decoded.write(decoded) };
        }
        ended
    })
}
