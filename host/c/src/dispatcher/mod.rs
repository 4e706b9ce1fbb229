//! Dispatchers: wiring, start, stop.

mod api;

pub use api::*;

use crate::config::Config;
use crate::cpu_loop::{Dataplane, TransportFaults};
use crate::device::{Code, DeviceRun, Launch, Order};
use crate::engine::Wanted;
use crate::entries::{EntryLayout, Schemas, check_table, read_host};
use crate::handles::{Registry, lock};
use crate::host_call::CallCounter;
use crate::host_loop::api::STOP;
use crate::host_loop::{HostThread, Shutdown, Source, Wiring, bad_requests};
use crate::hsb::HostRun;
use crate::layout::{cudaq_cpu_dataplane_t, cudaq_function_table_t, cudaq_ringbuffer_t};
use crate::manager::Manager;
use crate::raw_ring::{View, check};
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall::external::{BadRequests, RingCompat};
use ringcall_wire::launch::MAX_SLOTS;
use ringcall_wire::status::{DispatchPath, KernelType};
use std::sync::{Arc, Mutex};
use std::time::Duration;
#[cfg(test)]
mod tests;

static DISPATCHERS: Registry<Dispatcher> = Registry::new("dispatcher");

/// One dispatcher.
#[derive(Debug)]
struct Dispatcher {
    config: Config,
    state: Mutex<State>,
    /// Separate from the state, so that reading it never waits for a stop.
    progress: Mutex<Progress>,
}

/// Location of the number of processed requests.
#[derive(Debug)]
enum Progress {
    None,
    Host(CallCounter, Option<TransportFaults>),
    Launched(Arc<HostRun>),
    Device(Arc<DeviceRun>),
    /// A kernel that has ended: the caller's word is not accessed any more.
    Ended(u64),
}

/// Wiring and running state.
#[derive(Debug)]
struct State {
    ring: Option<cudaq_ringbuffer_t>,
    table: Option<cudaq_function_table_t>,
    control: Option<(*mut c_int, *mut u64)>,
    launch: Option<Launch>,
    code: Code,
    dataplane: Option<cudaq_cpu_dataplane_t>,
    mailbox: *mut *mut c_void,
    entries: EntryLayout,
    schemas: Schemas,
    stop: Duration,
    /// `None`: as the environment says.
    bad_requests: Option<BadRequests>,
    /// `None`: as the environment says.
    serial_handlers: Option<bool>,
    /// `None`: as the environment says.
    warps: Option<u32>,
    answer_last: bool,
    running: Option<Running>,
    /// `None` after the handle was destroyed; earlier calls may still be in progress.
    manager: Option<Arc<Manager>>,
}

// SAFETY: the pointers are the caller's, who may use them from any thread; here they are used under the lock.
unsafe impl Send for State {}

#[derive(Debug)]
enum Running {
    Host(HostThread),
    /// A loop that a launch function has started.
    Launched(Arc<HostRun>),
    Device(Arc<DeviceRun>),
}

impl State {
    fn new(manager: Arc<Manager>) -> Self {
        Self {
            ring: None,
            table: None,
            control: None,
            launch: None,
            code: Code::default(),
            dataplane: None,
            mailbox: core::ptr::null_mut(),
            entries: EntryLayout::default(),
            schemas: Schemas::default(),
            stop: STOP,
            bad_requests: None,
            serial_handlers: None,
            warps: None,
            answer_last: false,
            running: None,
            manager: Some(manager),
        }
    }

    /// # Errors
    /// The handle was destroyed, or it runs.
    fn check_stopped(&self) -> Result<(), Fault> {
        if self.manager.is_none() {
            return Err(Fault::invalid("the dispatcher was destroyed meanwhile"));
        }
        if self.running.is_some() {
            return Err(Fault::invalid("the dispatcher runs: stop it first"));
        }
        Ok(())
    }

    fn wired<T: Copy>(part: Option<T>, call: &str) -> Result<T, Fault> {
        part.ok_or_else(|| Fault::invalid(format!("{call} was not called")))
    }
}

impl Dispatcher {
    /// Changes the wiring of one that does not run.
    fn wire(&self, change: impl FnOnce(&Config, &mut State) -> Result<(), Fault>) -> Result<(), Fault> {
        let mut state = lock(&self.state);
        state.check_stopped()?;
        change(&self.config, &mut state)
    }

    /// # Safety
    /// The header's contract of `cudaq_dispatcher_start`.
    unsafe fn start(&self) -> Result<(), Fault> {
        let mut state = lock(&self.state);
        state.check_stopped()?;
        let (running, progress) = match self.config.path {
            // SAFETY: the caller's promise.
            DispatchPath::Host if state.launch.is_some() => unsafe { self.start_launched(&state) }?,
            // SAFETY: the caller's promise.
            DispatchPath::Host => unsafe { self.start_host(&state) }?,
            // SAFETY: the caller's promise.
            DispatchPath::Device => unsafe { self.start_device(&state) }?,
        };
        *lock(&self.progress) = progress;
        state.running = Some(running);
        Ok(())
    }

    /// # Safety
    /// As for [`start`](Self::start).
    unsafe fn start_host(&self, state: &State) -> Result<(Running, Progress), Fault> {
        let config = &self.config;
        let table = State::wired(state.table, "cudaq_dispatcher_set_function_table")?;
        let (flag, stats) = State::wired(state.control, "cudaq_dispatcher_set_control")?;
        // SAFETY: the caller's promise.
        let shutdown = unsafe { Shutdown::new(flag) }?;
        if shutdown.is_set() {
            return Err(Fault::invalid("the shutdown flag is set: clear it before a start"));
        }
        // SAFETY: the caller's promise.
        let entries = unsafe { read_host(&table, state.entries, state.schemas) }?;
        // SAFETY: the caller's promise.
        let counter = unsafe { CallCounter::new(stats) }?;
        let unified = config.kernel == KernelType::Unified;
        let slots = if unified && config.slots == 0 { MAX_SLOTS } else { config.slots };
        let (ring, plane) = if unified {
            let plane = State::wired(state.dataplane, "cudaq_dispatcher_set_cpu_dataplane")?;
            (plane.ring, Some(plane))
        } else {
            (State::wired(state.ring, "cudaq_dispatcher_set_ringbuffer")?, None)
        };
        // Over a transport the request flags are private to the loop, so no other agent could serve requests that the
        // loop leaves.
        let shared = config.shared && !unified;
        let wanted = Wanted {
            ring: &ring,
            entries: &entries,
            slots,
            slot_bytes: config.slot_bytes,
            device: config.device,
            // The loop over a transport reads the marks itself.
            skip_marks: config.skip_marks && !unified,
            shared,
            answer_last: state.answer_last,
            mailbox: state.mailbox,
        };
        // SAFETY: the caller's promise.
        let engine = unsafe { wanted.make() }?.map(Arc::new);
        let source = match plane {
            // SAFETY: the caller's promise.
            Some(plane) => Source::Transport(Box::new(unsafe { Dataplane::new(&plane, slots) }?)),
            None => Source::Ring(ring),
        };
        let wiring = Wiring {
            source,
            slots,
            slot_bytes: config.slot_bytes,
            entries,
            engine,
            compat: RingCompat {
                any_flag: true,
                shared_ring: shared,
                bad_requests: bad_requests(state.bad_requests)?,
            },
            shutdown,
            counter: counter.clone(),
            stop: state.stop,
        };
        // SAFETY: the caller's promise.
        let host_loop = unsafe { wiring.build() }?;
        counter.restart();
        let thread = HostThread::start(host_loop)?;
        let faults = thread.faults().cloned();
        Ok((Running::Host(thread), Progress::Host(counter, faults)))
    }

    /// # Safety
    /// As for [`start`](Self::start).
    unsafe fn start_device(&self, state: &State) -> Result<(Running, Progress), Fault> {
        let config = &self.config;
        let (shutdown, stats) = State::wired(state.control, "cudaq_dispatcher_set_control")?;
        let unified = config.kernel == KernelType::Unified;
        let (table, launch) = if state.code.is_empty() {
            let table = State::wired(state.table, "cudaq_dispatcher_set_function_table")?;
            let missing = if unified {
                "cudaq_dispatcher_set_unified_launch"
            } else {
                "cudaq_dispatcher_set_launch_fn"
            };
            let launch = State::wired(state.launch, missing)?;
            if launch.is_unified() != unified {
                return Err(Fault::invalid(format!("{missing} was not called")));
            }
            (table, launch)
        } else {
            state.code.check()?;
            if config.slots > MAX_SLOTS {
                let slots = config.slots;
                return Err(Fault::invalid(format!(
                    "num_slots is {slots}: our kernels poll {MAX_SLOTS} at most"
                )));
            }
            if state.table.is_some() || state.launch.is_some() {
                return Err(Fault::invalid(
                    "with modules of its own a dispatcher has neither launch function nor function table: addresses in \
                     one would be of another module",
                ));
            }
            (cudaq_function_table_t { entries: core::ptr::null_mut(), count: 0 }, Launch::Code)
        };
        let ring = match state.ring {
            Some(ring) => Some(ring),
            None if unified => None,
            None => Some(State::wired(state.ring, "cudaq_dispatcher_set_ringbuffer")?),
        };
        let order = self.order(state, ring, table, (shutdown, stats), launch);
        // SAFETY: the caller's promise.
        let run = Arc::new(unsafe { DeviceRun::start(&order) }?);
        Ok((Running::Device(Arc::clone(&run)), Progress::Device(run)))
    }

    /// A launch function's loop on the host.
    ///
    /// # Safety
    /// As for [`start`](Self::start).
    unsafe fn start_launched(&self, state: &State) -> Result<(Running, Progress), Fault> {
        let launch = State::wired(state.launch, "cudaq_dispatcher_set_unified_launch")?;
        let table = State::wired(state.table, "cudaq_dispatcher_set_function_table")?;
        let control = State::wired(state.control, "cudaq_dispatcher_set_control")?;
        let order = self.order(state, state.ring, table, control, launch);
        // SAFETY: the caller's promise.
        let run = Arc::new(unsafe { HostRun::start(&order) }?);
        Ok((Running::Launched(Arc::clone(&run)), Progress::Launched(run)))
    }

    fn order<'a>(
        &self,
        state: &'a State,
        ring: Option<cudaq_ringbuffer_t>,
        table: cudaq_function_table_t,
        (shutdown, stats): (*mut c_int, *mut u64),
        launch: Launch,
    ) -> Order<'a> {
        Order {
            config: self.config,
            ring,
            table,
            layout: state.entries,
            schemas: state.schemas,
            bad_requests: state.bad_requests,
            serial_handlers: state.serial_handlers,
            warps: state.warps,
            shutdown,
            stats,
            launch,
            code: &state.code,
            stop: state.stop,
        }
    }

    /// Stops the dispatcher. A dispatcher that does not run counts as stopped.
    fn stop(&self) -> Result<(), Fault> {
        self.stop_locked(&mut lock(&self.state))
    }

    /// # Errors
    /// It has not ended; or it has, and not well.
    fn stop_locked(&self, state: &mut State) -> Result<(), Fault> {
        let (count, fault) = match &mut state.running {
            None => return Ok(()),
            Some(Running::Host(thread)) => {
                thread.stop()?;
                state.running = None;
                return Ok(());
            }
            Some(Running::Launched(run)) => run.stop()?,
            Some(Running::Device(run)) => run.stop()?,
        };
        *lock(&self.progress) = Progress::Ended(count);
        state.running = None;
        fault.map_or(Ok(()), Err)
    }

    /// The handle is gone: stops what runs, and starts nothing any more. Whether nothing runs any more, and how the stop went.
    fn end(&self) -> (bool, Result<(), Fault>) {
        let mut state = lock(&self.state);
        state.manager = None;
        let stopped = self.stop_locked(&mut state);
        (state.running.is_none(), stopped)
    }

    fn processed(&self) -> Result<u64, Fault> {
        // Read under the lock, since a stop ends the access to the caller's word.
        match &*lock(&self.progress) {
            Progress::None => Ok(0),
            Progress::Host(counter, _) => Ok(counter.get()),
            Progress::Launched(run) => run.processed(),
            Progress::Device(run) => run.processed(),
            Progress::Ended(count) => Ok(*count),
        }
    }

    fn faults(&self) -> Result<TransportFaults, Fault> {
        match &*lock(&self.progress) {
            Progress::Host(_, Some(faults)) => Ok(faults.clone()),
            _ => Err(Fault::invalid("no transport is or was driven here")),
        }
    }

    fn release_worker(&self, worker: c_int) -> Result<(), Fault> {
        let state = lock(&self.state);
        let engine = match &state.running {
            Some(Running::Host(thread)) => thread.engine(),
            _ => None,
        };
        engine.ok_or_else(|| Fault::invalid("no graph workers run here"))?.release(worker)
    }
}

/// Checks the views of a ring that are known to be used.
fn check_ring(config: &Config, ring: &cudaq_ringbuffer_t) -> Result<(), Fault> {
    let view = match config.path {
        DispatchPath::Host => View::Host,
        DispatchPath::Device => View::Device,
    };
    check(ring, view, config.slots.max(1), config.slot_bytes)
}

fn check_functions(table: &cudaq_function_table_t) -> Result<(), Fault> {
    check_table(table)
}
