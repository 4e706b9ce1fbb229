//! A window of a run that is matched twice: its decoder, and where its layers' detectors are.

use std::sync::Arc;

use crate::decoder::{DecoderConfig, MwpmDecoder};
use crate::error::SlidingError;
use crate::layers::Window;

/// Where each layer's detectors begin in a graph, with one more entry at the end, and the layer of each detector.
#[derive(Debug)]
pub(super) struct Places {
    pub(super) bases: Vec<u32>,
    pub(super) layer_of: Vec<u32>,
}

/// A window that is matched twice. Clones share the tables.
#[derive(Debug, Clone)]
pub(super) struct Pane {
    pub(super) decoder: MwpmDecoder,
    pub(super) places: Arc<Places>,
}

impl Pane {
    pub(super) fn new(window: Window, near_entries: usize) -> Result<Self, SlidingError> {
        let Window { graph, bases, layer_of } = window;
        if graph.parts().contains(&false) {
            return Err(SlidingError::NoBoundary { window: bases.len() - 1 });
        }
        let config = DecoderConfig { near_entries, correlations: true, ..DecoderConfig::default() };
        let places = Arc::new(Places { bases, layer_of });
        Ok(Self { decoder: MwpmDecoder::with_config(graph, &config), places })
    }
}
