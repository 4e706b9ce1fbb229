//! The shared library as a host drives it: through its C functions alone, from several threads.
#![allow(unsafe_code)] // calls of C functions

mod common;

use core::ffi::{CStr, c_char, c_void};
use core::ptr::{null, null_mut};
use deq_decoder_abi::interface::*;
use libloading::Library;
use std::ffi::CString;

/// The functions of a loaded library.
struct Plugin {
    abi_version: AbiVersionFn,
    capabilities: CapabilitiesFn,
    create: CreateFn,
    create_with_observables: CreateWithObservablesFn,
    decode: DecodeFn,
    decode_request: DecodeRequestFn,
    destroy: DestroyFn,
    last_error: LastErrorFn,
}

fn function<T: Copy>(library: &Library, name: &[u8]) -> T {
    // SAFETY: the caller names the type that the interface has for this name.
    *unsafe { library.get::<T>(name) }.unwrap()
}

impl Plugin {
    fn load() -> Self {
        // SAFETY: the library of this package.
        let library = unsafe { Library::new(common::library()) }.unwrap();
        let library: &'static Library = Box::leak(Box::new(library));
        Self {
            abi_version: function(library, SYM_ABI_VERSION),
            capabilities: function(library, SYM_CAPABILITIES),
            create: function(library, SYM_CREATE),
            create_with_observables: function(library, SYM_CREATE_WITH_OBSERVABLES),
            decode: function(library, SYM_DECODE),
            decode_request: function(library, SYM_DECODE_REQUEST),
            destroy: function(library, SYM_DESTROY),
            last_error: function(library, SYM_LAST_ERROR),
        }
    }

    fn said(&self) -> String {
        // SAFETY: takes nothing.
        let message = unsafe { (self.last_error)() };
        if message.is_null() {
            return String::new();
        }
        // SAFETY: ends in a NUL.
        unsafe { CStr::from_ptr(message) }.to_str().unwrap().to_owned()
    }

    fn create(&self, graph: &Graph) -> Result<*mut c_void, (i32, String)> {
        let mut handle = null_mut();
        // SAFETY: lists of the lengths that are said.
        let status = unsafe {
            (self.create)(
                graph.vertices,
                graph.edges,
                graph.probabilities,
                graph.offsets,
                graph.members,
                graph.member_count,
                graph.config,
                &raw mut handle,
            )
        };
        if status == STATUS_OK { Ok(handle) } else { Err((status, self.said())) }
    }

    fn decode(&self, handle: *mut c_void, size: u64, syndrome: &[u8], room: usize) -> (i32, usize, Vec<u64>) {
        let (mut out, mut count) = (vec![u64::MAX; room], usize::MAX);
        // SAFETY: a live handle, lists of the lengths that are said.
        let status = unsafe {
            (self.decode)(
                handle,
                size,
                syndrome.as_ptr(),
                syndrome.len(),
                out.as_mut_ptr(),
                room,
                &raw mut count,
            )
        };
        (status, count, out)
    }

    fn request(
        &self,
        handle: *mut c_void,
        request: &DeqDecoderDecodeRequest,
    ) -> Result<Vec<u64>, (i32, String)> {
        let (mut out, mut count) = (vec![u64::MAX; 8], usize::MAX);
        // SAFETY: a live handle, a request of this test, lists of the lengths that are said.
        let status = unsafe { (self.decode_request)(handle, request, out.as_mut_ptr(), 8, &raw mut count) };
        if status != STATUS_OK {
            return Err((status, self.said()));
        }
        out.truncate(count);
        Ok(out)
    }

    fn destroy(&self, handle: *mut c_void) {
        // SAFETY: live until now, or null.
        unsafe { (self.destroy)(handle) };
    }
}

/// Arguments of a constructor. Three errors in a row: boundary, 0; 0, 1; 1, boundary; and a dormant one beside the first.
#[derive(Clone, Copy)]
struct Graph {
    vertices: u64,
    edges: u64,
    probabilities: *const f64,
    offsets: *const u64,
    members: *const u64,
    member_count: usize,
    config: *const c_char,
}

static PROBABILITIES: [f64; 4] = [0.01, 0.02, 0.01, 0.0];
static OFFSETS: [u64; 5] = [0, 1, 3, 4, 5];
static MEMBERS: [u64; 5] = [0, 0, 1, 1, 0];

fn graph() -> Graph {
    Graph {
        vertices: 2,
        edges: 4,
        probabilities: PROBABILITIES.as_ptr(),
        offsets: OFFSETS.as_ptr(),
        members: MEMBERS.as_ptr(),
        member_count: 5,
        config: null(),
    }
}

fn request(syndrome: &[u8]) -> DeqDecoderDecodeRequest {
    DeqDecoderDecodeRequest {
        syndrome_size: 2,
        syndrome_data: syndrome.as_ptr(),
        has_decoder_seed: false,
        decoder_seed: 0,
        reweights: null(),
        reweight_count: 0,
        loss: null(),
    }
}

#[test]
fn a_host_creates_decodes_and_destroys() {
    let plugin = Plugin::load();
    // SAFETY: takes nothing.
    assert_eq!(unsafe { (plugin.abi_version)() }, ABI_VERSION);
    // SAFETY: takes nothing.
    assert_eq!(unsafe { (plugin.capabilities)() }, 0b1111);
    let handle = plugin.create(&graph()).unwrap();
    let decode = |syndrome: u8, room| plugin.decode(handle, 2, &[syndrome], room);
    assert_eq!(decode(0, 3), (STATUS_OK, 0, vec![u64::MAX; 3]));
    assert_eq!(decode(0x80, 3), (STATUS_OK, 1, vec![0, u64::MAX, u64::MAX]));
    assert_eq!(decode(0x40, 1), (STATUS_OK, 1, vec![2]));
    assert_eq!(decode(0xC0, 0), (STATUS_BUFFER_TOO_SMALL, 1, vec![]));
    assert_eq!(decode(0xC0, 1), (STATUS_OK, 1, vec![1]));
    // Without room, null is a buffer.
    let mut count = 9;
    // SAFETY: a live handle; no room.
    let status = unsafe { (plugin.decode)(handle, 2, [0u8].as_ptr(), 1, null_mut(), 0, &raw mut count) };
    assert_eq!((status, count), (STATUS_OK, 0));
    plugin.destroy(handle);
    plugin.destroy(null_mut());
}

#[test]
fn requests_carry_weights_losses_and_a_seed() {
    let plugin = Plugin::load();
    let handle = plugin.create(&graph()).unwrap();
    let plain = request(&[0xC0]);
    assert_eq!(plugin.request(handle, &plain), Ok(vec![1]));
    assert_eq!(
        plugin.request(handle, &DeqDecoderDecodeRequest { has_decoder_seed: true, decoder_seed: 5, ..plain }),
        Ok(vec![1])
    );

    let set = |edge, probability| DeqDecoderEdgeReweight { edge, probability };
    let weighted = |list: &[DeqDecoderEdgeReweight]| {
        let request =
            DeqDecoderDecodeRequest { reweights: list.as_ptr(), reweight_count: list.len(), ..plain };
        plugin.request(handle, &request)
    };
    assert_eq!(weighted(&[set(1, 1e-6)]), Ok(vec![0, 2]));
    // The dormant error wakes.
    assert_eq!(weighted(&[set(1, 1e-6), set(3, 0.3)]), Ok(vec![2, 3]));
    // Errors that are certain are part of every answer, and impossible errors of none.
    assert_eq!(weighted(&[set(0, 1.0)]), Ok(vec![0, 2]));
    assert_eq!(weighted(&[set(0, 0.0), set(1, 0.0)]).unwrap_err().0, STATUS_ERROR);
    assert_eq!(plugin.request(handle, &plain), Ok(vec![1]), "weights are of one request");

    let dormant = [3u64];
    let site = DeqDecoderLossSite {
        source_edges: dormant.as_ptr(),
        source_edge_count: 1,
        continuation_edges: null(),
        continuation_edge_count: 0,
        probability: 0.4,
        children: null(),
        child_count: 0,
        heralds: [17u64, 17].as_ptr(),
        herald_count: 2,
    };
    let lost = |sites: &[DeqDecoderLossSite], list: &[DeqDecoderEdgeReweight]| {
        let loss = DeqDecoderLossInfo { sites: sites.as_ptr(), site_count: sites.len() };
        let (reweights, reweight_count) = (list.as_ptr(), list.len());
        plugin.request(
            handle,
            &DeqDecoderDecodeRequest { loss: &raw const loss, reweights, reweight_count, ..plain },
        )
    };
    assert_eq!(lost(&[], &[]), Ok(vec![1]), "losses were looked for, and there were none");
    assert_eq!(lost(&[site], &[set(1, 1e-6)]), Ok(vec![2, 3]));
    assert_eq!(lost(&[site], &[]), Ok(vec![1]), "the edge between them is likelier still");
    let bad = DeqDecoderLossSite { source_edges: null(), ..site };
    let (status, said) = lost(&[bad], &[]).unwrap_err();
    assert!(status == STATUS_INVALID_ARG && said.contains("source_edges"), "{said}");
    plugin.destroy(handle);
}

#[test]
fn observables_tell_parallel_errors_apart() {
    let plugin = Plugin::load();
    // Three errors on one detector: two that flip observable 9 make a flip likelier than the error that flips none.
    let (probabilities, offsets, members) = ([0.1, 0.12, 0.1], [0u64, 1, 2, 3], [0u64, 0, 0]);
    let nine = [9u64];
    let flips = |known: [bool; 3]| {
        let of = |known, some: bool| DeqDecoderObservableFlips {
            known,
            indices: nine.as_ptr(),
            index_count: usize::from(known && some),
        };
        [of(known[0], true), of(known[1], false), of(known[2], true)]
    };
    let create = |flips: *const DeqDecoderObservableFlips| {
        let mut handle = null_mut();
        // SAFETY: lists of the lengths that are said.
        let status = unsafe {
            (plugin.create_with_observables)(
                1,
                3,
                probabilities.as_ptr(),
                offsets.as_ptr(),
                members.as_ptr(),
                3,
                flips,
                null(),
                &raw mut handle,
            )
        };
        (status, handle)
    };
    for (known, answer) in [([true; 3], 0), ([false; 3], 1)] {
        let (status, handle) = create(flips(known).as_ptr());
        assert_eq!(status, STATUS_OK);
        assert_eq!(plugin.decode(handle, 1, &[0x80], 1), (STATUS_OK, 1, vec![answer]), "{known:?}");
        plugin.destroy(handle);
    }
    let (status, handle) = create(null());
    assert_eq!(status, STATUS_OK);
    plugin.destroy(handle);
    let mut wrong = flips([false; 3]);
    wrong[1].index_count = 1;
    assert_eq!(create(wrong.as_ptr()).0, STATUS_INVALID_ARG);
    assert!(plugin.said().contains("edge 1"), "{}", plugin.said());
}

#[test]
fn bad_graphs_are_refused_with_a_reason() {
    let plugin = Plugin::load();
    let config = |text: &str| CString::new(text).unwrap();
    let (good, bad) = (config(r#"{"matching": "correlated"}"#), config(r#"{"speed": 9}"#));
    let handle = plugin.create(&Graph { config: good.as_ptr(), ..graph() }).unwrap();
    plugin.destroy(handle);
    let off = [0u64, 1, 3, 4, 6];
    let odd = MEMBERS.as_ptr().map_addr(|address| address + 1);
    for (graph, status, why) in [
        (Graph { config: bad.as_ptr(), ..graph() }, STATUS_INVALID_ARG, "speed"),
        (Graph { probabilities: null(), ..graph() }, STATUS_INVALID_ARG, "edge_probs"),
        (Graph { offsets: null(), ..graph() }, STATUS_INVALID_ARG, "edge_offsets"),
        (Graph { members: null(), ..graph() }, STATUS_INVALID_ARG, "edge_vertices"),
        (Graph { members: odd, ..graph() }, STATUS_INVALID_ARG, "edge_vertices"),
        (Graph { edges: u64::MAX, ..graph() }, STATUS_INVALID_ARG, "edge_num"),
        (Graph { edges: u64::MAX / 8, ..graph() }, STATUS_INVALID_ARG, "more than memory"),
        (Graph { vertices: 1, ..graph() }, STATUS_INVALID_ARG, "vertex 1"),
        (Graph { vertices: u64::MAX, ..graph() }, STATUS_INVALID_ARG, "vertices"),
        (Graph { offsets: off.as_ptr(), ..graph() }, STATUS_INVALID_ARG, "edge_offsets"),
        (Graph { member_count: 4, ..graph() }, STATUS_INVALID_ARG, "edge_offsets"),
    ] {
        let (found, said) = plugin.create(&graph).unwrap_err();
        assert!(found == status && said.contains(why), "{found}: {said}");
    }
    let empty =
        Graph { vertices: 3, edges: 0, member_count: 0, members: null(), probabilities: null(), ..graph() };
    let handle = plugin.create(&empty).unwrap();
    assert_eq!(plugin.decode(handle, 3, &[0], 0).0, STATUS_OK);
    assert_eq!(plugin.decode(handle, 3, &[0x20], 0).0, STATUS_ERROR);
    plugin.destroy(handle);
    // SAFETY: there is no place for a handle, which is what is tested.
    let status = unsafe { (plugin.create)(0, 0, null(), OFFSETS.as_ptr(), null(), 0, null(), null_mut()) };
    assert_eq!(status, STATUS_INVALID_ARG);
}

#[test]
fn bad_requests_are_refused_and_forgotten() {
    let plugin = Plugin::load();
    let handle = plugin.create(&graph()).unwrap();
    for (size, syndrome, why) in [
        (2, &[][..], "0 bytes"),
        (3, &[0][..], "3"),
        (2, &[0, 0][..], "2 bytes"),
        (u64::MAX, &[0][..], "syndrome_size"),
    ] {
        let (status, _, _) = plugin.decode(handle, size, syndrome, 4);
        assert!(status == STATUS_INVALID_ARG && plugin.said().contains(why), "{}", plugin.said());
    }
    let plain = request(&[0x80]);
    let list = [DeqDecoderEdgeReweight { edge: 0, probability: 0.9 }; 2];
    for (bad, why) in [
        (DeqDecoderDecodeRequest { syndrome_size: 1, ..plain }, "syndrome_size is 1"),
        (DeqDecoderDecodeRequest { syndrome_data: null(), ..plain }, "syndrome_data"),
        (DeqDecoderDecodeRequest { reweight_count: 1, ..plain }, "reweights"),
        (DeqDecoderDecodeRequest { reweights: list.as_ptr(), reweight_count: 2, ..plain }, "twice"),
    ] {
        let (status, said) = plugin.request(handle, &bad).unwrap_err();
        assert!(status == STATUS_INVALID_ARG && said.contains(why), "{said}");
        assert_eq!(plugin.request(handle, &plain), Ok(vec![0]));
    }
    let (mut out, mut count) = ([0u64; 4], 0usize);
    for (handle, request, out, count) in [
        (null_mut(), &raw const plain, out.as_mut_ptr(), &raw mut count),
        (handle, null(), out.as_mut_ptr(), &raw mut count),
        (handle, &raw const plain, null_mut(), &raw mut count),
        (handle, &raw const plain, out.as_mut_ptr(), null_mut()),
    ] {
        // SAFETY: one pointer is null, which is what is tested.
        let status = unsafe { (plugin.decode_request)(handle, request, out, 4, count) };
        assert_eq!(status, STATUS_INVALID_ARG);
        assert!(plugin.said().contains("null") || plugin.said().contains("0x0"), "{}", plugin.said());
    }
    plugin.destroy(handle);
}

/// A handle may go from thread to thread.
struct Sent(*mut c_void);
// SAFETY: the interface says so.
unsafe impl Send for Sent {}

#[test]
fn threads_have_handles_and_errors_of_their_own() {
    let plugin = Plugin::load();
    std::thread::scope(|scope| {
        for thread in 0..4u64 {
            let plugin = &plugin;
            let handle = Sent(plugin.create(&graph()).unwrap());
            scope.spawn(move || {
                let Sent(handle) = { handle };
                assert_eq!(plugin.said(), "", "errors of other threads are not this one's");
                for round in 0..2000 {
                    let syndrome = [(((round + thread) % 4) << 6) as u8];
                    let answer = [vec![], vec![2], vec![0], vec![1]][(round + thread) as usize % 4].clone();
                    assert_eq!(plugin.request(handle, &request(&syndrome)), Ok(answer));
                    if round % 100 == thread {
                        let (status, said) =
                            plugin.create(&Graph { vertices: 1 - thread % 2, ..graph() }).unwrap_err();
                        let vertex = format!("vertex {}", 1 - thread % 2);
                        assert!(status == STATUS_INVALID_ARG && said.contains(&vertex), "{said}");
                    }
                }
                plugin.destroy(handle);
            });
        }
    });
}
