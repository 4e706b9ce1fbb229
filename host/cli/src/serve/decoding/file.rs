//! Configuration file of a decoding server: reading, checks, and memory estimate.

use crate::memory::{Estimate, MemoryLimit};
use crate::usage::Misuse;
use anyhow::{Result, anyhow};
use ringcall_decoder_service::decoding_server::{Config, ConfigError, DecoderConfig};
use std::fs::File;
use std::io::Read;
use std::path::Path;

const MAX_FILE_BYTES: u64 = 1 << 26;
/// Memory for each byte of a file while it is read: most bytes belong to numbers of a few digits with a comma and a
/// blank.
const READING: u64 = 14;

/// The error in one line: file, line, key and reason.
pub(crate) fn refusal(path: &Path, error: &ConfigError) -> anyhow::Error {
    let ConfigError { line, key, reason } = error;
    let key = if key.is_empty() { String::new() } else { format!("{key}: ") };
    Misuse(format!("{}:{line}: {key}{reason}", path.display())).into()
}

/// Reads a file.
///
/// # Errors
/// [`Misuse`]: the file cannot be read, is too large, or is not a configuration.
pub(crate) fn read(path: &Path, memory: MemoryLimit) -> Result<Config> {
    let unreadable = |error: std::io::Error| anyhow!(Misuse(format!("{}: {error}", path.display())));
    // Opening a pipe without a writer would block, and a device may have no end.
    let found = std::fs::metadata(path).map_err(unreadable)?;
    if !found.is_file() {
        return Err(Misuse(format!("{}: this is no file", path.display())).into());
    }
    if found.len() > MAX_FILE_BYTES {
        let bytes = found.len();
        return Err(Misuse(format!(
            "{}: {bytes} bytes, and at most {MAX_FILE_BYTES} are read",
            path.display()
        ))
        .into());
    }
    memory.admit(&Estimate::process().file(READING * found.len()))?;
    let mut text = String::new();
    let file = File::open(path).map_err(unreadable)?;
    file.take(MAX_FILE_BYTES).read_to_string(&mut text).map_err(unreadable)?;
    text.parse().map_err(|error| refusal(path, &error))
}

/// The memory of the decoders and of reading the file, which is larger for small decoders.
pub(crate) fn estimate(path: &Path, config: &Config) -> Estimate {
    let text = std::fs::metadata(path).map_or(0, |found| found.len());
    let estimate = Estimate::process().file(READING * text);
    config.decoders.iter().fold(estimate, |estimate, decoder| {
        if let Some((each, _)) = decoder.endless() {
            return estimate.endless(each, decoder.is_correlated(), decoder.cores().get());
        }
        let model = decoder.model();
        match (decoder.is_relay(), decoder.ordered_statistics()) {
            (false, _) => estimate.model(&model, decoder.is_correlated()),
            (true, None) => estimate.relay(&model),
            (true, Some(order)) => estimate.relay(&model).ordered(order),
        }
    })
}

/// A warning, if decoders that share runs among cores want more of them than this process may use.
pub(crate) fn too_many_cores(config: &Config) -> Option<String> {
    let wanted: usize = config.decoders.iter().map(|decoder| decoder.cores().get()).sum();
    let allowed = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let shares = wanted > config.decoders.len();
    (shares && wanted > allowed).then(|| {
        format!("decoders of {wanted} cores, and {allowed} may be used: runs are decoded rightly, and late")
    })
}

/// A decoder in one line.
pub(crate) fn described(decoder: &DecoderConfig) -> String {
    let ordered = decoder
        .ordered_statistics()
        .map_or_else(String::new, |order| format!(", ordered statistics {order}"));
    let deadline = decoder
        .deadline()
        .map_or_else(String::new, |time| format!(", deadline {} us", time.as_nanos() as f64 / 1e3));
    let cores = match decoder.cores().get() {
        1 => String::new(),
        cores => format!(", {cores} cores"),
    };
    format!(
        "decoder {}: {}, {} measurements, {} detectors, {} errors, observables {}{ordered}{deadline}{cores}",
        decoder.id(),
        decoder.method(),
        decoder.measurements(),
        decoder.detectors(),
        decoder.errors(),
        decoder.observables()
    )
}
