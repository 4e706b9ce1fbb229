//! The handlers.

use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use ringcall_handler::{Bits, Grid, Handler, Output, Status, Warp, handler, handlers};

/// Adds 1 to every byte of a word, without carries between them.
#[inline(always)]
#[must_use]
pub const fn increment_word(word: u64) -> u64 {
    const HIGH: u64 = 0x8080_8080_8080_8080;
    const ONES: u64 = 0x0101_0101_0101_0101;
    ((word & !HIGH) + ONES) ^ (word & HIGH)
}

/// Adds 1 to every byte, eight at a time.
#[handler]
pub fn rpc_increment(input: &[u8], output: &mut [u8]) -> usize {
    let len = input.len().min(output.len());
    let (Some(input), Some(output)) = (input.get(..len), output.get_mut(..len)) else { return 0 };
    let (words, rest) = input.as_chunks::<8>();
    let (out_words, out_rest) = output.as_chunks_mut::<8>();
    // Four reads before the first write: a device's reads overlap only where no write stands between them.
    let (quads, tail) = words.as_chunks::<4>();
    let (out_quads, out_tail) = out_words.as_chunks_mut::<4>();
    for ([o0, o1, o2, o3], [w0, w1, w2, w3]) in out_quads.iter_mut().zip(quads) {
        let (w0, w1) = (u64::from_le_bytes(*w0), u64::from_le_bytes(*w1));
        let (w2, w3) = (u64::from_le_bytes(*w2), u64::from_le_bytes(*w3));
        *o0 = increment_word(w0).to_le_bytes();
        *o1 = increment_word(w1).to_le_bytes();
        *o2 = increment_word(w2).to_le_bytes();
        *o3 = increment_word(w3).to_le_bytes();
    }
    for (out, word) in out_tail.iter_mut().zip(tail) {
        *out = increment_word(u64::from_le_bytes(*word)).to_le_bytes();
    }
    for (out, byte) in out_rest.iter_mut().zip(rest) {
        *out = byte.wrapping_add(1);
    }
    len
}

/// Adds 1 to every byte, one at a time: the lanes take turns.
#[handler(kind = "warp")]
pub fn rpc_increment_bytes(warp: Warp<'_>, input: &[u8], output: Output<'_, [u8]>) -> usize {
    for i in warp.stride(input.len().min(output.len())) {
        if let Some(byte) = input.get(i) {
            output.set(i, byte.wrapping_add(1));
        }
    }
    input.len().min(output.len())
}

/// The same by one thread, which a device's clock makes slow: 10 cycles a byte.
#[handler]
pub fn rpc_increment_bytes_alone(input: &[u8], output: &mut [u8]) -> usize {
    for (out, byte) in output.iter_mut().zip(input) {
        *out = byte.wrapping_add(1);
    }
    input.len().min(output.len())
}

/// Adds 1 to every byte, eight at a time, the lanes in turn.
#[handler(kind = "warp")]
pub fn rpc_increment_warp(warp: Warp<'_>, input: &[u8], output: Output<'_, [u8]>) -> usize {
    let len = input.len().min(output.len());
    let (words, rest) = input.get(..len).unwrap_or_default().as_chunks::<8>();
    for i in warp.stride(words.len()) {
        if let Some(word) = words.get(i) {
            output.set_bytes(i * 8, increment_word(u64::from_le_bytes(*word)).to_le_bytes());
        }
    }
    let done = len - rest.len();
    for i in warp.stride(rest.len()) {
        if let Some(byte) = rest.get(i) {
            output.set(done + i, byte.wrapping_add(1));
        }
    }
    len
}

/// Adds 1 to every byte, each thread of the grid its share.
#[handler(kind = "grid")]
pub fn rpc_increment_grid(grid: Grid<'_>, input: &[u8], output: Output<'_, [u8]>) -> usize {
    for i in grid.stride(input.len().min(output.len())) {
        if let Some(byte) = input.get(i) {
            output.set(i, byte.wrapping_add(1));
        }
    }
    input.len().min(output.len())
}

/// What the threads of [`rpc_grid_mirror`] tell each other.
static CELLS: [DeviceU64; 256] = [const { DeviceU64::new(0) }; 256];

/// Two steps with a barrier of the grid between them: each byte plus 1, then the sum of each and its mirror image, which
/// another thread made. Wrong if any thread passes the barrier early.
#[handler(kind = "grid")]
pub fn rpc_grid_mirror(grid: Grid<'_>, input: &[u8; 256], output: Output<'_, [u8; 256]>) {
    for i in grid.stride(256) {
        if let (Some(cell), Some(byte)) = (CELLS.get(i), input.get(i)) {
            cell.store(u64::from(byte.wrapping_add(1)), Ordering::Relaxed);
        }
    }
    grid.sync();
    for i in grid.stride(256) {
        if let (Some(own), Some(other)) = (CELLS.get(i), CELLS.get(255 - i)) {
            output.set(i, (own.load(Ordering::Relaxed) + other.load(Ordering::Relaxed)) as u8);
        }
    }
    grid.sync(); // the cells are the next call's from here on
}

/// A typed handler: the parity of 128 detectors.
#[handler]
pub fn rpc_mock_decode(syndrome: Bits<'_, 128>) -> u8 {
    (syndrome.count_ones() & 1) as u8
}

/// Takes as many nanoseconds as it is told, and says how many it took.
#[handler]
pub fn rpc_spin(nanoseconds: i64) -> i64 {
    let begin = clock::now_ns();
    loop {
        let took = clock::now_ns().wrapping_sub(begin) as i64;
        if took >= nanoseconds {
            return took;
        }
        ringcall_gpu::hint::spin();
    }
}

/// Answers with the status it is given.
#[handler]
pub fn rpc_refuse(status: i32) -> Result<u8, Status> {
    Err(Status(status))
}

/// Claims a result of 4 GiB.
#[handler]
pub fn rpc_overclaim(_: &[u8], _: &mut [u8]) -> usize {
    u32::MAX as usize
}

/// Asks for its follow-up graph.
#[handler]
pub fn rpc_trigger(_: &[u8], _: &mut [u8]) -> Result<usize, Status> {
    Err(Status(ringcall_wire::flag::GRAPH_TRIGGER as i32))
}

/// All of them.
#[must_use]
pub fn all() -> [Handler; 11] {
    handlers![
        rpc_increment,
        rpc_increment_bytes,
        rpc_increment_bytes_alone,
        rpc_increment_warp,
        rpc_increment_grid,
        rpc_grid_mirror,
        rpc_mock_decode,
        rpc_spin,
        rpc_refuse,
        rpc_overclaim,
        rpc_trigger,
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_at_a_time_is_a_byte_at_a_time() {
        let input: Vec<u8> = (0..=255).collect();
        let mut by_words = vec![0; 256];
        let mut by_bytes = vec![0; 256];
        assert_eq!(rpc_increment(&input, &mut by_words), 256);
        assert_eq!(rpc_increment_bytes_alone(&input, &mut by_bytes), 256);
        assert_eq!(by_words, by_bytes);
        assert_eq!(by_bytes[255], 0);
        for handler in
            [rpc_increment_bytes::HANDLER, rpc_increment_warp::HANDLER, rpc_increment_grid::HANDLER]
        {
            let mut out = vec![0; 256];
            assert_eq!(handler.call(&input, &mut out), Ok(256));
            assert_eq!(out, by_bytes, "{}", handler.name);
        }
    }
}
