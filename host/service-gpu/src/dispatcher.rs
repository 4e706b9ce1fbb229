//! The cooperative dispatcher with the network in it, as the pipeline knows a dispatcher that is elsewhere.

use crate::GpuPredecoderError;
use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::{Ring, RingConfig};
use ringcall_cuda::dispatcher::{DeviceDispatcher, Functions, MappedRing, Modules, Running, Wired};
use ringcall_cuda::driver::Context;
use ringcall_infer_gpu::{GridHandler, Network, Shape, Wiring};
use ringcall_pipeline::BoxError;
use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemoteStop};
use std::sync::Arc;
use std::time::Duration;

/// The kernel beats at least once a millisecond, but for the request that it serves, whose waits take no longer than this.
const PATIENCE: Duration = Duration::from_secs(1);

/// A kernel that polls a ring in mapped memory and answers each `decode_syndrome` with what the network leaves of it.
#[derive(Debug)]
pub struct GpuDispatcher {
    ring: MappedRing,
    /// Taken out only where a kernel may still run on it.
    handler: Option<GridHandler>,
    state: State,
}

#[derive(Debug)]
enum State {
    Wired(DeviceDispatcher<Wired>),
    Running(DeviceDispatcher<Running>),
    /// It failed, or never came back.
    Gone,
}

impl GpuDispatcher {
    pub(crate) fn new(
        network: &Network,
        wiring: &Wiring,
        context: &Arc<Context>,
        slots: u32,
    ) -> Result<Self, GpuPredecoderError> {
        let handler = GridHandler::new(network, context, wiring)?;
        let ring = MappedRing::allocate(context, RingConfig { slots, slot_bytes: handler.slot_bytes() })?;
        let functions = handler.function(Functions::new(), DECODE_SYNDROME);
        let modules = handler.modules(Modules::new());
        let wired = DeviceDispatcher::wire(&ring, functions, modules, handler.options())?;
        Ok(Self { ring, handler: Some(handler), state: State::Wired(wired) })
    }

    /// How the network is spread over the device.
    #[must_use]
    pub fn shape(&self) -> Option<Shape> {
        self.handler.as_ref().map(GridHandler::shape)
    }
}

impl RemoteDispatcher for GpuDispatcher {
    fn ring(&self) -> &Ring {
        self.ring.ring()
    }

    fn start(&mut self) -> Result<(), BoxError> {
        match std::mem::replace(&mut self.state, State::Gone) {
            State::Wired(wired) => {
                self.state = State::Running(wired.start()?);
                Ok(())
            }
            State::Running(running) => {
                self.state = State::Running(running);
                Err("the device's dispatcher runs already".into())
            }
            State::Gone => Err("the device's dispatcher has failed before".into()),
        }
    }

    fn health(&self) -> Health {
        let watch = match &self.state {
            State::Wired(dispatcher) => dispatcher.watch(),
            State::Running(dispatcher) => dispatcher.watch(),
            State::Gone => return Box::new(|| Err("the device's dispatcher has failed".to_owned())),
        };
        Box::new(move || {
            if watch.is_alive(PATIENCE) {
                return Ok(());
            }
            Err(format!("the device's kernel has not moved for {} ms", PATIENCE.as_millis()))
        })
    }

    fn stop(&mut self, deadline: Duration) -> RemoteStop {
        let running = match std::mem::replace(&mut self.state, State::Gone) {
            State::Running(running) => running,
            other => {
                self.state = other;
                return RemoteStop { ended: true, failure: None };
            }
        };
        let stopped = running.stop(deadline);
        let ended = stopped.report.stuck.is_empty();
        if !ended {
            // The kernel may still run on its memory: kept for ever.
            std::mem::forget(self.handler.take());
            return RemoteStop { ended, failure: Some("the device's kernel does not end".to_owned()) };
        }
        let ran_out = self.handler.as_ref().and_then(|handler| handler.failed().ok().flatten());
        let failure = match (stopped.report.failed, ran_out) {
            (Some(error), _) => Some(error.to_string()),
            (None, Some(which)) => Some(format!("wait {which} of the network's kernel ran out")),
            (None, None) => None,
        };
        if let Some(wired) = stopped.dispatcher {
            self.state = State::Wired(wired);
        }
        RemoteStop { ended, failure }
    }
}

impl Drop for GpuDispatcher {
    fn drop(&mut self) {
        // The handler's memory goes after the kernel that works on it.
        let _ = self.stop(PATIENCE);
    }
}
