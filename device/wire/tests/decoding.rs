//! The calls of a decoding server: layouts, statuses, malformed payloads.

use ringcall_wire::Status;
use ringcall_wire::decoding::*;

#[test]
fn codes_and_names_are_those_of_the_reference() {
    for (code, status) in (0..).zip(DecodingStatus::ALL) {
        assert_eq!((status.status(), DecodingStatus::of(Status(code))), (Status(code), Some(status)));
    }
    assert!([-1, 7].iter().all(|&code| DecodingStatus::of(Status(code)).is_none()));
}

#[test]
fn the_layouts_are_those_of_the_reference() {
    let mut payload = [0xAA; 64];
    let request = EnqueueSyndromes { decoder_id: 1, counter: -2, num_syndromes: 9, bits: &[5, 1, 7] };
    assert_eq!(request.write(&mut payload), Some(34));
    let mut expected = [0; 34];
    expected[0] = 1;
    expected[8] = 0xFE;
    expected[9..16].fill(0xFF);
    expected[24] = 9;
    expected[32..].copy_from_slice(&[5, 1]);
    assert_eq!(payload[..34], expected);
    let corrections = GetCorrections { decoder_id: 258, return_size: 3, reset: true }.to_bytes();
    assert_eq!(corrections, [2, 1, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1]);
    assert_eq!(reset_decoder(7), [7, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn what_is_malformed_says_how() {
    let mut payload = [0; 34];
    let request = EnqueueSyndromes { decoder_id: 1, counter: 0, num_syndromes: 9, bits: &[5, 1] };
    assert_eq!(request.write(&mut payload), Some(34));
    for len in 0..34 {
        assert_eq!(EnqueueSyndromes::read(&payload[..len]), Err(Malformed::Short), "{len}");
    }
    let with = |offset: usize, value: i64| {
        let mut payload = payload;
        payload[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        EnqueueSyndromes::read(&payload).map(|_| ())
    };
    assert_eq!(with(16, 1), Err(Malformed::Mapping(1)));
    for count in [0, -1, i64::MIN, (1 << 20) + 1, i64::MAX] {
        assert_eq!(with(24, count), Err(Malformed::Count(count)));
    }
    assert_eq!(with(24, 1 << 20), Err(Malformed::Short));
    assert!(with(24, 16).is_ok(), "as many as the bytes have");
    for len in 0..GET_CORRECTIONS_BYTES {
        assert_eq!(GetCorrections::read(&payload[..len]), Err(Malformed::Short));
    }
    for (count, bits) in [(0, &[][..]), (9, &[1][..])] {
        let request = EnqueueSyndromes { num_syndromes: count, bits, ..request };
        assert_eq!(request.write(&mut [0; 64]), None);
    }
    assert_eq!(request.write(&mut [0; 33]), None);
}
