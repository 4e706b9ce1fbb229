//! Packets, IP headers and the control plane: any bytes are read without a panic, and what is read is written back the
//! same; the receiving end takes any sequence of packets.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_roce::control::{Reply, Request};
use ringcall_roce::{Envelope, Event, Incomplete, Packet, QueuePair, Responder};

const SLOT_BYTES: u32 = 256;
const SLOTS: u32 = 4;

fuzz_target!(|data: &[u8]| {
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
        let qp = QueuePair {
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
            }
            match responder.receive_datagram(datagram, None, &mut memory[..]) {
                Ok(Event::Arrived(arrived)) => {
                    assert!(arrived.slot < SLOTS && arrived.bytes <= SLOT_BYTES);
                    assert!(arrived.complete || incomplete == Incomplete::Publish);
                }
                Ok(Event::Written | Event::Message(_)) => {}
                Err(reason) => assert!(responder.stats().refused.of(reason) > 0),
            }
        }
    }
});
