//! Conversion of values from Python, with checks, and of errors for Python.

use std::panic::{AssertUnwindSafe, catch_unwind};

use numpy::{PyArray1, PyArrayMethods, PyReadonlyArray, PyUntypedArray, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyFrozenSet, PySet};
use ringcall_matching::MergeStrategy;

use crate::graph::{Edge, GraphError};
use crate::load::{MatrixError, probability};
use crate::solver::SolveError;

impl From<GraphError> for PyErr {
    fn from(error: GraphError) -> Self {
        PyValueError::new_err(error.to_string())
    }
}

impl From<MatrixError> for PyErr {
    fn from(error: MatrixError) -> Self {
        PyValueError::new_err(error.to_string())
    }
}

impl From<SolveError> for PyErr {
    fn from(error: SolveError) -> Self {
        PyValueError::new_err(error.to_string())
    }
}

/// The exception for a panic, which is a defect of this package.
pub(crate) fn defect() -> PyErr {
    PyRuntimeError::new_err("ringcall failed within: please report this with the graph and the syndrome")
}

/// Turns a panic into an exception that programs can catch.
pub(crate) fn guarded<T, E>(work: impl FnOnce() -> Result<T, E>) -> PyResult<T>
where
    PyErr: From<E>,
{
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(done) => done.map_err(PyErr::from),
        Err(_) => Err(defect()),
    }
}

fn type_error(what: &str, expected: &str, value: &Bound<'_, PyAny>) -> PyErr {
    let kind = value.get_type().to_string();
    PyTypeError::new_err(format!("`{what}` must be {expected}, not {kind}"))
}

/// An integer; anything else is a `TypeError`.
pub(crate) fn integer(what: &str, value: &Bound<'_, PyAny>) -> PyResult<i64> {
    value.extract().map_err(|_| type_error(what, "an integer", value))
}

/// An integer that is not negative; anything else is a `TypeError`, as in PyMatching.
pub(crate) fn natural(what: &str, value: &Bound<'_, PyAny>) -> PyResult<u64> {
    value.extract().map_err(|_| type_error(what, "an integer that is not negative", value))
}

/// The index of a node of a new edge; a negative index is a `ValueError`, as in PyMatching.
pub(crate) fn node(what: &str, value: &Bound<'_, PyAny>) -> PyResult<u32> {
    let number = integer(what, value)?;
    let number =
        u64::try_from(number).map_err(|_| PyValueError::new_err(format!("`{what}` must not be negative")))?;
    u32::try_from(number).map_err(|_| GraphError::Node(number).into())
}

pub(crate) fn float(what: &str, value: &Bound<'_, PyAny>) -> PyResult<f64> {
    value.extract().map_err(|_| type_error(what, "a number", value))
}

/// A set of integers that are not negative.
pub(crate) fn naturals(what: &str, value: &Bound<'_, PyAny>) -> PyResult<Vec<u64>> {
    if !(value.is_instance_of::<PySet>() || value.is_instance_of::<PyFrozenSet>()) {
        return Err(type_error(what, "a set of integers", value));
    }
    value.try_iter()?.map(|item| natural(what, &item?)).collect()
}

/// Fault ids: a set, a single id, or `None` or -1 for no ids.
pub(crate) fn faults(value: Option<&Bound<'_, PyAny>>) -> PyResult<Vec<u32>> {
    let Some(value) = value.filter(|value| !value.is_none()) else { return Ok(Vec::new()) };
    let list = match value.extract::<i64>() {
        Ok(-1) => return Ok(Vec::new()),
        Ok(_) => vec![natural("fault_ids", value)?],
        Err(_) => naturals("fault_ids", value)?,
    };
    let index = |id: u64| u32::try_from(id).map_err(|_| PyErr::from(GraphError::Fault(id)));
    let mut list = list.into_iter().map(index).collect::<PyResult<Vec<_>>>()?;
    list.sort_unstable();
    Ok(list)
}

/// The probability of an edge; `None` if it is unknown.
pub(crate) fn edge_probability(value: Option<&Bound<'_, PyAny>>) -> PyResult<Option<f64>> {
    match value.filter(|value| !value.is_none()) {
        Some(value) => Ok(probability(float("error_probability", value)?)),
        None => Ok(None),
    }
}

pub(crate) fn merge_strategy(name: &str) -> PyResult<MergeStrategy> {
    Ok(match name {
        "disallow" => MergeStrategy::Disallow,
        "independent" => MergeStrategy::Independent,
        "smallest-weight" => MergeStrategy::SmallestWeight,
        "keep-original" => MergeStrategy::KeepOriginal,
        "replace" => MergeStrategy::Replace,
        _ => {
            return Err(PyValueError::new_err(format!(
                "merge strategy \"{name}\" is unknown: there are \"disallow\", \"independent\", \
                 \"smallest-weight\", \"keep-original\" and \"replace\""
            )));
        }
    })
}

/// An edge's attributes as a dictionary.
pub(crate) fn attributes<'py>(py: Python<'py>, edge: &Edge) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("fault_ids", PySet::new(py, &edge.faults)?)?;
    dict.set_item("weight", edge.weight)?;
    dict.set_item("error_probability", edge.probability.unwrap_or(-1.0))?;
    Ok(dict)
}

/// The bytes of an array that is contiguous in the order of its indices.
pub(crate) fn bytes<'a, D: numpy::ndarray::Dimension>(
    array: &'a PyReadonlyArray<'_, u8, D>,
) -> PyResult<&'a [u8]> {
    array.as_slice().map_err(|_| PyValueError::new_err("the array is not contiguous"))
}

/// A syndrome of one byte for each node: an array of that form, or the result of `ringcall._convert`.
pub(crate) fn syndrome<'py>(
    z: &Bound<'py, PyAny>,
    detectors: usize,
    nodes: usize,
) -> PyResult<PyReadonlyArray<'py, u8, numpy::Ix1>> {
    let fits = |array: &Bound<'py, PyUntypedArray>| {
        array.ndim() == 1 && array.is_contiguous() && (detectors..=nodes).contains(&array.len())
    };
    if let Ok(array) = z.cast::<PyUntypedArray>()
        && fits(array)
    {
        if let Ok(array) = z.cast::<PyArray1<u8>>() {
            return Ok(array.try_readonly()?);
        }
        // The type of Stim's samples.
        if z.cast::<PyArray1<bool>>().is_ok() {
            let bytes = z.call_method1(intern!(z.py(), "view"), (numpy::dtype::<u8>(z.py()),))?;
            return Ok(bytes.cast::<PyArray1<u8>>()?.try_readonly()?);
        }
    }
    let made = helper(z.py(), "syndrome")?.call1((z, detectors, nodes))?;
    Ok(made.cast::<PyArray1<u8>>()?.try_readonly()?)
}

/// A function of `ringcall._convert`.
pub(crate) fn helper<'py>(py: Python<'py>, name: &str) -> PyResult<Bound<'py, PyAny>> {
    py.import("ringcall._convert")?.getattr(name)
}
