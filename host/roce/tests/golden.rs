//! Packets from outside, byte for byte, and every bit of them that a CRC must notice.

use ringcall_roce::{Envelope, Immediate, Opcode, Packet, PacketError, Psn, Reth};

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let digit = |c: u8| (c as char).to_digit(16).expect("a hexadecimal digit") as u8;
    digits.chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

/// A WRITE with immediate, from the IP header on: QP 2, PSN 5, page 3. By a script independent of this crate.
const WRITE_IMMEDIATE: &str =
    "45000050000040004011b8e5c0a80002c0a80065300012b7003c00002b00ffff00000002000000050000
    000000000180000012340000001000005003000102030405060708090a0b0c0d0e0f8b64b597";
/// A WRITE without: PSN 6, 32 bytes.
const WRITE: &str =
    "4500005c000040004011b8d9c0a80002c0a80065300012b7004800002a00ffff0000000200000006000000000000
    02000000123400000020000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1fb3e23d95";
/// The answer to request 7: status 0, four bytes, time 0x1122334455667788.
const SEND: &str =
    "45000048000040004011b8edc0a80065c0a80002c00012b7003400002400ffff00000012000000005351554300000000
    0400000007000000887766554433221101020304adbd098f";
/// A captured congestion notification of a ConnectX-4 Lx, from scapy's test suite (test/contrib/roce.uts).
const CAPTURED: &str =
    "45c2003c718c4000401191610a0011010a00120100 0012b7002800008100ffff40000118000000000000000000
    00000000000000000000 0082fd002a";

fn ramp(count: u8) -> Vec<u8> {
    (0..count).collect()
}

fn rebuild(packet: &Packet<'_>, envelope: &Envelope) -> Vec<u8> {
    let mut out = vec![0; envelope.header_bytes() + packet.bytes()];
    let headers = envelope.write_headers(packet.bytes(), &mut out).expect("it fits");
    let written = packet.write(envelope, &mut out[headers..]).expect("it fits");
    assert_eq!(headers + written, out.len());
    out
}

#[test]
fn golden_packets_byte_for_byte() {
    let bridge = "192.168.0.2:12288".parse().expect("an address");
    let host = "192.168.0.101:4791".parse().expect("an address");
    let (five, six) = (Psn::new(5), Psn::new(6));

    let reth = Reth { address: 0x180, key: 0x1234, length: 16 };
    let payload = ramp(16);
    let packet = Packet::write_immediate(2, five, reth, Immediate::new(3, five), &payload);
    assert_eq!(rebuild(&packet, &Envelope::v4(bridge, host)), hex(WRITE_IMMEDIATE));

    let reth = Reth { address: 0x200, key: 0x1234, length: 32 };
    let payload = ramp(32);
    let packet = Packet::write_only(2, six, reth, &payload);
    assert_eq!(rebuild(&packet, &Envelope::v4(bridge, host)), hex(WRITE));

    let from = "192.168.0.101:49152".parse().expect("an address");
    let to = "192.168.0.2:4791".parse().expect("an address");
    let payload = hex("5351554300000000 0400000007000000 8877665544332211 01020304");
    let packet = Packet::send(0x12, Psn::new(0), &payload);
    assert_eq!(rebuild(&packet, &Envelope::v4(from, to)), hex(SEND));
}

#[test]
fn golden_packets_are_read() {
    for (text, opcode, qp, psn, payload_bytes) in [
        (WRITE_IMMEDIATE, Opcode::UcWriteOnlyImmediate, 2, 5, 16),
        (WRITE, Opcode::UcWriteOnly, 2, 6, 32),
        (SEND, Opcode::UcSendOnly, 0x12, 0, 28),
        (CAPTURED, Opcode::Congestion, 0x118, 0, 16),
    ] {
        let bytes = hex(text);
        let (envelope, datagram) = Envelope::of_ip_packet(&bytes).expect("an IP packet");
        envelope.verify(datagram).expect("the iCRC");
        let packet = Packet::parse(datagram).expect("a packet");
        assert_eq!((packet.bth.opcode, packet.bth.destination_qp), (opcode, qp));
        assert_eq!((packet.bth.psn.get(), packet.payload.len()), (psn, payload_bytes));
        let mut out = vec![0; packet.bytes()];
        packet.write(&envelope, &mut out).expect("it fits");
        assert_eq!(out, datagram);
    }
}

/// scapy's own example of a UC packet (test/contrib/roce.uts), whose iCRC has the bytes `78f353f3`: an identification
/// that is not 0, a type of service that is not 0, padding, a UDP checksum.
#[test]
fn scapy_s_packet() {
    let ip = hex("45010040047840004011b4d5c0a80007c0a80007");
    let udp = hex("c00012b7002caca2");
    let payload = b"F0\x81\x8b\xe2\x895\xd9\x0e\x9a\x95PT\x01\xbe\x88^P";
    let bth = hex("2460ffff000000d300cf1710");
    let icrc = hex("78f353f3");
    let bytes = [&ip[..], &udp, &bth, payload, &[0, 0], &icrc].concat();
    let (envelope, datagram) = Envelope::of_ip_packet(&bytes).expect("an IP packet");
    envelope.verify(datagram).expect("the iCRC");
    let packet = Packet::parse(datagram).expect("a packet");
    assert_eq!((packet.bth.destination_qp, packet.bth.psn.get()), (211, 13_571_856));
    assert!(packet.bth.migration);
    assert_eq!(packet.payload, payload);
}

/// Every single bit is either caught or one of those that the standard leaves out.
#[test]
fn flipped_bits() {
    for text in [WRITE_IMMEDIATE, WRITE, SEND] {
        let good = hex(text);
        for bit in 0..good.len() * 8 {
            let mut bad = good.clone();
            bad[bit / 8] ^= 0x80 >> (bit % 8);
            let caught = Envelope::of_ip_packet(&bad)
                .and_then(|(envelope, datagram)| envelope.verify(datagram))
                .is_err();
            // Type of service, time to live, IP checksum, UDP checksum, congestion byte.
            let masked = [1, 8, 10, 11, 26, 27, 32].contains(&(bit / 8));
            assert_eq!(caught, !masked, "bit {bit}");
        }
    }
}

/// A packet over IPv6 by scapy (tests/data/check_icrc.py); its hop limit is the sender's affair.
const OVER_IPV6: &str =
    "6000000000201140fd000000000000000000000000000001fd000000000000000000000000000002c00012b7002000
    002430ffff0000000100000001313233343500000032aebfe9";

#[test]
fn ipv6_headers() {
    let envelope = Envelope::v6(
        &"[fd00::1]:49152".parse().expect("an address"),
        &"[fd00::2]:4791".parse().expect("an address"),
    );
    let packet = Packet::send(1, Psn::new(1), b"12345");
    let good = rebuild(&packet, &envelope);
    assert_eq!(good, hex(OVER_IPV6));
    let (read, datagram) = Envelope::of_ip_packet(&good).expect("an IP packet");
    assert_eq!(read, envelope);
    read.verify(datagram).expect("the iCRC");
    for byte in [0, 1, 2, 3, 7] {
        let mut other = good.clone();
        other[byte] ^= 0x0F;
        if let Ok((envelope, datagram)) = Envelope::of_ip_packet(&other) {
            assert_eq!(envelope.verify(datagram), Ok(()), "byte {byte} is masked");
        }
    }
    let mut other = good;
    other[9] ^= 1;
    let (envelope, datagram) = Envelope::of_ip_packet(&other).expect("an IP packet");
    assert!(matches!(envelope.verify(datagram), Err(PacketError::WrongIcrc { .. })));
}
