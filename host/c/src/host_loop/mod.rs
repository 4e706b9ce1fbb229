//! The host path: a dispatcher that reads the caller's shutdown flag every turn, on its own thread or the
//! caller's.

pub(crate) mod api;
mod thread;

use crate::cpu_loop::{Dataplane, TransportFaults};
use crate::engine::{Engine, EngineExecutor, Lease, Publishing};
use crate::host_call::{CallCounter, HostCall};
use crate::layout::{HostRpcFn, cudaq_ringbuffer_t};
use crate::raw_ring::{View, aligned, check, host_ring};
use crate::served::{RingId, Served};
use crate::status::Fault;
use core::ffi::c_int;
use ringcall::dispatcher::{DispatchStep, Stepped};
use ringcall::external::{BadRequests, RingCompat};
use ringcall::{FunctionId, FunctionTable, HostDispatcher, HostOptions, Ring, Wait};
use ringcall_protocol::SharedRing;
use ringcall_wire::entry::FunctionEntry;
use ringcall_wire::status::DispatchMode;
use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

pub(crate) use thread::HostThread;

/// Assumed number of threads that poll a ring: dispatcher, transport in and out, consumer.
const POLLERS: usize = 4;
/// Time between two polls of graphs that outlast a stop.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// The caller's flag: not 0 ends a loop.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shutdown(*mut c_int);

// SAFETY: an int of the caller's that any thread may access; here only atomically.
unsafe impl Send for Shutdown {}
// SAFETY: as above.
unsafe impl Sync for Shutdown {}

impl Shutdown {
    /// # Safety
    /// `flag` is null, or an int of host memory that stays until this and its copies are gone.
    pub(crate) unsafe fn new(flag: *mut c_int) -> Result<Self, Fault> {
        aligned(flag.cast_const(), 4, "the shutdown flag")?;
        Ok(Self(flag))
    }

    fn flag(&self) -> &AtomicI32 {
        // SAFETY: the promise of `new`.
        unsafe { AtomicI32::from_ptr(self.0) }
    }

    #[inline]
    pub(crate) fn is_set(self) -> bool {
        self.flag().load(Ordering::Acquire) != 0
    }

    pub(crate) fn set(self) {
        self.flag().store(1, Ordering::Release);
    }
}

/// How bad requests are treated: the program's choice, else the environment's.
///
/// # Errors
/// The environment's value is neither `answer` nor `drop`.
pub(crate) fn bad_requests(chosen: Option<BadRequests>) -> Result<BadRequests, Fault> {
    chosen.map_or_else(|| BadRequests::from_environment().map_err(Fault::invalid), Ok)
}

/// Source of requests.
#[derive(Debug)]
pub(crate) enum Source {
    Ring(cudaq_ringbuffer_t),
    Transport(Box<Dataplane>),
}

/// Parameters of a loop.
#[derive(Debug)]
pub(crate) struct Wiring {
    pub(crate) source: Source,
    pub(crate) slots: u32,
    pub(crate) slot_bytes: u32,
    pub(crate) entries: Vec<FunctionEntry>,
    pub(crate) engine: Option<Arc<Engine>>,
    pub(crate) compat: RingCompat,
    pub(crate) shutdown: Shutdown,
    pub(crate) counter: CallCounter,
    pub(crate) stop: Duration,
}

/// A loop that can run.
#[derive(Debug)]
pub(crate) struct HostLoop {
    dispatcher: HostDispatcher<Stepped>,
    transport: Option<Dataplane>,
    engine: Option<Lease>,
    ring: SharedRing,
    _served: Option<Arc<Served>>,
    shutdown: Shutdown,
    stop: Duration,
}

impl Wiring {
    /// Checks everything and builds the dispatcher.
    ///
    /// # Safety
    /// The source's memory is there until the loop is gone; handlers and graphs keep their contracts.
    pub(crate) unsafe fn build(self) -> Result<HostLoop, Fault> {
        let Self { source, slots, slot_bytes, entries, engine, compat, shutdown, counter, stop } = self;
        let (shared, transport, served) = match source {
            Source::Ring(ring) => {
                check(&ring, View::Host, slots, slot_bytes)?;
                let functions = entries.iter().filter(|entry| entry.mode() != Ok(DispatchMode::DeviceCall));
                let served = Served::begin(
                    RingId::of(&ring),
                    "a host dispatcher",
                    functions.map(|entry| entry.id().0),
                )?;
                // SAFETY: just checked, and the caller's promise.
                (unsafe { host_ring(&ring, slots) }?, None, Some(served))
            }
            // All its requests come from the transport.
            Source::Transport(transport) => (transport.ring().clone(), Some(*transport), None),
        };
        let ring = Ring::external(shared.clone());
        let mut table = FunctionTable::builder();
        let mut graphs = HashSet::new();
        for entry in &entries {
            let id = entry.id();
            let name = format!("{:#010x}", id.0);
            let mode = entry.mode().map_err(|error| Fault::invalid(error.to_string()))?;
            table = match mode {
                DispatchMode::HostCall => {
                    let function = host_function(entry.handler)?;
                    // SAFETY: the header's contract of `cudaq_host_rpc_fn_t`.
                    let handler = unsafe { HostCall::new(function, counter.clone()) };
                    table.host_call_with_schema(&name, entry.schema, handler)
                }
                // The engine knows which of several entries of one function takes a request.
                DispatchMode::GraphLaunch if !graphs.insert(id) => continue,
                DispatchMode::GraphLaunch => table.external_call(&name, entry.schema),
                DispatchMode::DeviceCall => table.device_call(&name, entry.schema),
            }
            .with_id(FunctionId(id.0));
        }
        let table = table.build(&ring).map_err(|error| Fault::invalid(error.to_string()))?;
        let options = HostOptions { wait: Wait::Spin, ..HostOptions::default() };
        let mut builder = HostDispatcher::builder(&ring, table).options(options).compat(compat);
        if let Some(engine) = engine.clone() {
            if engine.slots() < slots {
                return Err(Fault::invalid(format!(
                    "the engine has {} slots, the ring {slots}",
                    engine.slots()
                )));
            }
            let publishing = if transport.is_some() {
                Publishing::Loop(shared.clone())
            } else {
                Publishing::Ring(shared.clone())
            };
            builder = builder.executor(Box::new(EngineExecutor { engine, counter, publishing }));
        }
        let dispatcher = builder.build().map_err(|error| Fault::invalid(error.to_string()))?.into_stepper();
        let engine = engine.map(Lease::new).transpose()?;
        Ok(HostLoop { dispatcher, transport, engine, ring: shared, _served: served, shutdown, stop })
    }
}

/// The C function at an address that an entry gives.
pub(crate) fn host_function(address: u64) -> Result<HostRpcFn, Fault> {
    let at = address as usize as *const core::ffi::c_void;
    // SAFETY: a function pointer has a pointer's size, and null is `None`; that it is such a function is what an entry of
    // mode HOST_CALL says.
    let function = unsafe { core::mem::transmute::<*const core::ffi::c_void, Option<HostRpcFn>>(at) };
    function.ok_or_else(|| Fault::invalid("a handler is null"))
}

impl HostLoop {
    /// Errors of its transport, if it has one.
    pub(crate) fn faults(&self) -> Option<TransportFaults> {
        self.transport.as_ref().map(|transport| transport.faults().clone())
    }

    /// Runs until the shutdown flag is set, then drains. After the stop time it waits for running graphs as long as
    /// `linger` says; meanwhile new requests are refused.
    ///
    /// # Errors
    /// A graph still runs.
    pub(crate) fn run(self, linger: Duration) -> Result<(), Fault> {
        let Self { mut dispatcher, mut transport, engine, ring, _served: served, shutdown, stop } = self;
        // The caller's threads poll, too.
        let mut waiter = Wait::Auto.resolve(POLLERS).waiter();
        while !shutdown.is_set() {
            let moved = receive(transport.as_mut(), &mut dispatcher);
            let step = dispatcher.step();
            let sent = transport.as_mut().is_some_and(Dataplane::send);
            match step {
                DispatchStep::Busy | DispatchStep::Ended => waiter.reset(),
                // A request that the transport reported and that was not served yet is found within a few turns, even
                // in a ring of the assumed largest size.
                DispatchStep::Idle if moved || sent || transport.as_ref().is_some_and(Dataplane::is_busy) => {
                    waiter.reset();
                }
                DispatchStep::Idle if !dispatcher.ends_round() => (),
                DispatchStep::Idle => {
                    let _ = waiter.idle();
                }
            }
        }
        let (draining, halting) = phases(stop);
        if !drain(&mut dispatcher, transport.as_mut(), draining) {
            dispatcher.halt(halting);
        }
        let begin = Instant::now();
        let ended = loop {
            // Halted requests are handed over, too.
            let _ = transport.as_mut().is_some_and(Dataplane::send);
            let ended = engine.as_ref().map_or(Ok(()), |engine| engine.ended());
            if ended.is_ok() || begin.elapsed() >= linger {
                break ended;
            }
            std::thread::sleep(POLL_INTERVAL);
            dispatcher.halt(Duration::ZERO);
        };
        drop((ring, served));
        ended
    }
}

/// The parts of a stop time for the drain and for the halt after it. The remaining time is for the last answers and
/// the end of the thread.
fn phases(stop: Duration) -> (Duration, Duration) {
    (stop / 4 * 3, stop / 8)
}

/// Takes a request from the transport. Returns whether there was one. The dispatcher polls the request's slot next,
/// since a full round of a ring of the assumed largest size takes long.
#[inline]
fn receive(transport: Option<&mut Dataplane>, dispatcher: &mut HostDispatcher<Stepped>) -> bool {
    transport.is_some_and(|transport| transport.receive(|slot| dispatcher.hint_next(slot)))
}

/// Serves the requests in the ring and those that the transport already has. Returns whether all were served within
/// `limit`.
fn drain(
    dispatcher: &mut HostDispatcher<Stepped>,
    mut transport: Option<&mut Dataplane>,
    limit: Duration,
) -> bool {
    dispatcher.drain();
    let begin = Instant::now();
    let mut more = transport.is_some();
    loop {
        more = more && receive(transport.as_deref_mut(), dispatcher);
        let step = dispatcher.step();
        let sent = transport.as_mut().is_some_and(|transport| transport.send());
        match step {
            DispatchStep::Ended if !more && !sent => return true,
            DispatchStep::Ended | DispatchStep::Busy => (),
            DispatchStep::Idle => std::thread::yield_now(),
        }
        if begin.elapsed() >= limit {
            return false;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stop_ends_within_its_time() {
        for ms in [0, 1, 20, 500, 650, 800, 2000, 100_000] {
            let stop = Duration::from_millis(ms);
            let (draining, halting) = phases(stop);
            assert!(draining + halting <= stop - stop / 8, "{ms}");
        }
    }
}
