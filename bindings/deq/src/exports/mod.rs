//! The C functions of a deq plug-in, as version 1 of the interface has them.
//!
//! A handle is used by one thread at a time, which is the host's to see to; a second thread is refused while the first decodes. A
//! handle that panicked is *poisoned*: it says so to every later call. Nothing unwinds into the host.
#![allow(unsafe_code)] // named for it: exported names, pointers of the host's

mod views;

use crate::{Config, Hypergraph, HypergraphDecoder, Refusal};
use core::ffi::{CStr, c_char, c_void};
use deq_decoder_abi::interface::{
    ABI_VERSION, AbiVersionFn, CapabilitiesFn, CreateFn, CreateWithObservablesFn,
    DEQ_DECODER_CAPABILITY_LOSS, DEQ_DECODER_CAPABILITY_OBSERVABLES, DEQ_DECODER_CAPABILITY_REWEIGHTS,
    DEQ_DECODER_CAPABILITY_SEED, DecodeFn, DecodeRequestFn, DeqDecoderDecodeRequest,
    DeqDecoderObservableFlips, DestroyFn, LastErrorFn, STATUS_BUFFER_TOO_SMALL, STATUS_ERROR,
    STATUS_INVALID_ARG, STATUS_OK, STATUS_PANIC, STATUS_POISONED,
};
use std::cell::RefCell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, TryLockError};
use views::{Request, Sites, flips, slice};

// Each function has the type that hosts call it by.
const _: AbiVersionFn = deq_decoder_abi_version;
const _: CapabilitiesFn = deq_decoder_capabilities;
const _: CreateFn = deq_decoder_create;
const _: CreateWithObservablesFn = deq_decoder_create_with_observables;
const _: DecodeFn = deq_decoder_decode;
const _: DecodeRequestFn = deq_decoder_decode_request;
const _: DestroyFn = deq_decoder_destroy;
const _: LastErrorFn = deq_decoder_last_error;

/// What a handle points to.
type Handle = Mutex<HypergraphDecoder>;

thread_local! {
    /// The last error of the thread, and a NUL; empty if there was none.
    static LAST_ERROR: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

/// Keeps a message for the host and gives the status back.
fn fail(status: i32, message: &str) -> i32 {
    LAST_ERROR.with_borrow_mut(|buffer| {
        buffer.clear();
        buffer.extend(message.bytes().filter(|byte| *byte != 0));
        buffer.push(0);
    });
    status
}

fn refuse(refusal: &Refusal) -> i32 {
    let status = match refusal {
        Refusal::Argument(_) => STATUS_INVALID_ARG,
        Refusal::Failed(_) => STATUS_ERROR,
    };
    fail(status, &refusal.to_string())
}

fn null(what: &str) -> Refusal {
    Refusal::Argument(format!("{what} is null"))
}

/// The version of the interface.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_abi_version() -> u32 {
    ABI_VERSION
}

/// What requests may carry. A seed is taken and changes nothing: no answer depends on chance.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_capabilities() -> u64 {
    DEQ_DECODER_CAPABILITY_SEED
        | DEQ_DECODER_CAPABILITY_REWEIGHTS
        | DEQ_DECODER_CAPABILITY_LOSS
        | DEQ_DECODER_CAPABILITY_OBSERVABLES
}

/// The message of the last call of this thread that failed, until its next call; null if none failed.
///
/// # Safety
/// None.
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_last_error() -> *const c_char {
    LAST_ERROR
        .with_borrow(|buffer| if buffer.is_empty() { core::ptr::null() } else { buffer.as_ptr().cast() })
}

/// Makes a decoder of a hypergraph whose errors flip observables that are not known.
///
/// # Safety
/// [`CreateFn`].
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_create(
    vertex_num: u64,
    edge_num: u64,
    edge_probs: *const f64,
    edge_offsets: *const u64,
    edge_vertices: *const u64,
    edge_vertices_len: usize,
    config_json: *const c_char,
    out_handle: *mut *mut c_void,
) -> i32 {
    let lists = Lists {
        vertices: vertex_num,
        edges: edge_num,
        probabilities: edge_probs,
        offsets: edge_offsets,
        members: edge_vertices,
        member_count: edge_vertices_len,
        flips: core::ptr::null(),
        config: config_json,
    };
    // SAFETY: the caller's contract.
    unsafe { create(&lists, out_handle) }
}

/// Makes a decoder of a hypergraph with the observables of its errors.
///
/// # Safety
/// [`CreateWithObservablesFn`].
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_create_with_observables(
    vertex_num: u64,
    edge_num: u64,
    edge_probs: *const f64,
    edge_offsets: *const u64,
    edge_vertices: *const u64,
    edge_vertices_len: usize,
    edge_observable_flips: *const DeqDecoderObservableFlips,
    config_json: *const c_char,
    out_handle: *mut *mut c_void,
) -> i32 {
    let lists = Lists {
        vertices: vertex_num,
        edges: edge_num,
        probabilities: edge_probs,
        offsets: edge_offsets,
        members: edge_vertices,
        member_count: edge_vertices_len,
        flips: edge_observable_flips,
        config: config_json,
    };
    // SAFETY: the caller's contract.
    unsafe { create(&lists, out_handle) }
}

/// Decodes one syndrome.
///
/// # Safety
/// [`DecodeFn`].
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_decode(
    handle: *mut c_void,
    syndrome_size: u64,
    syndrome_data: *const u8,
    syndrome_len: usize,
    out_ptr: *mut u64,
    out_cap: usize,
    out_len: *mut usize,
) -> i32 {
    // SAFETY: the caller's contract.
    let syndrome = unsafe { slice(syndrome_data, syndrome_len, "syndrome_data") };
    let request =
        syndrome.map(|syndrome| Request { syndrome_size, syndrome, reweights: &[], losses: Sites::NONE });
    // SAFETY: the caller's contract.
    unsafe { decode(handle, request, out_ptr, out_cap, out_len) }
}

/// Decodes one request: a syndrome, and perhaps probabilities and losses.
///
/// # Safety
/// [`DecodeRequestFn`].
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_decode_request(
    handle: *mut c_void,
    request: *const DeqDecoderDecodeRequest,
    subgraph: *mut u64,
    subgraph_capacity: usize,
    subgraph_count: *mut usize,
) -> i32 {
    // SAFETY: the caller's contract.
    let request = unsafe { Request::read(request) };
    // SAFETY: the caller's contract.
    unsafe { decode(handle, request, subgraph, subgraph_capacity, subgraph_count) }
}

/// Ends a decoder. A null handle is ignored.
///
/// # Safety
/// [`DestroyFn`].
#[unsafe(no_mangle)]
unsafe extern "C" fn deq_decoder_destroy(handle: *mut c_void) {
    if handle.is_null() {
        return;
    }
    // SAFETY: of `create`, and given back once, by the caller's contract.
    let handle = unsafe { Box::from_raw(handle.cast::<Handle>()) };
    // Lists alone are dropped; a panic in that has no status to be reported by.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(handle)));
}

/// The arguments of either constructor.
struct Lists {
    vertices: u64,
    edges: u64,
    probabilities: *const f64,
    offsets: *const u64,
    members: *const u64,
    member_count: usize,
    flips: *const DeqDecoderObservableFlips,
    config: *const c_char,
}

/// Makes a decoder.
///
/// # Safety
/// [`CreateWithObservablesFn`].
unsafe fn create(lists: &Lists, out_handle: *mut *mut c_void) -> i32 {
    if out_handle.is_null() {
        return refuse(&null("out_handle"));
    }
    let made = catch_unwind(AssertUnwindSafe(|| {
        // SAFETY: the caller's contract.
        unsafe { decoder(lists) }
    }));
    match made {
        Ok(Ok(decoder)) => {
            let handle = Box::into_raw(Box::new(Handle::new(decoder)));
            // SAFETY: not null; a place for a handle, by the caller's contract.
            unsafe { out_handle.write(handle.cast()) };
            STATUS_OK
        }
        Ok(Err(refusal)) => refuse(&refusal),
        Err(_) => fail(STATUS_PANIC, "create panicked: please report this with the graph"),
    }
}

/// The decoder of a host's lists.
///
/// # Safety
/// [`CreateWithObservablesFn`].
unsafe fn decoder(lists: &Lists) -> Result<HypergraphDecoder, Refusal> {
    let too_many = |_| Refusal::Argument(format!("edge_num is {}: too many", lists.edges));
    let edges = usize::try_from(lists.edges).map_err(too_many)?;
    let ends = edges.checked_add(1).ok_or_else(|| Refusal::Argument("edge_num is too large".to_owned()))?;
    // SAFETY: the caller's contract.
    let probabilities = unsafe { slice(lists.probabilities, edges, "edge_probs") }?;
    // SAFETY: the caller's contract.
    let offsets = unsafe { slice(lists.offsets, ends, "edge_offsets") }?;
    // SAFETY: the caller's contract.
    let members = unsafe { slice(lists.members, lists.member_count, "edge_vertices") }?;
    // SAFETY: the caller's contract.
    let flips = unsafe { flips(lists.flips, edges) }?;
    let config = if lists.config.is_null() {
        &[]
    } else {
        // SAFETY: not null, and ends in a NUL by the caller's contract.
        unsafe { CStr::from_ptr(lists.config) }.to_bytes()
    };
    let graph = Hypergraph::new(lists.vertices, probabilities, offsets, members, flips)?;
    HypergraphDecoder::new(&graph, Config::from_json(config)?)
}

/// Decodes a request and writes the answer.
///
/// # Safety
/// [`DecodeRequestFn`], for all but the request, which was read.
unsafe fn decode(
    handle: *mut c_void,
    request: Result<Request<'_>, Refusal>,
    out: *mut u64,
    capacity: usize,
    count: *mut usize,
) -> i32 {
    let request = match request {
        Ok(_) if handle.is_null() => return refuse(&null("handle")),
        Ok(_) if count.is_null() => return refuse(&null("the place for the count")),
        Ok(_) if out.is_null() && capacity > 0 => return refuse(&null("the buffer")),
        Ok(request) => request,
        Err(refusal) => return refuse(&refusal),
    };
    // SAFETY: of `create` and not destroyed, by the caller's contract; shared, since another thread may break it.
    let handle = unsafe { &*handle.cast::<Handle>() };
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut decoder = match handle.try_lock() {
            Ok(decoder) => decoder,
            Err(TryLockError::Poisoned(_)) => {
                return fail(STATUS_POISONED, "an earlier call on this handle panicked: destroy it");
            }
            Err(TryLockError::WouldBlock) => {
                return fail(
                    STATUS_INVALID_ARG,
                    "another thread decodes with this handle: make one for each thread",
                );
            }
        };
        let answer = match request.decode(&mut decoder) {
            Ok(answer) => answer,
            Err(refusal) => return refuse(&refusal),
        };
        // SAFETY: not null; a place for a number, by the caller's contract.
        unsafe { count.write(answer.len()) };
        if answer.len() > capacity {
            return STATUS_BUFFER_TOO_SMALL;
        }
        if !answer.is_empty() {
            // SAFETY: `out` takes `capacity` numbers, by the caller's contract, and the answer is the decoder's own memory.
            unsafe { out.copy_from_nonoverlapping(answer.as_ptr(), answer.len()) };
        }
        STATUS_OK
    }));
    done.unwrap_or_else(|_| fail(STATUS_PANIC, "decode panicked: please report this with graph and syndrome"))
}

#[cfg(test)]
mod tests;
