//! The Rust class below `ringcall.Matching`.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray1, PyUntypedArrayMethods};
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PySet, PyTuple};

use crate::batch::{self, Rows, Stopped};
use crate::convert::{self, guarded};
use crate::graph::{Edge, Ends, Graph, fits};
use crate::load::{self, CheckMatrix, Columns};
use crate::noise;
use crate::solver::{Reweighted, SolveError, Solver, Wanted};
use crate::stream::{Endless, Stream};

/// A graph with fewer nodes decodes faster than the interpreter can be released.
const RELEASE_FROM_NODES: usize = 2048;

type EdgeTuple<'py> = (u32, Option<u32>, Bound<'py, PyDict>);
type Bytes<'py> = Bound<'py, PyArray1<u8>>;

#[derive(Default)]
struct State {
    graph: Graph,
    /// Made when first needed, and again after a change: one for [`Wanted::Faults`], one for [`Wanted::All`].
    solvers: [Option<Arc<Solver>>; 2],
    /// The same, for decoding with weights of a syndrome.
    reweighted: Option<Arc<Reweighted>>,
}

/// The Rust part of `ringcall.Matching`.
///
/// No Python code is called while the state is locked: a thread that waits for the lock may hold the interpreter.
#[pyclass(subclass, frozen, module = "ringcall._ringcall")]
pub(crate) struct MatchingGraph {
    state: Mutex<State>,
}

impl MatchingGraph {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the graph, so that the solvers must be made again.
    fn change<T>(&self, change: impl FnOnce(&mut Graph) -> T) -> T {
        let mut state = self.state();
        (state.solvers, state.reweighted) = ([None, None], None);
        change(&mut state.graph)
    }

    fn replace(&self, graph: Graph) {
        self.change(|old| *old = graph);
    }

    fn solver(&self, py: Python<'_>, wanted: Wanted) -> PyResult<Arc<Solver>> {
        if let Some(solver) = &self.state().solvers[wanted as usize] {
            return Ok(Arc::clone(solver));
        }
        py.detach(|| {
            guarded(|| {
                let mut state = self.state();
                let solver = match &state.solvers[wanted as usize] {
                    Some(solver) => Arc::clone(solver),
                    None => Arc::new(Solver::new(&state.graph, wanted)?),
                };
                state.solvers[wanted as usize] = Some(Arc::clone(&solver));
                Ok::<_, SolveError>(solver)
            })
        })
    }

    /// Decodes one syndrome with weights of edges. Returns the faults and the weight.
    fn decode_reweighted(
        &self,
        z: &Bound<'_, PyAny>,
        reweights: &Bound<'_, PyAny>,
    ) -> PyResult<(Vec<u8>, f64)> {
        let py = z.py();
        let rows = convert::helper(py, "edge_reweights")?.call1((reweights,))?;
        let weights: Vec<(i64, i64, f64)> = rows.extract()?;
        let (detectors, nodes) = {
            let graph = &self.state().graph;
            (graph.num_detectors(), graph.num_nodes())
        };
        let syndrome = convert::syndrome(z, detectors, nodes)?;
        let row = convert::bytes(&syndrome)?;
        py.detach(|| {
            guarded(|| {
                let solver = {
                    let mut state = self.state();
                    let made = match &state.reweighted {
                        Some(made) => Arc::clone(made),
                        None => Arc::new(Reweighted::new(&state.graph)?),
                    };
                    state.reweighted = Some(Arc::clone(&made));
                    made
                };
                let mut faults = vec![0; solver.num_faults()];
                let weight = solver.decode(row, &weights, |solution| {
                    batch::write_bytes(solution, &mut faults);
                    solution.weight()
                })?;
                Ok::<_, SolveError>((faults, weight))
            })
        })
    }

    /// Decodes one syndrome and reads the result from the worker.
    fn decode_one<T: Send>(
        &self,
        z: &Bound<'_, PyAny>,
        correlations: bool,
        wanted: Wanted,
        read: impl FnOnce(&Solver, &mut crate::solver::Worker, &[u8]) -> Result<T, SolveError> + Send,
    ) -> PyResult<T> {
        let py = z.py();
        let solver = self.solver(py, wanted)?;
        let syndrome = convert::syndrome(z, solver.num_detectors(), solver.num_nodes())?;
        let row = convert::bytes(&syndrome)?;
        let work = || {
            guarded(|| {
                let mut worker = solver.worker(correlations)?;
                let result = read(&solver, &mut worker, row);
                solver.give_back(worker);
                result
            })
        };
        if row.len() < RELEASE_FROM_NODES { work() } else { py.detach(work) }
    }

    fn matched_pairs(&self, syndrome: &Bound<'_, PyAny>) -> PyResult<Vec<(u32, Option<u32>)>> {
        self.decode_one(syndrome, false, Wanted::All, |solver, worker, row| {
            solver.check_pairs()?;
            let solution = worker.decode_bytes(solver, row)?;
            let in_order = |a: u32, b: Option<u32>| b.map_or((a, None), |b| (a.min(b), Some(a.max(b))));
            let mut pairs: Vec<_> = solution.pairs().iter().map(|pair| in_order(pair.a, pair.b)).collect();
            pairs.sort_unstable();
            Ok(pairs)
        })
    }
}

/// Warns if a weight is too large for an edge. Returns whether it is.
fn too_large(py: Python<'_>, ends: Ends, weight: f64) -> PyResult<bool> {
    if fits(weight) || weight.is_nan() {
        return Ok(false);
    }
    let text = format!(
        "Weight {weight} of edge {ends} exceeds maximum edge weight 16777215 and has not been added to the \
         matching graph."
    );
    let text = std::ffi::CString::new(text).unwrap_or_default();
    PyErr::warn(py, &py.get_type::<PyUserWarning>(), &text, 1)?;
    Ok(true)
}

fn pairs_array(py: Python<'_>, flat: &[i64]) -> PyResult<Py<PyAny>> {
    Ok(PyArray1::from_slice(py, flat).reshape([flat.len() / 2, 2])?.into_any().unbind())
}

#[pymethods]
impl MatchingGraph {
    #[new]
    #[pyo3(signature = (*_args, **_kwargs))]
    fn new(_args: &Bound<'_, PyTuple>, _kwargs: Option<&Bound<'_, PyDict>>) -> Self {
        Self { state: Mutex::default() }
    }

    #[doc = include_str!("doc/add_edge.txt")]
    #[pyo3(signature = (node1, node2, fault_ids=None, weight=1.0, error_probability=None, *, merge_strategy="disallow", **kwargs),
           text_signature = "($self, node1, node2, fault_ids=None, weight=1.0, error_probability=None, *, merge_strategy='disallow', **kwargs)")]
    #[expect(clippy::too_many_arguments, reason = "as PyMatching has them")]
    fn add_edge(
        &self,
        node1: &Bound<'_, PyAny>,
        node2: &Bound<'_, PyAny>,
        fault_ids: Option<&Bound<'_, PyAny>>,
        weight: f64,
        error_probability: Option<&Bound<'_, PyAny>>,
        merge_strategy: &str,
        kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let qubit_id = kwargs.map_or(Ok(None), |kwargs| kwargs.get_item("qubit_id"))?;
        if qubit_id.is_some() && fault_ids.is_some() {
            return Err(PyValueError::new_err(
                "both `fault_ids` and its old name `qubit_id` are given: give `fault_ids` alone",
            ));
        }
        let ends = (convert::node("node1", node1)?, Some(convert::node("node2", node2)?));
        self.add(node1.py(), ends, fault_ids.or(qubit_id.as_ref()), weight, error_probability, merge_strategy)
    }

    #[doc = include_str!("doc/add_boundary_edge.txt")]
    #[pyo3(signature = (node, fault_ids=None, weight=1.0, error_probability=None, *, merge_strategy="disallow", **_kwargs),
           text_signature = "($self, node, fault_ids=None, weight=1.0, error_probability=None, *, merge_strategy='disallow', **kwargs)")]
    fn add_boundary_edge(
        &self,
        node: &Bound<'_, PyAny>,
        fault_ids: Option<&Bound<'_, PyAny>>,
        weight: f64,
        error_probability: Option<&Bound<'_, PyAny>>,
        merge_strategy: &str,
        _kwargs: Option<&Bound<'_, PyDict>>,
    ) -> PyResult<()> {
        let ends = (convert::node("node", node)?, None);
        self.add(node.py(), ends, fault_ids, weight, error_probability, merge_strategy)
    }

    #[doc = include_str!("doc/edges.txt")]
    fn edges<'py>(&self, py: Python<'py>) -> PyResult<Vec<EdgeTuple<'py>>> {
        let edges = self.state().graph.edges().to_vec();
        edges.iter().map(|edge| Ok((edge.u, edge.v, convert::attributes(py, edge)?))).collect()
    }

    #[doc = include_str!("doc/has_edge.txt")]
    fn has_edge(&self, node1: &Bound<'_, PyAny>, node2: &Bound<'_, PyAny>) -> PyResult<bool> {
        let (u, v) = (convert::natural("node1", node1)?, convert::natural("node2", node2)?);
        Ok(self.find(u, Some(v)).is_some())
    }

    #[doc = include_str!("doc/has_boundary_edge.txt")]
    fn has_boundary_edge(&self, node: &Bound<'_, PyAny>) -> PyResult<bool> {
        Ok(self.find(convert::natural("node", node)?, None).is_some())
    }

    #[doc = include_str!("doc/get_edge_data.txt")]
    fn get_edge_data<'py>(
        &self,
        node1: &Bound<'py, PyAny>,
        node2: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (u, v) = (convert::natural("node1", node1)?, convert::natural("node2", node2)?);
        let missing = || PyValueError::new_err(format!("there is no edge ({u}, {v}) in the graph"));
        convert::attributes(node1.py(), &self.find(u, Some(v)).ok_or_else(missing)?)
    }

    #[doc = include_str!("doc/get_boundary_edge_data.txt")]
    fn get_boundary_edge_data<'py>(&self, node: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let u = convert::natural("node", node)?;
        let missing = || PyValueError::new_err(format!("there is no boundary edge ({u},) in the graph"));
        convert::attributes(node.py(), &self.find(u, None).ok_or_else(missing)?)
    }

    #[doc = include_str!("doc/set_boundary_nodes.txt")]
    fn set_boundary_nodes(&self, nodes: &Bound<'_, PyAny>) -> PyResult<()> {
        let nodes = convert::naturals("nodes", nodes)?;
        Ok(self.change(|graph| graph.set_boundary(&nodes))?)
    }

    /// The indices of the boundary nodes, as a new set.
    ///
    /// >>> import ringcall
    /// >>> ringcall.Matching([[1, 1, 0], [0, 1, 1]]).boundary
    /// {2}
    #[getter]
    fn boundary<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PySet>> {
        let nodes: Vec<u32> = self.state().graph.boundary().iter().copied().collect();
        PySet::new(py, nodes)
    }

    /// The number of nodes that can fire: all but boundary nodes.
    ///
    /// >>> import ringcall
    /// >>> ringcall.Matching([[1, 1, 0], [0, 1, 1]]).num_detectors
    /// 2
    #[getter]
    fn num_detectors(&self) -> usize {
        self.state().graph.num_detectors()
    }

    /// The number of nodes, boundary nodes included.
    ///
    /// >>> import ringcall
    /// >>> ringcall.Matching([[1, 1, 0], [0, 1, 1]]).num_nodes
    /// 3
    #[getter]
    fn num_nodes(&self) -> usize {
        self.state().graph.num_nodes()
    }

    /// The number of edges.
    ///
    /// >>> import ringcall
    /// >>> ringcall.Matching([[1, 1, 0], [0, 1, 1]]).num_edges
    /// 3
    #[getter]
    fn num_edges(&self) -> usize {
        self.state().graph.edges().len()
    }

    /// The number of fault ids: the length of the array that `decode` returns.
    ///
    /// >>> import ringcall
    /// >>> ringcall.Matching([[1, 1, 0], [0, 1, 1]]).num_fault_ids
    /// 3
    #[getter]
    fn num_fault_ids(&self) -> usize {
        self.state().graph.num_faults()
    }

    #[doc = include_str!("doc/ensure_num_fault_ids.txt")]
    fn ensure_num_fault_ids(&self, min_num_fault_ids: &Bound<'_, PyAny>) -> PyResult<()> {
        let faults = convert::natural("min_num_fault_ids", min_num_fault_ids)?;
        Ok(self.change(|graph| graph.ensure_faults(faults))?)
    }

    #[doc = include_str!("doc/add_noise.txt")]
    fn add_noise<'py>(&self, py: Python<'py>) -> Option<(Bytes<'py>, Bytes<'py>)> {
        let drawn = noise::sample(&self.state().graph);
        drawn.map(|(faults, syndrome)| {
            (PyArray1::from_slice(py, &faults), PyArray1::from_slice(py, &syndrome))
        })
    }

    #[doc = include_str!("doc/decode.txt")]
    #[pyo3(signature = (z, *, return_weight=false, enable_correlations=false, edge_reweights=None, **_kwargs),
           text_signature = "($self, z, *, return_weight=False, enable_correlations=False, edge_reweights=None, **kwargs)")]
    fn decode<'py>(
        &self,
        z: &Bound<'py, PyAny>,
        return_weight: bool,
        enable_correlations: bool,
        edge_reweights: Option<&Bound<'py, PyAny>>,
        _kwargs: Option<&Bound<'py, PyDict>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (faults, weight) = match edge_reweights {
            Some(_) if enable_correlations => return Err(SolveError::ReweightedTwice.into()),
            Some(reweights) => self.decode_reweighted(z, reweights)?,
            None => self.decode_one(
                z,
                enable_correlations,
                Wanted::faults_unless(return_weight),
                |solver, worker, row| {
                    let solution = worker.decode_bytes(solver, row)?;
                    let mut faults = vec![0; solver.num_faults()];
                    batch::write_bytes(solution, &mut faults);
                    Ok((faults, solution.weight()))
                },
            )?,
        };
        let array = PyArray1::from_slice(z.py(), &faults);
        if return_weight {
            Ok((array, weight).into_pyobject(z.py())?.into_any())
        } else {
            Ok(array.into_any())
        }
    }

    #[doc = include_str!("doc/decode_batch.txt")]
    #[pyo3(signature = (shots, *, return_weights=false, bit_packed_shots=false, bit_packed_predictions=false,
                        enable_correlations=false, threads=Some(1)),
           text_signature = "($self, shots, *, return_weights=False, bit_packed_shots=False, bit_packed_predictions=False, enable_correlations=False, threads=1)")]
    fn decode_batch<'py>(
        &self,
        shots: &Bound<'py, PyAny>,
        return_weights: bool,
        bit_packed_shots: bool,
        bit_packed_predictions: bool,
        enable_correlations: bool,
        threads: Option<i64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let py = shots.py();
        let threads = match threads {
            None => std::thread::available_parallelism().map_or(1, usize::from),
            Some(count @ 1..) => usize::try_from(count).unwrap_or(usize::MAX),
            Some(_) => {
                return Err(PyValueError::new_err("`threads` must be at least 1, or None for one a core"));
            }
        };
        let solver = self.solver(py, Wanted::faults_unless(return_weights))?;
        let counts = (solver.num_detectors(), solver.num_nodes());
        let shots = convert::helper(py, "shots")?.call1((shots, counts.0, counts.1, bit_packed_shots))?;
        let shots = shots.cast::<PyArray2<u8>>()?.try_readonly()?;
        let [count, row_bytes] = [shots.shape()[0], shots.shape()[1]];
        let rows = Rows { bytes: convert::bytes(&shots)?, count, row_bytes, bit_packed: bit_packed_shots };

        let faults = solver.num_faults();
        let row_bytes = if bit_packed_predictions { faults.div_ceil(8) } else { faults };
        // Numpy's own function raises the right error if memory runs out.
        let zeros = py.import("numpy")?.getattr("zeros")?;
        let predictions = zeros.call1(((count, row_bytes), "uint8"))?;
        let mut written = predictions.cast::<PyArray2<u8>>()?.try_readwrite()?;
        let weights = if return_weights { Some(zeros.call1((count,))?) } else { None };
        let mut weights_written = match &weights {
            Some(weights) => Some(weights.cast::<PyArray1<f64>>()?.try_readwrite()?),
            None => None,
        };
        let contiguous = |_| PyValueError::new_err("the array is not contiguous");
        let bytes = written.as_slice_mut().map_err(contiguous)?;
        let answers = Rows { bytes, count, row_bytes, bit_packed: bit_packed_predictions };
        let answer_weights = match &mut weights_written {
            Some(weights) => Some(weights.as_slice_mut().map_err(contiguous)?),
            None => None,
        };
        let mut interrupt = None;
        let done = py.detach(|| {
            let ask = || {
                #[expect(
                    clippy::redundant_closure_for_method_calls,
                    reason = "the method fits no lifetime but one"
                )]
                let raised = Python::attach(|py| py.check_signals()).err();
                interrupt = raised;
                interrupt.is_none()
            };
            batch::decode(&solver, enable_correlations, &rows, answers, answer_weights, threads, ask)
        });
        match done {
            Ok(()) => {}
            Err(Stopped::Failed(error)) => return Err(error.into()),
            Err(Stopped::Asked) => return Err(interrupt.unwrap_or_else(convert::defect)),
            Err(Stopped::Panicked) => return Err(convert::defect()),
        }
        match weights {
            Some(weights) => Ok((predictions, weights).into_pyobject(py)?.into_any()),
            None => Ok(predictions),
        }
    }

    #[doc = include_str!("doc/decode_to_edges_array.txt")]
    #[pyo3(signature = (syndrome, *, enable_correlations=false))]
    fn decode_to_edges_array(
        &self,
        syndrome: &Bound<'_, PyAny>,
        enable_correlations: bool,
    ) -> PyResult<Py<PyAny>> {
        let edges = self.decode_one(syndrome, enable_correlations, Wanted::All, |solver, worker, row| {
            worker.decode_bytes(solver, row)?;
            Ok(worker.edges())
        })?;
        pairs_array(syndrome.py(), &edges)
    }

    #[doc = include_str!("doc/decode_to_matched_dets_array.txt")]
    fn decode_to_matched_dets_array(&self, syndrome: &Bound<'_, PyAny>) -> PyResult<Py<PyAny>> {
        let pairs = self.matched_pairs(syndrome)?;
        let flat: Vec<i64> =
            pairs.into_iter().flat_map(|(a, b)| [a.into(), b.map_or(-1, i64::from)]).collect();
        pairs_array(syndrome.py(), &flat)
    }

    #[doc = include_str!("doc/decode_to_matched_dets_dict.txt")]
    fn decode_to_matched_dets_dict<'py>(&self, syndrome: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(syndrome.py());
        for (a, b) in self.matched_pairs(syndrome)? {
            dict.set_item(a, b)?;
            if let Some(b) = b {
                dict.set_item(b, a)?;
            }
        }
        Ok(dict)
    }

    /// For `Matching.stream`.
    fn _stream(
        &self,
        py: Python<'_>,
        rounds: PyReadonlyArray1<'_, i64>,
        enable_correlations: bool,
    ) -> PyResult<Stream> {
        Stream::new(py, &*self.solver(py, Wanted::All)?, rounds.as_slice()?, enable_correlations)
    }

    /// For `Matching.endless`.
    fn _endless(
        &self,
        py: Python<'_>,
        rounds: PyReadonlyArray1<'_, i64>,
        margin: usize,
        enable_correlations: bool,
    ) -> PyResult<Endless> {
        Endless::new(py, &*self.solver(py, Wanted::All)?, rounds.as_slice()?, margin, enable_correlations)
    }

    fn __repr__(&self) -> String {
        let state = self.state();
        let graph = &state.graph;
        let count = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        format!(
            "<ringcall.Matching object with {}, {}, and {}>",
            count(graph.num_detectors(), "detector"),
            count(graph.boundary().len(), "boundary node"),
            count(graph.edges().len(), "edge"),
        )
    }

    /// Empties the graph.
    fn _clear(&self, num_nodes: u64, num_fault_ids: &Bound<'_, PyAny>) -> PyResult<()> {
        let mut graph = Graph::default();
        graph.ensure_nodes(num_nodes)?;
        graph.ensure_faults(convert::natural("min_num_fault_ids", num_fault_ids)?)?;
        self.replace(graph);
        Ok(())
    }

    /// Takes the graph of another object, which is then empty.
    fn _take(&self, other: &Bound<'_, Self>) {
        let graph = other.get().change(std::mem::take);
        self.replace(graph);
    }

    /// Loads the text of a detector error model.
    fn _load_model_text(&self, py: Python<'_>, text: &str, correlations: bool) -> PyResult<()> {
        let load = || Ok::<_, PyErr>(load::from_model(&load::parse(text)?, correlations)?);
        self.replace(py.detach(|| guarded(load))?);
        Ok(())
    }

    /// Loads a file with a detector error model.
    fn _load_model_file(&self, py: Python<'_>, path: std::path::PathBuf, correlations: bool) -> PyResult<()> {
        let load = || Ok::<_, PyErr>(load::from_model(&load::read(&path)?, correlations)?);
        self.replace(py.detach(|| guarded(load))?);
        Ok(())
    }

    /// Loads a check matrix, given by its columns.
    #[expect(clippy::too_many_arguments, reason = "`ringcall._load` is the only caller")]
    fn _load_columns(
        &self,
        checks: u64,
        columns: (PyReadonlyArray1<'_, i64>, PyReadonlyArray1<'_, i64>),
        num_faults: u64,
        faults: Option<(PyReadonlyArray1<'_, i64>, PyReadonlyArray1<'_, i64>)>,
        weights: PyReadonlyArray1<'_, f64>,
        probabilities: PyReadonlyArray1<'_, f64>,
        repetitions: u64,
        timelike_weights: PyReadonlyArray1<'_, f64>,
        timelike_probabilities: PyReadonlyArray1<'_, f64>,
        merge_strategy: &str,
        virtual_boundary: bool,
    ) -> PyResult<()> {
        let faults = match &faults {
            Some((starts, rows)) => Some(Columns { starts: starts.as_slice()?, rows: rows.as_slice()? }),
            None => None,
        };
        let matrix = CheckMatrix {
            checks,
            columns: Columns { starts: columns.0.as_slice()?, rows: columns.1.as_slice()? },
            num_faults,
            faults,
            weights: weights.as_slice()?,
            probabilities: probabilities.as_slice()?,
            repetitions,
            timelike_weights: timelike_weights.as_slice()?,
            timelike_probabilities: timelike_probabilities.as_slice()?,
            merge: convert::merge_strategy(merge_strategy)?,
            virtual_boundary,
        };
        self.replace(guarded(|| matrix.graph())?);
        Ok(())
    }
}

impl MatchingGraph {
    fn add(
        &self,
        py: Python<'_>,
        (u, v): (u32, Option<u32>),
        fault_ids: Option<&Bound<'_, PyAny>>,
        weight: f64,
        error_probability: Option<&Bound<'_, PyAny>>,
        merge_strategy: &str,
    ) -> PyResult<()> {
        let faults = convert::faults(fault_ids)?;
        let probability = convert::edge_probability(error_probability)?;
        let merge = convert::merge_strategy(merge_strategy)?;
        if !too_large(py, Ends(u, v), weight)? {
            self.change(|graph| graph.add(Edge { u, v, weight, probability, faults }, merge))?;
        }
        Ok(())
    }

    fn find(&self, u: u64, v: Option<u64>) -> Option<Edge> {
        let u = u32::try_from(u).ok()?;
        let v = match v {
            Some(v) => Some(u32::try_from(v).ok()?),
            None => None,
        };
        self.state().graph.find(u, v).cloned()
    }
}
