//! A client of a decoder service, over UDP.

use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use numpy::{PyArray1, PyArray2, PyArrayMethods, PyReadonlyArray2, PyUntypedArrayMethods};
use pyo3::exceptions::{PyRuntimeError, PyTimeoutError, PyValueError};
use pyo3::prelude::*;
use ringcall_transport::{CallerError, CallerOptions, RequestOutcome, TransportError, udp};
use ringcall_wire::function::{FunctionId, names};
use ringcall_wire::qec::DecodeResponse;
use ringcall_wire::status::Status;

use crate::convert::{self, guarded};

/// How often the client checks for Ctrl-C.
const ASK_EVERY: Duration = Duration::from_millis(50);
/// Turns without an answer after which the thread yields to others.
const SPINS: u32 = 64;

/// Why a batch has no answers.
#[derive(Debug, thiserror::Error)]
enum ClientError {
    #[error("no socket for a client of {address}: {source}")]
    Socket { address: SocketAddr, source: TransportError },
    #[error("the service gave no answer to shot {shot} within {:.3} s", after.as_secs_f64())]
    Lost { shot: usize, after: Duration },
    #[error("shot {0} could not be sent: nobody listens there")]
    Unsent(usize),
    #[error("the service refused shot {shot}: {status}")]
    Refused { shot: usize, status: Status },
    #[error(
        "the answer to shot {shot} has {found} bytes, not {expected}: is that another experiment's service?"
    )]
    Length { shot: usize, found: usize, expected: usize },
    #[error(transparent)]
    Call(#[from] CallerError),
}

impl From<ClientError> for PyErr {
    fn from(error: ClientError) -> Self {
        let text = error.to_string();
        match error {
            ClientError::Lost { .. } => PyTimeoutError::new_err(text),
            ClientError::Call(CallerError::TooLong { .. }) => PyValueError::new_err(text),
            _ => PyRuntimeError::new_err(text),
        }
    }
}

/// Why a batch ended early.
enum Stopped {
    Interrupted(PyErr),
    Failed(ClientError),
}

impl From<Stopped> for PyErr {
    fn from(stopped: Stopped) -> Self {
        match stopped {
            Stopped::Interrupted(raised) => raised,
            Stopped::Failed(error) => error.into(),
        }
    }
}

/// Bit-packed observables, the service's report on each decode, and each request's latency.
type Answers<'py> = (Bound<'py, PyArray2<u8>>, Bound<'py, PyArray1<i32>>, Bound<'py, PyArray1<f64>>);

/// The answers to a batch's shots.
struct Batch {
    observables: Vec<u8>,
    row_bytes: usize,
    converged: Vec<i32>,
    took_us: Vec<f64>,
    ended: usize,
    failed: Option<ClientError>,
}

impl Batch {
    fn new(shots: usize, row_bytes: usize) -> Self {
        Self {
            observables: vec![0; shots * row_bytes],
            row_bytes,
            converged: vec![0; shots],
            took_us: vec![0.0; shots],
            ended: 0,
            failed: None,
        }
    }

    /// Records how a shot ended.
    fn take(&mut self, shot: usize, outcome: RequestOutcome<'_>, took: Duration) {
        self.ended += 1;
        if let Err(error) = self.read(shot, outcome, took) {
            self.failed.get_or_insert(error);
        }
    }

    fn read(&mut self, shot: usize, outcome: RequestOutcome<'_>, took: Duration) -> Result<(), ClientError> {
        let (header, result) = match outcome {
            RequestOutcome::Answered(header, result) => (header, result),
            RequestOutcome::Lost => return Err(ClientError::Lost { shot, after: took }),
            RequestOutcome::Unsent => return Err(ClientError::Unsent(shot)),
        };
        if !header.status().is_ok() {
            return Err(ClientError::Refused { shot, status: header.status() });
        }
        let expected = self.row_bytes + DecodeResponse::BYTES;
        let wrong = || ClientError::Length { shot, found: result.len(), expected };
        let (bits, response) = result.split_at_checked(self.row_bytes).ok_or_else(wrong)?;
        let response = DecodeResponse::from_bytes(response).map_err(|_| wrong())?;
        self.observables[shot * self.row_bytes..][..self.row_bytes].copy_from_slice(bits);
        self.converged[shot] = response.converged;
        self.took_us[shot] = took.as_secs_f64() * 1e6;
        Ok(())
    }
}

/// Sends `decode_syndrome` requests to a service.
#[pyclass(frozen, module = "ringcall._ringcall")]
pub(crate) struct ServiceClient {
    caller: Mutex<udp::Caller>,
}

#[pymethods]
impl ServiceClient {
    #[new]
    #[pyo3(signature = (address, *, window, timeout_s))]
    fn new(address: &str, window: usize, timeout_s: f64) -> PyResult<Self> {
        let address: SocketAddr = address
            .parse()
            .map_err(|_| PyValueError::new_err(format!("`{address}` is not an address and a port")))?;
        let deadline = Duration::try_from_secs_f64(timeout_s)
            .map_err(|_| PyValueError::new_err(format!("the timeout of {timeout_s} s is not a time")))?;
        if window == 0 {
            return Err(PyValueError::new_err("a window of no requests lets none out"));
        }
        let mut options = CallerOptions::default();
        (options.window, options.deadline, options.frame_bytes) = (window, deadline, udp::MAX_DATAGRAM_BYTES);
        let caller = udp::Caller::connect(address, &options)
            .map_err(|source| ClientError::Socket { address, source })?;
        Ok(Self { caller: Mutex::new(caller) })
    }

    /// Sends a request for each row of packed detectors, as many at a time as the window allows. Returns the answers in the same
    /// order.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        shots: PyReadonlyArray2<'_, u8>,
        observable_bytes: usize,
    ) -> PyResult<Answers<'py>> {
        let [count, row_bytes] = [shots.shape()[0], shots.shape()[1]];
        let bytes = convert::bytes(&shots)?;
        let batch = py.detach(|| {
            guarded(|| {
                let row = |shot: usize| &bytes[shot * row_bytes..][..row_bytes];
                self.ask(count, row, Batch::new(count, observable_bytes))
            })
        })?;
        let predictions = PyArray1::from_vec(py, batch.observables).reshape([count, observable_bytes])?;
        Ok((predictions, PyArray1::from_vec(py, batch.converged), PyArray1::from_vec(py, batch.took_us)))
    }
}

impl ServiceClient {
    fn ask<'a>(
        &self,
        count: usize,
        row: impl Fn(usize) -> &'a [u8],
        mut batch: Batch,
    ) -> Result<Batch, Stopped> {
        let mut caller = self.caller.lock().unwrap_or_else(PoisonError::into_inner);
        let function = FunctionId::of(names::DECODE_SYNDROME);
        let (mut first, mut sent, mut idle) = (None, 0, 0_u32);
        let mut asked = Instant::now();
        while batch.ended < count {
            while sent < count && caller.room() > 0 {
                match caller.send(function, 0, row(sent)) {
                    Ok(id) => {
                        first.get_or_insert(id);
                        sent += 1;
                    }
                    Err(CallerError::Full(_)) => break,
                    Err(error) => return Err(Stopped::Failed(error.into())),
                }
            }
            let before = batch.ended;
            caller.poll(|ended| {
                // Ids count up. Answers to an earlier batch that was interrupted are ignored.
                let shot = first.map_or(usize::MAX, |first| ended.id.wrapping_sub(first) as usize);
                if shot < sent {
                    batch.take(shot, ended.outcome, ended.took);
                }
            });
            if let Some(error) = batch.failed {
                return Err(Stopped::Failed(error));
            }
            idle = if batch.ended > before { 0 } else { idle.saturating_add(1) };
            if idle > SPINS {
                std::thread::yield_now();
            }
            if asked.elapsed() >= ASK_EVERY {
                asked = Instant::now();
                #[expect(
                    clippy::redundant_closure_for_method_calls,
                    reason = "the method fits no lifetime but one"
                )]
                Python::attach(|py| py.check_signals()).map_err(Stopped::Interrupted)?;
            }
        }
        Ok(batch)
    }
}
