//! Warp and grid handlers, by one thread and by many: the answer is the same.

use ringcall_handler::{BitString, Bits, F32, Grid, Handler, HandlerKind, Output, Status, Warp, handler};
use ringcall_wire::TypeDesc;

#[handler(kind = "warp")]
fn increment(warp: Warp<'_>, input: &[u8; 512], output: Output<'_, [u8; 512]>) {
    for i in warp.stride(output.len()) {
        output.set(i, input[i].wrapping_add(1));
    }
}

/// Several results of different sizes, unaligned in the response.
#[handler(kind = "warp")]
fn statistics(
    warp: Warp<'_>,
    syndrome: Bits<'_, 100>,
    weights: &[F32; 40],
    parity: Output<'_, u8>,
    doubled: Output<'_, [f32; 40]>,
    flipped: Output<'_, BitString<100>>,
    weight: Output<'_, i64>,
) -> Result<(), Status> {
    let share = warp.stride(100).filter(|&i| syndrome.get(i) == Some(true)).count() as u32;
    let ones = warp.sum(share);
    for i in warp.stride(40) {
        doubled.set(i, weights[i].get() * 2.0);
    }
    for i in warp.stride(flipped.len()) {
        flipped.set(i, !syndrome.as_bytes()[i]);
    }
    if warp.lane() == 0 {
        parity.set(0, ones as u8 & 1);
        weight.set(0, i64::from(ones) << 33);
    }
    if warp.all(ones == 0) { Err(Status(5)) } else { Ok(()) }
}

/// Each block sums its part, then every thread reads what all the blocks have.
#[handler(kind = "grid", name = "grid-sum")]
fn grid_sum(grid: Grid<'_>, input: &[u8; 64], sums: Output<'_, [i32; 64]>) {
    for i in grid.stride(64) {
        sums.set(i, input[..=i].iter().map(|&byte| i32::from(byte)).sum());
    }
    grid.sync();
    // A barrier within the loop would be one that some threads miss.
    let rounds = 64 / grid.size().min(64);
    for _ in 0..rounds {
        grid.as_block().sync();
    }
}

#[handler(kind = "warp")]
fn echo(warp: Warp<'_>, input: &[u8], output: Output<'_, [u8]>) -> Result<usize, Status> {
    if input.len() > output.len() {
        return Err(Status(3));
    }
    for i in warp.stride(input.len()) {
        output.set(i, input[i]);
    }
    Ok(input.len())
}

/// By one thread, by warps of several sizes, by grids.
fn everybody(handler: Handler, payload: &[u8], room: usize) -> Result<Vec<u8>, Status> {
    let run = |call: &dyn Fn(&mut [u8]) -> Result<usize, Status>| {
        let mut result = vec![0xA5; room];
        call(&mut result).map(|written| {
            assert!(result[written..].iter().all(|&byte| byte == 0xA5), "wrote past the end");
            result[..written].to_vec()
        })
    };
    let alone = run(&|result| handler.call(payload, result));
    for lanes in [1, 2, 7, 32] {
        assert_eq!(run(&|result| handler.call_with_lanes(lanes, payload, result)), alone, "{lanes} lanes");
    }
    for (blocks, threads) in [(1, 1), (3, 8), (2, 40)] {
        let outcome = run(&|result| handler.call_with_blocks(blocks, threads, payload, result));
        assert_eq!(outcome, alone, "{blocks} blocks of {threads}");
    }
    alone
}

#[test]
fn lanes_share_the_work() {
    assert_eq!(increment::HANDLER.kind, HandlerKind::Warp);
    let payload: Vec<u8> = (0..512).map(|i| i as u8).collect();
    let expected: Vec<u8> = (1..513).map(|i| i as u8).collect();
    assert_eq!(everybody(increment::HANDLER, &payload, 520), Ok(expected));
}

#[test]
fn several_results_of_one_team() {
    let schema = statistics::HANDLER.schema;
    let results =
        [TypeDesc::uint8(), TypeDesc::array_float32(40), TypeDesc::bit_packed(100), TypeDesc::int64()];
    assert_eq!(schema.results(), results);
    let mut payload = [0; 13 + 160];
    payload[0] = 0b1011;
    payload[12] = 0b1000;
    payload[13..].chunks_exact_mut(4).for_each(|weight| weight.copy_from_slice(&0.25_f32.to_le_bytes()));
    let result = everybody(statistics::HANDLER, &payload, 182).expect("answered");
    let mut expected = vec![0];
    expected.extend(0.5_f32.to_le_bytes().repeat(40));
    expected.extend([!0b1011, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 255, 0b0111]);
    expected.extend((4_i64 << 33).to_le_bytes());
    assert_eq!(result, expected);
}

#[test]
fn what_a_team_answers_with_an_error() {
    let handler = statistics::HANDLER;
    assert_eq!(everybody(handler, &[0; 173], 182), Err(Status(5)));
    assert_eq!(everybody(handler, &[0xFF; 173], 182), Err(Status::BAD_PAYLOAD));
    assert_eq!(everybody(handler, &[0; 172], 182), Err(Status::SCHEMA_MISMATCH));
    assert_eq!(everybody(handler, &[0; 173], 181), Err(Status::RESULT_TOO_LONG));
}

#[test]
fn blocks_share_the_work() {
    assert_eq!((grid_sum::HANDLER.kind, grid_sum::HANDLER.name), (HandlerKind::Grid, "grid-sum"));
    let result = everybody(grid_sum::HANDLER, &[1; 64], 256).expect("answered");
    assert_eq!(result, (1..=64_i32).flat_map(i32::to_le_bytes).collect::<Vec<_>>());
}

#[test]
fn untyped_teams_take_any_length() {
    assert!(echo::HANDLER.schema.is_untyped());
    assert_eq!(everybody(echo::HANDLER, b"some bytes", 16), Ok(b"some bytes".to_vec()));
    assert_eq!(everybody(echo::HANDLER, &[1; 17], 16), Err(Status(3)));
}

#[test]
fn one_descriptor_many_sizes_of_output() {
    // Past the end nothing is written, and it is said so.
    let mut bytes = [0; 2];
    let output = Output::<BitString<9>>::over(ringcall_handler::OutBytes::new(&mut bytes));
    assert_eq!((output.len(), output.is_empty()), (2, false));
    assert!(output.set(0, 0xFF) && output.set(1, 0xFF) && !output.set(2, 0xFF));
    assert_eq!(bytes, [0xFF, 1]);
    let mut bytes = [0; 9];
    let output = Output::<f64>::over(ringcall_handler::OutBytes::new(&mut bytes[1..]));
    assert!(output.set(0, -1.0) && !output.set(1, 0.0));
    assert_eq!(bytes[1..], (-1.0_f64).to_le_bytes());
}
