//! `ringcall_decoder_*`: decoding of shots.

use super::{Answers, Decoder, State, array, find};
use crate::raw_ring::aligned;
use crate::status::{Fault, status};
use core::ffi::{c_int, c_void};

/// Numbers of a decoder.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ringcall_decoder_info_t {
    /// Detectors.
    pub num_detectors: u32,
    /// Observables.
    pub num_observables: u32,
    /// Bytes of a packed syndrome.
    pub syndrome_bytes: u32,
    /// Bytes of packed observables.
    pub observable_bytes: u32,
    /// The step of weights.
    pub weight_step: f64,
}

const _: () = assert!(size_of::<ringcall_decoder_info_t>() == 24);

/// Reports the sizes of a decoder's problem.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_get_info(
    decoder: *const c_void,
    out_info: *mut ringcall_decoder_info_t,
) -> c_int {
    status(|| {
        let decoder = find(decoder)?;
        aligned(out_info.cast_const(), 8, "out_info")?;
        let model = &decoder.model;
        let info = ringcall_decoder_info_t {
            num_detectors: model.num_detectors as u32,
            num_observables: model.num_observables as u32,
            syndrome_bytes: model.syndrome_bytes() as u32,
            observable_bytes: model.observable_bytes() as u32,
            weight_step: decoder.state()?.engine.weight_step(),
        };
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_info.write(info) };
        Ok(())
    })
}

/// Refuses a syndrome of another length than the decoder's.
fn check_length(found: usize, needed: usize, what: &str) -> Result<(), Fault> {
    if found == needed {
        return Ok(());
    }
    Err(Fault::invalid(format!("{found} {what} were given, and the decoder needs {needed}")))
}

/// One shot: its answer is packed.
///
/// # Safety
/// As `Answers::write` says.
unsafe fn packed(
    decoder: &Decoder,
    observables: *mut u8,
    room: usize,
    weight: *mut f64,
    decode: impl FnOnce(&mut State) -> Result<f64, Fault>,
) -> Result<(), Fault> {
    let answers = Answers::new(1, decoder.model.observable_bytes(), observables, room, weight)?;
    let mut state = decoder.state()?;
    let weight = decode(&mut state)?;
    // SAFETY: the caller's promise.
    unsafe { answers.write(0, state.observables.iter().copied(), weight) };
    Ok(())
}

/// Decodes a list of detectors that fired.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_decode(
    decoder: *const c_void,
    detectors: *const u32,
    count: usize,
    out_observables: *mut u8,
    out_bytes: usize,
    out_weight: *mut f64,
) -> c_int {
    status(|| {
        let decoder = find(decoder)?;
        // SAFETY: the header's contract.
        let detectors = unsafe { array(detectors, count, "detectors") }?;
        let decode = |state: &mut State| state.decode(detectors);
        // SAFETY: the header's contract.
        unsafe { packed(&decoder, out_observables, out_bytes, out_weight, decode) }
    })
}

/// Decodes a packed syndrome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_decode_bits(
    decoder: *const c_void,
    syndrome: *const u8,
    syndrome_bytes: usize,
    out_observables: *mut u8,
    out_bytes: usize,
    out_weight: *mut f64,
) -> c_int {
    status(|| {
        let decoder = find(decoder)?;
        check_length(syndrome_bytes, decoder.model.syndrome_bytes(), "bytes of syndrome")?;
        // SAFETY: the header's contract.
        let syndrome = unsafe { array(syndrome, syndrome_bytes, "the syndrome") }?;
        let decode = |state: &mut State| state.decode_bits(syndrome);
        // SAFETY: the header's contract.
        unsafe { packed(&decoder, out_observables, out_bytes, out_weight, decode) }
    })
}

/// Decodes a syndrome of a byte for each detector into a byte for each observable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_decode_bytes(
    decoder: *const c_void,
    syndrome: *const u8,
    num_detectors: usize,
    out_observables: *mut u8,
    out_bytes: usize,
    out_weight: *mut f64,
) -> c_int {
    status(|| {
        let decoder = find(decoder)?;
        check_length(num_detectors, decoder.model.num_detectors, "detectors")?;
        // SAFETY: the header's contract.
        let syndrome = unsafe { array(syndrome, num_detectors, "the syndrome") }?;
        let count = decoder.model.num_observables;
        let answers = Answers::new(1, count, out_observables, out_bytes, out_weight)?;
        let mut state = decoder.state()?;
        let weight = state.decode_bytes(syndrome)?;
        let observables = (0..count).map(|index| state.observables[index / 8] >> (index % 8) & 1);
        // SAFETY: the header's contract.
        unsafe { answers.write(0, observables, weight) };
        Ok(())
    })
}

/// Refuses syndromes that are not so many shots of `each` bytes, and places where nothing can be read or written.
pub(super) fn check_batch(
    shots: usize,
    each: usize,
    syndromes: *const u8,
    syndromes_bytes: usize,
    out_decoded: *mut usize,
) -> Result<(), Fault> {
    if shots.checked_mul(each) != Some(syndromes_bytes) {
        return Err(Fault::invalid(format!(
            "{syndromes_bytes} bytes of syndromes are not {shots} shots of {each} bytes"
        )));
    }
    if syndromes_bytes > 0 {
        aligned(syndromes, 1, "syndromes")?;
    }
    if !out_decoded.is_null() {
        aligned(out_decoded.cast_const(), align_of::<usize>(), "out_decoded")?;
    }
    Ok(())
}

/// Decodes packed shots, one after the other.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_decode_batch(
    decoder: *const c_void,
    shots: usize,
    syndromes: *const u8,
    syndromes_bytes: usize,
    out_observables: *mut u8,
    out_bytes: usize,
    out_weights: *mut f64,
    out_decoded: *mut usize,
) -> c_int {
    status(|| {
        let decoder = find(decoder)?;
        let (each, answer) = (decoder.model.syndrome_bytes(), decoder.model.observable_bytes());
        check_batch(shots, each, syndromes, syndromes_bytes, out_decoded)?;
        let answers = Answers::new(shots, answer, out_observables, out_bytes, out_weights)?;
        let mut state = decoder.state()?;
        let mut decoded = 0;
        let outcome = (0..shots).try_for_each(|shot| {
            // SAFETY: within the bytes that were counted, and the header's contract; not used when the answer is written.
            let syndrome = unsafe { array(syndromes.wrapping_add(shot * each), each, "syndromes") }?;
            let weight = state.decode_bits(syndrome).map_err(|fault| fault.of_shot(shot))?;
            // SAFETY: the header's contract.
            unsafe { answers.write(shot, state.observables.iter().copied(), weight) };
            decoded += 1;
            Ok(())
        });
        if !out_decoded.is_null() {
            // SAFETY: not null, aligned, and the header's contract.
            unsafe { out_decoded.write(decoded) };
        }
        outcome
    })
}
