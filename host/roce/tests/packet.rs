//! Packets: what is written is read, and any bytes are read without a panic.

use proptest::prelude::*;
use ringcall_roce::{
    Aeth, Bth, Envelope, Immediate, MAX_OVERHEAD_BYTES, Opcode, Packet, PacketError, Psn, Reth,
};

fn envelope() -> Envelope {
    Envelope::v4("10.0.0.2:12288".parse().expect("an address"), "10.0.0.1:4791".parse().expect("an address"))
}

/// Fields of a packet of any opcode; a WRITE in one packet announces what it carries.
fn fields() -> impl Strategy<Value = (Bth, u64, u32, u32, u8, Vec<u8>)> {
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), any::<u8>(), any::<u16>());
    (
        prop::sample::select(Opcode::ALL.to_vec()),
        flags,
        0..=Psn::MASK,
        any::<u32>(),
        (any::<u64>(), any::<u32>(), any::<u32>(), any::<u8>()),
        prop::collection::vec(any::<u8>(), 0..200),
    )
        .prop_map(|(opcode, flags, qp, psn, (address, key, immediate, syndrome), payload)| {
            let (solicited, migration, acknowledge, congestion, partition) = flags;
            let psn = Psn::new(psn);
            let bth = Bth {
                opcode,
                solicited,
                migration,
                partition,
                congestion,
                destination_qp: qp,
                acknowledge,
                psn,
            };
            (bth, address, key, immediate, syndrome, payload)
        })
}

proptest! {
    #[test]
    fn what_is_written_is_read((bth, address, key, immediate, syndrome, payload) in fields()) {
        let length = payload.len() as u32;
        let packet = Packet {
            bth,
            reth: bth.opcode.has_reth().then_some(Reth { address, key, length }),
            immediate: bth.opcode.has_immediate().then_some(immediate),
            aeth: bth.opcode.has_aeth().then_some(Aeth { syndrome, message: immediate & Psn::MASK }),
            payload: &payload,
        };
        let mut buffer = vec![0xA5; payload.len() + MAX_OVERHEAD_BYTES];
        let length = packet.write(&envelope(), &mut buffer).expect("it fits");
        prop_assert_eq!(length, packet.bytes());
        prop_assert_eq!(envelope().verify(&buffer[..length]), Ok(()));
        prop_assert_eq!(Packet::parse(&buffer[..length]), Ok(packet));
        // One byte less is another length, or too little.
        prop_assert!(Packet::parse(&buffer[..length - 1]).is_err());
        prop_assert!(envelope().verify(&buffer[..length - 1]).is_err());
        let small = packet.write(&envelope(), &mut buffer[..length - 1]);
        prop_assert_eq!(small, Err(PacketError::BufferTooSmall { needed: length, available: length - 1 }));
    }

    #[test]
    fn a_flipped_bit_is_caught(
        (bth, _, _, _, _, payload) in fields(),
        bit in any::<prop::sample::Index>(),
    ) {
        let packet = Packet::send(bth.destination_qp, bth.psn, &payload);
        let mut buffer = vec![0; packet.bytes()];
        packet.write(&envelope(), &mut buffer).expect("it fits");
        let bit = bit.index(buffer.len() * 8);
        buffer[bit / 8] ^= 1 << (bit % 8);
        // Routers may change the congestion byte alone.
        prop_assert_eq!(envelope().verify(&buffer).is_ok(), bit / 8 == 4);
    }

    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..120)) {
        let _ = (Packet::parse(&bytes), envelope().verify(&bytes), Envelope::of_ip_packet(&bytes));
    }
}

fn written(packet: &Packet<'_>) -> Vec<u8> {
    let mut buffer = vec![0; packet.bytes()];
    packet.write(&envelope(), &mut buffer).expect("it fits");
    buffer
}

#[test]
fn faults_have_names() {
    let psn = Psn::new(1);
    let reth = Reth { address: 0, key: 1, length: 5 };
    let good = written(&Packet::write_immediate(2, psn, reth, Immediate::new(0, psn), b"12345"));
    assert_eq!(Packet::parse(&good[..11]), Err(PacketError::Truncated { needed: 12, available: 11 }));
    assert_eq!(Packet::parse(&good[..32]), Err(PacketError::Truncated { needed: 36, available: 32 }));
    assert_eq!(Packet::parse(&good[..38]), Err(PacketError::Alignment { bytes: 34 }));
    let edited = |at: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[at] = value;
        Packet::parse(&bytes).expect_err("it is broken")
    };
    assert_eq!(edited(0, 0x3F), PacketError::UnknownOpcode { code: 0x3F });
    assert_eq!(edited(1, 0x31), PacketError::Version { version: 1 });
    assert_eq!(edited(1, 0x20), PacketError::LengthMismatch { announced: 5, carried: 6 });
    assert_eq!(edited(27, 6), PacketError::LengthMismatch { announced: 6, carried: 5 });
    let mut empty = written(&Packet::send(2, psn, b""));
    empty[1] = 0x10;
    assert_eq!(Packet::parse(&empty), Err(PacketError::PadCount { pad: 1, available: 0 }));

    let mut buffer = [0; 64];
    let mut write = |packet: &Packet<'_>| packet.write(&envelope(), &mut buffer).expect_err("it is broken");
    assert_eq!(
        write(&Packet::send(1 << 24, psn, b"")),
        PacketError::Field { field: "destination QP", value: 1 << 24, bits: 24 }
    );
    let packet = Packet { reth: None, ..Packet::write_only(2, psn, reth, b"12345") };
    assert!(matches!(write(&packet), PacketError::Headers { opcode: Opcode::UcWriteOnly, .. }));
    let packet = Packet { immediate: Some(1), ..Packet::send(2, psn, b"12345") };
    assert!(matches!(write(&packet), PacketError::Headers { opcode: Opcode::UcSendOnly, .. }));
    assert_eq!(
        write(&Packet::write_only(2, psn, reth, b"123")),
        PacketError::LengthMismatch { announced: 5, carried: 3 }
    );
    let long = vec![0; 65_500];
    assert!(matches!(write(&Packet::send(2, psn, &long)), PacketError::TooLong { .. }));
}

#[test]
fn congestion_bits_are_nobody_s_fault() {
    let mut packet = Packet::send(2, Psn::new(1), b"x");
    packet.bth.congestion = 0xFF;
    let bytes = written(&packet);
    envelope().verify(&bytes).expect("they are masked");
    assert_eq!(Packet::parse(&bytes), Ok(packet));
}
