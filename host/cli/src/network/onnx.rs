//! A network in an engine for any ONNX model.

use super::NetworkFile;
use anyhow::Result;
use ringcall_infer::Model;
use ringcall_inference_service::{FileOptions, Runner};
use std::path::PathBuf;
use std::sync::Arc;

/// The engine, and where an engine built of the network is kept.
#[derive(Debug, Clone)]
pub(super) struct OnnxEngine {
    pub(super) runner: Runner,
    pub(super) engine_save_path: Option<PathBuf>,
}

impl OnnxEngine {
    /// Loads the network with sizes of its open dimensions; `None` if a size is missing.
    pub(super) fn load<N: AsRef<str>>(
        &self,
        file: &NetworkFile,
        sizes: &[(N, usize)],
    ) -> Result<Option<Arc<dyn Model>>> {
        let options = FileOptions {
            sizes: sizes.iter().map(|(name, n)| (name.as_ref().to_owned(), *n)).collect(),
            engine_save_path: self.engine_save_path.clone(),
        };
        match file.engine() {
            Some(path) => Ok(Some(self.runner.open(path, &options)?)),
            None => Ok(self.runner.load_sized(file.name(), file.bytes(), &options)?),
        }
    }
}
