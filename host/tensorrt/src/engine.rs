//! Plans, read back.

use crate::ffi::{RawEngine, RawRuntime};
use crate::{Library, TensorInfo, TensorRtError, Version};
use std::fmt;
use std::sync::Arc;

/// Reads plans. Cheap to clone.
#[derive(Clone)]
pub struct Runtime {
    raw: Arc<RawRuntime>,
    version: Version,
    host_code: bool,
}

impl fmt::Debug for Runtime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Runtime").field("version", &self.version).finish_non_exhaustive()
    }
}

impl Runtime {
    /// A runtime of this library: full, lean or for RTX.
    ///
    /// # Errors
    /// [`TensorRtError::Refused`], with TensorRT's words: there is no GPU, say.
    pub fn new(library: &Library) -> Result<Self, TensorRtError> {
        let raw = Arc::new(RawRuntime::new(library.loaded())?);
        Ok(Self { raw, version: library.version(), host_code: false })
    }

    /// The same for plans that bring code for the host along, as version-compatible ones with their lean
    /// runtime do. It is run: only for plans from a source one trusts.
    #[must_use]
    pub fn allowing_host_code(self) -> Self {
        Self { host_code: true, ..self }
    }

    /// Reads a plan.
    ///
    /// # Errors
    /// [`TensorRtError::Refused`], with TensorRT's words, for a plan that is damaged, of another version or for another
    /// GPU; tensors that cannot be fed.
    pub fn load(&self, plan: &[u8]) -> Result<Engine, TensorRtError> {
        let raw = Arc::new(RawEngine::load(&self.raw, plan, self.host_code)?);
        let [inputs, outputs] = TensorInfo::split("plan", &raw.tensors()?)?;
        Ok(Engine { raw, inputs, outputs })
    }
}

/// A plan in memory, shared by all its execution contexts. Cheap to clone.
#[derive(Clone)]
pub struct Engine {
    raw: Arc<RawEngine>,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl Engine {
    /// The inputs, with the dimensions open that have a range.
    #[must_use]
    pub fn inputs(&self) -> &[TensorInfo] {
        &self.inputs
    }

    /// The outputs.
    #[must_use]
    pub fn outputs(&self) -> &[TensorInfo] {
        &self.outputs
    }

    /// The smallest, optimum and largest shape of an input with open dimensions.
    ///
    /// # Errors
    /// No such input.
    pub fn profile(&self, input: &str) -> Result<[Vec<usize>; 3], TensorRtError> {
        let shapes = self.raw.profile(input)?;
        Ok(shapes.map(|shape| shape.into_iter().map(|dim| usize::try_from(dim).unwrap_or(0)).collect()))
    }

    /// Bytes of device memory that each execution context takes, beside its tensors.
    #[must_use]
    pub fn context_bytes(&self) -> u64 {
        self.raw.memory()
    }

    pub(crate) fn raw(&self) -> &Arc<RawEngine> {
        &self.raw
    }
}
