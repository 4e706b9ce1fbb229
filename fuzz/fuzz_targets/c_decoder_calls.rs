//! The C interface's decoders by any sequence of calls, with handles that are live, destroyed, null or never were: a status each time,
//! nothing written by a call that fails, and live decoders of one model agree whichever way they are asked.
#![no_main]

use arbitrary::Arbitrary;
use core::ffi::{c_int, c_void};
use libfuzzer_sys::fuzz_target;
use ringcall_c::{
    ringcall_decoder_clone, ringcall_decoder_create_from_dem, ringcall_decoder_decode,
    ringcall_decoder_decode_batch, ringcall_decoder_decode_bits, ringcall_decoder_decode_bytes,
    ringcall_decoder_destroy, ringcall_decoder_get_info, ringcall_decoder_info_t,
    ringcall_decoder_stream_create, ringcall_decoder_stream_destroy, ringcall_decoder_stream_get_progress,
    ringcall_decoder_stream_push_round, ringcall_decoder_stream_restart,
};
use std::fmt::Write;
use std::ptr::null_mut;

#[derive(Arbitrary, Debug)]
enum Call {
    /// A chain of detectors with an edge between neighbours, at both ends to the boundary, and some edges more.
    Create {
        detectors: u8,
        edges: Vec<(u8, u8, u8)>,
        correlated: bool,
    },
    /// Any text.
    CreateFromText {
        text: Vec<u8>,
        matching: i8,
    },
    Clone {
        decoder: u8,
    },
    Destroy {
        decoder: u8,
    },
    /// The same shot by a list, bits, bytes and as a batch, with this much room for answers.
    Decode {
        decoder: u8,
        fired: Vec<u8>,
        room: u8,
    },
    Info {
        decoder: u8,
    },
    Stream {
        decoder: u8,
        rounds: Vec<u8>,
    },
    Push {
        stream: u8,
        fired: Vec<u8>,
        room: u8,
    },
    Progress {
        stream: u8,
    },
    Restart {
        stream: u8,
    },
    DestroyStream {
        stream: u8,
    },
}

/// A handle that a call gave, or not.
#[derive(Clone, Copy)]
struct Handle {
    name: *mut c_void,
    /// Detectors of a live decoder.
    live: Option<usize>,
    /// What it was made of: live decoders of one agree.
    model: usize,
}

const OK: c_int = 0;
const UNTOUCHED: u8 = 0x5a;

/// Handles that were given, and two that never were.
#[derive(Default)]
struct Handles(Vec<Handle>);

impl Handles {
    fn pick(&self, index: u8) -> (Handle, Option<usize>) {
        let nobody = |name| (Handle { name, live: None, model: usize::MAX }, None);
        match usize::from(index) % (self.0.len() + 2) {
            0 => nobody(null_mut()),
            1 => nobody(0xdead_0000_usize as *mut c_void),
            other => (self.0[other - 2], Some(other - 2)),
        }
    }
}

fn chain(detectors: usize, edges: &[(u8, u8, u8)]) -> String {
    let mut text = String::new();
    let _ = writeln!(text, "error(0.1) D0 L0");
    for d in 1..detectors {
        let _ = writeln!(text, "error(0.1) D{} D{d}", d - 1);
    }
    let _ = writeln!(text, "error(0.1) D{}", detectors - 1);
    for &(a, b, p) in edges.iter().take(32) {
        let (a, b) = (usize::from(a) % detectors, usize::from(b) % detectors);
        let p = (f64::from(p) + 1.0) / 600.0;
        let _ = if a == b {
            writeln!(text, "error({p}) D{a}")
        } else {
            writeln!(text, "error({p}) D{a} D{b} L1")
        };
    }
    text
}

/// An answer as a call wrote it.
type Answer = (c_int, Vec<u8>, f64);

/// One way of asking; a call that fails has written nothing.
fn ask(room: usize, call: impl FnOnce(*mut u8, usize, *mut f64) -> c_int) -> Answer {
    let (mut out, mut weight) = (vec![UNTOUCHED; room], f64::MAX);
    let status = call(out.as_mut_ptr(), room, &mut weight);
    if status != OK {
        assert!(out.iter().all(|&byte| byte == UNTOUCHED) && weight == f64::MAX, "a call that failed wrote");
    }
    (status, out, weight)
}

fuzz_target!(|calls: Vec<Call>| {
    let (mut decoders, mut streams) = (Handles::default(), Handles::default());
    let mut models = 0;
    for call in calls.into_iter().take(64) {
        let mut made = null_mut();
        match call {
            Call::Create { detectors, edges, correlated } => {
                let detectors = usize::from(detectors % 24) + 1;
                let text = chain(detectors, &edges);
                // SAFETY: the text is as long as is said, and the handle has a place.
                let status = unsafe {
                    ringcall_decoder_create_from_dem(
                        text.as_ptr().cast(),
                        text.len(),
                        c_int::from(correlated),
                        &mut made,
                    )
                };
                assert_eq!(status == OK, !made.is_null(), "{text}");
                if status == OK {
                    models += 1;
                    decoders.0.push(Handle { name: made, live: Some(detectors), model: models });
                }
            }
            Call::CreateFromText { text, matching } => {
                // An error model of many detectors takes memory that is not this target's subject.
                if text.split(|byte| !byte.is_ascii_digit()).any(|number| number.len() > 3) {
                    continue;
                }
                // SAFETY: the text is as long as is said, and the handle has a place.
                let status = unsafe {
                    ringcall_decoder_create_from_dem(
                        text.as_ptr().cast(),
                        text.len(),
                        matching.into(),
                        &mut made,
                    )
                };
                assert_eq!(status == OK, !made.is_null());
                if status == OK {
                    // SAFETY: a handle.
                    assert_eq!(unsafe { ringcall_decoder_destroy(made) }, OK);
                }
            }
            Call::Clone { decoder } => {
                let (handle, _) = decoders.pick(decoder);
                // SAFETY: any value is allowed as a handle.
                let status = unsafe { ringcall_decoder_clone(handle.name, &mut made) };
                assert_eq!(status == OK, handle.live.is_some());
                if status == OK {
                    decoders.0.push(Handle { name: made, ..handle });
                }
            }
            Call::Destroy { decoder } => {
                let (handle, index) = decoders.pick(decoder);
                // SAFETY: any value is allowed as a handle.
                assert_eq!(unsafe { ringcall_decoder_destroy(handle.name) } == OK, handle.live.is_some());
                if let Some(index) = index {
                    decoders.0[index].live = None;
                }
            }
            Call::Info { decoder } => {
                let (handle, _) = decoders.pick(decoder);
                let mut info = ringcall_decoder_info_t {
                    num_detectors: 0,
                    num_observables: 0,
                    syndrome_bytes: 0,
                    observable_bytes: 0,
                    weight_step: 0.0,
                };
                // SAFETY: any value is allowed as a handle.
                let status = unsafe { ringcall_decoder_get_info(handle.name, &mut info) };
                assert_eq!((status == OK).then_some(info.num_detectors as usize), handle.live);
            }
            Call::Decode { decoder, fired, room } => {
                decode(&decoders, decoder, &fired, usize::from(room % 4))
            }
            Call::Stream { decoder, rounds } => {
                let (handle, _) = decoders.pick(decoder);
                let count = handle.live.unwrap_or(rounds.len());
                let rounds: Vec<u32> =
                    (0..count).map(|i| u32::from(rounds.get(i).copied().unwrap_or(0) % 8)).collect();
                // SAFETY: as many rounds as are said.
                let status = unsafe {
                    ringcall_decoder_stream_create(handle.name, rounds.as_ptr(), rounds.len(), &mut made)
                };
                assert!(status != OK || handle.live.is_some());
                if status == OK {
                    streams.0.push(Handle { name: made, ..handle });
                }
            }
            Call::Push { stream, fired, room } => {
                let (handle, _) = streams.pick(stream);
                let fired: Vec<u32> = fired.into_iter().map(u32::from).collect();
                let mut done = -1;
                let (status, ..) = ask(usize::from(room % 4), |out, bytes, weight| {
                    // SAFETY: as many detectors, and as much room, as are said; any value is allowed as a handle.
                    unsafe {
                        ringcall_decoder_stream_push_round(
                            handle.name,
                            fired.as_ptr(),
                            fired.len(),
                            out,
                            bytes,
                            weight,
                            &mut done,
                        )
                    }
                });
                assert!(status != OK || handle.live.is_some());
            }
            Call::Progress { stream } => {
                let (handle, _) = streams.pick(stream);
                let (mut next, mut rounds) = (0, 0);
                // SAFETY: any value is allowed as a handle.
                let status =
                    unsafe { ringcall_decoder_stream_get_progress(handle.name, &mut next, &mut rounds) };
                assert_eq!(status == OK, handle.live.is_some());
                assert!(next <= rounds);
            }
            Call::Restart { stream } => {
                let (handle, _) = streams.pick(stream);
                // SAFETY: any value is allowed as a handle.
                assert_eq!(
                    unsafe { ringcall_decoder_stream_restart(handle.name) } == OK,
                    handle.live.is_some()
                );
            }
            Call::DestroyStream { stream } => {
                let (handle, index) = streams.pick(stream);
                // SAFETY: any value is allowed as a handle.
                assert_eq!(
                    unsafe { ringcall_decoder_stream_destroy(handle.name) } == OK,
                    handle.live.is_some()
                );
                if let Some(index) = index {
                    streams.0[index].live = None;
                }
            }
        }
    }
    for handle in streams.0.iter().filter(|handle| handle.live.is_some()) {
        // SAFETY: a handle.
        assert_eq!(unsafe { ringcall_decoder_stream_destroy(handle.name) }, OK);
    }
    for handle in decoders.0.iter().filter(|handle| handle.live.is_some()) {
        // SAFETY: a handle.
        assert_eq!(unsafe { ringcall_decoder_destroy(handle.name) }, OK);
    }
});

/// Asks one decoder in four ways, and every other of its model in one.
fn decode(decoders: &Handles, decoder: u8, fired: &[u8], room: usize) {
    let (handle, _) = decoders.pick(decoder);
    let detectors = handle.live.unwrap_or(24);
    let mut bytes = vec![0_u8; detectors];
    for &d in fired {
        // Each at most once: a list with one twice is another question.
        bytes[usize::from(d) % detectors] = 1;
    }
    let list: Vec<u32> = (0..detectors as u32).filter(|&d| bytes[d as usize] == 1).collect();
    let mut bits = vec![0_u8; detectors.div_ceil(8)];
    list.iter().for_each(|&d| bits[d as usize / 8] |= 1 << (d % 8));
    let by_list = |name: *mut c_void, room| {
        // SAFETY: as many detectors, and as much room, as are said; any value is allowed as a handle.
        ask(room, |out, bytes, weight| unsafe {
            ringcall_decoder_decode(name, list.as_ptr(), list.len(), out, bytes, weight)
        })
    };
    let answer = by_list(handle.name, room);
    // SAFETY: as above.
    let by_bits = ask(room, |out, bytes, weight| unsafe {
        ringcall_decoder_decode_bits(handle.name, bits.as_ptr(), bits.len(), out, bytes, weight)
    });
    assert_eq!(answer, by_bits);
    // SAFETY: as above.
    let by_batch = ask(room, |out, bytes, weight| unsafe {
        ringcall_decoder_decode_batch(
            handle.name,
            1,
            bits.as_ptr(),
            bits.len(),
            out,
            bytes,
            weight,
            null_mut(),
        )
    });
    assert_eq!(answer, by_batch);
    if handle.live.is_none() {
        assert_ne!(answer.0, OK);
    }
    // SAFETY: as above; a byte for each observable, of which there are two at most.
    let by_bytes = ask(2, |out, room, weight| unsafe {
        ringcall_decoder_decode_bytes(handle.name, bytes.as_ptr(), bytes.len(), out, room, weight)
    });
    if answer.0 == OK && by_bytes.0 == OK {
        assert_eq!(answer.2, by_bytes.2);
        for (index, &flips) in by_bytes.1.iter().enumerate().filter(|(_, flips)| **flips != UNTOUCHED) {
            assert_eq!(flips, answer.1[index / 8] >> (index % 8) & 1);
        }
    }
    for other in decoders.0.iter().filter(|other| other.live.is_some() && other.model == handle.model) {
        assert_eq!(by_list(other.name, room), answer);
    }
}
