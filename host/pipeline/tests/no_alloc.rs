//! Nothing allocates between start and stop: injector, dispatcher, workers and consumer, all threads together.
//!
//! A separate file, with one test: the counting allocator sees every thread of the process.
#![allow(unsafe_code)] // a global allocator is an unsafe trait

mod support;

use ringcall::wire::schema::HandlerSchema;
use ringcall::{FunctionId, Status};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_infer::{ElementType, Model, Passthrough, TensorSpec};
use ringcall_pipeline::{
    EngineStage, Pipeline, RequestView, StageConfig, StageContext, StageError, StageOutcome, WorkerResources,
};
use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::Arc;
use std::sync::atomic::Ordering::{Relaxed, SeqCst};
use support::*;

/// 1 while allocations are counted.
static ARMED: DeviceU64 = DeviceU64::new(0);
static ALLOCATIONS: DeviceU64 = DeviceU64::new(0);

struct Counting;

fn count() {
    if ARMED.load(Relaxed) == 1 {
        ALLOCATIONS.fetch_add(1, Relaxed);
    }
}

// SAFETY: every call goes to the system's allocator as it came; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // A free on the hot path means that some thread allocated.
        count();
        // SAFETY: the caller's promise, passed on.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

#[test]
fn a_running_pipeline_does_not_allocate() {
    const REQUESTS: u64 = 100_000;
    let spec = TensorSpec::new("syndrome", ElementType::U8, vec![1, 32]).expect("a tensor");
    let model = Passthrough::new("copy", vec![spec]).expect("a model");
    let sums = Arc::new(DeviceU64::new(0));
    let harvested = Arc::clone(&sums);
    let running = Pipeline::builder()
        .config(config(2, 32))
        .gpu_stage(move |_| {
            let stage = EngineStage::new(model.instantiate()?)?;
            let bytes = stage.output_bytes();
            Ok(WorkerResources::inline("decode", HandlerSchema::new(), bytes, stage))
        })
        .cpu_stage(|_| {
            let mut turns = 0_u32;
            Ok(Box::new(move |context: &mut StageContext<'_>| {
                turns += 1;
                if turns.is_multiple_of(100) {
                    return StageOutcome::NotReady;
                }
                let sum: u64 = context.output.iter().map(|&byte| u64::from(byte)).sum();
                context.response[..8].copy_from_slice(&sum.to_le_bytes());
                StageOutcome::Done(8)
            }))
        })
        .on_completion(move |completion| {
            let sum =
                completion.result.and_then(|result| result.try_into().ok()).map_or(0, u64::from_le_bytes);
            harvested.fetch_add(sum, Relaxed);
        })
        .build()
        .expect("built")
        .start()
        .expect("started");
    let mut injector = running.injector().expect("the first");
    let decode = FunctionId::of("decode");
    let nobody = FunctionId::of("nobody");
    let mut payload = [0; 32];
    let mut expected = 0;
    let mut run = |requests: u64| {
        for i in 0..requests {
            payload[(i % 32) as usize] = i as u8;
            // Refusals are on the hot path too: an unknown function, and lengths the engine does not take.
            let result = match i % 50 {
                7 => injector.submit(nobody, &payload, i),
                9 => injector.submit(decode, &payload[..31], i),
                _ => {
                    expected += payload.iter().map(|&byte| u64::from(byte)).sum::<u64>();
                    injector.submit(decode, &payload, i)
                }
            };
            assert!(result.is_ok());
            if i.is_multiple_of(1024) {
                assert!(running.stats().submitted >= i, "reading counts is free too");
            }
        }
    };
    run(1000);
    ARMED.store(1, SeqCst);
    run(REQUESTS);
    let all = 1000 + REQUESTS;
    while running.stats().completed < all {
        std::thread::yield_now();
    }
    ARMED.store(0, SeqCst);
    assert_eq!(ALLOCATIONS.load(SeqCst), 0, "allocations (and frees) in {REQUESTS} requests");
    // The counter counts.
    ARMED.store(1, SeqCst);
    drop(std::hint::black_box(Box::new(1_u8)));
    ARMED.store(0, SeqCst);
    assert_eq!(ALLOCATIONS.load(SeqCst), 2);
    let stats = running.stats();
    assert_eq!((stats.completed, stats.refused), (all, all / 50 * 2));
    assert!(running.stop(LONG).report.is_clean());
    assert_eq!(sums.load(SeqCst), expected);
    elsewhere();
}

/// The same for a pipeline with a remote dispatcher, its watchdog included. Not a test of its own: see above.
fn elsewhere() {
    const REQUESTS: u64 = 20_000;
    let running = Pipeline::remote(Hosted::new(32))
        .config(StageConfig { request_timeout: Some(LONG), ..config(2, 32) })
        .stage(|_| {
            Ok(Box::new(|request: RequestView<'_>, output: &[u8], response: &mut [u8]| {
                if request.payload[0] % 50 == 7 {
                    return Err(StageError(Status(7)));
                }
                response[..output.len()].copy_from_slice(output);
                Ok(output.len())
            }))
        })
        .build()
        .expect("built")
        .start()
        .expect("started");
    let mut injector = running.injector().expect("the first");
    let mut run = |requests: u64| {
        for i in 0..requests {
            assert!(injector.submit(ECHO, &[i as u8; 8], i).is_ok());
        }
    };
    run(1000);
    ARMED.store(1, SeqCst);
    run(REQUESTS);
    let monitor = running.monitor();
    while monitor.stats().completed < 1000 + REQUESTS {
        std::thread::yield_now();
    }
    ARMED.store(0, SeqCst);
    assert_eq!(
        ALLOCATIONS.load(SeqCst),
        2,
        "allocations (and frees) in {REQUESTS} requests, beyond the 2 above"
    );
    assert!(running.stop(LONG).is_clean());
}
