//! Creation of Relay-BP decoders.

use super::create::{ROUNDLESS, dense, hand_out, model_of_file, model_of_text, priors_of, sparse};
use super::matrix::Columns;
use super::{Decoder, Engine};
use crate::raw_ring::copied;
use crate::status::Fault;
use core::ffi::{c_char, c_int, c_void};
use ringcall_qec::decode::{BpConfig, MEMORY_UNIT, OrderedStatistics, RelayDecoder};
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};

/// Settings of Relay-BP.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ringcall_relay_settings_t {
    /// Iterations of leg 0.
    pub first_iterations: u32,
    /// Iterations of each further leg.
    pub leg_iterations: u32,
    /// Further legs.
    pub legs: u32,
    /// Legs that shall converge.
    pub solutions: u32,
    /// Iterations of all legs together.
    pub max_iterations: u32,
    /// Names the memory strengths.
    pub seed: u32,
    /// Lanes that race.
    pub lanes: u32,
    /// Iterations that lanes after lane 0 start with.
    pub lane_delay: u32,
    /// -1: none; 0: order 0; more: a combination sweep of that order.
    pub ordered_statistics: i32,
    /// 0.
    pub reserved: u32,
    /// Memory strength of leg 0.
    pub first_gamma: f64,
    /// Least memory strength of further legs.
    pub min_gamma: f64,
    /// Greatest memory strength of further legs.
    pub max_gamma: f64,
    /// Share of the last message in the next.
    pub damping: f64,
}

const _: () = assert!(size_of::<ringcall_relay_settings_t>() == 72);

/// A factor in the steps of memory strengths.
fn steps(what: &str, factor: f64) -> Result<i16, Fault> {
    let steps = (factor * f64::from(MEMORY_UNIT)).round();
    // The decoder refuses numbers that are within, but not allowed.
    if !(-1024.0..=1024.0).contains(&steps) {
        return Err(Fault::invalid(format!("{what} is {factor}: it must be from -1 to 1")));
    }
    Ok(steps as i16)
}

/// The settings as the decoder has them; those published where `settings` is null.
///
/// # Safety
/// `settings` is null, or points to settings.
unsafe fn config(settings: *const ringcall_relay_settings_t) -> Result<BpConfig, Fault> {
    if settings.is_null() {
        return Ok(BpConfig::relay());
    }
    // SAFETY: not null, and the caller's promise.
    let settings = unsafe { copied(settings, "settings") }?;
    if settings.reserved != 0 {
        return Err(Fault::invalid(format!(
            "`reserved` of the settings is {}: it must be 0",
            settings.reserved
        )));
    }
    let ordered_statistics = match settings.ordered_statistics {
        -1 => None,
        0 => Some(OrderedStatistics::Zero),
        order => Some(OrderedStatistics::CombinationSweep(u32::try_from(order).map_err(|_| {
            Fault::invalid(format!("`ordered_statistics` is {order}: it is -1 for none, 0, or up to 1000"))
        })?)),
    };
    Ok(BpConfig {
        first_memory: steps("`first_gamma`", settings.first_gamma)?,
        memory: (steps("`min_gamma`", settings.min_gamma)?, steps("`max_gamma`", settings.max_gamma)?),
        damping: steps("`damping`", settings.damping)?,
        first_iterations: settings.first_iterations,
        leg_iterations: settings.leg_iterations,
        legs: settings.legs,
        solutions: settings.solutions,
        max_iterations: settings.max_iterations,
        seed: settings.seed,
        lanes: settings.lanes,
        lane_delay: settings.lane_delay,
        ordered_statistics,
    })
}

fn of_model(model: &DetectorErrorModel, config: &BpConfig) -> Result<Decoder, Fault> {
    let rounds = model.rounds().map_err(|error| error.to_string());
    Ok(Decoder::new(Engine::Relay(Box::new(RelayDecoder::from_dem(model, config)?)), rounds))
}

/// Of a matrix whose columns flip any number of detectors.
fn of_matrix(
    rows: [u32; 2],
    [checks, observables]: &[Columns; 2],
    priors: Option<&[f64]>,
    config: &BpConfig,
) -> Result<Decoder, Fault> {
    let priors = priors
        .ok_or_else(|| Fault::invalid("priors is null: Relay-BP needs the probability of each error"))?;
    if let Some(column) = priors.iter().position(|prior| !(0.0..=1.0).contains(prior)) {
        let prior = priors[column];
        return Err(Fault::invalid(format!(
            "the prior of column {column} is {prior}: it must be a probability"
        )));
    }
    let mechanism = |column: usize| Mechanism {
        probability: priors[column],
        detectors: checks.rows_of(column).to_vec(),
        observables: observables.rows_of(column).to_vec(),
        components: Vec::new(),
    };
    let model = DetectorErrorModel {
        num_detectors: rows[0],
        num_observables: rows[1],
        mechanisms: (0..checks.count()).map(mechanism).collect(),
        coordinates: Vec::new(),
    };
    let engine = Engine::Relay(Box::new(RelayDecoder::from_dem(&model, config)?));
    Ok(Decoder::new(engine, Err(ROUNDLESS.to_owned())))
}

/// Makes a decoder by Relay-BP of a detector error model's text.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_relay_from_dem(
    text: *const c_char,
    text_bytes: usize,
    settings: *const ringcall_relay_settings_t,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        // SAFETY: the header's contract.
        let config = unsafe { config(settings) }?;
        // SAFETY: the header's contract.
        of_model(&unsafe { model_of_text(text, text_bytes) }?, &config)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// Makes a decoder by Relay-BP of a file with a detector error model.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_relay_from_dem_file(
    path: *const c_char,
    settings: *const ringcall_relay_settings_t,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        // SAFETY: the header's contract.
        let config = unsafe { config(settings) }?;
        // SAFETY: the header's contract.
        of_model(&unsafe { model_of_file(path) }?, &config)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// Makes a decoder by Relay-BP of a check matrix of a byte for each entry.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_relay_from_check_matrix(
    num_detectors: u32,
    num_observables: u32,
    num_errors: u32,
    checks: *const u8,
    observables: *const u8,
    priors: *const f64,
    settings: *const ringcall_relay_settings_t,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        // SAFETY: the header's contract.
        let config = unsafe { config(settings) }?;
        let (rows, columns) = ([num_detectors, num_observables], num_errors as usize);
        // SAFETY: the header's contract: so many bytes are there.
        let matrices = unsafe { dense(rows, columns, [checks, observables]) }?;
        // SAFETY: the header's contract.
        let priors = unsafe { priors_of(priors, columns) }?;
        of_matrix(rows, &matrices, priors, &config)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}

/// Makes a decoder by Relay-BP of a check matrix in compressed columns.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_create_relay_from_sparse_check_matrix(
    num_detectors: u32,
    num_observables: u32,
    num_errors: u32,
    check_offsets: *const u64,
    check_rows: *const u32,
    observable_offsets: *const u64,
    observable_rows: *const u32,
    priors: *const f64,
    settings: *const ringcall_relay_settings_t,
    out_decoder: *mut *mut c_void,
) -> c_int {
    let make = || {
        // SAFETY: the header's contract.
        let config = unsafe { config(settings) }?;
        let (rows, columns) = ([num_detectors, num_observables], num_errors as usize);
        let (checks, flips) = ((check_offsets, check_rows), (observable_offsets, observable_rows));
        // SAFETY: the header's contract.
        let matrices = unsafe { sparse(rows, columns, checks, flips) }?;
        // SAFETY: the header's contract.
        let priors = unsafe { priors_of(priors, columns) }?;
        of_matrix(rows, &matrices, priors, &config)
    };
    // SAFETY: the header's contract.
    unsafe { hand_out(out_decoder, make) }
}
