//! Packets, IP headers and the control plane: any bytes are read without a panic, and what is read is written back the
//! same; the receiving end takes any sequence of packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_roce::{
    Busy, Envelope, IcrcCheck, Immediate, Incomplete, LocalQueuePair, Packet, PacketEffect, PeerMemory, Psn,
    Responder, Reth,
};
use ringcall_sim::fpga::control::{Reply, Request};

const SLOT_BYTES: u32 = 256;
const SLOTS: u32 = 4;

/// Memory that knows which of its bytes were written since their slot was last reported.
struct Shadow {
    written: [bool; (SLOT_BYTES * SLOTS) as usize],
}

impl PeerMemory for Shadow {
    fn bytes(&self) -> u64 {
        u64::from(SLOT_BYTES * SLOTS)
    }

    fn write(&mut self, offset: u64, payload: &[u8]) -> Result<(), Busy> {
        self.written[offset as usize..][..payload.len()].fill(true);
        Ok(())
    }
}

/// Writes with the right key, four bytes of input each: no byte of a whole frame may be one that its sender did not write.
fn only_written_bytes_are_reported(data: &[u8]) {
    let qp = LocalQueuePair {
        number: 2,
        key: 7,
        base: 0,
        slot_bytes: SLOT_BYTES,
        slots: SLOTS,
        incomplete: Incomplete::Discard,
    };
    let mut responder = Responder::new(qp).expect("a queue pair");
    let mut memory = Shadow { written: [false; (SLOT_BYTES * SLOTS) as usize] };
    let zeros = [0; SLOT_BYTES as usize];
    for bytes in data.chunks_exact(4) {
        let (psn, slot) = (Psn::new(u32::from(bytes[0] & 31)), u32::from(bytes[0] >> 5) % SLOTS);
        let start = u32::from(bytes[1]);
        let length = u32::from(bytes[2] & 63).min(SLOT_BYTES - start);
        let reth = Reth { address: u64::from(slot * SLOT_BYTES + start), key: 7, length };
        let payload = &zeros[..length as usize];
        let packet = if bytes[3] & 1 == 0 {
            Packet::write_only(2, psn, reth, payload)
        } else {
            Packet::write_immediate(2, psn, reth, Immediate::new(slot, psn), payload)
        };
        if let Ok(PacketEffect::Arrived(arrived)) = responder.receive(&packet, &mut memory) {
            let of_slot = &mut memory.written[(arrived.slot * SLOT_BYTES) as usize..][..SLOT_BYTES as usize];
            assert!(of_slot[..arrived.bytes as usize].iter().all(|&written| written), "{arrived:?}");
            of_slot.fill(false);
        }
    }
}

fuzz_target!(|data: &[u8]| {
    only_written_bytes_are_reported(data);
    let _ = Reply::parse(data).map(|reply| assert_eq!(Reply::parse(&reply.encode()).ok(), Some(reply)));
    if let Ok(request) = Request::parse(data) {
        let pairs: Vec<(u32, u32)> = request.pairs().iter().collect();
        let mut again = Vec::new();
        Request::encode(request.command, request.flags, request.sequence, &pairs, &mut again)
            .expect("it was one");
        assert!(
            Request::parse(&again)
                .expect("it was one")
                .pairs()
                .iter()
                .map(|(a, _)| a)
                .eq(pairs.iter().map(|(a, _)| *a))
        );
    }
    if let Ok((envelope, datagram)) = Envelope::of_ip_packet(data) {
        let mut headers = [0; 48];
        let length = envelope.write_headers(datagram.len(), &mut headers).expect("it came in a packet");
        let whole = [&headers[..length], datagram].concat();
        assert_eq!(Envelope::of_ip_packet(&whole), Ok((envelope, datagram)));
        let _ = envelope.verify(datagram);
    }
    let envelope =
        Envelope::v4("10.0.0.2:1".parse().expect("an address"), "10.0.0.1:2".parse().expect("an address"));
    for incomplete in [Incomplete::Discard, Incomplete::Publish] {
        let qp = LocalQueuePair {
            number: 2,
            key: 0x1234,
            base: 0x100,
            slot_bytes: SLOT_BYTES,
            slots: SLOTS,
            incomplete,
        };
        let mut responder = Responder::new(qp).expect("a queue pair");
        let mut memory = [0; (SLOT_BYTES * SLOTS) as usize];
        let mut rest = data;
        while let Some((length, tail)) = rest.split_first() {
            let (datagram, tail) = tail.split_at(tail.len().min(usize::from(*length)));
            rest = tail;
            if let Ok(packet) = Packet::parse(datagram) {
                let mut out = vec![0; packet.bytes()];
                assert_eq!(packet.write(&envelope, &mut out), Ok(datagram.len()));
                assert_eq!(Packet::parse(&out), Ok(packet));
                assert_eq!(envelope.verify(&out), Ok(()));
                let numbered = envelope.with_identification(datagram.len() as u16);
                assert_eq!(packet.write(&numbered, &mut out), Ok(datagram.len()));
                assert_eq!(envelope.recover(&out), Ok(numbered));
            }
            match responder.receive_datagram(datagram, &envelope, IcrcCheck::Ignore, &mut memory[..]) {
                Ok(PacketEffect::Arrived(arrived)) => {
                    assert!(arrived.slot < SLOTS && arrived.bytes <= SLOT_BYTES);
                    assert!(arrived.complete || incomplete == Incomplete::Publish);
                }
                Ok(PacketEffect::Written | PacketEffect::Message(_) | PacketEffect::Gathered) => {}
                Err(reason) => assert!(responder.stats().refused.of(reason) > 0),
            }
        }
    }
});
