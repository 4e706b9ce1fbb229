//! Decoding round by round.

use super::{Answers, Engine, Latest, array, named, unspoilt};
use crate::handles::Registry;
use crate::raw_ring::aligned;
use crate::status::{Fault, status};
use core::ffi::{c_int, c_void};
use ringcall_matching::StreamingDecoder;
use std::cell::RefCell;
use std::sync::{Arc, Mutex, Weak};

static STREAMS: Registry<Arc<Stream>> = Registry::new("stream");

thread_local! {
    static LATEST: Latest<Stream> = const { RefCell::new((0, Weak::new())) };
}

#[derive(Debug)]
struct Stream {
    observable_bytes: usize,
    state: Mutex<StreamingDecoder>,
}

fn find(handle: *const c_void) -> Result<Arc<Stream>, Fault> {
    named(&STREAMS, &LATEST, handle)
}

/// Makes a stream on the tables of a decoder.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_stream_create(
    decoder: *const c_void,
    rounds: *const u32,
    count: usize,
    out_stream: *mut *mut c_void,
) -> c_int {
    status(|| {
        let decoder = super::find(decoder)?;
        aligned(out_stream.cast_const(), 8, "out_stream")?;
        let rounds =
            if rounds.is_null() && count == 0 {
                decoder.model.rounds.as_deref().map_err(|why| {
                    Fault::invalid(format!("{why}: say which round each detector belongs to"))
                })?
            } else {
                // SAFETY: the header's contract.
                unsafe { array(rounds, count, "rounds") }?
            };
        let state = decoder.state()?;
        let Engine::Matching(matching) = &state.engine else {
            return Err(Fault::unsupported("Relay-BP is not given rounds: make a decoder by matching"));
        };
        let engine = matching.engine();
        if engine.makes_second_pass() {
            // As the header has it.
            return Err(Fault::unsupported(
                "a decoder with correlations cannot be given rounds: make one without",
            ));
        }
        let streaming = StreamingDecoder::new(engine, rounds)?;
        let stream =
            Stream { observable_bytes: decoder.model.observable_bytes(), state: Mutex::new(streaming) };
        let handle = STREAMS.insert(Arc::new(Arc::new(stream)));
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_stream.write(handle) };
        Ok(())
    })
}

/// Where a stream is.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_stream_get_progress(
    stream: *const c_void,
    out_next_round: *mut u32,
    out_num_rounds: *mut u32,
) -> c_int {
    status(|| {
        let stream = find(stream)?;
        let state = unspoilt(&stream.state, "stream")?;
        let values = [(out_next_round, state.next_round()), (out_num_rounds, state.num_rounds())];
        for (out, _) in values.iter().filter(|(out, _)| !out.is_null()) {
            aligned(out.cast_const(), 4, "the address for a round")?;
        }
        for (out, value) in values.into_iter().filter(|(out, _)| !out.is_null()) {
            // SAFETY: not null, aligned, and the header's contract.
            unsafe { out.write(value as u32) };
        }
        Ok(())
    })
}

/// Gives a stream the next round.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_stream_push_round(
    stream: *const c_void,
    detectors: *const u32,
    count: usize,
    out_observables: *mut u8,
    out_bytes: usize,
    out_weight: *mut f64,
    out_done: *mut c_int,
) -> c_int {
    status(|| {
        let stream = find(stream)?;
        aligned(out_done.cast_const(), align_of::<c_int>(), "out_done")?;
        // SAFETY: the header's contract.
        let detectors = unsafe { array(detectors, count, "detectors") }?;
        // Before the round is taken, also where there is no answer yet.
        let answers = Answers::new(1, stream.observable_bytes, out_observables, out_bytes, out_weight)?;
        let mut state = unspoilt(&stream.state, "stream")?;
        let solution = state.push_round(detectors)?;
        if let Some(solution) = solution {
            let observables = solution.observables().iter().flat_map(|word| word.to_le_bytes());
            // SAFETY: the header's contract.
            unsafe { answers.write(0, observables, solution.weight()) };
        }
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_done.write(c_int::from(solution.is_some())) };
        Ok(())
    })
}

/// Forgets the rounds of an unfinished syndrome.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_stream_restart(stream: *const c_void) -> c_int {
    status(|| {
        unspoilt(&find(stream)?.state, "stream")?.restart();
        Ok(())
    })
}

/// Ends a stream.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn ringcall_decoder_stream_destroy(stream: *mut c_void) -> c_int {
    status(|| STREAMS.remove(stream).map(drop))
}
