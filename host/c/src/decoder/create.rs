//! Creation and destruction of decoders.

use super::matrix::{self, Columns};
use super::{DECODERS, Decoder, Engine, array};
use crate::raw_ring::aligned;
use crate::status::{Fault, status};
use core::ffi::{CStr, c_char, c_int, c_void};
use ringcall_qec::decode::{DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
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

/// Why the rounds of a check matrix are not known.
pub(super) const ROUNDLESS: &str = "a check matrix does not say which round a detector belongs to";

fn of_model(model: &DetectorErrorModel, engine: MatchingEngine) -> Result<Decoder, Fault> {
    let graph = DecodingGraph::from_dem(model, ParallelEdges::Independent)?;
    let rounds = model.rounds().map_err(|error| error.to_string());
    Ok(Decoder::new(Engine::Matching(Box::new(MatchingDecoder::new(&graph, engine)?)), rounds))
}

fn of_matrix(graph: &DecodingGraph) -> Result<Decoder, Fault> {
    let engine = MatchingDecoder::new(graph, MatchingEngine::SparseBlossom)?;
    Ok(Decoder::new(Engine::Matching(Box::new(engine)), Err(ROUNDLESS.to_owned())))
}

/// The model in a text.
///
/// # Safety
/// `text` is null, or so many bytes are there.
pub(super) unsafe fn model_of_text(
    text: *const c_char,
    text_bytes: usize,
) -> Result<DetectorErrorModel, Fault> {
    aligned(text, 1, "the text")?;
    // SAFETY: the caller's promise.
    let text = unsafe { array(text.cast::<u8>(), text_bytes, "the text") }?;
    text::parse_bytes(text).map_err(|error| Fault::invalid(error.to_string()))
}

/// The model in a regular file.
///
/// # Safety
/// `path` is null, or a string that ends in a NUL.
pub(super) unsafe fn model_of_file(path: *const c_char) -> Result<DetectorErrorModel, Fault> {
    aligned(path, 1, "the path")?;
    // SAFETY: not null, and the caller's promise.
    let path = unsafe { CStr::from_ptr(path) };
    let path = path.to_str().map_err(|_| Fault::invalid("the path is not UTF-8"))?;
    let refused = |why: String| Fault::invalid(format!("{path}: {why}"));
    // A pipe without a writer would be waited for, and a device may have no end.
    let found = std::fs::metadata(path).map_err(|error| refused(error.to_string()))?;
    if !found.is_file() {
        return Err(refused("this is no file".to_owned()));
    }
    let file = std::fs::File::open(path).map_err(|error| refused(error.to_string()))?;
    text::read(BufReader::new(file), Limits::default()).map_err(|error| refused(error.to_string()))
}

/// A check matrix and its observables, of a byte for each entry.
///
/// # Safety
/// Each matrix is null, or has as many bytes as rows and columns say.
pub(super) unsafe fn dense(
    [detectors, observables]: [u32; 2],
    columns: usize,
    matrices: [*const u8; 2],
) -> Result<[Columns; 2], Fault> {
    matrix::check_rows(detectors, observables)?;
    // SAFETY: the caller's promise.
    let checks = unsafe { array(matrices[0], detectors as usize * columns, "the check matrix") }?;
    let entries = observables as usize * columns;
    // SAFETY: the caller's promise.
    let flips = unsafe { array(matrices[1], entries, "the observables matrix") }?;
    let checks = Columns::of_rows(checks, columns, "check matrix")?;
    Ok([checks, Columns::of_rows(flips, columns, "observables matrix")?])
}

/// The same of compressed columns: offsets and rows of each.
///
/// # Safety
/// As [`compressed`] says, of both.
pub(super) unsafe fn sparse(
    [detectors, observables]: [u32; 2],
    columns: usize,
    checks: (*const u64, *const u32),
    flips: (*const u64, *const u32),
) -> Result<[Columns; 2], Fault> {
    matrix::check_rows(detectors, observables)?;
    // SAFETY: the caller's promise.
    let checks = unsafe { compressed(checks.0, checks.1, detectors, columns, "check matrix") }?;
    let flips = if flips.0.is_null() && observables == 0 {
        Columns::empty(columns)
    } else {
        // SAFETY: the caller's promise.
        unsafe { compressed(flips.0, flips.1, observables, columns, "observables matrix") }?
    };
    Ok([checks, flips])
}

/// Makes a decoder and hands out its handle. Where that goes is looked at first.
///
/// # Safety
/// `out` is null, or a pointer may be written there.
pub(super) unsafe fn hand_out(out: *mut *mut c_void, make: impl FnOnce() -> Result<Decoder, Fault>) -> c_int {
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
        // SAFETY: the header's contract.
        of_model(&unsafe { model_of_text(text, text_bytes) }?, engine)
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
        // SAFETY: the header's contract.
        of_model(&unsafe { model_of_file(path) }?, engine)
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
        let (rows, columns) = ([num_detectors, num_observables], num_errors as usize);
        // SAFETY: the header's contract: so many bytes are there.
        let [checks, observables] = unsafe { dense(rows, columns, [checks, observables]) }?;
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
        let (rows, columns) = ([num_detectors, num_observables], num_errors as usize);
        let (checks, flips) = ((check_offsets, check_rows), (observable_offsets, observable_rows));
        // SAFETY: the header's contract.
        let [checks, observables] = unsafe { sparse(rows, columns, checks, flips) }?;
        // SAFETY: the header's contract.
        let priors = unsafe { priors_of(priors, columns) }?;
        of_matrix(&matrix::graph(num_detectors, num_observables, &checks, &observables, priors)?)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// # Safety
/// `priors` is null, or one is there for each of the columns.
pub(super) unsafe fn priors_of<'a>(priors: *const f64, columns: usize) -> Result<Option<&'a [f64]>, Fault> {
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
