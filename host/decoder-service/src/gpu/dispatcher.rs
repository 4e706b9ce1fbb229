//! Remote dispatchers on a device: kernels with a grid handler, or graphs that a kernel launches.

use ringcall::wire::names::DECODE_SYNDROME;
use ringcall::{Ring, RingConfig};
use ringcall_cuda::driver::Context;
use ringcall_inference_service::AiDecoderService;
use ringcall_launch::ring::{
    DeviceDispatcher, DeviceError, DispatcherOptions, Functions, KernelKind, MappedRing, Modules, Running,
    Watch, Wired,
};
use ringcall_pipeline::BoxError;
use ringcall_pipeline::remote::{Health, RemoteDispatcher, RemoteStop};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The function that a dispatcher serves, and its memory.
pub(crate) trait DeviceFunction: std::fmt::Debug + Send {
    fn slot_bytes(&self) -> u32;
    fn function(&self, functions: Functions, name: &str) -> Functions;
    fn modules(&self, modules: Modules) -> Modules;
    fn options(&self) -> DispatcherOptions;
    /// Why the function must not run again, if it ended badly. Not called while it runs.
    fn failure(&self) -> Option<String>;
}

impl DeviceFunction for ringcall_gpu_decoders::predecoder::GridHandler {
    fn slot_bytes(&self) -> u32 {
        self.slot_bytes()
    }

    fn function(&self, functions: Functions, name: &str) -> Functions {
        self.function(functions, name)
    }

    fn modules(&self, modules: Modules) -> Modules {
        self.modules(modules)
    }

    fn options(&self) -> DispatcherOptions {
        self.options()
    }

    fn failure(&self) -> Option<String> {
        let which = self.failed().ok().flatten()?;
        Some(format!("wait {which} of the network's kernel ran out"))
    }
}

impl DeviceFunction for ringcall_gpu_decoders::relay_bp::GridHandler {
    fn slot_bytes(&self) -> u32 {
        self.slot_bytes()
    }

    fn function(&self, functions: Functions, name: &str) -> Functions {
        self.function(functions, name)
    }

    fn modules(&self, modules: Modules) -> Modules {
        self.modules(modules)
    }

    fn options(&self) -> DispatcherOptions {
        self.options()
    }

    fn failure(&self) -> Option<String> {
        None
    }
}

/// A network's graphs, which the dispatcher launches, one at a time per instance. A failed run is answered `ENGINE_FAILED`.
impl DeviceFunction for AiDecoderService {
    fn slot_bytes(&self) -> u32 {
        (**self).slot_bytes()
    }

    fn function(&self, functions: Functions, name: &str) -> Functions {
        (**self).function(functions, name)
    }

    fn modules(&self, modules: Modules) -> Modules {
        modules
    }

    fn options(&self) -> DispatcherOptions {
        DispatcherOptions::new(KernelKind::graph())
    }

    fn failure(&self) -> Option<String> {
        None
    }
}

/// The kernel's heartbeat comes at least once a millisecond, except while it serves a request, whose waits are no longer than
/// this.
const TIMEOUT: Duration = Duration::from_secs(1);

/// The least time that a kernel has to end, even if the kernels before it used up the deadline: without any time it would count
/// as stuck, and be kept until the process ends.
const LEAST: Duration = Duration::from_millis(50);

/// Kernels that poll a ring in mapped memory, each for a part of the ring and on a part of the device. They answer each
/// `decode_syndrome` with a network's residual or with the decoded result.
#[derive(Debug)]
pub struct GpuDispatcher {
    ring: MappedRing,
    kernels: Vec<Kernel>,
}

/// One of the kernels.
#[derive(Debug)]
struct Kernel {
    /// Taken out only if a kernel may still run on it.
    handler: Option<Box<dyn DeviceFunction>>,
    state: State,
}

#[derive(Debug)]
enum State {
    Wired(DeviceDispatcher<Wired>),
    Running(DeviceDispatcher<Running>),
    /// The kernel failed or never ended.
    Gone,
}

impl GpuDispatcher {
    /// One kernel for each handler, or one around a service's graphs.
    pub(crate) fn new<H: DeviceFunction + 'static>(
        handlers: Vec<H>,
        context: &Arc<Context>,
        slots: u32,
    ) -> Result<Self, DeviceError> {
        let slot_bytes = handlers.first().map_or(0, DeviceFunction::slot_bytes);
        let ring = MappedRing::allocate(context, RingConfig { slots, slot_bytes })?;
        let parts = ring.parts(handlers.len() as u32)?;
        let wire = |(handler, part): (H, MappedRing)| {
            let functions = handler.function(Functions::new(), DECODE_SYNDROME);
            let modules = handler.modules(Modules::new());
            let wired = DeviceDispatcher::wire(&part, functions, modules, handler.options())?;
            Ok(Kernel { handler: Some(Box::new(handler)), state: State::Wired(wired) })
        };
        let kernels = handlers.into_iter().zip(parts).map(wire).collect::<Result<_, DeviceError>>()?;
        Ok(Self { ring, kernels })
    }
}

impl Kernel {
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

    fn watch(&self) -> Option<Watch> {
        match &self.state {
            State::Wired(dispatcher) => Some(dispatcher.watch()),
            State::Running(dispatcher) => Some(dispatcher.watch()),
            State::Gone => None,
        }
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
            // The kernel may still use its memory, which is kept until the process ends.
            std::mem::forget(self.handler.take());
            return RemoteStop { ended, failure: Some("the device's kernel does not end".to_owned()) };
        }
        let ended_badly = self.handler.as_ref().and_then(|handler| handler.failure());
        let failure = stopped.report.failed.map(|error| error.to_string()).or(ended_badly);
        // After a wait that ran out, the shared memory of the network's blocks is not in the state that a start
        // expects.
        if let Some(wired) = stopped.dispatcher
            && failure.is_none()
        {
            self.state = State::Wired(wired);
        }
        RemoteStop { ended, failure }
    }
}

impl RemoteDispatcher for GpuDispatcher {
    fn ring(&self) -> &Ring {
        self.ring.ring()
    }

    fn parts(&self) -> u32 {
        self.kernels.len() as u32
    }

    fn start(&mut self) -> Result<(), BoxError> {
        for started in 0..self.kernels.len() {
            if let Err(error) = self.kernels[started].start() {
                // Either all kernels start or none.
                for kernel in &mut self.kernels[..started] {
                    let _ = kernel.stop(TIMEOUT);
                }
                return Err(error);
            }
        }
        Ok(())
    }

    fn health(&self) -> Health {
        let watches: Option<Vec<_>> = self.kernels.iter().map(Kernel::watch).collect();
        let Some(watches) = watches else {
            return Box::new(|| Err("the device's dispatcher has failed".to_owned()));
        };
        Box::new(move || match watches.iter().position(|watch| !watch.is_alive(TIMEOUT)) {
            None => Ok(()),
            Some(which) => Err(format!(
                "kernel {which} of {} on the device has not moved for {} ms",
                watches.len(),
                TIMEOUT.as_millis()
            )),
        })
    }

    fn stop(&mut self, deadline: Duration) -> RemoteStop {
        one_after_the_other(&mut self.kernels, deadline, Kernel::stop)
    }
}

/// Stops the kernels one after another: those that wait for their turn continue to answer.
fn one_after_the_other<K>(
    kernels: &mut [K],
    deadline: Duration,
    mut stop: impl FnMut(&mut K, Duration) -> RemoteStop,
) -> RemoteStop {
    let begin = Instant::now();
    let mut all = RemoteStop { ended: true, failure: None };
    for kernel in kernels {
        let stopped = stop(kernel, deadline.saturating_sub(begin.elapsed()).max(LEAST));
        all.ended &= stopped.ended;
        all.failure = all.failure.or(stopped.failure);
    }
    all
}

impl Drop for GpuDispatcher {
    fn drop(&mut self) {
        // The handler's memory is freed after the kernel that uses it.
        let _ = self.stop(TIMEOUT);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kernel_has_time_to_end_and_each_failure_counts() {
        let mut kernels = [(Duration::ZERO, "first"), (Duration::ZERO, "second"), (Duration::ZERO, "third")];
        let all =
            one_after_the_other(&mut kernels, Duration::from_millis(60), |(granted, name), deadline| {
                *granted = deadline;
                // Like a kernel that uses up its whole time.
                std::thread::sleep(deadline);
                let failure = (*name != "first").then(|| (*name).to_owned());
                RemoteStop { ended: *name != "third", failure }
            });
        assert_eq!(all, RemoteStop { ended: false, failure: Some("second".to_owned()) });
        assert!(kernels.iter().all(|(granted, _)| *granted >= LEAST), "{kernels:?}");
    }
}
