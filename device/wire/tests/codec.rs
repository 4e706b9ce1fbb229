//! Payloads: round trips for every type, refusal of everything that does not fit, and no panic on garbage.

use proptest::prelude::*;
use ringcall_wire::bits::{BitView, unpack_bits};
use ringcall_wire::qec::read_decode_result;
use ringcall_wire::readout::NibbleView;
use ringcall_wire::{
    DecodeResponse, FunctionEntry, HandlerSchema, PayloadDecoder, PayloadEncoder, PayloadType, TypeDesc,
    WireError,
};
use zerocopy::FromBytes;

#[derive(Clone, Debug, PartialEq)]
enum Value {
    U8(u8),
    I32(i32),
    I64(i64),
    // Floats by their bits, so that NaNs compare.
    F32(u32),
    F64(u64),
    Bytes(Vec<u8>),
    I32s(Vec<i32>),
    F32s(Vec<u32>),
    F64s(Vec<u64>),
    Bits(Vec<u8>),
    Nibbles(Vec<u8>),
}

impl Value {
    fn desc(&self) -> TypeDesc {
        match self {
            Self::U8(_) => TypeDesc::uint8(),
            Self::I32(_) => TypeDesc::int32(),
            Self::I64(_) => TypeDesc::int64(),
            Self::F32(_) => TypeDesc::float32(),
            Self::F64(_) => TypeDesc::float64(),
            Self::Bytes(v) => TypeDesc::array_uint8(v.len() as u32),
            Self::I32s(v) => TypeDesc::array_int32(v.len() as u32),
            Self::F32s(v) => TypeDesc::array_float32(v.len() as u32),
            Self::F64s(v) => TypeDesc::array_float64(v.len() as u32),
            Self::Bits(v) => TypeDesc::bit_packed(v.len() as u32),
            Self::Nibbles(v) => TypeDesc::readout4(v.len() as u32),
        }
    }

    fn push(&self, out: &mut PayloadEncoder<'_>) -> Result<(), WireError> {
        match self {
            Self::U8(v) => out.u8(*v),
            Self::I32(v) => out.i32(*v),
            Self::I64(v) => out.i64(*v),
            Self::F32(v) => out.f32(f32::from_bits(*v)),
            Self::F64(v) => out.f64(f64::from_bits(*v)),
            Self::Bytes(v) => out.bytes(v),
            Self::I32s(v) => out.array_i32(v),
            Self::F32s(v) => out.array_f32(&v.iter().map(|&v| f32::from_bits(v)).collect::<Vec<_>>()),
            Self::F64s(v) => out.array_f64(&v.iter().map(|&v| f64::from_bits(v)).collect::<Vec<_>>()),
            Self::Bits(v) => out.bits(v),
            Self::Nibbles(v) => out.readout4(v),
        }
        .map(|_| ())
    }

    /// Reads a value of the same type as this one.
    fn read_alike(&self, from: &mut PayloadDecoder<'_>) -> Result<Self, WireError> {
        Ok(match self {
            Self::U8(_) => Self::U8(from.u8()?),
            Self::I32(_) => Self::I32(from.i32()?),
            Self::I64(_) => Self::I64(from.i64()?),
            Self::F32(_) => Self::F32(from.f32()?.to_bits()),
            Self::F64(_) => Self::F64(from.f64()?.to_bits()),
            Self::Bytes(_) => Self::Bytes(from.bytes()?.to_vec()),
            Self::I32s(_) => Self::I32s(from.array_i32()?.iter().map(|v| v.get()).collect()),
            Self::F32s(_) => Self::F32s(from.array_f32()?.iter().map(|v| v.get().to_bits()).collect()),
            Self::F64s(_) => Self::F64s(from.array_f64()?.iter().map(|v| v.get().to_bits()).collect()),
            Self::Bits(_) => {
                let view = from.bits()?;
                let mut bits = vec![9; view.len()];
                unpack_bits(view.as_bytes(), &mut bits)?;
                Self::Bits(bits)
            }
            Self::Nibbles(_) => Self::Nibbles(from.readout4()?.iter().collect()),
        })
    }

    /// One element more, where there are elements.
    fn longer(&self) -> Option<Self> {
        let mut longer = self.clone();
        match &mut longer {
            Self::Bytes(v) | Self::Bits(v) | Self::Nibbles(v) => v.push(0),
            Self::I32s(v) => v.push(0),
            Self::F32s(v) => v.push(0),
            Self::F64s(v) => v.push(0),
            _ => return None,
        }
        Some(longer)
    }
}

fn values(most: usize) -> impl Strategy<Value = Vec<Value>> {
    let value = prop_oneof![
        any::<u8>().prop_map(Value::U8),
        any::<i32>().prop_map(Value::I32),
        any::<i64>().prop_map(Value::I64),
        any::<u32>().prop_map(Value::F32),
        any::<u64>().prop_map(Value::F64),
        prop::collection::vec(any::<u8>(), 0..40).prop_map(Value::Bytes),
        prop::collection::vec(any::<i32>(), 0..20).prop_map(Value::I32s),
        prop::collection::vec(any::<u32>(), 0..20).prop_map(Value::F32s),
        prop::collection::vec(any::<u64>(), 0..20).prop_map(Value::F64s),
        prop::collection::vec(0_u8..2, 0..200).prop_map(Value::Bits),
        prop::collection::vec(0_u8..16, 0..60).prop_map(Value::Nibbles),
    ];
    prop::collection::vec(value, 1..=most)
}

fn encode(out: &mut PayloadEncoder<'_>, values: &[Value]) -> Result<usize, WireError> {
    values.iter().try_for_each(|value| value.push(out))?;
    out.finish()
}

fn decode(mut from: PayloadDecoder<'_>, like: &[Value]) -> Result<Vec<Value>, WireError> {
    let values = like.iter().map(|value| value.read_alike(&mut from)).collect::<Result<_, _>>()?;
    from.finish()?;
    assert_eq!(from.remaining(), &[] as &[u8]);
    Ok(values)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn payloads_come_back(args in values(8), results in values(4), skew in 0_usize..8) {
        let mut schema = HandlerSchema::new();
        for value in &args {
            schema = schema.arg(value.desc());
        }
        for value in &results {
            schema = schema.result(value.desc());
        }
        prop_assert_eq!(schema.validate(), Ok(()));
        let sizes = (schema.args_bytes().unwrap() as usize, schema.results_bytes().unwrap() as usize);
        let slot = 24 + sizes.0.max(sizes.1);
        prop_assert!(schema.fits_slot(slot).is_ok());
        let expected = WireError::SlotTooSmall { needed: slot as u64, slot: slot as u64 - 1 };
        prop_assert_eq!(schema.fits_slot(slot - 1), Err(expected));

        // Bytes around the payload must stay as they are, and its own be written whatever they were.
        let mut buffer = vec![0xA5; skew + sizes.0.max(sizes.1) + 3];
        let written = encode(&mut PayloadEncoder::args(&schema, &mut buffer[skew..]).unwrap(), &args);
        prop_assert_eq!(written, Ok(sizes.0));
        prop_assert!(buffer[..skew].iter().chain(&buffer[skew + sizes.0..]).all(|&byte| byte == 0xA5));
        let payload = &buffer[skew..skew + sizes.0];
        prop_assert_eq!(decode(PayloadDecoder::args(&schema, payload).unwrap(), &args), Ok(args.clone()));
        prop_assert_eq!(schema.check_arg_len(sizes.0 as u32), Ok(()));
        let any_length = schema.arg_len() == Ok(None);
        prop_assert_eq!(any_length, args.len() == 1 && args[0].desc().same_as(&TypeDesc::any_bytes()));
        prop_assert_eq!(schema.check_arg_len(sizes.0 as u32 + 1).is_ok(), any_length);
        let long = PayloadDecoder::args(&schema, &buffer[skew..skew + sizes.0 + 1]).map(|_| ());
        let refused = WireError::TrailingBytes { expected: sizes.0, available: sizes.0 + 1 };
        prop_assert_eq!(long, if any_length { Ok(()) } else { Err(refused) });
        if sizes.0 > 0 {
            let cut = WireError::Truncated { needed: sizes.0, available: sizes.0 - 1 };
            prop_assert_eq!(PayloadDecoder::args(&schema, &payload[1..]).map(|_| ()), Err(cut));
            prop_assert_eq!(schema.check_arg_len(sizes.0 as u32 - 1), Err(cut));
            let mut short = vec![0; sizes.0 - 1];
            prop_assert_eq!(PayloadEncoder::args(&schema, &mut short).map(|_| ()), Err(cut));
        }

        let written = encode(&mut PayloadEncoder::results(&schema, &mut buffer).unwrap(), &results);
        prop_assert_eq!(written, Ok(sizes.1));
        let payload = &buffer[..sizes.1];
        prop_assert_eq!(decode(PayloadDecoder::results(&schema, payload).unwrap(), &results), Ok(results.clone()));

        // Offsets are where the values were written.
        let mut end = 0;
        for (field, value) in schema.arg_fields().zip(&args) {
            prop_assert_eq!((field.offset, field.desc), (end, value.desc()));
            end += field.desc.size_bytes;
        }
        prop_assert_eq!((schema.arg_fields().count(), end as usize), (args.len(), sizes.0));
        prop_assert_eq!(schema.result_fields().count(), results.len());
    }

    #[test]
    fn another_value_than_the_schema_has_is_refused(ours in values(1), theirs in values(1)) {
        let (ours, theirs) = (&ours[0], &theirs[0]);
        let schema = HandlerSchema::new().arg(ours.desc());
        let mut buffer = vec![0; ours.desc().size_bytes as usize];
        // Bytes of any length take no more than the buffer has, and it is empty.
        let same = ours.desc().same_as(&theirs.desc());
        let pushed = theirs.push(&mut PayloadEncoder::args(&schema, &mut buffer).unwrap());
        prop_assert_eq!(pushed.is_ok(), same, "{:?}", pushed);
        if ours.desc().type_id != theirs.desc().type_id {
            let (expected, found) = (ours.desc().type_id, theirs.desc().type_id);
            prop_assert_eq!(pushed, Err(WireError::TypeMismatch { index: 0, expected, found }));
            let read = theirs.read_alike(&mut PayloadDecoder::args(&schema, &buffer).unwrap());
            prop_assert_eq!(read, Err(WireError::TypeMismatch { index: 0, expected, found }));
        }
        if let Some(longer) = ours.longer() {
            let mut encoder = PayloadEncoder::args(&schema, &mut buffer).unwrap();
            prop_assert!(longer.push(&mut encoder).is_err());
            prop_assert_eq!(encoder.finish(), Err(WireError::Unfinished { done: 0, fields: 1 }));
            // A refused push does not spoil the right one.
            prop_assert!(ours.push(&mut encoder).is_ok());
            prop_assert_eq!(ours.push(&mut encoder), Err(WireError::PastEnd { fields: 1 }));
            prop_assert!(encoder.finish().is_ok());
        }
    }

    #[test]
    fn garbage_never_panics(
        mut schema_bytes in prop::collection::vec(any::<u8>(), 148),
        counts in (0_u8..12, 0_u8..8),
        kinds in prop::collection::vec((0_usize..12, 0_u32..9, -1_i32..2), 12),
        raw: bool,
        payload in prop::collection::vec(any::<u8>(), 0..200),
        calls in prop::collection::vec(0_usize..14, 0..20),
        exact: bool,
    ) {
        if !raw {
            // Mostly plausible descriptors, so that the decoder gets past construction.
            schema_bytes[..2].copy_from_slice(&[counts.0, counts.1]);
            for ((kind, n, delta), bytes) in kinds.iter().zip(schema_bytes[4..].chunks_mut(12)) {
                let all = PayloadType::ALL;
                let mut desc = match kind {
                    10.. => TypeDesc::readout4(*n),
                    9 => TypeDesc::bit_packed(*n),
                    8 => TypeDesc::array_float64(*n),
                    7 => TypeDesc::array_float32(*n),
                    6 => TypeDesc::array_int32(*n),
                    5 => TypeDesc::array_uint8(*n),
                    4 => TypeDesc::float64(),
                    3 => TypeDesc::float32(),
                    2 => TypeDesc::int64(),
                    1 => TypeDesc::int32(),
                    0 => TypeDesc::uint8(),
                };
                prop_assert!(*kind > 9 || desc.type_id == all[*kind].raw());
                if calls.len() < 3 {
                    desc.size_bytes = desc.size_bytes.saturating_add_signed(*delta);
                }
                bytes.copy_from_slice(zerocopy::IntoBytes::as_bytes(&desc));
            }
        }
        let schema = HandlerSchema::read_from_bytes(&schema_bytes).unwrap();
        let valid = schema.validate();
        let _ = (schema.fits_slot(100), schema.check_arg_len(7), schema.arg_fields().count());
        let _ = (schema.result_fields().count(), format!("{valid:?} {}", valid.err().map_or(String::new(), |e| e.to_string())));
        for results in [false, true] {
            let wanted = if results { schema.results_bytes() } else { schema.args_bytes() };
            let bytes = match wanted {
                Ok(n) if exact => payload.get(..n as usize).unwrap_or(&payload),
                _ => &payload,
            };
            let decoder =
                if results { PayloadDecoder::results(&schema, bytes) } else { PayloadDecoder::args(&schema, bytes) };
            let Ok(mut decoder) = decoder else { continue };
            prop_assert!(valid.is_ok());
            let mut taken = 0;
            for call in &calls {
                let before = decoder.remaining().len();
                let ok = match call {
                    0 => decoder.u8().is_ok(),
                    1 => decoder.i32().is_ok(),
                    2 => decoder.i64().is_ok(),
                    3 => decoder.f32().is_ok(),
                    4 => decoder.f64().is_ok(),
                    5 => decoder.bytes().is_ok(),
                    6 => decoder.array_i32().is_ok(),
                    7 => decoder.array_f32().is_ok(),
                    8 => decoder.array_f64().is_ok(),
                    9 => decoder.bits().is_ok(),
                    10 => decoder.readout4().is_ok(),
                    11 => decoder.copy_i32(&mut [0; 3]).is_ok(),
                    12 => decoder.copy_f32(&mut [0.0; 3]).is_ok(),
                    _ => decoder.copy_f64(&mut [0.0; 3]).is_ok(),
                };
                let descs = if results { schema.results() } else { schema.args() };
                let read = before - decoder.remaining().len();
                let any_length = descs.len() == 1 && descs[0].same_as(&TypeDesc::any_bytes());
                let size = |desc: &TypeDesc| if any_length { before } else { desc.size_bytes as usize };
                prop_assert_eq!(read, if ok { size(&descs[taken]) } else { 0 });
                taken += usize::from(ok);
            }
            prop_assert_eq!(
                decoder.finish().is_ok(),
                taken == if results { schema.results().len() } else { schema.args().len() }
            );
        }
        let _ = read_decode_result(&schema, &payload);
        let _ = DecodeResponse::from_bytes(&payload);
        if let Some(Ok(entry)) = payload.get(..176).map(FunctionEntry::read_from_bytes) {
            let _ = entry.validate();
        }
        let _ = (BitView::new(&payload, calls.len()), NibbleView::new(&payload, calls.len()));
    }
}

#[test]
fn copies_have_the_length_of_the_array() {
    let schema = HandlerSchema::new()
        .arg(TypeDesc::array_int32(2))
        .arg(TypeDesc::array_float32(2))
        .arg(TypeDesc::array_float64(2));
    let payload = [0; 32];
    let mut decoder = PayloadDecoder::args(&schema, &payload).unwrap();
    for found in [1, 3] {
        assert_eq!(
            decoder.copy_i32(&mut vec![9; found]),
            Err(WireError::CountMismatch { expected: 2, found })
        );
    }
    decoder.copy_i32(&mut [9; 2]).unwrap();
    for found in [1, 3] {
        assert_eq!(
            decoder.copy_f32(&mut vec![9.0; found]),
            Err(WireError::CountMismatch { expected: 2, found })
        );
    }
    decoder.copy_f32(&mut [9.0; 2]).unwrap();
    for found in [1, 3] {
        assert_eq!(
            decoder.copy_f64(&mut vec![9.0; found]),
            Err(WireError::CountMismatch { expected: 2, found })
        );
    }
    assert_eq!(decoder.finish(), Err(WireError::Unfinished { done: 2, fields: 3 }));
    decoder.copy_f64(&mut [9.0; 2]).unwrap();
    assert_eq!(decoder.finish(), Ok(()));
}
