//! Whatever the values: encoded, run as a dispatcher does and decoded, they are what the function itself returns.

use proptest::array::{uniform2, uniform3, uniform5};
use proptest::prelude::*;
use ringcall_handler::{BitString, Bits, F32, F64, I32, Output, Readout4, Status, Warp, handler};
use ringcall_wire::bits::pack_bits;
use ringcall_wire::readout::pack_nibbles;
use ringcall_wire::{PayloadDecoder, PayloadEncoder, WireError};

const BITS: usize = 13;

/// Everything in, and out of it what depends on all of it.
#[handler]
#[allow(clippy::too_many_arguments)] // as many as a schema has
fn mix(
    flag: u8,
    syndrome: Bits<'_, BITS>,
    confidence: Readout4<'_, 5>,
    bytes: &[u8; 3],
    ints: &[I32; 2],
    floats: &[F32; 3],
    doubles: &[F64; 2],
    shot: i64,
) -> Result<(BitString<BITS>, i64, [f32; 3], [u8; 5]), Status> {
    if flag == 255 {
        return Err(Status(i32::from(bytes[0]) + 1));
    }
    let mut flips = BitString::from(syndrome);
    flips.flip(usize::from(flag) % BITS);
    let sum = ints.iter().fold(shot, |sum, int| sum.wrapping_add(int.get().into()));
    let scaled = floats.map(|float| (f64::from(float.get()) * doubles[0].get() - doubles[1].get()) as f32);
    let mut soft = [0; 5];
    soft.iter_mut().zip(confidence.iter()).for_each(|(byte, value)| *byte = value.wrapping_mul(bytes[2]));
    Ok((flips, sum, scaled, soft))
}

/// The same on the lanes of a warp.
#[handler(kind = "warp")]
fn scale(warp: Warp<'_>, factor: f32, values: &[F32; 33], scaled: Output<'_, [f32; 33]>) {
    for i in warp.stride(33) {
        scaled.set(i, values[i].get() * factor);
    }
}

#[derive(Debug, Clone)]
struct Values {
    flag: u8,
    syndrome: [u8; BITS],
    confidence: [u8; 5],
    bytes: [u8; 3],
    ints: [i32; 2],
    floats: [f32; 3],
    doubles: [f64; 2],
    shot: i64,
}

fn values() -> impl Strategy<Value = Values> {
    let bits = proptest::collection::vec(0..2_u8, BITS).prop_map(|bits| bits.try_into().expect("as many"));
    let flag = prop_oneof![1 => Just(255), 9 => any::<u8>()];
    (
        flag,
        bits,
        uniform5(0..16_u8),
        uniform3(any::<u8>()),
        uniform2(any::<i32>()),
        uniform3(any::<f32>()),
        uniform2(any::<f64>()),
        any::<i64>(),
    )
        .prop_map(|(flag, syndrome, confidence, bytes, ints, floats, doubles, shot)| Values {
            flag,
            syndrome,
            confidence,
            bytes,
            ints,
            floats,
            doubles,
            shot,
        })
}

fn encoded(v: &Values) -> Result<Vec<u8>, WireError> {
    let schema = mix::HANDLER.schema;
    let mut payload = vec![0; schema.args_bytes()? as usize];
    PayloadEncoder::args(&schema, &mut payload)?
        .u8(v.flag)?
        .bits(&v.syndrome)?
        .readout4(&v.confidence)?
        .bytes(&v.bytes)?
        .array_i32(&v.ints)?
        .array_f32(&v.floats)?
        .array_f64(&v.doubles)?
        .i64(v.shot)?
        .finish()?;
    Ok(payload)
}

fn direct(v: &Values) -> Result<(BitString<BITS>, i64, [f32; 3], [u8; 5]), Status> {
    let (mut syndrome, mut confidence) = ([0; 2], [0; 3]);
    pack_bits(&v.syndrome, &mut syndrome).expect("bits");
    pack_nibbles(&v.confidence, &mut confidence).expect("nibbles");
    mix(
        v.flag,
        Bits::new(&syndrome).expect("bits"),
        Readout4::new(&confidence).expect("nibbles"),
        &v.bytes,
        &v.ints.map(I32::new),
        &v.floats.map(F32::new),
        &v.doubles.map(F64::new),
        v.shot,
    )
}

proptest! {
    #[test]
    fn a_call_through_bytes_is_a_call(v in values()) {
        let schema = mix::HANDLER.schema;
        let payload = encoded(&v).expect("encoded");
        let mut result = vec![0; schema.results_bytes().expect("valid") as usize];
        let outcome = mix::HANDLER.call(&payload, &mut result);
        match direct(&v) {
            Err(status) => prop_assert_eq!(outcome, Err(status)),
            Ok((flips, sum, scaled, soft)) => {
                prop_assert_eq!(outcome, Ok(result.len()));
                let mut decoder = PayloadDecoder::results(&schema, &result).expect("length");
                prop_assert_eq!(decoder.bits().expect("bits").as_bytes(), flips.as_bytes());
                prop_assert_eq!(decoder.i64(), Ok(sum));
                let floats = decoder.array_f32().expect("floats");
                // By their bits: a NaN is a NaN.
                prop_assert!(floats.iter().map(|f| f.get().to_bits()).eq(scaled.map(f32::to_bits)));
                prop_assert_eq!(decoder.bytes(), Ok(&soft[..]));
                prop_assert_eq!(decoder.finish(), Ok(()));
            }
        }
    }

    /// No bytes make a handler panic, and those of the wrong length never reach it.
    #[test]
    fn any_bytes_are_answered(payload in proptest::collection::vec(any::<u8>(), 0..80)) {
        let schema = mix::HANDLER.schema;
        let mut result = [0; 64];
        let outcome = mix::HANDLER.call(&payload, &mut result);
        match schema.check_arg_len(payload.len() as u32) {
            Err(_) => prop_assert_eq!(outcome, Err(Status::SCHEMA_MISMATCH)),
            Ok(()) => prop_assert!(outcome != Err(Status::SCHEMA_MISMATCH)),
        }
    }

    #[test]
    fn a_warp_answers_as_one_thread(factor in -8.0..8.0_f32, seed in any::<[u8; 33]>(), lanes in 1..=4_u32) {
        let schema = scale::HANDLER.schema;
        let values = seed.map(f32::from);
        let mut payload = [0; 136];
        let mut encoder = PayloadEncoder::args(&schema, &mut payload).expect("room");
        encoder.f32(factor).expect("factor").array_f32(&values).expect("values");
        let mut result = [0; 132];
        prop_assert_eq!(scale::HANDLER.call_with_lanes(lanes, &payload, &mut result), Ok(132));
        let mut decoder = PayloadDecoder::results(&schema, &result).expect("length");
        let scaled = decoder.array_f32().expect("floats");
        prop_assert!(scaled.iter().zip(values).all(|(got, value)| got.get() == value * factor));
    }
}
