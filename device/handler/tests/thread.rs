//! Thread handlers: every payload type in and out, and everything that is refused before or after the function runs.

use ringcall_handler::{
    BitString, Bits, BitsMut, F32, F64, Handler, HandlerKind, I32, I64, NativeTeam, Readout4, Status,
    handler, handlers,
};
use ringcall_wire::{FunctionId, HandlerSchema, PayloadDecoder, PayloadEncoder, TypeDesc, names};

/// Runs `handler` with a payload and exactly the room its schema asks for.
fn call(handler: Handler, payload: &[u8]) -> Result<Vec<u8>, Status> {
    let mut result = vec![0xA5; handler.schema.results_bytes().expect("valid") as usize];
    let written = handler.call(payload, &mut result)?;
    assert_eq!(written, result.len());
    Ok(result)
}

#[handler]
fn scalars(a: u8, b: i32, c: i64, d: f32, e: f64) -> (i64, f64, u8) {
    (c + i64::from(b), e * f64::from(d), a ^ 0xFF)
}

#[test]
fn scalars_lie_one_after_the_other() {
    let schema = scalars::HANDLER.schema;
    let expected = HandlerSchema::new()
        .arg(TypeDesc::uint8())
        .arg(TypeDesc::int32())
        .arg(TypeDesc::int64())
        .arg(TypeDesc::float32())
        .arg(TypeDesc::float64())
        .result(TypeDesc::int64())
        .result(TypeDesc::float64())
        .result(TypeDesc::uint8());
    assert_eq!(schema, expected);
    let mut payload = [0; 25];
    let mut encoder = PayloadEncoder::args(&schema, &mut payload).expect("room");
    encoder.u8(1).expect("u8").i32(-2).expect("i32").i64(1 << 40).expect("i64").f32(0.5).expect("f32");
    assert_eq!(encoder.f64(3.0).expect("f64").finish(), Ok(25));
    let result = call(scalars::HANDLER, &payload).expect("answered");
    let mut decoder = PayloadDecoder::results(&schema, &result).expect("length");
    assert_eq!((decoder.i64(), decoder.f64(), decoder.u8()), (Ok((1 << 40) - 2), Ok(1.5), Ok(0xFE)));
}

/// Sizes and aliases may be the author's own.
const WEIGHTS: usize = 3;
type Weights = [F32; WEIGHTS];

#[handler]
fn arrays(
    offset: u8,
    bytes: &[u8; 3],
    ints: &[I32; 2],
    weights: &Weights,
    doubles: &[F64; 1],
) -> ([u8; 3], [i32; 2], [f32; WEIGHTS], [f64; 1]) {
    let offset = i32::from(offset);
    (
        bytes.map(|byte| byte + 1),
        ints.map(|int| int.get() - offset),
        weights.map(|weight| weight.get() * 2.0),
        [doubles[0].get() / 4.0],
    )
}

#[test]
fn arrays_are_read_where_they_lie() {
    let schema = arrays::HANDLER.schema;
    assert_eq!((schema.args_bytes(), schema.results_bytes()), (Ok(32), Ok(31)));
    assert_eq!(schema.args()[3], TypeDesc::array_float32(3));
    assert_eq!(schema.results()[1], TypeDesc::array_int32(2));
    let mut payload = [0; 32];
    let mut encoder = PayloadEncoder::args(&schema, &mut payload).expect("room");
    encoder.u8(7).expect("u8").bytes(&[1, 2, 254]).expect("bytes").array_i32(&[0, 9]).expect("ints");
    encoder.array_f32(&[0.5, -1.0, f32::MAX]).expect("floats").array_f64(&[2.0]).expect("doubles");
    let result = call(arrays::HANDLER, &payload).expect("answered");
    let mut decoder = PayloadDecoder::results(&schema, &result).expect("length");
    assert_eq!(decoder.bytes(), Ok(&[2, 3, 255][..]));
    let (mut ints, mut floats, mut doubles) = ([0; 2], [0.0; 3], [0.0; 1]);
    decoder.copy_i32(&mut ints).and(decoder.copy_f32(&mut floats)).expect("arrays");
    decoder.copy_f64(&mut doubles).expect("doubles");
    assert_eq!((ints, floats, doubles), ([-7, 2], [1.0, -2.0, f32::INFINITY], [0.5]));
    assert_eq!(decoder.finish(), Ok(()));
}

#[handler]
fn measured(hard: Bits<'_, 10>, soft: Readout4<'_, 3>, leaked: &[u8; 2]) -> (BitString<10>, u8) {
    let mut flips = BitString::from(hard);
    flips.flip(9);
    (flips, soft.iter().sum::<u8>() + leaked[1])
}

#[test]
fn bits_and_four_bit_values_are_unpacked_and_their_unused_bits_checked() {
    let schema = measured::HANDLER.schema;
    assert_eq!(schema.args(), [TypeDesc::bit_packed(10), TypeDesc::readout4(3), TypeDesc::array_uint8(2)]);
    assert_eq!(schema.results(), [TypeDesc::bit_packed(10), TypeDesc::uint8()]);
    assert_eq!(call(measured::HANDLER, &[0b11, 0b10, 0xF2, 0x01, 9, 2]), Ok(vec![0b11, 0, 2 + 15 + 1 + 2]));
    assert_eq!(call(measured::HANDLER, &[0b11, 0b100, 0xF2, 0x01, 0, 0]), Err(Status::BAD_PAYLOAD));
    assert_eq!(call(measured::HANDLER, &[0b11, 0b10, 0xF2, 0x11, 0, 0]), Err(Status::BAD_PAYLOAD));
}

#[handler]
#[allow(clippy::too_many_arguments)] // as many as a schema has
fn most(a: u8, b: u8, c: u8, d: u8, e: u8, f: u8, g: u8, h: u8) -> (u8, u8, u8, u8) {
    (a ^ h, b ^ g, c ^ f, d ^ e)
}

#[test]
fn eight_arguments_and_four_results() {
    assert_eq!((most::HANDLER.schema.num_args, most::HANDLER.schema.num_results), (8, 4));
    assert_eq!(call(most::HANDLER, &[1, 2, 3, 4, 5, 6, 7, 8]), Ok(vec![9, 5, 5, 1]));
}

#[handler]
fn in_place(
    seed: u8,
    byte: &mut u8,
    long: &mut I64,
    floats: &mut [F32; 2],
    bits: BitsMut<'_, 9>,
) -> Result<(), Status> {
    if seed == 0 {
        return Err(Status(17));
    }
    let mut bits = bits;
    *byte = seed + 1;
    long.set(-1);
    floats[1].set(0.5);
    bits.set(8, seed == 1);
    Ok(())
}

#[handler]
fn single_values(int: &mut I32, float: &mut F32, double: &mut F64, bytes: &mut [u8; 2]) {
    int.set(-2);
    float.set(1.0);
    double.set(2.0);
    *bytes = [3, 4];
}

#[test]
fn out_parameters_are_written_in_place() {
    let schema = in_place::HANDLER.schema;
    let expected =
        [TypeDesc::uint8(), TypeDesc::int64(), TypeDesc::array_float32(2), TypeDesc::bit_packed(9)];
    assert_eq!(schema.results(), expected);
    let result = call(in_place::HANDLER, &[1]).expect("answered");
    assert_eq!(result[..9], [2, 255, 255, 255, 255, 255, 255, 255, 255]);
    // What is not written keeps what was there, bits apart.
    assert_eq!(result[9..], [0xA5, 0xA5, 0xA5, 0xA5, 0, 0, 0, 0x3F, 0, 1]);
    assert_eq!(call(in_place::HANDLER, &[0]), Err(Status(17)));

    let result = call(single_values::HANDLER, b"").expect("answered");
    assert_eq!(result[..4], (-2_i32).to_le_bytes());
    assert_eq!(result[4..8], 1.0_f32.to_le_bytes());
    assert_eq!(result[8..16], 2.0_f64.to_le_bytes());
    assert_eq!(result[16..], [3, 4]);
}

#[handler]
fn fallible(threshold: i32) -> Result<f32, Status> {
    match threshold {
        0 => Err(Status::ENGINE_FAILED),
        1.. => Ok(threshold as f32),
        _ => Err(Status(-threshold)),
    }
}

#[test]
fn a_status_of_the_handler_is_the_answer() {
    assert_eq!(call(fallible::HANDLER, &0_i32.to_le_bytes()), Err(Status::ENGINE_FAILED));
    assert_eq!(call(fallible::HANDLER, &(-3_i32).to_le_bytes()), Err(Status(3)));
    assert_eq!(call(fallible::HANDLER, &2_i32.to_le_bytes()), Ok(2.0_f32.to_le_bytes().to_vec()));
}

#[test]
fn lengths_are_checked_before_the_function_runs() {
    let handler = fallible::HANDLER;
    let mut result = [0; 8];
    for len in [0, 3, 5, 100] {
        assert_eq!(handler.call(&[1; 100][..len], &mut result), Err(Status::SCHEMA_MISMATCH), "{len}");
    }
    assert_eq!(handler.call(&[1; 4], &mut result[..3]), Err(Status::RESULT_TOO_LONG));
    // More room than needed stays as it was.
    assert_eq!(handler.call(&2_i32.to_le_bytes(), &mut result), Ok(4));
    assert_eq!(result, [0, 0, 0, 0x40, 0, 0, 0, 0]);
}

#[handler]
fn rpc_increment(input: &[u8], output: &mut [u8]) -> Result<usize, Status> {
    let output = output.get_mut(..input.len()).ok_or(Status(2))?;
    output.iter_mut().zip(input).for_each(|(out, byte)| *out = byte.wrapping_add(1));
    Ok(input.len())
}

#[handler]
fn boastful(_: &[u8], output: &mut [u8]) -> usize {
    output.len() + 1
}

#[test]
fn untyped_handlers_take_any_length() {
    assert!(rpc_increment::HANDLER.schema.is_untyped());
    let mut result = [0; 4];
    assert_eq!(rpc_increment::HANDLER.call(&[1, 255], &mut result), Ok(2));
    assert_eq!(result, [2, 0, 0, 0]);
    assert_eq!(rpc_increment::HANDLER.call(&[], &mut result), Ok(0));
    assert_eq!(rpc_increment::HANDLER.call(&[0; 5], &mut result), Err(Status(2)));
    assert_eq!(boastful::HANDLER.call(&[], &mut result), Err(Status::RESULT_TOO_LONG));
}

/// Nothing in, nothing out: a schema without values is an untyped one.
#[handler]
fn reset() {}

#[test]
fn a_handler_without_values_takes_any_payload() {
    assert!(reset::HANDLER.schema.is_untyped());
    assert_eq!(reset::HANDLER.call(&[1, 2, 3], &mut []), Ok(0));
}

#[test]
fn words_of_any_length_are_those_of_the_wire() {
    fn check<const N: usize>() {
        let mut bytes: Vec<u8> = (0..N.div_ceil(8)).map(|i| (i as u8).wrapping_mul(37) | 1).collect();
        if let Some(last) = bytes.last_mut() {
            *last = 1;
        }
        let bits = Bits::<N>::new(&bytes).expect("padded");
        let view = *bits;
        assert!(bits.words().eq(view.words()), "{N}");
        assert_eq!(bits.count_ones(), view.count_ones(), "{N}");
        assert_eq!(bits.count_ones(), bits.ones().count(), "{N}");
    }
    check::<0>();
    check::<1>();
    check::<63>();
    check::<64>();
    check::<65>();
    check::<90>();
    check::<128>();
    check::<197>();
}

mod elsewhere {
    #[ringcall_handler::handler(name = "a name: with 'anything'")]
    pub(crate) fn named(value: u8) -> u8 {
        value
    }
}

#[test]
fn descriptors_say_what_a_table_needs() {
    use elsewhere::named;
    let handlers: [Handler; 3] = handlers![rpc_increment, named, crate::fallible];
    assert_eq!(handlers.map(|h| h.kind), [HandlerKind::Thread; 3]);
    assert_eq!(handlers[0].id(), FunctionId::of(names::RPC_INCREMENT));
    assert_eq!(handlers[1].name, "a name: with 'anything'");
    assert_eq!(handlers[1].id(), FunctionId::of("a name: with 'anything'"));
    assert_eq!(handlers[1].symbol, "ringcall_handler_a_name__with__anything_");
    assert_eq!(handlers[2].symbol, "ringcall_handler_fallible");
    assert!(!Handler::distinct(&[handlers[0], handlers[1], handlers[0]]));
    // The functions are what they were.
    assert_eq!((named(3), fallible(2)), (3, Ok(2.0)));
}

#[test]
fn whoever_plays_the_team_a_thread_handler_is_run_once() {
    let handler = fallible::HANDLER;
    for team in [NativeTeam::Inline, NativeTeam::Lanes(32), NativeTeam::Blocks { blocks: 2, threads: 9 }] {
        let mut result = [0; 4];
        assert_eq!((handler.native)(team, &2_i32.to_le_bytes(), &mut result), Ok(4));
        assert_eq!(result, 2.0_f32.to_le_bytes());
    }
}
