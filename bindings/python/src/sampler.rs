//! Sampling of a model's shots, decoding and counting, without Python in between.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use ringcall_qec::sample::BulkSampler;
use ringcall_qec::shots::Shot;

use crate::convert::{self, guarded};
use crate::load;
use crate::noise;
use crate::solver::{Solver, Wanted, Worker};

/// How often the sampler checks for Ctrl-C.
const ASK_EVERY: Duration = Duration::from_millis(50);

struct State {
    sampler: BulkSampler,
    shot: Shot,
    worker: Worker,
}

/// Draws shots from a detector error model and counts how often matching is wrong about them.
#[pyclass(frozen, module = "ringcall._ringcall")]
pub(crate) struct ModelSampler {
    solver: Solver,
    state: Mutex<State>,
}

#[pymethods]
impl ModelSampler {
    #[new]
    #[pyo3(signature = (text, *, enable_correlations=false, seed=None))]
    fn new(py: Python<'_>, text: &str, enable_correlations: bool, seed: Option<u64>) -> PyResult<Self> {
        let seed = seed.unwrap_or_else(noise::seed_from_system);
        py.detach(|| {
            guarded(|| {
                let model = load::parse(text)?;
                let solver = Solver::new(&load::from_model(&model, enable_correlations)?, Wanted::Faults)?;
                let worker = solver.worker(enable_correlations)?;
                // Detectors that affect no answer are not drawn.
                let drawn = model.marginal(|detector| !worker.leaves_out(detector));
                let sampler = BulkSampler::new(&drawn, seed)
                    .map_err(|error| PyValueError::new_err(error.to_string()))?;
                let state = Mutex::new(State { shot: sampler.new_shot(), sampler, worker });
                Ok::<_, PyErr>(Self { solver, state })
            })
        })
    }

    /// Draws and decodes `shots` shots, or fewer if they take longer than `seconds`. Returns the number of shots, and of those in
    /// which some observable was predicted wrongly.
    #[pyo3(signature = (shots, seconds=f64::INFINITY))]
    fn count_errors(&self, py: Python<'_>, shots: u64, seconds: f64) -> PyResult<(u64, u64)> {
        let start = Instant::now();
        let mut done = Progress::default();
        while done.shots < shots {
            done = py.detach(|| guarded(|| self.count_for_a_while(done, shots)))?;
            py.check_signals()?;
            if start.elapsed().as_secs_f64() >= seconds {
                break;
            }
        }
        Ok((done.shots, done.errors))
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Progress {
    shots: u64,
    errors: u64,
}

impl ModelSampler {
    fn count_for_a_while(&self, mut done: Progress, shots: u64) -> Result<Progress, PyErr> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let State { sampler, shot, worker } = &mut *state;
        let start = Instant::now();
        while done.shots < shots {
            sampler.sample_into(shot).map_err(|_| convert::defect())?;
            let solution = worker.decode_words(&self.solver, shot.detectors.words())?;
            let predicted = solution.observables().iter();
            // Words beyond the last one count as zeros.
            let wrong =
                shot.observables.words().iter().zip(predicted).any(|(actual, predicted)| actual != predicted);
            done.errors += u64::from(wrong);
            done.shots += 1;
            if done.shots.is_multiple_of(16) && start.elapsed() >= ASK_EVERY {
                break;
            }
        }
        Ok(done)
    }
}
