//! Nothing is allocated between a packet's arrival and the answer's departure.

use ringcall_roce::{
    IcrcCheck, Immediate, Inbox, Incomplete, LocalQueuePair, Packet, PacketEffect, PacketOutbox, Psn, Reason,
    Responder, Reth, RoceSocket,
};
use std::time::Duration;

const QP: LocalQueuePair =
    LocalQueuePair { number: 2, key: 9, base: 0, slot_bytes: 256, slots: 8, incomplete: Incomplete::Discard };
const ROUNDS: u32 = 20;

#[test]
fn the_packets_way() {
    let any = "127.0.0.1:0".parse().expect("an address");
    let bridge = RoceSocket::bind(any).expect("a socket");
    let host = RoceSocket::bind(any).expect("a socket");
    let mut responder = Responder::new(QP).expect("a queue pair");
    let mut memory = vec![0; 2048];
    let (mut inbox, mut outbox) = (Inbox::new(512), PacketOutbox::new(512));
    let (mut arrived, mut answered, mut refused) = (0, 0, 0);
    let mut psn = Psn::new(0);

    let mut rounds = |count: u32| {
        for _ in 0..count {
            for slot in 0..QP.slots {
                let reth = Reth { address: u64::from(slot * QP.slot_bytes), key: QP.key, length: 6 };
                let packet =
                    Packet::write_immediate(QP.number, psn, reth, Immediate::new(slot, psn), b"syndro");
                outbox.push(&bridge, host.local_addr(), &packet).expect("room");
                // And once more, to be refused.
                outbox.push(&bridge, host.local_addr(), &packet).expect("room");
                psn = psn.next();
            }
            bridge.send(&mut outbox).expect("sent");
            let mut left = 2 * QP.slots as usize;
            while left > 0 {
                assert!(host.wait(Duration::from_secs(10)).expect("it waits"), "{left} packets never came");
                left -= host.receive(&mut inbox).expect("received");
                for (peer, datagram) in inbox.iter() {
                    let envelope = host.envelope_from(peer);
                    match responder.receive_datagram(datagram, &envelope, IcrcCheck::Recover, &mut memory[..])
                    {
                        Ok(PacketEffect::Arrived(frame)) => {
                            arrived += 1;
                            let slot =
                                &memory[(frame.slot * QP.slot_bytes) as usize..][..frame.bytes as usize];
                            outbox.push(&host, peer, &Packet::send(7, frame.psn, slot)).expect("room");
                        }
                        Err(Reason::Duplicate) => refused += 1,
                        other => panic!("{other:?}"),
                    }
                }
            }
            host.send(&mut outbox).expect("sent");
            let mut left = QP.slots as usize;
            while left > 0 {
                assert!(bridge.wait(Duration::from_secs(10)).expect("it waits"), "{left} answers never came");
                left -= bridge.receive(&mut inbox).expect("received");
                let right =
                    |datagram| Packet::parse(datagram).is_ok_and(|packet| packet.payload == b"syndro");
                answered += inbox.iter().filter(|(_, datagram)| right(datagram)).count();
            }
        }
    };
    // The kernel's headers are made once a thread.
    rounds(1);
    let allocations = allocation_counter::measure(|| rounds(ROUNDS));
    assert_eq!(allocations.count_total, 0);
    let all = (ROUNDS + 1) * QP.slots;
    assert_eq!((arrived, refused, answered), (all, all, all as usize));
}
