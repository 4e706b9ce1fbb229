//! Measurements and decoding calls: bit strings, soft readout, leakage, results of a decode.

use proptest::prelude::*;
use ringcall_wire::bits::{BitView, SetBits, check_padding, pack_bits, packed_len, unpack_bits};
use ringcall_wire::qec::{decode_syndrome_schema, read_decode_result, write_decode_result};
use ringcall_wire::readout::{
    Level, Readout, check_codes_i32, check_codes_u8, check_finite, pack_nibbles, unpack_nibbles,
};
use ringcall_wire::{DecodeResponse, HandlerSchema, PayloadDecoder, PayloadEncoder, TypeDesc, WireError};

proptest! {
    #[test]
    fn set_bits_are_the_bits_that_are_set(bytes in prop::collection::vec(prop_oneof![Just(0_u8), any::<u8>()], 0..60)) {
        let naive: Vec<_> = (0..bytes.len() * 8).filter(|i| bytes[i / 8] & 1 << (i % 8) != 0).collect();
        prop_assert_eq!(SetBits::new(&bytes).collect::<Vec<_>>(), naive.clone());
        let view = BitView::new(&bytes, bytes.len() * 8).unwrap();
        prop_assert_eq!((0..=view.len()).filter(|&i| view.get(i) == Some(true)).collect::<Vec<_>>(), naive);
        prop_assert_eq!(view.get(view.len()), None);
        prop_assert_eq!(view.words().count(), bytes.len().div_ceil(8));
    }

    #[test]
    fn a_set_unused_bit_is_refused(bits in prop::collection::vec(0_u8..2, 1..100), which in 0_usize..8) {
        let mut packed = vec![0; packed_len(bits.len())];
        pack_bits(&bits, &mut packed).unwrap();
        let unused = packed.len() * 8 - bits.len();
        if which < unused {
            let byte = packed.len() - 1;
            packed[byte] |= 0x80 >> which;
            let refusal = Err(WireError::NonZeroPadding { byte });
            prop_assert_eq!(check_padding(&packed, bits.len()), refusal);
            let schema = HandlerSchema::new().arg(TypeDesc::bit_packed(bits.len() as u32));
            prop_assert_eq!(PayloadDecoder::args(&schema, &packed).unwrap().bits().map(|_| ()), refusal);
            let mut out = vec![0; packed.len()];
            let mut encoder = PayloadEncoder::args(&schema, &mut out).unwrap();
            prop_assert_eq!(encoder.packed_bits(&packed).map(|_| ()), refusal);
            prop_assert_eq!(unpack_bits(&packed, &mut vec![0; bits.len()]), refusal);
        }
    }

    #[test]
    fn decode_results_come_back(observables in prop::collection::vec(0_u8..2, 0..40), total: i32, converged in -1_i32..6) {
        let schema = decode_syndrome_schema(100, observables.len() as u32);
        let mut packed = vec![0; packed_len(observables.len())];
        pack_bits(&observables, &mut packed).unwrap();
        let outcome = DecodeResponse { total_corrections: total, converged };
        let mut out = vec![0; packed.len() + 8];
        prop_assert_eq!(write_decode_result(&schema, &mut out, &packed, outcome), Ok(out.len()));
        prop_assert_eq!(&out[packed.len()..], outcome.to_bytes());
        match read_decode_result(&schema, &out) {
            Ok((view, read)) => {
                prop_assert!([0, 1, DecodeResponse::LATE].contains(&converged));
                prop_assert_eq!((view.as_bytes(), read), (&packed[..], outcome));
            }
            Err(error) => {
                prop_assert!(![0, 1, DecodeResponse::LATE].contains(&converged));
                let value = converged.cast_unsigned();
                prop_assert_eq!(error, WireError::ValueOutOfRange { index: 2, value, max: 3 });
            }
        }
    }
}

#[test]
fn whole_bytes_and_nibbles_are_not_confused() {
    let nibbles = HandlerSchema::new().arg(TypeDesc::readout4(5));
    let mut out = [0; 3];
    let mut encoder = PayloadEncoder::args(&nibbles, &mut out).unwrap();
    assert_eq!(encoder.bytes(&[1; 3]).map(|_| ()), Err(WireError::PackedNibbles { index: 0 }));
    assert_eq!(
        encoder.readout4(&[16, 0, 0, 0, 0]).map(|_| ()),
        Err(WireError::ValueOutOfRange { index: 0, value: 16, max: 15 })
    );
    assert_eq!(encoder.readout4(&[1, 2, 3, 4, 5]).unwrap().finish(), Ok(3));
    assert_eq!(out, [0x21, 0x43, 0x05]);
    assert_eq!(
        PayloadDecoder::args(&nibbles, &out).unwrap().bytes(),
        Err(WireError::PackedNibbles { index: 0 })
    );
    out[2] = 0x15;
    let refusal = Err(WireError::NonZeroPadding { byte: 2 });
    assert_eq!(PayloadDecoder::args(&nibbles, &out).unwrap().readout4().map(|_| ()), refusal);
    assert_eq!(unpack_nibbles(&out, &mut [0; 5]), refusal);

    let bytes = HandlerSchema::new().arg(TypeDesc::readout8(3));
    let mut decoder = PayloadDecoder::args(&bytes, &out).unwrap();
    let refusal = WireError::CountMismatch { expected: 2, found: 3 };
    assert_eq!(decoder.readout4().map(|_| ()), Err(refusal));
    assert_eq!(decoder.bytes(), Ok(&[0x21, 0x43, 0x15][..]));
    assert!(pack_nibbles(&[1, 2, 3], &mut [0]).is_err() && pack_bits(&[1; 9], &mut [0]).is_err());
}

#[test]
fn readouts_have_their_descriptors_and_ranges() {
    assert_eq!(Readout::Soft4.desc(7), TypeDesc::readout4(7));
    assert_eq!((Readout::Soft4.desc(7).size_bytes, Readout::Soft4.desc(7).num_elements), (4, 7));
    assert_eq!(Readout::Soft8.desc(7), TypeDesc::array_uint8(7));
    assert_eq!(Readout::SoftF32.desc(7), TypeDesc::array_float32(7));
    assert_eq!(Readout::Leakage8.desc(7), TypeDesc::array_uint8(7));
    assert_eq!(Readout::Leakage32.desc(7), TypeDesc::array_int32(7));
    for (code, level) in [Level::Ground, Level::Excited, Level::Leaked].into_iter().enumerate() {
        assert_eq!((Level::from_raw(code as u8), level.raw()), (Ok(level), code as u8));
    }
    assert!(Level::from_raw(3).is_err());
    assert_eq!(check_codes_u8(&[0, 1, 2], Level::MAX), Ok(()));
    let refusal = |value| Err(WireError::ValueOutOfRange { index: 1, value, max: 2 });
    assert_eq!(check_codes_u8(&[0, 3], Level::MAX), refusal(3));
    assert_eq!(check_codes_i32([0, 2], Level::MAX), Ok(()));
    assert_eq!(check_codes_i32([0, -1], Level::MAX), refusal(u32::MAX));
    assert_eq!(check_finite([0.5, -1.0]), Ok(()));
    assert_eq!(check_finite([0.5, f32::NAN]), Err(WireError::NotFinite { index: 1 }));
    assert_eq!(check_finite([f32::INFINITY]), Err(WireError::NotFinite { index: 0 }));
}

#[test]
fn a_decode_has_its_sizes() {
    let schema = decode_syndrome_schema(336, 1);
    assert_eq!((schema.args_bytes(), schema.results_bytes()), (Ok(42), Ok(9)));
    assert!(schema.result_fields().map(|field| field.offset).eq([0, 1, 5]));
    assert_eq!(
        DecodeResponse::from_bytes(&[0; 9]),
        Err(WireError::TrailingBytes { expected: 8, available: 9 })
    );
    assert!(DecodeResponse::from_bytes(&[0; 7]).is_err());
}
