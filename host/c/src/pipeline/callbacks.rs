//! Callbacks of a program: how they are called, and their results.

use crate::layout::cudaq_host_dispatch_worker_t;
use crate::status::Fault;
use core::ffi::{c_int, c_void};
use ringcall_pipeline::CompletedRequest;
use std::cell::Cell;

/// Arguments of a CPU stage.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ringcall_cpu_stage_context_t {
    /// The worker.
    pub worker_id: c_int,
    /// The request's slot.
    pub origin_slot: c_int,
    /// The request's slot in memory: header and payload, and where the response goes.
    pub response_buffer: *mut c_void,
    /// Bytes of the slot.
    pub max_response_size: usize,
}

/// One request that is over.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ringcall_completion_t {
    /// The id, as it was submitted.
    pub request_id: u64,
    /// The slot.
    pub slot: c_int,
    /// Whether it was answered with success.
    pub success: c_int,
    /// CUDA's error of its launch.
    pub cuda_error: c_int,
    /// The answer's status.
    pub status: i32,
    /// The result, for the call; null on an external ring.
    pub result: *const c_void,
    /// Its bytes.
    pub result_size: usize,
}

const _: () = assert!(size_of::<ringcall_cpu_stage_context_t>() == 24);
const _: () = assert!(size_of::<ringcall_completion_t>() == 40);

/// Makes a worker; not 0 for a failure.
pub(super) type GpuStageFn =
    unsafe extern "C" fn(*mut c_void, c_int, *mut cudaq_host_dispatch_worker_t) -> c_int;
/// Looks at a worker's output.
pub(super) type CpuStageFn = unsafe extern "C" fn(*mut c_void, *const ringcall_cpu_stage_context_t) -> usize;
/// Called for each completed request; not 0 for a failure.
pub(super) type CompletionFn = unsafe extern "C" fn(*mut c_void, *const ringcall_completion_t) -> c_int;

/// `RINGCALL_STAGE_DEFERRED`.
pub(super) const DEFERRED: usize = usize::MAX;
/// `RINGCALL_STAGE_FAILED`.
pub(super) const FAILED: usize = usize::MAX - 1;

/// A function of the program's, with the pointer that it is given.
#[derive(Debug)]
pub(super) struct Callback<F> {
    function: F,
    user: *mut c_void,
}

impl<F: Copy> Clone for Callback<F> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<F: Copy> Copy for Callback<F> {}

// SAFETY: the pointer is passed on, never followed; the header says which threads call the function.
unsafe impl<F: Send> Send for Callback<F> {}

/// The callbacks that were set.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Callbacks {
    pub(super) gpu: Option<Callback<GpuStageFn>>,
    pub(super) cpu: Option<Callback<CpuStageFn>>,
    pub(super) completion: Option<Callback<CompletionFn>>,
}

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// Refuses life cycle calls of a callback: they would wait for the thread that they run on.
pub(super) fn in_callback() -> Result<(), Fault> {
    if INSIDE.try_with(Cell::get).unwrap_or(false) {
        return Err(Fault::invalid(
            "called from a callback of a pipeline, which cannot be waited for from there",
        ));
    }
    Ok(())
}

fn inside<T>(call: impl FnOnce() -> T) -> T {
    let before = INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(false);
    let result = call();
    let _ = INSIDE.try_with(|inside| inside.set(before));
    result
}

impl<F> Callback<F> {
    pub(super) fn new(function: F, user: *mut c_void) -> Self {
        Self { function, user }
    }
}

impl Callback<GpuStageFn> {
    /// The worker that it makes.
    pub(super) fn call(self, worker: u32) -> Result<cudaq_host_dispatch_worker_t, Fault> {
        let mut made = cudaq_host_dispatch_worker_t {
            graph_exec: std::ptr::null_mut(),
            stream: std::ptr::null_mut(),
            function_id: 0,
            pre_launch_fn: None,
            pre_launch_data: std::ptr::null_mut(),
            post_launch_fn: None,
            post_launch_data: std::ptr::null_mut(),
            routing_key: 0,
        };
        // SAFETY: the header's contract; the struct is the function's for the call.
        let code = inside(|| unsafe { (self.function)(self.user, worker as c_int, &raw mut made) });
        if code != 0 {
            return Err(Fault::invalid(format!(
                "the GPU stage could not make worker {worker}: it returned {code}"
            )));
        }
        Ok(made)
    }
}

impl Callback<CpuStageFn> {
    pub(super) fn call(self, context: &ringcall_cpu_stage_context_t) -> usize {
        // SAFETY: the header's contract; the struct is there for the call.
        inside(|| unsafe { (self.function)(self.user, std::ptr::from_ref(context)) })
    }
}

impl Callback<CompletionFn> {
    /// Whether it succeeded.
    pub(super) fn call(self, completion: &CompletedRequest<'_>) -> bool {
        let completion = ringcall_completion_t {
            request_id: completion.request_id,
            slot: completion.slot as c_int,
            success: c_int::from(completion.is_success()),
            cuda_error: c_int::from(completion.error.unwrap_or(0)),
            status: completion.status.0,
            result: completion.result.map_or(std::ptr::null(), |result| result.as_ptr().cast()),
            result_size: completion.result.map_or(0, <[u8]>::len),
        };
        // SAFETY: the header's contract; the struct is there for the call.
        inside(|| unsafe { (self.function)(self.user, &raw const completion) == 0 })
    }
}
