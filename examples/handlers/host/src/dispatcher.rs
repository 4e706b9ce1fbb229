//! A dispatcher of the handlers: a kernel on the GPU, or a thread of this process.

use anyhow::{Context as _, Result};
use ringcall::dispatcher::Running as OnHost;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver};
use ringcall_handler::Handler;
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules, Running as OnDevice,
};
use std::sync::Arc;
use std::time::Duration;

/// A slot takes a request of up to 2024 bytes, and an answer of as many.
const RING: RingConfig = RingConfig { slots: 64, slot_bytes: 2048 };
/// What a stop may take.
const STOP_WITHIN: Duration = Duration::from_secs(1);

/// A running dispatcher and its ring.
pub(crate) struct Dispatcher {
    ring: Ring,
    runs_on: String,
    runs: Runs,
}

enum Runs {
    Device(DeviceDispatcher<OnDevice>),
    Host(HostDispatcher<OnHost>),
}

/// What a stop did.
pub(crate) struct Stopped {
    /// In words.
    pub(crate) text: String,
    /// Whether every request was answered and the dispatcher came to its end.
    pub(crate) clean: bool,
}

impl Dispatcher {
    /// On the first GPU; on the CPU where there is none, or no device code for it.
    pub(crate) fn start(handlers: &[Handler], ptx: &[(u32, &str)]) -> Result<Self> {
        match gpu() {
            Err(why) => Self::on_cpu(handlers, &why.to_string()),
            Ok(_) if ptx.is_empty() => {
                Self::on_cpu(handlers, "this program was built without a device toolchain")
            }
            Ok(context) => Self::on_device(handlers, ptx, &context),
        }
    }

    fn on_device(handlers: &[Handler], ptx: &[(u32, &str)], context: &Arc<Context>) -> Result<Self> {
        let runs_on = context.device().name()?;
        let ring = MappedRing::allocate(context, RING)?;
        let functions = Functions::new().handlers(handlers);
        let modules = Modules::new().ptx_for("the handlers", ptx, context)?;
        let options = DispatcherOptions::new(KernelKind::regular());
        let dispatcher = DeviceDispatcher::wire(&ring, functions, modules, options)
            .and_then(DeviceDispatcher::start)
            .with_context(|| format!("no dispatcher on {runs_on}"))?;
        Ok(Self { ring: ring.ring().clone(), runs_on, runs: Runs::Device(dispatcher) })
    }

    pub(crate) fn on_cpu(handlers: &[Handler], why: &str) -> Result<Self> {
        let ring = Ring::allocate(RING)?;
        let mut table = FunctionTable::builder();
        for &handler in handlers {
            // A handler of a team is run by the dispatcher's thread alone, as a team of one.
            let native = move |request: &[u8], result: &mut [u8]| handler.call(request, result);
            table = table.host_call_with_schema(handler.name, handler.schema, native);
        }
        let dispatcher = HostDispatcher::builder(&ring, table.build(&ring)?).build()?.start()?;
        Ok(Self { ring, runs_on: format!("the CPU: {why}"), runs: Runs::Host(dispatcher) })
    }

    /// The ring that it serves.
    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// The name of the GPU; or the CPU, and why.
    pub(crate) fn runs_on(&self) -> &str {
        &self.runs_on
    }

    /// Answers the requests in the ring, and ends the dispatcher.
    pub(crate) fn stop(self) -> Stopped {
        match self.runs {
            Runs::Device(dispatcher) => {
                let report = dispatcher.stop(STOP_WITHIN).report;
                let mut text = format!(
                    "{} drained, {} refused, {} unanswered",
                    report.drained, report.refused, report.unanswered
                );
                if !report.stuck.is_empty() {
                    text += &format!("; handlers do not return: {:?}", report.stuck);
                }
                if let Some(why) = &report.failed {
                    text += &format!("; the kernel failed: {why}");
                }
                Stopped { text, clean: report.is_clean() }
            }
            Runs::Host(dispatcher) => {
                let report = dispatcher.stop(STOP_WITHIN).report;
                let mut text = format!("{} drained, {} refused", report.drained, report.dropped);
                if report.stuck {
                    text += "; a handler does not return";
                }
                Stopped { text, clean: report.dropped == 0 && !report.stuck }
            }
        }
    }
}

fn gpu() -> Result<Arc<Context>, CudaError> {
    Driver::load()?.device(0)?.context()
}
