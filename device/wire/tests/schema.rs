//! Descriptors and schemas: valid exactly when they agree, limits, sums, and the protocol's own examples.

use proptest::prelude::*;
use ringcall_wire::bits::pack_bits;
use ringcall_wire::{HandlerSchema, PayloadDecoder, PayloadEncoder, TypeDesc, WireError};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn descriptors_are_valid_exactly_when_they_agree(
        type_id in prop_oneof![0_u8..0x40, Just(0x10), Just(0x11), Just(0x20), Just(0x22), Just(0x23), Just(0x30)],
        num_elements in prop_oneof![0_u32..20, Just(u32::MAX), Just(1 << 29), Just(1 << 30)],
        delta in -1_i64..=1,
        half: bool,
        many: bool,
        reserved: [u8; 3],
    ) {
        let n = u64::from(num_elements);
        let claimed = if many { n } else { 1 };
        let right = match type_id {
            // A scalar stands for one value, however many the descriptor claims and makes room for.
            0x10 => claimed,
            0x11 | 0x13 => 4 * claimed,
            0x12 | 0x14 => 8 * claimed,
            0x20 => if half { n.div_ceil(2) } else { n },
            0x21 | 0x22 => 4 * n,
            0x23 => 8 * n,
            0x30 => n.div_ceil(8),
            _ => 4,
        };
        let size = right.saturating_add_signed(delta);
        let desc = TypeDesc { type_id, reserved, size_bytes: size as u32, num_elements };
        let known = matches!(type_id, 0x10..=0x14 | 0x20..=0x23 | 0x30);
        let scalar = type_id < 0x20;
        let either = type_id == 0x20 && (size == n || size == n.div_ceil(2));
        let valid = known && (n == 1 || !scalar) && (size == right || either) && right <= u64::from(u32::MAX);
        prop_assert_eq!(desc.validate().is_ok(), valid, "{:?} {:?}", desc, desc.validate());
    }
}

#[test]
fn the_protocols_own_examples_have_their_bytes() {
    // Ten bits: byte 0 holds b0..b7 from the least significant, byte 1 holds b8, b9 and zeros.
    let mut out = [0xFF; 2];
    pack_bits(&[1, 0, 0, 0, 0, 0, 0, 1, 0, 1], &mut out).unwrap();
    assert_eq!(out, [0x81, 0x02]);
    // A correction and a confidence: the float starts at the second byte.
    let schema = HandlerSchema::new().result(TypeDesc::uint8()).result(TypeDesc::float32());
    let mut out = [0; 5];
    let len = PayloadEncoder::results(&schema, &mut out).unwrap().u8(3).unwrap().f32(1.0).unwrap().finish();
    assert_eq!((len, out), (Ok(5), [3, 0, 0, 0x80, 0x3F]));
    // A bit string and its count, which has no separate type and goes as INT32.
    let schema = HandlerSchema::new().arg(TypeDesc::bit_packed(128)).arg(TypeDesc::uint32());
    assert_eq!(schema.validate(), Ok(()));
    assert_eq!(TypeDesc::uint32(), TypeDesc::int32());
    assert_eq!(schema.args_bytes(), Ok(20));
    assert!(schema.arg_fields().map(|field| field.offset).eq([0, 16]));
    for undefined in [0x15_u8, 0x24, 0x00, 0xFF] {
        let uint32 = TypeDesc { type_id: undefined, reserved: [0; 3], size_bytes: 4, num_elements: 1 };
        let refusal = WireError::UnknownValue { of: "payload type", value: undefined.into() };
        assert_eq!(HandlerSchema::new().arg(uint32).validate(), Err(refusal));
    }
}

#[test]
fn schemas_past_the_limits_are_refused() {
    let mut schema = HandlerSchema::new();
    for _ in 0..8 {
        schema = schema.arg(TypeDesc::uint8());
    }
    assert_eq!(schema.validate(), Ok(()));
    let ninth = schema.arg(TypeDesc::int64());
    assert_eq!(ninth.validate(), Err(WireError::TooManyArgs(9)));
    assert_eq!(ninth.args_bytes(), Err(WireError::TooManyArgs(9)));
    let mut results = HandlerSchema::new();
    for _ in 0..300 {
        results = results.result(TypeDesc::uint8());
    }
    assert_eq!(results.validate(), Err(WireError::TooManyResults(255)), "the count must not wrap");

    let half = TypeDesc::array_uint8(1 << 31);
    let sum = HandlerSchema::new().arg(half).arg(half);
    assert_eq!(
        (sum.args_bytes(), sum.validate()),
        (Err(WireError::SizeOverflow), Err(WireError::SizeOverflow))
    );
    assert_eq!(sum.fits_slot(usize::MAX), Err(WireError::SizeOverflow));
    assert_eq!(sum.arg_fields().count(), 1);
    assert_eq!(HandlerSchema::new().arg(TypeDesc::array_int32(1 << 30)).args_bytes(), Ok(u32::MAX));
    let result = HandlerSchema::new().result(TypeDesc { num_elements: 2, ..TypeDesc::int32() });
    let refusal = WireError::BadDescriptor { type_id: 0x11, num_elements: 2, size_bytes: 4 };
    assert_eq!(result.validate(), Err(refusal));
    for product in [TypeDesc::array_int32(1 << 30), TypeDesc::array_float64(u32::MAX)] {
        assert_eq!(product.validate(), Err(WireError::SizeOverflow));
    }
    let most = HandlerSchema::new().arg(TypeDesc::array_uint8(u32::MAX));
    let needed = u64::from(u32::MAX) + 24;
    assert_eq!(most.fits_slot(1024), Err(WireError::SlotTooSmall { needed, slot: 1024 }));
}

#[test]
fn an_untyped_schema_takes_any_payload_and_one_without_arguments_none() {
    let untyped = HandlerSchema::new();
    assert!(untyped.is_untyped() && untyped.check_arg_len(12345).is_ok());
    let mut decoder = PayloadDecoder::args(&untyped, &[1, 2, 3]).unwrap();
    assert_eq!(decoder.u8(), Err(WireError::PastEnd { fields: 0 }));
    assert_eq!(decoder.remaining(), [1, 2, 3]);
    assert_eq!(decoder.finish(), Ok(()));
    assert!(untyped.fits_slot(24).is_ok() && untyped.fits_slot(23).is_err());

    let query = HandlerSchema::new().result(TypeDesc::int32());
    assert!(query.check_arg_len(0).is_ok() && query.check_arg_len(1).is_err());
    assert!(PayloadDecoder::args(&query, &[1]).is_err() && PayloadDecoder::results(&query, &[]).is_err());
}

#[test]
fn one_array_of_no_bytes_takes_any_length() {
    let any = TypeDesc::any_bytes();
    let schema = HandlerSchema::new().arg(any).result(any);
    assert_eq!((schema.validate(), schema.arg_len(), schema.result_len()), (Ok(()), Ok(None), Ok(None)));
    assert!(schema.fits_slot(24).is_ok());
    for len in [0, 1, 16, 300] {
        let sent = vec![7; len];
        assert_eq!(schema.check_arg_len(len as u32), Ok(()));
        let mut buffer = [0; 300];
        let mut encoder = PayloadEncoder::args(&schema, &mut buffer).unwrap();
        assert_eq!(encoder.bytes(&sent).unwrap().finish(), Ok(len));
        for decoder in
            [PayloadDecoder::args(&schema, &buffer[..len]), PayloadDecoder::results(&schema, &buffer[..len])]
        {
            let mut decoder = decoder.unwrap();
            assert_eq!(decoder.finish(), Err(WireError::Unfinished { done: 0, fields: 1 }));
            let nibbles = decoder.clone().readout4().map(|_| ());
            let refused = WireError::TrailingBytes { expected: 0, available: len };
            assert_eq!(nibbles, if len == 0 { Ok(()) } else { Err(refused) });
            assert_eq!(decoder.bytes(), Ok(&sent[..]));
            assert_eq!((decoder.remaining(), decoder.finish()), (&[] as &[u8], Ok(())));
        }
    }
    let short = PayloadEncoder::args(&schema, &mut [0; 3]).unwrap().bytes(&[7; 4]).map(|_| ());
    assert_eq!(short, Err(WireError::Truncated { needed: 4, available: 3 }));

    // Among other values the array has no bytes.
    let two = schema.arg(TypeDesc::uint8());
    assert_eq!((two.arg_len(), two.check_arg_len(2).is_err()), (Ok(Some(1)), true));
    assert_eq!(HandlerSchema::new().arg(TypeDesc::array_int32(0)).arg_len(), Ok(Some(0)));
}
