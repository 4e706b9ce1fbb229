//! The `ringcall` command, and its results for a caller in Python.

use std::cell::{Cell, RefCell};
use std::ffi::OsString;
use std::time::{Duration, Instant};

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use ringcall_cli::CallError;

use crate::convert::guarded;

/// How often the command checks for Ctrl-C.
const ASK_EVERY: Duration = Duration::from_millis(50);

/// Runs a command line, whose first word is the program's name. Returns the exit status.
#[pyfunction]
pub(crate) fn command(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<u8> {
    py.detach(|| guarded(|| Ok::<_, PyErr>(ringcall_cli::main(arguments))))
}

/// Runs a command line of `run` or `sweep`. Returns its results as JSON and as an HTML page, and None for a shard.
#[pyfunction]
pub(crate) fn call(py: Python<'_>, arguments: Vec<OsString>) -> PyResult<Option<(String, String)>> {
    py.detach(|| {
        guarded(|| {
            let (asked, raised) = (Cell::new(Instant::now()), RefCell::new(None));
            let interrupted = || {
                if asked.get().elapsed() >= ASK_EVERY {
                    asked.set(Instant::now());
                    // The method itself is not general enough in its lifetimes.
                    #[expect(clippy::redundant_closure_for_method_calls)]
                    let checked = Python::attach(|py| py.check_signals());
                    *raised.borrow_mut() = checked.err();
                }
                raised.borrow().is_some()
            };
            match ringcall_cli::call(arguments, &interrupted) {
                Ok(called) => Ok(called.map(|called| (called.json, called.html))),
                Err(CallError::Usage(why)) => Err(PyValueError::new_err(why)),
                Err(error) => {
                    Err(raised.take().unwrap_or_else(|| PyRuntimeError::new_err(error.to_string())))
                }
            }
        })
    })
}
