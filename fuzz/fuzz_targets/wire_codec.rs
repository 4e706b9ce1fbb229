//! Any schema over any payload: the decoder refuses or reads, never panics, and reads again what the encoder wrote from
//! what it read. Bits and nibbles go there and back.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_wire::{HandlerSchema, PayloadDecoder, PayloadEncoder, PayloadType, TypeDesc, bits, readout};
use zerocopy::FromBytes;

/// Reads one value and, if that went well, writes it. `any_length`: the schema is of bytes of any length, which are all there is.
fn copy(
    desc: &TypeDesc,
    any_length: bool,
    from: &mut PayloadDecoder<'_>,
    to: &mut PayloadEncoder<'_>,
) -> bool {
    let before = from.remaining().len();
    let Ok(kind) = desc.payload_type() else { return false };
    let written = match kind {
        PayloadType::Uint8 => from.u8().map(|v| to.u8(v).is_ok()),
        PayloadType::Int32 => from.i32().map(|v| to.i32(v).is_ok()),
        PayloadType::Int64 => from.i64().map(|v| to.i64(v).is_ok()),
        PayloadType::Float32 => from.f32().map(|v| to.f32(v).is_ok()),
        PayloadType::Float64 => from.f64().map(|v| to.f64(v).is_ok()),
        PayloadType::ArrayUint8 if desc.is_nibbles() => from.readout4().map(|view| {
            let values: Vec<u8> = view.iter().collect();
            assert_eq!(values.len(), view.len());
            to.readout4(&values).is_ok()
        }),
        PayloadType::ArrayUint8 => from.bytes().map(|v| to.bytes(v).is_ok()),
        PayloadType::ArrayInt32 => from.array_i32().map(|v| {
            let values: Vec<i32> = v.iter().map(|v| v.get()).collect();
            to.array_i32(&values).is_ok()
        }),
        PayloadType::ArrayFloat32 => from.array_f32().map(|v| {
            let values: Vec<f32> = v.iter().map(|v| v.get()).collect();
            to.array_f32(&values).is_ok()
        }),
        PayloadType::ArrayFloat64 => from.array_f64().map(|v| {
            let values: Vec<f64> = v.iter().map(|v| v.get()).collect();
            to.array_f64(&values).is_ok()
        }),
        PayloadType::BitPacked => from.bits().map(|view| {
            let ones: Vec<usize> = view.ones().collect();
            assert_eq!(ones.len(), view.count_ones());
            assert!(ones.iter().all(|&index| view.get(index) == Some(true)));
            assert_eq!(view.get(view.len()), None);
            to.packed_bits(view.as_bytes()).is_ok()
        }),
    };
    match written {
        Ok(written) => {
            let size = if any_length { before } else { desc.size_bytes as usize };
            assert_eq!(before - from.remaining().len(), size);
            // Not-a-number payloads keep their bits through f32 and f64 moves here, so nothing is refused twice.
            assert!(written, "what was read cannot be written");
            true
        }
        Err(_) => {
            assert_eq!(from.remaining().len(), before, "a refused read moved on");
            false
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let Ok((schema, payload)) = HandlerSchema::read_from_prefix(data) else { return };
    let _ = (schema.fits_slot(4096), schema.check_arg_len(payload.len() as u32));
    if let Ok(mut decoder) = PayloadDecoder::args(&schema, payload) {
        assert!(schema.validate().is_ok());
        let mut out = vec![0; payload.len()];
        let mut encoder = PayloadEncoder::args(&schema, &mut out).expect("as long as the payload");
        let any_length = schema.arg_len() == Ok(None);
        if schema.args().iter().all(|desc| copy(desc, any_length, &mut decoder, &mut encoder))
            && !schema.is_untyped()
        {
            decoder.finish().expect("every value was read");
            assert_eq!(encoder.finish(), Ok(payload.len()));
            assert_eq!(out, payload, "another payload was written than was read");
        }
    }
    let _ = PayloadDecoder::results(&schema, payload).map(|mut decoder| {
        let _ = (decoder.u8(), decoder.bits().map(|view| view.words().count()), decoder.finish());
    });
    // Bits: one a byte, packed, and back.
    let ones: Vec<u8> = payload.iter().map(|byte| byte & 1).collect();
    let mut packed = vec![0; bits::packed_len(ones.len())];
    assert_eq!(bits::pack_bits(&ones, &mut packed), Ok(packed.len()));
    bits::check_padding(&packed, ones.len()).expect("padded with zeros");
    let mut back = vec![9; ones.len()];
    bits::unpack_bits(&packed, &mut back).expect("the same length");
    assert_eq!(back, ones);
    let _ = bits::pack_bits(payload, &mut packed);
    let _ = bits::BitView::new(payload, schema.num_args as usize * 8);
    // Nibbles the same.
    let values: Vec<u8> = payload.iter().map(|byte| byte & 15).collect();
    let mut packed = vec![0; readout::nibbles_len(values.len())];
    assert_eq!(readout::pack_nibbles(&values, &mut packed), Ok(packed.len()));
    let mut back = vec![99; values.len()];
    readout::unpack_nibbles(&packed, &mut back).expect("the same length");
    assert_eq!(back, values);
    let _ = readout::pack_nibbles(payload, &mut packed);
});
