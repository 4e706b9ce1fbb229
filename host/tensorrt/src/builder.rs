//! Building of plans from ONNX files.

use crate::ffi::Build;
use crate::{BuildOptions, Library, TensorInfo, TensorRtError, onnx};
use std::fmt;

/// A finished engine as bytes: for one TensorRT version, and the GPUs that it was built for.
#[derive(Clone, PartialEq, Eq)]
pub struct Plan(Vec<u8>);

impl Plan {
    /// A plan from elsewhere. TensorRT checks it when it is read, and only that far: a plan is code for the
    /// GPU, to be had from a source one trusts.
    #[must_use]
    pub fn from_bytes(bytes: Vec<u8>) -> Self {
        Self(bytes)
    }

    /// To be kept, or read by [`Runtime::load`](crate::Runtime::load).
    #[must_use]
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Plan({} bytes)", self.0.len())
    }
}

/// A parsed network whose inputs have their sizes.
///
/// ```no_run
/// use ringcall_tensorrt::{BuildOptions, Builder, Library, Search};
///
/// let library = Library::open(&Search::new())?;
/// let onnx = std::fs::read("predecoder.onnx")?;
/// let builder = Builder::parse(&library, "predecoder", &onnx, &BuildOptions::new())?;
/// for input in builder.inputs() {
///     println!("{input}");
/// }
/// std::fs::write("predecoder.plan", builder.build()?.as_bytes())?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Builder {
    build: Build,
    inputs: Vec<TensorInfo>,
    outputs: Vec<TensorInfo>,
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("inputs", &self.inputs)
            .field("outputs", &self.outputs)
            .finish_non_exhaustive()
    }
}

impl Builder {
    /// Parses `onnx`, called `model` in messages, and applies `options`.
    ///
    /// # Errors
    /// A library without a builder or a parser, a file that is no ONNX model or has its weights elsewhere, operators that
    /// TensorRT does not have, open dimensions without sizes, sizes without dimensions, element types that are none of
    /// [`ElementType`](ringcall_infer::ElementType), options that this TensorRT does not have.
    pub fn parse(
        library: &Library,
        model: &str,
        onnx: &[u8],
        options: &BuildOptions,
    ) -> Result<Self, TensorRtError> {
        onnx::metadata(model, onnx)?;
        let mut build = Build::parse(library.loaded(), onnx, options.flags())?;
        let inputs: Vec<_> = build.tensors()?.into_iter().filter(|tensor| !tensor.is_output).collect();
        for (input, [smallest, optimum, largest]) in inputs.iter().zip(options.shapes(model, &inputs)?) {
            // Those without an open dimension are as they should be.
            if input.dims != smallest || smallest != largest {
                build.shape(&input.name, [&smallest, &optimum, &largest])?;
            }
        }
        if let Some(bytes) = options.workspace_bytes {
            build.workspace(bytes)?;
        }
        if let Some(level) = options.effort {
            build.effort(level)?;
        }
        if !options.capabilities.is_empty() {
            build.capabilities(&options.capabilities)?;
        }
        let [inputs, outputs] = TensorInfo::split(model, &build.tensors()?)?;
        Ok(Self { build, inputs, outputs })
    }

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

    /// Builds: seconds to minutes. TensorRT times kernels on the GPU that is there, and needs one; TensorRT-RTX needs none
    /// if compute capabilities are given.
    ///
    /// # Errors
    /// [`TensorRtError::Refused`], with TensorRT's words.
    pub fn build(self) -> Result<Plan, TensorRtError> {
        self.build.run().map(Plan)
    }
}
