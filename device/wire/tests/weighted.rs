//! Requests with weights of edges or read-outs: their bytes, what comes back, and what is refused.

use proptest::prelude::*;
use ringcall_wire::readout::Readout;
use ringcall_wire::weighted::{
    ReadoutView, decode_readout_schema, decode_weighted_schema, log_likelihood_of_4_bits,
    log_likelihood_of_8_bits, read_readout_request, read_weighted_request, write_weighted_request,
};
use ringcall_wire::{HandlerSchema, PayloadEncoder, Status, TypeDesc, WireError, qec};

const SCHEMA: HandlerSchema = decode_weighted_schema(10, 3, 2);

/// A payload byte by byte, as another program would write it.
#[test]
fn a_weighted_request_has_these_bytes() {
    let mut payload = [0xFF; 22];
    let len = write_weighted_request(&SCHEMA, &mut payload, &[0b1000_0001, 0b10], &[(258, 0.5)]).unwrap();
    assert_eq!(payload[..len], [0x81, 2, 1, 0, 0, 0, 2, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0x3F, 0, 0, 0, 0]);
    assert_eq!(SCHEMA.results(), qec::decode_syndrome_schema(10, 3).results());
    let four_bits = decode_readout_schema(10, 3, Readout::Soft4, 3);
    let mut payload = [0; 4];
    let mut encoder = PayloadEncoder::args(&four_bits, &mut payload).unwrap();
    encoder.packed_bits(&[1, 0]).unwrap().readout4(&[15, 2, 7]).unwrap();
    assert_eq!((encoder.finish(), payload), (Ok(4), [1, 0, 0x2F, 7]));
}

proptest! {
    #[test]
    fn weights_come_back(
        most in 0_u32..20,
        given in prop::collection::vec((any::<u32>(), 0.0_f32..100.0), 0..24),
        detectors in prop::collection::vec(any::<u8>(), 3),
    ) {
        let schema = decode_weighted_schema(24, 1, most);
        let mut payload = vec![0; schema.args_bytes().unwrap() as usize];
        let written = write_weighted_request(&schema, &mut payload, &detectors, &given);
        if given.len() > most as usize {
            let refused = WireError::CountMismatch { expected: most as usize, found: given.len() };
            prop_assert_eq!(written, Err(refused));
            return Ok(());
        }
        prop_assert_eq!(written, Ok(payload.len()));
        let (bits, weights) = read_weighted_request(&schema, &payload).unwrap();
        prop_assert_eq!(bits.as_bytes(), &detectors[..]);
        prop_assert_eq!(weights.len(), given.len());
        prop_assert!(weights.iter().eq(given.iter().copied()));
    }

    /// Whatever the bytes, a request is read or refused, and nothing that is read is out of range.
    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..40)) {
        if let Ok((_, weights)) = read_weighted_request(&SCHEMA, &bytes) {
            prop_assert!(weights.len() <= 2 && weights.iter().all(|(_, weight)| weight.is_finite()));
        }
        for readout in [Readout::Soft4, Readout::Soft8, Readout::SoftF32, Readout::Leakage8, Readout::Leakage32] {
            let schema = decode_readout_schema(10, 3, readout, 9);
            if let Ok((_, view)) = read_readout_request(&schema, readout, &bytes) {
                prop_assert_eq!(view.len(), 9);
                let mut last = None;
                view.doubts(|index, ratio| {
                    assert!(index < 9 && last < Some(index) && ratio.is_finite() && ratio >= 0.0);
                    last = Some(index);
                });
            }
        }
    }
}

#[test]
fn what_no_list_of_weights_is_is_refused() {
    let status = |bytes: &[u8]| read_weighted_request(&SCHEMA, bytes).map(|_| ()).unwrap_err().status();
    let mut payload = [0; 22];
    write_weighted_request(&SCHEMA, &mut payload, &[0, 0], &[(1, 1.0), (2, 2.0)]).unwrap();
    for count in [3_i32, -1, i32::MIN, i32::MAX] {
        let mut bad = payload;
        bad[2..6].copy_from_slice(&count.to_le_bytes());
        assert_eq!(status(&bad), Status::BAD_PAYLOAD, "{count} weights");
    }
    for weight in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
        let mut bad = payload;
        bad[18..].copy_from_slice(&weight.to_le_bytes());
        assert_eq!(status(&bad), Status::BAD_PAYLOAD, "{weight}");
        // Past those given nothing is read.
        bad[2] = 1;
        assert!(read_weighted_request(&SCHEMA, &bad).is_ok());
    }
    assert_eq!(status(&[payload.as_slice(), &[0]].concat()), Status::SCHEMA_MISMATCH);
    assert_eq!(status(&payload[..21]), Status::SCHEMA_MISMATCH);
    payload[1] = 0b100;
    assert_eq!(status(&payload), Status::BAD_PAYLOAD, "a set unused bit");
}

#[test]
fn what_no_readout_is_is_refused() {
    let refused = |readout, bytes: &[u8]| {
        let schema = decode_readout_schema(8, 1, readout, 1);
        read_readout_request(&schema, readout, bytes).map(|_| ()).map_err(|error| error.status())
    };
    let bad = Err(Status::BAD_PAYLOAD);
    assert_eq!(refused(Readout::Leakage8, &[0, 3]), bad);
    assert_eq!(refused(Readout::Leakage8, &[0, 2]), Ok(()));
    assert_eq!(refused(Readout::Leakage32, &[0, 0xFF, 0xFF, 0xFF, 0xFF]), bad);
    assert_eq!(refused(Readout::Leakage32, &[0, 2, 1, 0, 0]), bad);
    for value in [f32::NAN, f32::INFINITY, -0.5] {
        assert_eq!(refused(Readout::SoftF32, &[&[0][..], &value.to_le_bytes()].concat()), bad, "{value}");
    }
    assert_eq!(refused(Readout::SoftF32, &[0, 0, 0, 0, 0]), Ok(()));
    // Another encoding than the schema's.
    let schema = decode_readout_schema(8, 1, Readout::SoftF32, 1);
    let found = read_readout_request(&schema, Readout::Leakage32, &[0; 5]).unwrap_err();
    let types = [TypeDesc::array_float32(1), TypeDesc::array_int32(1)].map(|desc| desc.type_id);
    assert_eq!(found, WireError::TypeMismatch { index: 1, expected: types[0], found: types[1] });
}

#[test]
fn confidences_grow_to_certainty() {
    let four: Vec<f32> = (0..16).map(log_likelihood_of_4_bits).collect();
    let eight: Vec<f32> = (0..=255).map(log_likelihood_of_8_bits).collect();
    for ratios in [&four, &eight] {
        assert_eq!((ratios[0], ratios[ratios.len() - 1]), (0.0, f32::INFINITY));
        assert!(ratios.is_sorted_by(|a, b| a < b));
    }
    assert_eq!((four[14], eight[254]), (7.0, 15.875));
    let mut doubted = Vec::new();
    ReadoutView::Leakage8(&[0, 2, 1, 2]).doubts(|index, ratio| doubted.push((index, ratio)));
    assert_eq!(doubted, [(1, 0.0), (3, 0.0)]);
}
