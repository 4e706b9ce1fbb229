//! `ringcall_pipeline_*`.

use super::callbacks::{Callback, CompletionFn, CpuStageFn, GpuStageFn};
use super::config::{PipelineConfig, ringcall_pipeline_config_t};
use super::{CPipeline, PIPELINES, Submitted};
use crate::handles::lock;
use crate::layout::cudaq_ringbuffer_t;
use crate::raw_ring::{aligned, array};
use crate::status::{Fault, status};
use core::ffi::{c_int, c_void};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Counts of a pipeline since it was made.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub struct ringcall_pipeline_stats_t {
    /// Requests in the ring.
    pub submitted: u64,
    /// Requests that are over.
    pub completed: u64,
    /// Requests given to workers.
    pub dispatched: u64,
    /// Submissions that found no slot.
    pub backpressure_stalls: u64,
    /// Answered with success.
    pub succeeded: u64,
    /// Refused, or failed by a stage.
    pub refused: u64,
    /// No stage finished them.
    pub timed_out: u64,
    /// Completions that came too late.
    pub late_results: u64,
    /// Callbacks that said they failed.
    pub callback_failures: u64,
}

const _: () = assert!(size_of::<ringcall_pipeline_stats_t>() == 72);

/// Makes a pipeline.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_create(
    config: *const ringcall_pipeline_config_t,
    out_pipeline: *mut *mut c_void,
) -> c_int {
    status(|| {
        aligned(out_pipeline.cast_const(), 8, "out_pipeline")?;
        // SAFETY: the header's contract.
        let (config, external) = unsafe { PipelineConfig::new(config) }?;
        // SAFETY: the header's contract.
        let (ring, memory) = unsafe { config.ring(external) }?;
        let handle = PIPELINES.insert(Arc::new(CPipeline::new(config, ring, memory)));
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_pipeline.write(handle) };
        Ok(())
    })
}

/// Ends a pipeline, which is stopped first.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_destroy(pipeline: *mut c_void) -> c_int {
    status(|| {
        let found = PIPELINES.get(pipeline)?;
        super::callbacks::in_callback()?;
        let stopped = found.stop();
        let removed = PIPELINES.remove(pipeline)?;
        if stopped.is_err() {
            // What still runs uses it.
            std::mem::forget(removed);
        }
        stopped
    })
}

/// Sets the GPU stage.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_set_gpu_stage(
    pipeline: *mut c_void,
    stage: Option<GpuStageFn>,
    user: *mut c_void,
) -> c_int {
    status(|| {
        let stage = stage.ok_or_else(|| Fault::invalid("the GPU stage is null"))?;
        PIPELINES.get(pipeline)?.set(|callbacks| callbacks.gpu = Some(Callback::new(stage, user)))
    })
}

/// Sets the CPU stage, or takes it away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_set_cpu_stage(
    pipeline: *mut c_void,
    stage: Option<CpuStageFn>,
    user: *mut c_void,
) -> c_int {
    status(|| {
        let stage = stage.map(|stage| Callback::new(stage, user));
        PIPELINES.get(pipeline)?.set(|callbacks| callbacks.cpu = stage)
    })
}

/// Sets the completion handler, or takes it away.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_set_completion_handler(
    pipeline: *mut c_void,
    handler: Option<CompletionFn>,
    user: *mut c_void,
) -> c_int {
    status(|| {
        let handler = handler.map(|handler| Callback::new(handler, user));
        PIPELINES.get(pipeline)?.set(|callbacks| callbacks.completion = handler)
    })
}

/// Starts it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_start(pipeline: *mut c_void) -> c_int {
    status(|| PIPELINES.get(pipeline)?.start())
}

/// Stops it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_stop(pipeline: *mut c_void) -> c_int {
    status(|| PIPELINES.get(pipeline)?.stop())
}

/// # Safety
/// The header's contract of `ringcall_pipeline_submit`.
unsafe fn submitted(
    pipeline: *mut c_void,
    payload: *const c_void,
    payload_size: usize,
    out_submitted: *mut c_int,
    submit: impl FnOnce(&CPipeline, &[u8]) -> Result<Submitted, Fault>,
) -> Result<(), Fault> {
    aligned(out_submitted.cast_const(), align_of::<c_int>(), "out_submitted")?;
    // SAFETY: the caller's promise.
    let payload = unsafe { array(payload.cast::<u8>(), payload_size, "the payload") }?;
    let outcome = submit(&*PIPELINES.get(pipeline)?, payload)?;
    // SAFETY: not null, aligned, and the caller's promise.
    unsafe { out_submitted.write(outcome as c_int) };
    Ok(())
}

/// Submits a request if a slot is free.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_try_submit(
    pipeline: *mut c_void,
    function_id: u32,
    payload: *const c_void,
    payload_size: usize,
    request_id: u64,
    out_submitted: *mut c_int,
) -> c_int {
    let submit =
        |pipeline: &CPipeline, payload: &[u8]| pipeline.try_submit(function_id, payload, request_id, false);
    // SAFETY: the header's contract.
    status(|| unsafe { submitted(pipeline, payload, payload_size, out_submitted, submit) })
}

/// Submits a request, waiting for a slot.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_submit(
    pipeline: *mut c_void,
    function_id: u32,
    payload: *const c_void,
    payload_size: usize,
    request_id: u64,
    out_submitted: *mut c_int,
) -> c_int {
    let submit = |pipeline: &CPipeline, payload: &[u8]| pipeline.submit(function_id, payload, request_id);
    // SAFETY: the header's contract.
    status(|| unsafe { submitted(pipeline, payload, payload_size, out_submitted, submit) })
}

/// Completes a request whose completion was deferred.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_complete_deferred(pipeline: *mut c_void, slot: c_int) -> c_int {
    status(|| PIPELINES.get(pipeline)?.deferrals.complete(slot))
}

/// Counts since it was made.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_get_stats(
    pipeline: *mut c_void,
    out_stats: *mut ringcall_pipeline_stats_t,
) -> c_int {
    status(|| {
        aligned(out_stats.cast_const(), 8, "out_stats")?;
        let pipeline = PIPELINES.get(pipeline)?;
        let now = lock(&pipeline.counts).now();
        let stats = ringcall_pipeline_stats_t {
            submitted: now.submitted,
            completed: now.completed,
            dispatched: now.dispatched,
            backpressure_stalls: now.backpressure_stalls,
            succeeded: now.succeeded,
            refused: now.refused,
            timed_out: now.timed_out,
            late_results: now.late_results,
            callback_failures: pipeline.failures.load(Ordering::Relaxed) + now.panics,
        };
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_stats.write(stats) };
        Ok(())
    })
}

/// The pipeline's ring.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_pipeline_get_ring(
    pipeline: *mut c_void,
    out_ring: *mut cudaq_ringbuffer_t,
) -> c_int {
    status(|| {
        aligned(out_ring.cast_const(), 8, "out_ring")?;
        let ring = PIPELINES.get(pipeline)?.ring();
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_ring.write(ring) };
        Ok(())
    })
}
