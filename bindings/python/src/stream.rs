//! Streams: syndromes that are decoded round by round, of a fixed number of rounds or without end.

use std::sync::{Mutex, MutexGuard, PoisonError};

use numpy::PyArray1;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringcall_matching::{
    EndlessConfig, EndlessDecoder, MatchingError, RoundsError, SlidingError, StreamingDecoder,
};

use crate::batch::write_words;
use crate::convert::{self, guarded};
use crate::solver::{SolveError, Solver};

type Faults<'py> = Bound<'py, PyArray1<u8>>;

/// Why there is no stream, or why a round is refused.
#[derive(Debug, thiserror::Error)]
enum StreamError {
    #[error(transparent)]
    Solve(#[from] SolveError),
    #[error(transparent)]
    Rounds(#[from] RoundsError),
    #[error(transparent)]
    Sliding(#[from] SlidingError),
    #[error(
        "`rounds` must have a number for each of the graph's {detectors} detectors, or of its {nodes} nodes, but has {found}"
    )]
    Length { found: usize, detectors: usize, nodes: usize },
    #[error("the round {0} is not a number from 0 to {most}", most = u32::MAX)]
    Round(i64),
    #[error("a run without end has no boundary nodes: give the boundary as edges of one end")]
    BoundaryNodes,
    #[error("`tail` must have {expected} rounds, but has {found}")]
    Tail { found: usize, expected: usize },
    #[error("another thread has given a round meanwhile")]
    Meanwhile,
}

impl From<MatchingError> for StreamError {
    fn from(error: MatchingError) -> Self {
        Self::Solve(error.into())
    }
}

impl From<StreamError> for PyErr {
    fn from(error: StreamError) -> Self {
        PyValueError::new_err(error.to_string())
    }
}

/// The round of each node. Boundary nodes that `rounds` leaves out never fire, so any round will do.
fn rounds_of(solver: &Solver, rounds: &[i64]) -> Result<Vec<u32>, StreamError> {
    let (detectors, nodes) = (solver.num_detectors(), solver.num_nodes());
    if !(detectors..=nodes).contains(&rounds.len()) {
        return Err(StreamError::Length { found: rounds.len(), detectors, nodes });
    }
    let number = |&round: &i64| u32::try_from(round).map_err(|_| StreamError::Round(round));
    let mut of = rounds.iter().map(number).collect::<Result<Vec<_>, _>>()?;
    of.resize(nodes, 0);
    Ok(of)
}

/// A byte for each fault id of these words.
fn faults(words: &[u64], count: usize) -> Vec<u8> {
    let mut row = vec![0; count];
    write_words(words, &mut row);
    row
}

/// The indices of the bytes that are not 0.
fn places(row: &[u8]) -> impl Iterator<Item = u32> {
    (0..).zip(row).filter(|(_, byte)| **byte != 0).map(|(at, _)| at)
}

/// A syndrome that comes round by round, and is mostly decoded before its last round.
///
/// `Matching.stream` makes it.
///
/// >>> import ringcall
/// >>> m = ringcall.Matching()
/// >>> for t in range(3):
/// ...     m.add_boundary_edge(t, fault_ids=0, weight=2)
/// >>> m.add_edge(0, 1, weight=1)
/// >>> m.add_edge(1, 2, weight=1)
/// >>> stream = m.stream([0, 1, 2])
/// >>> [stream.push([bit]) for bit in (0, 1, 1)]
/// [None, None, array([0], dtype=uint8)]
/// >>> stream.weight
/// 1.0
#[pyclass(frozen, module = "ringcall")]
pub(crate) struct Stream {
    /// The detectors of each round, in order.
    detectors: Vec<Vec<u32>>,
    faults: usize,
    state: Mutex<Streaming>,
}

struct Streaming {
    decoder: StreamingDecoder,
    defects: Vec<u32>,
    weight: Option<f64>,
}

impl Stream {
    pub(crate) fn new(py: Python<'_>, solver: &Solver, rounds: &[i64], correlations: bool) -> PyResult<Self> {
        py.detach(|| {
            guarded(|| {
                let of = rounds_of(solver, rounds)?;
                let decoder =
                    solver.with_decoder(correlations, |decoder| StreamingDecoder::new(decoder, &of))??;
                let mut detectors = vec![Vec::new(); decoder.num_rounds()];
                for (node, &round) in (0..).zip(&of).take(rounds.len()) {
                    if !solver.never_fires(node) {
                        detectors[round as usize].push(node);
                    }
                }
                let state = Mutex::new(Streaming { decoder, defects: Vec::new(), weight: None });
                Ok::<_, StreamError>(Self { detectors, faults: solver.num_faults(), state })
            })
        })
    }

    fn state(&self) -> MutexGuard<'_, Streaming> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Stream {
    /// Takes the next round: an element for each of its detectors (`detectors`), not 0 for one that fired. Returns the fault ids
    /// of the correction, as `Matching.decode` does, after the last round, and None before. The next round is then the first of
    /// the next syndrome. A round that is refused with a ValueError can be given again.
    fn push<'py>(&self, round: &Bound<'py, PyAny>) -> PyResult<Option<Faults<'py>>> {
        let py = round.py();
        // Bytes are read before the state is locked, since reading may run Python code.
        let next = self.state().decoder.next_round();
        let own = &self.detectors[next];
        let bytes = convert::syndrome(round, own.len(), own.len())?;
        let bytes = convert::bytes(&bytes)?;
        let row = guarded(|| {
            let mut state = self.state();
            if state.decoder.next_round() != next {
                return Err(StreamError::Meanwhile);
            }
            let Streaming { decoder, defects, weight } = &mut *state;
            defects.clear();
            defects.extend(places(bytes).map(|at| own[at as usize]));
            let solution = decoder.push_round(defects)?;
            Ok(solution.map(|solution| {
                *weight = Some(solution.weight());
                faults(solution.observables(), self.faults)
            }))
        })?;
        Ok(row.map(|row| PyArray1::from_vec(py, row)))
    }

    /// The detectors of a round, in the order in which `push` takes them.
    fn detectors<'py>(&self, py: Python<'py>, round: usize) -> PyResult<Bound<'py, PyArray1<i64>>> {
        let missing = || PyValueError::new_err(format!("there are {} rounds", self.detectors.len()));
        let own: Vec<i64> =
            self.detectors.get(round).ok_or_else(missing)?.iter().copied().map(i64::from).collect();
        Ok(PyArray1::from_vec(py, own))
    }

    /// The number of rounds of a syndrome.
    #[getter]
    fn num_rounds(&self) -> usize {
        self.detectors.len()
    }

    /// The round that comes next.
    #[getter]
    fn next_round(&self) -> usize {
        self.state().decoder.next_round()
    }

    /// The weight of the last correction; None before the first.
    #[getter]
    fn weight(&self) -> Option<f64> {
        self.state().weight
    }

    /// Forgets the rounds of an unfinished syndrome.
    fn restart(&self) {
        self.state().decoder.restart();
    }
}

/// A run of any number of rounds, decoded as they come, in memory that does not grow with the run.
///
/// `Matching.endless` makes it.
///
/// >>> import ringcall
/// >>> m = ringcall.Matching()
/// >>> for t in range(6):
/// ...     m.add_boundary_edge(t, fault_ids=0, weight=3)
/// >>> for t in range(5):
/// ...     m.add_edge(t, t + 1, weight=2)
/// >>> run = m.endless(range(6))
/// >>> for t in range(10_000):
/// ...     _ = run.push([t in (500, 501)])
/// >>> run.finish([[0]] * run.tail_rounds), run.weight, run.forced
/// (array([0], dtype=uint8), 2.0, 0)
#[pyclass(frozen, module = "ringcall")]
pub(crate) struct Endless {
    /// The number of detectors of each of the last rounds.
    tail: Vec<usize>,
    faults: usize,
    state: Mutex<Running>,
}

struct Running {
    decoder: EndlessDecoder,
    defects: Vec<u32>,
}

impl Endless {
    pub(crate) fn new(
        py: Python<'_>,
        solver: &Solver,
        rounds: &[i64],
        margin: usize,
        correlations: bool,
    ) -> PyResult<Self> {
        py.detach(|| {
            guarded(|| {
                let of = rounds_of(solver, rounds)?;
                if solver.num_detectors() < solver.num_nodes() {
                    return Err(StreamError::BoundaryNodes);
                }
                let mut config = EndlessConfig::default();
                (config.margin, config.correlations) = (margin, correlations);
                let decoder = solver.with_decoder(correlations, |decoder| {
                    EndlessDecoder::new(decoder.graph(), &of, &config)
                })??;
                let mut tail = vec![0; of.iter().max().map_or(0, |&last| last as usize + 1)];
                of.iter().for_each(|&round| tail[round as usize] += 1);
                tail.drain(..tail.len().saturating_sub(decoder.tail_rounds()));
                let state = Mutex::new(Running { decoder, defects: Vec::new() });
                Ok(Self { tail, faults: solver.num_faults(), state })
            })
        })
    }

    fn state(&self) -> MutexGuard<'_, Running> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[pymethods]
impl Endless {
    /// Takes the next round: an element for each of its detectors, not 0 for one that fired. Returns whether the window moved on:
    /// then `fault_ids` may have changed.
    fn push(&self, round: &Bound<'_, PyAny>) -> PyResult<bool> {
        let expected = {
            let state = self.state();
            state.decoder.detectors(state.decoder.progress().0) as usize
        };
        let bytes = convert::syndrome(round, expected, expected)?;
        let bytes = convert::bytes(&bytes)?;
        guarded(|| {
            let mut state = self.state();
            let Running { decoder, defects } = &mut *state;
            defects.clear();
            defects.extend(places(bytes));
            Ok::<_, StreamError>(decoder.push_round(defects)?)
        })
    }

    /// Ends the run with its last rounds, `tail_rounds` of them. Returns the fault ids of the correction of the whole run. The
    /// next round is the first of another run.
    fn finish<'py>(&self, py: Python<'py>, tail: Vec<Bound<'py, PyAny>>) -> PyResult<Faults<'py>> {
        if tail.len() != self.tail.len() {
            return Err(StreamError::Tail { found: tail.len(), expected: self.tail.len() }.into());
        }
        let mut rounds = Vec::with_capacity(tail.len());
        for (round, &expected) in tail.iter().zip(&self.tail) {
            let row = convert::syndrome(round, expected, expected)?;
            rounds.push(places(convert::bytes(&row)?).collect::<Vec<u32>>());
        }
        let rounds: Vec<&[u32]> = rounds.iter().map(Vec::as_slice).collect();
        let row = guarded(|| {
            let mut state = self.state();
            let words = state.decoder.finish(&rounds)?;
            Ok::<_, StreamError>(faults(words, self.faults))
        })?;
        Ok(PyArray1::from_vec(py, row))
    }

    /// The fault ids of the decisions so far.
    #[getter]
    fn fault_ids<'py>(&self, py: Python<'py>) -> Faults<'py> {
        let row = faults(self.state().decoder.observables(), self.faults);
        PyArray1::from_vec(py, row)
    }

    /// The weight of the decisions so far; after `finish`, of the whole run.
    #[getter]
    fn weight(&self) -> f64 {
        self.state().decoder.weight()
    }

    /// How often a decision was made that later rounds might have changed. If 0, the correction has the least weight (without
    /// correlations).
    #[getter]
    fn forced(&self) -> u64 {
        self.state().decoder.forced()
    }

    /// The number of rounds given so far, and how many of them are decided.
    #[getter]
    fn progress(&self) -> (usize, usize) {
        self.state().decoder.progress()
    }

    /// The number of rounds that `finish` takes.
    #[getter]
    fn tail_rounds(&self) -> usize {
        self.state().decoder.tail_rounds()
    }

    /// The fewest rounds of a run, including those of the tail.
    #[getter]
    fn least_rounds(&self) -> usize {
        self.state().decoder.least_rounds()
    }

    /// Rounds after which a matched pair is decided.
    #[getter]
    fn margin(&self) -> usize {
        self.state().decoder.margin()
    }

    /// The number of detectors of round `round` of a run.
    fn num_detectors(&self, round: usize) -> u32 {
        self.state().decoder.detectors(round)
    }

    /// Forgets an unfinished run.
    fn restart(&self) {
        self.state().decoder.restart();
    }
}
