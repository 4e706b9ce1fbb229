//! The file before tract sees it: damage found, open dimensions pinned, inputs described.
//!
//! Field meanings as in the ONNX specification, `onnx/onnx.proto3`. Checked here is what tract would answer with
//! a panic, or not notice.

use std::collections::{BTreeMap, BTreeSet};

use tract_onnx::pb::tensor_proto::{DataLocation, DataType};
use tract_onnx::pb::tensor_shape_proto::{Dimension, dimension};
use tract_onnx::pb::{GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, type_proto};

use super::OnnxOptions;
use crate::pin::{self, Declared};
use crate::{ElementType, FileError, InferError, MAX_TENSOR_BYTES, TensorSpec};

/// The oldest operator set whose semantics tract implements.
const OLDEST_OPSET: i64 = 9;

/// Domains whose operators tract knows; it looks operators up by name alone, so another domain's operator of the
/// same name would be silently taken for ONNX's.
const DOMAINS: [&str; 3] = ["", "ai.onnx", "com.microsoft"];

fn malformed(model: &str, reason: impl Into<String>) -> InferError {
    InferError::Malformed { model: model.to_owned(), reason: reason.into() }
}

/// Finds what cannot be a complete, supported model.
pub(super) fn check(model: &str, proto: &ModelProto, known: impl Fn(&str) -> bool) -> Result<(), InferError> {
    let graph = proto.graph.as_ref().ok_or_else(|| FileError::NoGraph.of(model))?;
    let opset = proto.opset_import.iter().find(|o| DOMAINS[..2].contains(&o.domain.as_str()));
    match opset.map(|o| o.version) {
        None => {
            return Err(malformed(model, "it names no ONNX operator set; the file may be cut short"));
        }
        Some(version) if version < OLDEST_OPSET => {
            return Err(malformed(
                model,
                format!("operator set {version} is too old; export with {OLDEST_OPSET} or newer"),
            ));
        }
        Some(_) => {}
    }
    if graph.output.is_empty() || graph.input.is_empty() {
        return Err(malformed(model, "it has no inputs or no outputs"));
    }
    let mut unknown = BTreeMap::new();
    check_graph(model, graph, &known, &mut unknown)?;
    if !unknown.is_empty() {
        let operators: Vec<String> =
            unknown.into_iter().map(|(operator, node)| format!("{operator} (node `{node}`)")).collect();
        return Err(InferError::UnsupportedOperators {
            model: model.to_owned(),
            operators: operators.join(", "),
        });
    }
    check_wiring(model, graph)
}

/// Operators and constants, in the graph and in the bodies of its control flow.
fn check_graph(
    model: &str,
    graph: &GraphProto,
    known: &impl Fn(&str) -> bool,
    unknown: &mut BTreeMap<String, String>,
) -> Result<(), InferError> {
    if !graph.sparse_initializer.is_empty() {
        return Err(malformed(model, "sparse initialisers are not supported; export them dense"));
    }
    for tensor in &graph.initializer {
        check_tensor(model, tensor)?;
    }
    for node in &graph.node {
        let NodeProto { op_type, domain, .. } = node;
        if !DOMAINS.contains(&domain.as_str()) || !known(op_type) {
            let operator = if domain.is_empty() { op_type.clone() } else { format!("{domain}.{op_type}") };
            unknown.entry(operator).or_insert_with(|| node_name(node));
        }
        for attribute in &node.attribute {
            for tensor in attribute.t.iter().chain(&attribute.tensors) {
                check_tensor(model, tensor)?;
            }
            for body in attribute.g.iter().chain(&attribute.graphs) {
                check_graph(model, body, known, unknown)?;
            }
        }
    }
    Ok(())
}

fn node_name(node: &NodeProto) -> String {
    if node.name.is_empty() { node.output.first().cloned().unwrap_or_default() } else { node.name.clone() }
}

/// A constant has exactly the data its shape asks for.
fn check_tensor(model: &str, tensor: &TensorProto) -> Result<(), InferError> {
    let fail = |reason: String| {
        Err(malformed(model, format!("the constant `{}` (shape {:?}) {reason}", tensor.name, tensor.dims)))
    };
    let Some(elements) = tensor
        .dims
        .iter()
        .try_fold(1usize, |n, &d| n.checked_mul(usize::try_from(d).ok()?))
        .filter(|&n| n <= MAX_TENSOR_BYTES)
    else {
        return fail(format!("has a negative dimension or more than {MAX_TENSOR_BYTES} elements"));
    };
    // Raw bytes, or one entry of the typed field per element.
    let (width, typed) = match DataType::try_from(tensor.data_type) {
        Ok(DataType::Float) => (4, tensor.float_data.len()),
        Ok(DataType::Int32) => (4, tensor.int32_data.len()),
        Ok(DataType::Bool | DataType::Uint8 | DataType::Int8) => (1, tensor.int32_data.len()),
        Ok(DataType::Float16 | DataType::Uint16 | DataType::Int16) => (2, tensor.int32_data.len()),
        Ok(DataType::Int64) => (8, tensor.int64_data.len()),
        Ok(DataType::Double) => (8, tensor.double_data.len()),
        Ok(other) => return fail(format!("is of type {}, which is not supported", other.as_str_name())),
        Err(_) => return fail(format!("is of an unknown type ({})", tensor.data_type)),
    };
    if tensor.data_location == Some(DataLocation::External as i32) {
        return Ok(());
    }
    let raw = tensor.raw_data.len();
    if raw != 0 && raw != elements * width {
        return fail(format!("takes {} bytes and holds {raw}", elements * width));
    }
    if raw == 0 && typed != elements {
        return fail(format!("takes {elements} elements and holds {typed}"));
    }
    Ok(())
}

/// Every tensor that is read was written by something earlier, and none by two.
fn check_wiring(model: &str, graph: &GraphProto) -> Result<(), InferError> {
    let mut written: BTreeSet<&str> = graph.initializer.iter().map(|t| t.name.as_str()).collect();
    written.extend(graph.input.iter().map(|i| i.name.as_str()));
    for node in &graph.node {
        if let Some(input) = node.input.iter().find(|i| !i.is_empty() && !written.contains(i.as_str())) {
            let node = node_name(node);
            return Err(malformed(
                model,
                format!("node `{node}` reads `{input}`, which nothing before it writes"),
            ));
        }
        for output in node.output.iter().filter(|o| !o.is_empty()) {
            if !written.insert(output) {
                return Err(malformed(model, format!("`{output}` is written twice")));
            }
        }
    }
    let mut names = BTreeSet::new();
    for output in &graph.output {
        if !written.contains(output.name.as_str()) {
            return Err(malformed(model, format!("nothing writes the output `{}`", output.name)));
        }
        if !names.insert(&output.name) {
            return Err(malformed(model, format!("two outputs are called `{}`", output.name)));
        }
    }
    Ok(())
}

/// The inputs that are no constants: files of old IR versions list their initialisers too.
pub(super) fn true_inputs(graph: &mut GraphProto) -> impl Iterator<Item = &mut ValueInfoProto> {
    let constants: BTreeSet<String> = graph.initializer.iter().map(|t| t.name.clone()).collect();
    graph.input.iter_mut().filter(move |input| !constants.contains(&input.name))
}

/// The declared type of a graph input or output.
fn tensor_type<'a>(
    model: &str,
    value: &'a mut ValueInfoProto,
) -> Result<&'a mut type_proto::Tensor, InferError> {
    let name = &value.name;
    match value.r#type.as_mut().and_then(|t| t.value.as_mut()) {
        Some(type_proto::Value::TensorType(tensor)) => Ok(tensor),
        _ => Err(malformed(model, format!("`{name}` has no tensor type"))),
    }
}

/// The declared element type of a graph input or output.
pub(super) fn element(model: &str, value: &mut ValueInfoProto) -> Result<ElementType, InferError> {
    let code = tensor_type(model, value)?.elem_type;
    let found = match DataType::try_from(code) {
        Ok(DataType::Float) => return Ok(ElementType::F32),
        Ok(DataType::Float16) => return Ok(ElementType::F16),
        Ok(DataType::Int32) => return Ok(ElementType::I32),
        Ok(DataType::Int64) => return Ok(ElementType::I64),
        Ok(DataType::Uint8) => return Ok(ElementType::U8),
        Ok(DataType::Bool) => return Ok(ElementType::Bool),
        Ok(other) => other.as_str_name().to_lowercase(),
        Err(_) => format!("unknown ({code})"),
    };
    Err(InferError::UnsupportedElement { model: model.to_owned(), tensor: value.name.clone(), found })
}

/// Writes a size into every open dimension of every input, and says what the inputs then are.
pub(super) fn pin_inputs(
    model: &str,
    graph: &mut GraphProto,
    options: &OnnxOptions,
) -> Result<Vec<TensorSpec>, InferError> {
    let mut declared = Vec::new();
    for value in true_inputs(graph) {
        let (element, name) = (element(model, value)?, value.name.clone());
        let Some(shape) = &tensor_type(model, value)?.shape else {
            return Err(malformed(model, format!("the input `{name}` declares no shape")));
        };
        declared.push(Declared { name, element, dimensions: shape.dim.iter().map(read).collect() });
    }
    let specs = pin::inputs(model, declared, options)?;
    for (value, spec) in true_inputs(graph).zip(&specs) {
        let dims = tensor_type(model, value)?.shape.iter_mut().flat_map(|shape| &mut shape.dim);
        for (dim, &size) in dims.zip(&spec.shape) {
            dim.value = Some(dimension::Value::DimValue(i64::try_from(size).unwrap_or(i64::MAX)));
        }
    }
    Ok(specs)
}

/// A positive size, or open with or without a symbol.
fn read(dim: &Dimension) -> pin::Dimension {
    match &dim.value {
        Some(dimension::Value::DimValue(v)) => pin::Dimension::new(*v, ""),
        Some(dimension::Value::DimParam(symbol)) => pin::Dimension::new(0, symbol),
        None => pin::Dimension::new(0, ""),
    }
}
