//! An engine as a model like any other.

use crate::ffi::RawContext;
use crate::replay::{Bound, Layout, Replay};
use crate::{
    BuildOptions, Cache, Cached, Engine, Found, Gpu, Library, Plan, Runtime, TensorInfo, TensorRtError, onnx,
};
use ringcall_cuda::driver::Context;
use ringcall_infer::{self as infer, InferError, Model, TensorSpec, check_buffers};
use std::sync::Arc;

/// A plan on a device, with every shape fixed. Its engines share the plan; each has an execution context,
/// memory and its own captured graph.
///
/// Build, load and instantiate before a persistent kernel starts on the device: TensorRT allocates and loads
/// code, which can wait for running kernels. Objects dropped while one runs are kept until a
/// [`DeferFrees`](ringcall_cuda::driver::DeferFrees) ends.
#[derive(Debug)]
pub struct TensorRtModel {
    shared: Arc<Shared>,
    metadata: Vec<(String, String)>,
    found: Option<Found>,
}

#[derive(Debug)]
struct Shared {
    name: String,
    engine: Engine,
    context: Arc<Context>,
    layout: Layout,
}

impl Drop for Shared {
    fn drop(&mut self) {
        // Its weights lie on the device; after this, the clone is the last one unless a user has another.
        self.context.discard_later(self.engine.clone());
    }
}

impl TensorRtModel {
    /// Builds a plan for the device of `context`, or takes the plan in `cache`, and reads it. Open dimensions
    /// have the optimum one of their sizes.
    ///
    /// A plan from the cache that TensorRT refuses is built again.
    ///
    /// # Errors
    /// As for [`Builder::parse`](crate::Builder::parse), [`Builder::build`](crate::Builder::build) and
    /// [`Runtime::load`]; shapes that depend on the data.
    pub fn load(
        library: &Library,
        context: &Arc<Context>,
        name: &str,
        onnx: &[u8],
        options: &BuildOptions,
        cache: Option<&Cache>,
    ) -> Result<Self, TensorRtError> {
        context.make_current()?;
        let metadata = onnx::metadata(name, onnx)?;
        let mut runtime = Runtime::new(library)?;
        if options.version_compatible {
            // Built here, or kept in a folder that no other agent may write.
            runtime = runtime.allowing_host_code();
        }
        let gpu = Gpu::of(context.device())?;
        let (engine, found) = match cache {
            None => {
                let plan = crate::Builder::parse(library, name, onnx, options)?.build()?;
                (runtime.load(plan.as_bytes())?, None)
            }
            Some(cache) => {
                let obtain = || cache.plan(library, name, onnx, options, Some(&gpu));
                let Cached { plan, found, .. } = obtain()?;
                match runtime.load(plan.as_bytes()) {
                    Ok(engine) => (engine, Some(found)),
                    Err(why) if found == Found::Kept => {
                        cache.forget(library, onnx, options, Some(&gpu));
                        let engine = runtime.load(obtain()?.plan.as_bytes())?;
                        (engine, Some(Found::Rebuilt { why: why.to_string() }))
                    }
                    Err(why) => return Err(why),
                }
            }
        };
        let mut model = Self::new(name, &engine, context, &[])?;
        (model.metadata, model.found) = (metadata, found);
        Ok(model)
    }

    /// A plan made elsewhere, on the device of `context`. `shapes` gives inputs with open dimensions their shapes, by name;
    /// others have their profile's optimum one.
    ///
    /// # Errors
    /// As for [`Runtime::load`]; a shape for no input, or one that the plan does not allow; shapes that depend on the data.
    pub fn from_plan(
        library: &Library,
        context: &Arc<Context>,
        name: &str,
        plan: &Plan,
        shapes: &[(&str, &[usize])],
    ) -> Result<Self, TensorRtError> {
        context.make_current()?;
        let engine = Runtime::new(library)?.load(plan.as_bytes())?;
        Self::new(name, &engine, context, shapes)
    }

    /// An engine that is read already, on the device of `context`.
    ///
    /// # Errors
    /// A shape for no input, or one that the plan does not allow; shapes that depend on the data.
    pub fn new(
        name: &str,
        engine: &Engine,
        context: &Arc<Context>,
        shapes: &[(&str, &[usize])],
    ) -> Result<Self, TensorRtError> {
        context.make_current()?;
        let inputs = input_specs(name, engine, shapes)?;
        // The outputs' shapes follow from the inputs', and a context knows how.
        let mut trial = RawContext::new(engine.raw())?;
        for spec in &inputs {
            trial.set_input_shape(&spec.name, &signed(&spec.shape))?;
        }
        let outputs = engine
            .outputs()
            .iter()
            .map(|output| {
                spec(output, trial.shape(&output.name)?.iter().map(|&dim| usize::try_from(dim).ok()))
            })
            .collect::<Result<Vec<_>, TensorRtError>>()?;
        context.discard_later(trial);
        let layout = Layout::new(inputs, outputs);
        let shared =
            Shared { name: name.to_owned(), engine: engine.clone(), context: Arc::clone(context), layout };
        Ok(Self { shared: Arc::new(shared), metadata: Vec::new(), found: None })
    }

    /// Where the plan came from, if a cache was asked.
    #[must_use]
    pub fn found(&self) -> Option<&Found> {
        self.found.as_ref()
    }

    /// The engine behind it.
    #[must_use]
    pub fn engine(&self) -> &Engine {
        &self.shared.engine
    }

    /// The device that it is on.
    #[must_use]
    pub fn context(&self) -> &Arc<Context> {
        &self.shared.context
    }

    /// A context of the engine's, with a buffer for each tensor.
    pub(crate) fn bound_apart(&self) -> Result<Bound, TensorRtError> {
        Bound::apart(&self.shared.context, &self.shared.engine, &self.shared.layout)
    }
}

fn signed(shape: &[usize]) -> Vec<i64> {
    shape.iter().map(|&dim| dim as i64).collect()
}

fn spec(
    info: &TensorInfo,
    dims: impl IntoIterator<Item = Option<usize>>,
) -> Result<TensorSpec, TensorRtError> {
    let Some(shape) = dims.into_iter().collect::<Option<Vec<usize>>>() else {
        let reason = "its shape depends on the data; an engine's shapes are static".to_owned();
        return Err(InferError::InvalidSpec { name: info.name.clone(), reason }.into());
    };
    Ok(TensorSpec::new(info.name.clone(), info.element, shape)?)
}

/// The inputs with the shapes asked for, checked against what the plan allows.
fn input_specs(
    model: &str,
    engine: &Engine,
    shapes: &[(&str, &[usize])],
) -> Result<Vec<TensorSpec>, TensorRtError> {
    let refused =
        |dimension: String, why: String| TensorRtError::Sizes { model: model.to_owned(), dimension, why };
    if let Some((name, _)) =
        shapes.iter().find(|(name, _)| !engine.inputs().iter().any(|input| input.name == *name))
    {
        let names: Vec<&str> = engine.inputs().iter().map(|input| input.name.as_str()).collect();
        return Err(refused(format!("`{name}`"), format!("the inputs are {names:?}")));
    }
    let mut specs = Vec::new();
    for input in engine.inputs() {
        let given = shapes.iter().find(|(name, _)| *name == input.name).map(|(_, shape)| *shape);
        let open = input.dims.contains(&None);
        let [low, optimum, high] = if open {
            engine.profile(&input.name)?
        } else {
            let fixed: Vec<usize> = input.dims.iter().map(|dim| dim.unwrap_or_default()).collect();
            [fixed.clone(), fixed.clone(), fixed]
        };
        let shape = given.unwrap_or(&optimum);
        let fits = shape.len() == low.len()
            && shape.iter().zip(low.iter().zip(&high)).all(|(size, (low, high))| low <= size && size <= high);
        if !fits {
            return Err(refused(
                format!("`{}`", input.name),
                format!("{shape:?} is not within {low:?} to {high:?}"),
            ));
        }
        specs.push(spec(input, shape.iter().copied().map(Some))?);
    }
    Ok(specs)
}

impl Model for TensorRtModel {
    fn name(&self) -> &str {
        &self.shared.name
    }

    fn inputs(&self) -> &[TensorSpec] {
        self.shared.layout.inputs()
    }

    fn outputs(&self) -> &[TensorSpec] {
        self.shared.layout.outputs()
    }

    fn metadata(&self) -> &[(String, String)] {
        &self.metadata
    }

    fn instantiate(&self) -> Result<Box<dyn infer::Engine>, InferError> {
        let shared = Arc::clone(&self.shared);
        let replay = Replay::new(&shared.context, &shared.engine, &shared.layout)
            .map_err(|why| why.into_infer(&shared.name, "making an engine"))?;
        Ok(Box::new(TensorRtEngine { shared, replay }))
    }
}

/// One worker's context, memory and graph.
#[derive(Debug)]
struct TensorRtEngine {
    shared: Arc<Shared>,
    replay: Replay,
}

impl infer::Engine for TensorRtEngine {
    fn inputs(&self) -> &[TensorSpec] {
        self.shared.layout.inputs()
    }

    fn outputs(&self) -> &[TensorSpec] {
        self.shared.layout.outputs()
    }

    fn run(&mut self, inputs: &[&[u8]], outputs: &mut [&mut [u8]]) -> Result<(), InferError> {
        let shared = &*self.shared;
        check_buffers(shared.layout.inputs(), shared.layout.outputs(), inputs, outputs)?;
        self.replay
            .run(&shared.layout, inputs, outputs)
            .map_err(|why| TensorRtError::Cuda(why).into_infer(&shared.name, "running"))
    }
}
