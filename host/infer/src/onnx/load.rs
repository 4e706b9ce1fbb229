//! Loading of ONNX models: from bytes to an optimised plan.

use std::panic::{AssertUnwindSafe, catch_unwind};

use tract_onnx::Onnx;
use tract_onnx::pb::ModelProto;
use tract_onnx::prelude::*;
use tract_onnx::tract_core::ops::cast::cast;

use super::{Loaded, OnnxOptions, proto};
use crate::{ElementType, FileError, InferError, TensorSpec};

/// Parses, pins, optimises.
pub(super) fn load(
    name: &str,
    bytes: &[u8],
    folder: Option<&str>,
    options: &OnnxOptions,
) -> Result<Loaded, InferError> {
    let framework = tract_onnx::onnx().with_ignore_value_info(true);
    let mut model = framework
        .proto_model_for_read(&mut &*bytes)
        .map_err(|e| FileError::NotOnnx(format!("{e:#}")).of(name))?;
    proto::check(name, &model, |operator| framework.op_register.0.contains_key(operator))?;
    let graph = model.graph.as_mut().ok_or_else(|| FileError::NoGraph.of(name))?;
    let inputs = proto::pin_inputs(name, graph, options)?;
    let declared = graph
        .output
        .iter_mut()
        .map(|output| Ok((output.name.clone(), proto::element(name, output)?)))
        .collect::<Result<Vec<_>, InferError>>()?;

    let (plan, outputs) =
        guarded(name, "preparing the graph", || optimise(&framework, &model, folder, &declared))??;
    let metadata = model.metadata_props.into_iter().map(|entry| (entry.key, entry.value)).collect();
    Ok(Loaded { name: name.to_owned(), inputs, outputs, metadata, plan })
}

type Prepared = Result<(Arc<TypedSimplePlan>, Vec<TensorSpec>), InferError>;

/// Runs tract's own stages. The outer error is tract's, the inner one is ours.
fn optimise(
    framework: &Onnx,
    model: &ModelProto,
    folder: Option<&str>,
    declared: &[(String, ElementType)],
) -> TractResult<Prepared> {
    let parsed = framework.parse(model, folder)?;
    let mut typed = parsed.model.into_typed()?;
    let mut outlets = typed.output_outlets()?.to_vec();
    for (outlet, (output, element)) in outlets.iter_mut().zip(declared) {
        let (computed, declared) = (typed.outlet_fact(*outlet)?.datum_type, datum_type(*element));
        if computed == DatumType::TDim && declared == DatumType::I64 {
            // Shape arithmetic is symbolic inside tract; outside it is what ONNX says it is.
            *outlet = typed.wire_node(format!("{output}.as_i64"), cast(declared), &[*outlet])?[0];
        } else if computed != declared {
            let reason = format!("the file declares it {declared:?} and the graph computes {computed:?}");
            return Ok(Err(InferError::InvalidSpec { name: output.clone(), reason }));
        }
    }
    typed.select_output_outlets(&outlets)?;
    let typed = typed.into_optimized()?;
    let mut specs = Vec::with_capacity(declared.len());
    for (i, (output, element)) in declared.iter().enumerate() {
        let Some(shape) = typed.output_fact(i)?.shape.as_concrete() else {
            return Ok(Err(InferError::InvalidSpec {
                name: output.clone(),
                reason: format!(
                    "its shape depends on the data ({:?}); an engine's shapes are static",
                    typed.output_fact(i)?.shape
                ),
            }));
        };
        match TensorSpec::new(output.clone(), *element, shape) {
            Ok(spec) => specs.push(spec),
            Err(error) => return Ok(Err(error)),
        }
    }
    Ok(Ok((typed.into_runnable()?, specs)))
}

/// tract's name of an element type.
pub(super) fn datum_type(element: ElementType) -> DatumType {
    match element {
        ElementType::F32 => DatumType::F32,
        ElementType::F16 => DatumType::F16,
        ElementType::I32 => DatumType::I32,
        ElementType::I64 => DatumType::I64,
        ElementType::U8 => DatumType::U8,
        ElementType::Bool => DatumType::Bool,
    }
}

/// Calls into tract, turning its errors and its panics into ours. What `f` borrows mutably is not to be used
/// again after an error.
pub(super) fn guarded<T>(
    model: &str,
    stage: &'static str,
    f: impl FnOnce() -> TractResult<T>,
) -> Result<T, InferError> {
    let reason = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(value)) => return Ok(value),
        Ok(Err(error)) => format!("{error:#}"),
        Err(panic) => {
            let said = panic
                .downcast_ref::<String>()
                .map(String::as_str)
                .or_else(|| panic.downcast_ref::<&str>().copied());
            format!("the engine panicked: {}", said.unwrap_or("no message"))
        }
    };
    Err(InferError::Backend { model: model.to_owned(), stage, reason })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_becomes_an_error() {
        let guarded = guarded::<()>("m", "running", || panic!("index {} out of range", 7));
        let error = guarded.unwrap_err().to_string();
        assert_eq!(error, "`m`: running failed: the engine panicked: index 7 out of range");
    }
}
