//! Every offset, and golden bytes of every kind of request, written out by hand from the layouts of rdma-core's `mlx5dv.h`.
#![cfg(not(loom))]

use proptest::prelude::*;
use ringcall_mlx5::cq::{Arrival, PolledCompletion, Side};
use ringcall_mlx5::layout::cqe::{self, Cqe, Syndrome, opcode};
use ringcall_mlx5::layout::wqe::{
    self, BuildError, Completion, Control, Data, Operation, Parsed, Payload, Remote, Wqe,
};
use ringcall_mlx5::layout::{self, Segment};

fn entry_bytes(entry: &Cqe) -> [u8; 64] {
    wqe::bytes(&entry.0)
}

fn bytes(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(|byte| !byte.is_ascii_whitespace()).collect();
    let digit = |byte: u8| (byte as char).to_digit(16).expect("hexadecimal") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

#[test]
fn fields_of_a_completion_entry() {
    // The offsets of `struct mlx5_cqe64` and `struct mlx5_err_cqe`.
    assert_eq!((cqe::BYTES, cqe::WORDS), (64, 8));
    assert_eq!((cqe::offset::FLAGS_RQPN, cqe::offset::IMMEDIATE, cqe::offset::BYTE_COUNT), (24, 36, 44));
    assert_eq!((cqe::offset::TIMESTAMP, cqe::offset::VENDOR_SYNDROME, cqe::offset::SYNDROME), (48, 54, 55));
    assert_eq!((cqe::offset::OPCODE_QPN, cqe::offset::WQE_COUNTER), (56, 60));
    assert_eq!((cqe::offset::SIGNATURE, cqe::offset::OP_OWN), (62, 63));

    let entry = Cqe::default()
        .with_immediate(0x0000_5003)
        .with_byte_count(0x0102_0304)
        .with_timestamp(0x1122_3344_5566_7788)
        .with_opcode_qpn(0x0A, 0x12_3456)
        .with_wqe_counter(0xBEEF)
        .with_owner(opcode::WRITE_IMM, 1);
    let found = entry_bytes(&entry);
    assert_eq!(found[36..40], [0, 0, 0x50, 3]);
    assert_eq!(found[44..48], [1, 2, 3, 4]);
    assert_eq!(found[48..56], [0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88]);
    assert_eq!(found[56..60], [0x0A, 0x12, 0x34, 0x56]);
    assert_eq!(found[60..64], [0xBE, 0xEF, 0, 0x11]);
    assert!(found[..36].iter().all(|&byte| byte == 0));
    assert_eq!((entry.timestamp(), entry.opcode_qpn()), (0x1122_3344_5566_7788, 0x0A12_3456));

    let error = Cqe::default().with_syndrome(Syndrome::FLUSHED, 0xF9).with_owner(opcode::RESPONSE_ERROR, 0);
    assert_eq!(entry_bytes(&error)[54..], [0xF9, 5, 0, 0, 0, 0, 0, 0, 0, 0xE0]);
    assert_eq!(entry_bytes(&Cqe::NEVER_WRITTEN)[63], 0xF1);
    assert_eq!(cqe::NEVER_WRITTEN, 0xF1);
}

#[test]
fn values_of_opcodes_and_syndromes() {
    assert_eq!([opcode::REQUEST, opcode::WRITE_IMM, opcode::SEND, opcode::SEND_IMM], [0, 1, 2, 3]);
    assert_eq!([opcode::SEND_INVALIDATE, opcode::RESIZE, opcode::NO_PACKET], [4, 5, 6]);
    assert_eq!([opcode::SIGNATURE_ERROR, opcode::REQUEST_ERROR, opcode::RESPONSE_ERROR], [12, 13, 14]);
    assert_eq!(opcode::INVALID, 15);
    let codes: Vec<u8> = Syndrome::ALL.iter().map(|syndrome| syndrome.0).collect();
    assert_eq!(codes, [1, 2, 4, 5, 6, 0x10, 0x11, 0x12, 0x13, 0x14, 0x15, 0x16, 0x22]);
    let names: std::collections::BTreeSet<_> = Syndrome::ALL.iter().map(|syndrome| syndrome.name()).collect();
    assert_eq!(names.len(), codes.len());
    assert!(!names.contains(Syndrome(0x77).name()));
    assert_eq!([wqe::opcode::NOP, wqe::opcode::WRITE, wqe::opcode::WRITE_IMM], [0, 8, 9]);
    assert_eq!([wqe::opcode::SEND, wqe::opcode::SEND_IMM], [0x0A, 0x0B]);
    let control = [wqe::control::INDEX_OPCODE, wqe::control::QPN_SIZE, wqe::control::FLAGS];
    assert_eq!((control, wqe::control::IMMEDIATE), ([0, 4, 11], 12));
    assert_eq!((wqe::INLINE_SEND, wqe::INLINE_WRITE), (44, 28));
}

const REMOTE: Remote = Remote { address: 0x1122_3344_5566_7788, rkey: 0xA0B0_C0D0 };
const SEGMENT: Segment = Segment { bytes: 0x1234, lkey: 0x0102_0304, address: 0x10_0080 };

#[test]
fn golden_requests() {
    let text: Vec<u8> = (1..=44).collect();
    let (always, on_error) = (Completion::Always, Completion::OnError);
    for (completion, operation, payload, size, golden) in [
        (
            on_error,
            Operation::Send,
            Payload::Inline(&text[..12]),
            2,
            "ABCD0A 1234560200000000 00000000 8000000C 0102030405060708090A0B0C",
        ),
        (
            always,
            Operation::Send,
            Payload::Inline(&text[..28]),
            3,
            "ABCD0A 1234560300000008 00000000 8000001C 0102030405060708090A0B0C0D0E0F101112131415161718191A1B1C",
        ),
        (
            on_error,
            Operation::Send,
            Payload::Inline(&text),
            4,
            "ABCD0A 1234560400000000 00000000 8000002C 0102030405060708090A0B0C0D0E0F101112131415161718191A1B1C\
          1D1E1F202122232425262728292A2B2C",
        ),
        (
            on_error,
            Operation::Send,
            Payload::Inline(&text[..1]),
            2,
            "ABCD0A 1234560200000000 00000000 80000001 010000000000000000000000",
        ),
        (
            on_error,
            Operation::Send,
            Payload::Inline(&text[..13]),
            3,
            "ABCD0A 1234560300000000 00000000 8000000D 0102030405060708090A0B0C0D000000 000000000000000000000000",
        ),
        (
            always,
            Operation::Send,
            Payload::Memory(SEGMENT),
            2,
            "ABCD0A 1234560200000008 00000000 00001234 01020304 0000000000100080",
        ),
        (
            on_error,
            Operation::SendImm(0xCAFE_F00D),
            Payload::Memory(SEGMENT),
            2,
            "ABCD0B 1234560200000000 CAFEF00D 00001234 01020304 0000000000100080",
        ),
        (
            on_error,
            Operation::Write(REMOTE),
            Payload::Memory(SEGMENT),
            3,
            "ABCD08 1234560300000000 00000000 1122334455667788 A0B0C0D0 00000000 00001234 01020304 0000000000100080",
        ),
        (
            always,
            Operation::WriteImm(REMOTE, 0x5003),
            Payload::Memory(SEGMENT),
            3,
            "ABCD09 1234560300000008 00005003 1122334455667788 A0B0C0D0 00000000 00001234 01020304 0000000000100080",
        ),
        (
            on_error,
            Operation::Write(REMOTE),
            Payload::Inline(&text[..12]),
            3,
            "ABCD08 1234560300000000 00000000 1122334455667788 A0B0C0D0 00000000 8000000C 0102030405060708090A0B0C",
        ),
        (
            on_error,
            Operation::WriteImm(REMOTE, 7),
            Payload::Inline(&text[..28]),
            4,
            "ABCD09 1234560400000000 00000007 1122334455667788 A0B0C0D0 00000000 8000001C\
          0102030405060708090A0B0C0D0E0F101112131415161718191A1B1C",
        ),
        (always, Operation::Nop, Payload::Inline(&[]), 1, "ABCD00 1234560100000008 00000000"),
        (
            on_error,
            Operation::WriteImm(REMOTE, 7),
            Payload::Inline(&[]),
            2,
            "ABCD09 1234560200000000 00000007 1122334455667788 A0B0C0D0 00000000",
        ),
    ] {
        let request = Wqe::build(0xABCD, 0x12_3456, completion, operation, payload).expect("it fits");
        // The modifier comes first: always 0.
        let golden = [vec![0], bytes(golden)].concat();
        let found = wqe::bytes(&request.words);
        assert_eq!(request.size, size);
        assert_eq!(found[..size as usize * 16], golden, "{operation:?}");
        assert!(found[golden.len()..].iter().all(|&byte| byte == 0));
        assert_eq!(request.len_words() * 8, golden.len());
    }
}

#[test]
fn what_cannot_be_built() {
    let build =
        |operation, payload| Wqe::build(0, 1, Completion::OnError, operation, payload).map(|it| it.size);
    assert_eq!(build(Operation::Send, Payload::Inline(&[0; 45])), Err(BuildError::TooLong));
    assert_eq!(build(Operation::WriteImm(REMOTE, 0), Payload::Inline(&[0; 29])), Err(BuildError::TooLong));
    assert_eq!(build(Operation::Nop, Payload::Inline(&[0])), Err(BuildError::TooLong));
    for bytes in [0, 1 << 31, u32::MAX] {
        let payload = Payload::Memory(Segment { bytes, ..SEGMENT });
        assert_eq!(build(Operation::Send, payload), Err(BuildError::Length));
    }
    assert_eq!(build(Operation::Nop, Payload::Memory(SEGMENT)), Err(BuildError::Length));
}

#[test]
fn doorbells_and_receive_requests() {
    let bytes_of = |words: &[u64]| words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<u8>>();
    assert_eq!(bytes_of(&[layout::doorbell(0x12_3456, 0xABCD)]), bytes("00ABCD00 12345600"));
    assert_eq!(bytes_of(&[layout::record(0x0102, 0xF0F1)]), bytes("00000102 0000F0F1"));
    assert_eq!((layout::RECORD_RECEIVE, layout::RECORD_SEND, layout::RECORD_BYTES), (0, 4, 8));
    assert_eq!((layout::UAR_DOORBELL, layout::BLUE_FLAME_BYTES), (0x800, 64));
    assert_eq!(bytes_of(&Segment::CREDIT.to_words()), bytes("00000000 00000100 0000000000000000"));
    assert_eq!(bytes_of(&SEGMENT.to_words()), bytes("00001234 01020304 0000000000100080"));
    assert_eq!(Segment::from_words(SEGMENT.to_words()), SEGMENT);
}

#[test]
fn whose_an_entry_is() {
    for entries in [1_u64, 2, 64, 1024] {
        for lap in 0..4_u64 {
            for entry in [0, entries / 2, entries - 1] {
                let index = lap * entries + entry;
                assert_eq!(u64::from(cqe::owner_of_lap(index, entries)), lap % 2);
                let word = |code, owner| Cqe::default().with_owner(code, owner).0[cqe::OWNER_WORD];
                let (ours, stale) = (lap as u8 & 1, lap as u8 & 1 ^ 1);
                assert!(cqe::is_ours(word(opcode::WRITE_IMM, ours), index, entries));
                assert!(!cqe::is_ours(word(opcode::WRITE_IMM, stale), index, entries));
                assert!(!cqe::is_ours(word(opcode::INVALID, ours), index, entries));
                assert!(!cqe::is_ours(Cqe::NEVER_WRITTEN.0[cqe::OWNER_WORD], index, entries));
            }
        }
    }
}

fn operations() -> impl Strategy<Value = Operation> {
    let remote = (any::<u64>(), any::<u32>()).prop_map(|(address, rkey)| Remote { address, rkey });
    prop_oneof![
        Just(Operation::Send),
        any::<u32>().prop_map(Operation::SendImm),
        remote.clone().prop_map(Operation::Write),
        (remote, any::<u32>()).prop_map(|(remote, immediate)| Operation::WriteImm(remote, immediate)),
    ]
}

proptest! {
    #[test]
    fn what_is_built_is_what_is_read(
        index: u16,
        qpn in 0_u32..1 << 24,
        always: bool,
        operation in operations(),
        inline in proptest::option::of(proptest::collection::vec(any::<u8>(), 0..48)),
        segment in (1_u32..1 << 31, any::<u32>(), any::<u64>()),
    ) {
        let completion = if always { Completion::Always } else { Completion::OnError };
        let segment = Segment { bytes: segment.0, lkey: segment.1, address: segment.2 };
        let payload = inline.as_deref().map_or(Payload::Memory(segment), Payload::Inline);
        let built = Wqe::build(index, qpn, completion, operation, payload);
        if inline.as_ref().is_some_and(|bytes| bytes.len() > operation.inline_capacity()) {
            prop_assert_eq!(built, Err(BuildError::TooLong));
            return Ok(());
        }
        let request = built.expect("it fits");
        let read = Parsed::read(&request.words).expect("what was built");
        prop_assert_eq!(read.operation, operation);
        prop_assert_eq!((read.control.index, read.control.qpn), (index, qpn));
        prop_assert_eq!(read.control.completion(), completion as u8);
        prop_assert_eq!(u32::from(read.control.size), request.size);
        match (inline, read.data) {
            (None, Data::Memory(found)) => prop_assert_eq!(found, segment),
            (Some(bytes), Data::Nothing) => prop_assert!(bytes.is_empty()),
            (Some(bytes), Data::Inline { at, len }) => {
                prop_assert_eq!(&wqe::bytes(&request.words)[at..at + len], bytes.as_slice());
            }
            (payload, data) => prop_assert!(false, "{:?} became {:?}", payload, data),
        }
    }

    /// Garbage is refused or is a request: never a panic, never bytes outside it.
    #[test]
    fn any_words_can_be_read(mut words: [u64; 8], code in 0_u8..16, size in 0_u8..6, length in 0_u32..64, small: bool) {
        if small {
            // Near enough to a request to come past the first checks.
            let control = Control::of(&words);
            words[0] = layout::pair(u32::from(control.index) << 8 | u32::from(code), control.qpn << 8 | u32::from(size));
            words[1] = layout::pair(8, 0);
            words[2] = layout::pair(wqe::INLINE | length, 0);
            words[4] = words[2];
        }
        if let Ok(Parsed { data: Data::Inline { at, len }, .. }) = Parsed::read(&words) {
            prop_assert!(len > 0 && at + len <= 64);
        }
    }

    #[test]
    fn any_entry_has_a_meaning(words: [u64; 8]) {
        let entry = Cqe(words);
        let found = entry_bytes(&entry);
        let be16 = |at: usize| u16::from_be_bytes([found[at], found[at + 1]]);
        let be32 = |at: usize| u32::from(be16(at)) << 16 | u32::from(be16(at + 2));
        let wqe_counter = be16(60);
        let expected = match found[63] >> 4 {
            0 => PolledCompletion::SendDone { wqe_counter },
            code @ 1..=4 => PolledCompletion::Received {
                arrival: [Arrival::WriteImm, Arrival::Send, Arrival::SendImm, Arrival::SendInvalidate]
                    [usize::from(code) - 1],
                immediate: be32(36),
                bytes: be32(44),
                wqe_counter,
            },
            code @ (13 | 14) => PolledCompletion::Failed {
                side: if code == 13 { Side::Send } else { Side::Receive },
                syndrome: Syndrome(found[55]),
                vendor: found[54],
                wqe_counter,
            },
            opcode => PolledCompletion::Stray { opcode },
        };
        prop_assert_eq!(PolledCompletion::of(&entry), expected);
    }
}
