//! Configurations of detector error models, as text.

use ringcall_qec::decode::{DecodeError, DecodingGraph, ParallelEdges};
use ringcall_qec::dem::{Component, DetectorErrorModel, Mechanism};
use std::collections::HashMap;
use std::fmt::Write;
use std::num::NonZeroUsize;

/// Why a model has no configuration.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WriteError {
    /// The model has no error, no detector or no observable.
    #[error("a model without errors, detectors or observables has nothing to decode")]
    Empty,
    /// Matching cannot decode the model.
    #[error(transparent)]
    Graph(#[from] DecodeError),
}

/// Columns of a check matrix: the detectors and observables of each, and its probability.
type Column = (Vec<u32>, Vec<u32>, f64);

/// The configuration of `decoders` decoders of a model, with ids from 0, whose measurements are the model's detectors: matching
/// with a column for each edge, or Relay-BP (`relay`) with a column for each error.
///
/// ```
/// use ringcall_decoder_service::decoding_server::{Config, write};
///
/// let model = ringcall_qec::dem::text::parse("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0")?;
/// let config: Config = write(&model, 2, false)?.parse()?;
/// assert_eq!((config.decoders.len(), config.decoders[1].errors()), (2, 3));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// A model with nothing to decode, or one that matching cannot decode.
pub fn write(model: &DetectorErrorModel, decoders: usize, relay: bool) -> Result<String, WriteError> {
    let columns = if relay { errors(model) } else { edges(model)? };
    let (kind, arguments) = if relay {
        let relay = "max_iterations: 60\n      bp_method: 3\n      composition: 1\n      gamma0: 0.125\n      \
                     gamma_dist: [-0.24, 0.66]\n      srelay_config: { pre_iter: 80, num_sets: 300, stopping_criterion: FirstConv }";
        ("nv-qldpc-decoder", relay.to_owned())
    } else {
        ("pymatching", "merge_strategy: independent".to_owned())
    };
    text(model, decoders, &columns, kind, &arguments)
}

/// The configuration of `decoders` decoders for runs of any length, with ids from 0, whose measurements are their detectors. The
/// model describes a short run, whose rounds have `each` detectors, and `boundary` in the first and the last. So many cores share
/// each run.
///
/// ```
/// use ringcall_decoder_service::decoding_server::{Config, write_endless};
/// use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
/// use ringcall_qec::code::Basis;
/// use std::num::NonZeroUsize;
///
/// let noise = CircuitNoise::uniform(0.003);
/// let experiment = MemoryExperiment { distance: 3, rounds: 7, basis: Basis::Z, noise };
/// let one = NonZeroUsize::MIN;
/// let text = write_endless(&experiment.detector_error_model()?, 1, true, (8, 4), one)?;
/// let config: Config = text.parse()?;
/// assert_eq!((config.decoders[0].method(), config.decoders[0].endless()), ("endless correlated matching", Some((8, 4))));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// As [`write`](fn@write).
pub fn write_endless(
    model: &DetectorErrorModel,
    decoders: usize,
    correlated: bool,
    (each, boundary): (u32, u32),
    cores: NonZeroUsize,
) -> Result<String, WriteError> {
    // Edges alone lose the correlations.
    let columns = if correlated { errors(model) } else { edges(model)? };
    let mut arguments = format!(
        "merge_strategy: independent\n      enable_correlations: {correlated}\n      num_syndromes_per_round: {each}\n      \
         num_boundary_syndromes: {boundary}"
    );
    if cores != NonZeroUsize::MIN {
        let _ = write!(arguments, "\n      cores: {cores}");
    }
    if correlated {
        let _ = write!(arguments, "\n      parts_sparse: [{}]", rows(&parts(model)));
    }
    text(model, decoders, &columns, "endless", &arguments)
}

fn text(
    model: &DetectorErrorModel,
    decoders: usize,
    columns: &[Column],
    kind: &str,
    arguments: &str,
) -> Result<String, WriteError> {
    let (detectors, observables) = (model.num_detectors as usize, model.num_observables as usize);
    if columns.is_empty() || detectors == 0 || observables == 0 {
        return Err(WriteError::Empty);
    }
    let mut h = vec![Vec::new(); detectors];
    let mut o = vec![Vec::new(); observables];
    for (column, (flips, signs, _)) in (0_u32..).zip(columns) {
        flips.iter().for_each(|&detector| h[detector as usize].push(column));
        signs.iter().for_each(|&observable| o[observable as usize].push(column));
    }
    let d: Vec<Vec<u32>> = (0..model.num_detectors).map(|detector| vec![detector]).collect();
    let priors: Vec<String> = columns.iter().map(|(.., p)| format!("{p:?}")).collect();
    let mut text = "decoders:\n".to_owned();
    for id in 0..decoders {
        // Writing to a string cannot fail.
        let _ = write!(
            text,
            "  - id: {id}\n    type: {kind}\n    block_size: {}\n    syndrome_size: {detectors}\n    H_sparse: [{}]\n    \
             O_sparse: [{}]\n    D_sparse: [{}]\n    error_rate_vec: [{}]\n    decoder_custom_args:\n      {arguments}\n",
            columns.len(),
            rows(&h),
            rows(&o),
            rows(&d),
            priors.join(", "),
        );
    }
    Ok(text)
}

fn rows(rows: &[Vec<u32>]) -> String {
    let mut text = String::new();
    for row in rows {
        for column in row {
            let _ = write!(text, "{column}, ");
        }
        text += "-1, ";
    }
    text.truncate(text.len().saturating_sub(2));
    text
}

/// Every error that some syndrome shows. An error likelier than not is left out: CUDA-Q's matrices have none.
fn shown(model: &DetectorErrorModel) -> impl Iterator<Item = &Mechanism> {
    let is_shown = |error: &&Mechanism| {
        error.probability > 0.0 && error.probability <= 0.5 && !error.detectors.is_empty()
    };
    model.mechanisms.iter().filter(is_shown)
}

fn errors(model: &DetectorErrorModel) -> Vec<Column> {
    shown(model)
        .map(|error| (error.detectors.clone(), error.observables.clone(), error.probability))
        .collect()
}

/// For each of these errors, the other errors that compose it; none if a part is not an error itself.
fn parts(model: &DetectorErrorModel) -> Vec<Vec<u32>> {
    let single = (0..).zip(shown(model)).filter(|(_, error)| error.components.is_empty());
    let single: HashMap<(&[u32], &[u32]), u32> =
        single.map(|(column, error)| ((&*error.detectors, &*error.observables), column)).collect();
    shown(model)
        .map(|error| {
            let part = |part: &Component| single.get(&(&*part.detectors, &*part.observables)).copied();
            let parts: Option<Vec<u32>> = error.components.iter().map(part).collect();
            parts.unwrap_or_default()
        })
        .collect()
}

/// The edges of the model's matching graph.
fn edges(model: &DetectorErrorModel) -> Result<Vec<Column>, WriteError> {
    let graph = DecodingGraph::from_dem(model, ParallelEdges::Independent)?;
    let column = |edge: &ringcall_qec::decode::GraphEdge| {
        let detectors = std::iter::once(edge.node).chain(edge.other).collect();
        (detectors, edge.observables.clone(), 1.0 / (1.0 + edge.weight.exp()))
    };
    Ok(graph.edges().iter().map(column).filter(|(.., p)| *p > 0.0 && *p <= 0.5).collect())
}
