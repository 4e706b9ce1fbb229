//! Configurations of detector error models, as text.

use ringcall_qec::decode::{DecodeError, MatchingGraph, ParallelEdges};
use ringcall_qec::dem::DetectorErrorModel;
use std::fmt::Write;

/// Why no configuration describes a model.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
pub enum WriteError {
    /// It has no error, no detector or no observable.
    #[error("a model without errors, detectors or observables has nothing to decode")]
    Empty,
    /// It cannot be decoded by matching.
    #[error(transparent)]
    Graph(#[from] DecodeError),
}

/// Columns of a check matrix: the detectors and observables of each, and its probability.
type Column = (Vec<u32>, Vec<u32>, f64);

/// The configuration of `decoders` decoders of a model, with ids from 0, whose measurements are its detectors: by matching, with a
/// column for each edge, or by Relay-BP (`relay`), with a column for each error.
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
/// A model that has nothing to decode, or that is no matching problem.
pub fn write(model: &DetectorErrorModel, decoders: usize, relay: bool) -> Result<String, WriteError> {
    let columns = if relay { errors(model) } else { edges(model)? };
    let (detectors, observables) = (model.num_detectors as usize, model.num_observables as usize);
    if columns.is_empty() || detectors == 0 || observables == 0 {
        return Err(WriteError::Empty);
    }
    let mut h = vec![Vec::new(); detectors];
    let mut o = vec![Vec::new(); observables];
    for (column, (flips, signs, _)) in (0_u32..).zip(&columns) {
        flips.iter().for_each(|&detector| h[detector as usize].push(column));
        signs.iter().for_each(|&observable| o[observable as usize].push(column));
    }
    let d: Vec<Vec<u32>> = (0..model.num_detectors).map(|detector| vec![detector]).collect();
    let priors: Vec<String> = columns.iter().map(|(.., p)| format!("{p:?}")).collect();
    let (kind, arguments) = if relay {
        let relay = "max_iterations: 60\n      bp_method: 3\n      composition: 1\n      gamma0: 0.125\n      \
                     gamma_dist: [-0.24, 0.66]\n      srelay_config: { pre_iter: 80, num_sets: 300, stopping_criterion: FirstConv }";
        ("nv-qldpc-decoder", relay)
    } else {
        ("pymatching", "merge_strategy: independent")
    };
    let mut text = "decoders:\n".to_owned();
    for id in 0..decoders {
        // Writing to a text fails nowhere.
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

/// Every error that some syndrome shows. One that is likelier than not is left out: no matrix of CUDA-Q's has one.
fn errors(model: &DetectorErrorModel) -> Vec<Column> {
    let shown = model
        .mechanisms
        .iter()
        .filter(|error| error.probability > 0.0 && error.probability <= 0.5 && !error.detectors.is_empty());
    shown.map(|error| (error.detectors.clone(), error.observables.clone(), error.probability)).collect()
}

/// The edges of the model's matching graph.
fn edges(model: &DetectorErrorModel) -> Result<Vec<Column>, WriteError> {
    let graph = MatchingGraph::from_dem(model, ParallelEdges::Independent)?;
    let column = |edge: &ringcall_qec::decode::GraphEdge| {
        let detectors = std::iter::once(edge.node).chain(edge.other).collect();
        (detectors, edge.observables.clone(), 1.0 / (1.0 + edge.weight.exp()))
    };
    Ok(graph.edges().iter().map(column).filter(|(.., p)| *p > 0.0 && *p <= 0.5).collect())
}
