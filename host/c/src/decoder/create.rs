//! Making decoders, and ending them.

use super::matrix::{self, Columns};
use super::{DECODERS, Decoder, array};
use crate::raw_ring::aligned;
use crate::status::{Fault, status};
use core::ffi::{CStr, c_char, c_int, c_void};
use ringcall_qec::decode::{MatchingDecoder, MatchingEngine, MatchingGraph, ParallelEdges};
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::dem::text::{self, Limits};
use std::io::BufReader;
use std::sync::Arc;

/// Which engine a `ringcall_matching_t` is.
fn engine(matching: c_int) -> Result<MatchingEngine, Fault> {
    match matching {
        0 => Ok(MatchingEngine::SparseBlossom),
        1 => Ok(MatchingEngine::CorrelatedBlossom),
        2 => Ok(MatchingEngine::Ensemble),
        _ => Err(Fault::invalid(format!("there is no kind {matching} of matching"))),
    }
}

fn of_model(model: &DetectorErrorModel, engine: MatchingEngine) -> Result<Decoder, Fault> {
    let graph = MatchingGraph::from_dem(model, ParallelEdges::Independent)?;
    let rounds = model.rounds().map_err(|error| error.to_string());
    Ok(Decoder::new(MatchingDecoder::new(&graph, engine)?, rounds))
}

fn of_matrix(graph: &MatchingGraph) -> Result<Decoder, Fault> {
    let rounds = Err("a check matrix does not say which round a detector belongs to".to_owned());
    Ok(Decoder::new(MatchingDecoder::new(graph, MatchingEngine::SparseBlossom)?, rounds))
}

/// Makes a decoder and hands out its handle. Where that goes is looked at first.
///
/// # Safety
/// `out` is null, or a pointer may be written there.
unsafe fn hand_out(out: *mut *mut c_void, make: impl FnOnce() -> Result<Decoder, Fault>) -> c_int {
    status(|| {
        aligned(out.cast_const(), 8, "out_decoder")?;
        let handle = DECODERS.insert(Arc::new(Arc::new(make()?)));
        // SAFETY: not null, aligned, and the caller's promise.
        unsafe { out.write(handle) };
        Ok(())
    })
}

/// Makes a decoder of a detector error model's text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_from_dem(
    text: *const c_char,
    text_bytes: usize,
    matching: c_int,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        let engine = engine(matching)?;
        aligned(text, 1, "the text")?;
        // SAFETY: the header's contract.
        let text = unsafe { array(text.cast::<u8>(), text_bytes, "the text") }?;
        let model = text::parse_bytes(text).map_err(|error| Fault::invalid(error.to_string()))?;
        of_model(&model, engine)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// Makes a decoder of a file with a detector error model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_from_dem_file(
    path: *const c_char,
    matching: c_int,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        let engine = engine(matching)?;
        aligned(path, 1, "the path")?;
        // SAFETY: not null, and the header's contract.
        let path = unsafe { CStr::from_ptr(path) };
        let path = path.to_str().map_err(|_| Fault::invalid("the path is not UTF-8"))?;
        let refused = |why: String| Fault::invalid(format!("{path}: {why}"));
        // A pipe without a writer would be waited for, and a device may have no end.
        let found = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
        if !found.is_file() {
            return Err(refused("this is no file".to_owned()));
        }
        let file = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
        let model = text::read(BufReader::new(file), Limits::default());
        of_model(&model.map_err(|error| refused(error.to_string()))?, engine)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// Makes a decoder of a check matrix of a byte for each entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_from_check_matrix(
    num_detectors: u32,
    num_observables: u32,
    num_errors: u32,
    checks: *const u8,
    observables: *const u8,
    priors: *const f64,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        matrix::check_rows(num_detectors, num_observables)?;
        let columns = num_errors as usize;
        // SAFETY: the header's contract: so many bytes are there.
        let checks = unsafe { array(checks, num_detectors as usize * columns, "the check matrix") }?;
        let entries = num_observables as usize * columns;
        // SAFETY: the header's contract: so many bytes are there.
        let observables = unsafe { array(observables, entries, "the observables matrix") }?;
        let (checks, observables) = (
            Columns::of_rows(checks, columns, "check matrix")?,
            Columns::of_rows(observables, columns, "observables matrix")?,
        );
        // SAFETY: the header's contract.
        let priors = unsafe { priors_of(priors, columns) }?;
        of_matrix(&matrix::graph(num_detectors, num_observables, &checks, &observables, priors)?)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// Makes a decoder of a check matrix in compressed columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_from_sparse_check_matrix(
    num_detectors: u32,
    num_observables: u32,
    num_errors: u32,
    check_offsets: *const u64,
    check_rows: *const u32,
    observable_offsets: *const u64,
    observable_rows: *const u32,
    priors: *const f64,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        matrix::check_rows(num_detectors, num_observables)?;
        let columns = num_errors as usize;
        // SAFETY: the header's contract.
        let checks =
            unsafe { compressed(check_offsets, check_rows, num_detectors, columns, "check matrix") }?;
        let observables = if observable_offsets.is_null() && num_observables == 0 {
            Columns::empty(columns)
        } else {
            let (offsets, rows) = (observable_offsets, observable_rows);
            // SAFETY: the header's contract.
            unsafe { compressed(offsets, rows, num_observables, columns, "observables matrix") }?
        };
        // SAFETY: the header's contract.
        let priors = unsafe { priors_of(priors, columns) }?;
        of_matrix(&matrix::graph(num_detectors, num_observables, &checks, &observables, priors)?)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// # Safety
/// `priors` is null, or one is there for each of the columns.
unsafe fn priors_of<'a>(priors: *const f64, columns: usize) -> Result<Option<&'a [f64]>, Fault> {
    if priors.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { array(priors, columns, "priors") }.map(Some)
}

/// # Safety
/// `offsets` is null, or `columns + 1` are there; `at` is null, or as many as the last of them says are there.
unsafe fn compressed(
    offsets: *const u64,
    at: *const u32,
    rows: u32,
    columns: usize,
    what: &'static str,
) -> Result<Columns, Fault> {
    // SAFETY: the caller's promise.
    let offsets = unsafe { array(offsets, columns + 1, &format!("the offsets of the {what}")) }?;
    matrix::check_offsets(offsets, what)?;
    let count = offsets.last().map_or(0, |&last| last) as usize;
    // SAFETY: the caller's promise.
    let at = unsafe { array(at, count, &format!("the rows of the {what}")) }?;
    Columns::compressed(offsets, at, rows, what)
}

/// Makes another decoder with the tables of one.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_clone(
    decoder: *const c_void,
    out_decoder: *mut *mut c_void,
) -> c_int {
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, || DECODERS.get(decoder)?.another()) }
}

/// Ends a decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_destroy(decoder: *mut c_void) -> c_int {
    status(|| DECODERS.remove(decoder).map(drop))
}
