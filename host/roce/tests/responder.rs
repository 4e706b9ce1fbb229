//! The receiving end: every reason to refuse, frames in any order, messages of several packets.

use proptest::prelude::*;
use ringcall_roce::opcode::Service;
use ringcall_roce::{
    ArrivedFrame, Bth, Busy, Envelope, IcrcCheck, Immediate, Incomplete, LocalQueuePair, Message,
    MessageOperation, NoMemory, Opcode, Packet, PacketEffect, PathMtu, PeerMemory, Psn, QueuePairError,
    Reason, Responder, Reth,
};

const BASE: u64 = 0x7F00_0000;
const SLOT: u32 = 64;
const SLOTS: u32 = 4;
const QP: LocalQueuePair = LocalQueuePair {
    number: 2,
    key: 9,
    base: BASE,
    slot_bytes: SLOT,
    slots: SLOTS,
    incomplete: Incomplete::Discard,
};

struct Bench {
    responder: Responder,
    memory: Vec<u8>,
}

impl Bench {
    fn new(qp: LocalQueuePair) -> Self {
        let memory = vec![0; (SLOT * SLOTS) as usize];
        Self { responder: Responder::new(qp).expect("a queue pair"), memory }
    }

    fn receive(&mut self, packet: &Packet<'_>) -> Result<Option<ArrivedFrame>, Reason> {
        self.responder.receive(packet, &mut self.memory[..]).map(|event| match event {
            PacketEffect::Arrived(arrived) => Some(arrived),
            PacketEffect::Written => None,
            PacketEffect::Message(_) | PacketEffect::Gathered => unreachable!("no SEND was received"),
        })
    }
}

fn reth(slot: u32, offset: u32, payload: &[u8]) -> Reth {
    Reth { address: BASE + u64::from(slot * SLOT + offset), key: QP.key, length: payload.len() as u32 }
}

fn whole(psn: u32, slot: u32, payload: &[u8]) -> Packet<'_> {
    last(psn, slot, 0, payload)
}

fn last(psn: u32, slot: u32, offset: u32, payload: &[u8]) -> Packet<'_> {
    let psn = Psn::new(psn);
    Packet::write_immediate(QP.number, psn, reth(slot, offset, payload), Immediate::new(slot, psn), payload)
}

fn part(psn: u32, slot: u32, offset: u32, payload: &[u8]) -> Packet<'_> {
    Packet::write_only(QP.number, Psn::new(psn), reth(slot, offset, payload), payload)
}

/// A part of a message of several packets.
fn several<'a>(
    opcode: Opcode,
    psn: u32,
    reth: Option<Reth>,
    slot: Option<u32>,
    payload: &'a [u8],
) -> Packet<'a> {
    let packet = Packet::send(QP.number, Psn::new(psn), payload);
    Packet {
        bth: Bth { opcode, ..packet.bth },
        reth,
        immediate: slot.map(|slot| Immediate::new(slot, Psn::new(psn)).0),
        ..packet
    }
}

#[test]
fn each_refusal_has_its_reason() {
    let mut bench = Bench::new(QP);
    bench.receive(&whole(0, 0, b"good")).expect("it is right");
    let good = whole(1, 1, b"1234");
    let address = |address| Packet { reth: good.reth.map(|reth| Reth { address, ..reth }), ..good };
    let end = BASE + u64::from(SLOT * SLOTS);
    let wrong_qp = Packet { bth: Bth { destination_qp: 3, ..good.bth }, ..good };
    let reliable = Packet { bth: Bth { opcode: Opcode::RcWriteOnlyImmediate, ..good.bth }, ..good };
    let key = Packet { reth: good.reth.map(|reth| Reth { key: 8, ..reth }), ..good };
    let slot = |slot| Packet { immediate: Some(slot), ..good };
    let cases = [
        (wrong_qp, Reason::WrongQp),
        (reliable, Reason::Unsupported),
        (key, Reason::WrongKey),
        (address(BASE - 1), Reason::OutOfRange),
        (address(0), Reason::OutOfRange),
        (address(u64::MAX), Reason::OutOfRange),
        (address(end), Reason::OutOfRange),
        (address(end - 3), Reason::OutOfRange),
        (address(BASE + u64::from(SLOT) - 2), Reason::CrossesSlot),
        (slot(SLOTS), Reason::NoSuchSlot),
        (slot(2), Reason::WrongSlot),
    ];
    let mut psn = 1;
    for (packet, reason) in cases {
        let packet = Packet { bth: Bth { psn: Psn::new(psn), ..packet.bth }, ..packet };
        let before = bench.memory.clone();
        assert_eq!(bench.receive(&packet), Err(reason), "{packet:?}");
        assert_eq!(bench.memory, before, "{reason:?} wrote something");
        assert!(bench.responder.stats().refused.of(reason) > 0, "{reason:?} is not counted");
        psn += 1;
    }
    assert_eq!(bench.receive(&whole(0, 0, b"good")), Err(Reason::Duplicate));
    let none = several(Opcode::UcWriteMiddle, psn, None, None, b"1234");
    assert_eq!(bench.receive(&none), Err(Reason::NoMessage));
    assert_eq!(bench.responder.stats().refused.total(), cases.len() as u64 + 2);
    assert_eq!(bench.responder.stats().arrived, 1);

    // Neither another queue pair's packet, nor another service's, nor one without the key or for other addresses uses up
    // a number.
    assert_eq!(bench.responder.stats().gap_packets, 9);
}

/// SENDs of several packets, cut by the path MTU: whole ones arrive, others are given up and counted.
#[test]
fn sends_of_several_packets_are_gathered() {
    let bytes: Vec<u8> = (0..=255).cycle().take(700).collect();
    let operation = MessageOperation::Send { immediate: None };
    let (service, mtu) = (Service::Uc, PathMtu::B256);
    let message = Message { service, operation, destination_qp: QP.number, mtu, bytes: &bytes };
    let mut responder = Responder::new(QP).expect("a queue pair").gathering(700);
    let mut take = |packet: &Packet<'_>| {
        responder.receive(packet, &mut NoMemory).map(|event| event == PacketEffect::Gathered)
    };
    let first = Psn::new(0xFF_FFFF);
    let whole: Vec<_> = (0..3).map(|index| take(&message.packet(index, first))).collect();
    assert_eq!(whole, [Ok(false), Ok(false), Ok(true)]);
    // Its middle is missing, and then its end: the next message is none the worse.
    assert_eq!(take(&message.packet(0, Psn::new(2))), Ok(false));
    assert_eq!(take(&message.packet(2, Psn::new(2))), Err(Reason::NoMessage));
    assert_eq!(take(&message.packet(0, Psn::new(5))), Ok(false));
    let all: Vec<_> = (0..3).map(|index| take(&message.packet(index, Psn::new(8)))).collect();
    assert_eq!(all, [Ok(false), Ok(false), Ok(true)]);
    assert_eq!(
        (responder.gathered(), responder.stats().incomplete, responder.stats().messages),
        (&bytes[..], 2, 2)
    );
    // Longer than was said, and where nothing was said.
    let long = vec![0; 800];
    let long = Message { bytes: &long, ..message };
    let outcomes = (0..4).map(|index| responder.receive(&long.packet(index, Psn::new(20)), &mut NoMemory));
    assert_eq!(outcomes.last(), Some(Err(Reason::NoMessage)));
    assert_eq!(responder.stats().refused.of(Reason::WrongLength), 1);
    let mut plain = Responder::new(QP).expect("a queue pair");
    let refused = plain.receive(&message.packet(0, first), &mut NoMemory);
    assert_eq!(refused, Err(Reason::Unsupported));
}

/// Its source address may be forged: without the key it must not change what becomes of the peer's packets.
#[test]
fn a_packet_without_the_key_changes_nothing_for_the_peer() {
    let mut bench = Bench::new(QP);
    bench.receive(&whole(0, 0, b"good")).expect("it is right");
    let next = whole(1, 1, b"next");
    let forged = Packet { reth: next.reth.map(|reth| Reth { key: 8, ..reth }), ..next };
    assert_eq!(bench.receive(&forged), Err(Reason::WrongKey));
    assert!(bench.receive(&next).is_ok());
    // Nor may it end a message that is under way.
    let reth = Reth { address: BASE, key: QP.key, length: 8 };
    bench.receive(&several(Opcode::UcWriteFirst, 2, Some(reth), None, b"1234")).expect("it begins");
    let wrong = Reth { key: 8, ..reth };
    let forged = several(Opcode::UcWriteFirst, 3, Some(wrong), None, b"1234");
    assert_eq!(bench.receive(&forged), Err(Reason::WrongKey));
    // A part of a message brings no key: only the one that comes next is looked at.
    for psn in [2, 4, 5, 1 << 20] {
        let forged = several(Opcode::UcWriteMiddle, psn, None, None, b"12");
        assert_eq!(bench.receive(&forged), Err(Reason::NoMessage), "{psn}");
    }
    // Nor does that one end the message if it has another length than the message's next packet, or names another slot.
    for (opcode, slot, payload, reason) in [
        (Opcode::UcWriteMiddle, None, &b"12"[..], Reason::WrongLength),
        (Opcode::UcWriteMiddle, None, &b"1234"[..], Reason::WrongLength),
        (Opcode::UcWriteLast, None, &b"forged"[..], Reason::WrongLength),
        (Opcode::UcWriteLastImmediate, Some(0), &b""[..], Reason::WrongLength),
        (Opcode::UcWriteLastImmediate, Some(1), &b"1234"[..], Reason::WrongSlot),
        (Opcode::UcWriteLastImmediate, Some(SLOTS), &b"1234"[..], Reason::NoSuchSlot),
    ] {
        let forged = several(opcode, 3, None, slot, payload);
        assert_eq!(bench.receive(&forged), Err(reason), "{opcode:?} {payload:?}");
    }
    assert!(bench.receive(&several(Opcode::UcWriteLastImmediate, 3, None, Some(0), b"5678")).is_ok());
    assert_eq!(bench.memory[..8], *b"12345678");
    assert_eq!(bench.responder.stats().incomplete, 0);
    assert_eq!(bench.receive(&several(Opcode::UcWriteLast, 4, None, None, b"12")), Err(Reason::NoMessage));
    assert!(bench.receive(&whole(4, 0, b"good")).is_ok());
    assert_eq!(bench.responder.stats().lost_packets(), 0);
}

/// As many packets and bytes as the frame has, but none of them where the frame misses some.
#[test]
fn bytes_that_no_packet_wrote_are_not_published() {
    let mut bench = Bench::new(QP);
    bench.receive(&whole(0, 0, &[7; 16])).expect("the last owner's");
    let part = |psn, start: u32, payload: &'static [u8]| {
        let reth = Reth { address: BASE + u64::from(start), key: QP.key, length: payload.len() as u32 };
        Packet::write_only(QP.number, Psn::new(psn), reth, payload)
    };
    bench.receive(&part(1, 0, b"head")).expect("it begins");
    let last = Reth { address: BASE + 12, key: QP.key, length: 4 };
    let last = Packet::write_immediate(QP.number, Psn::new(3), last, Immediate::new(0, Psn::new(3)), b"last");
    assert_eq!(bench.receive(&last), Ok(None));
    assert_eq!(bench.receive(&part(2, 0, b"elsewher")), Err(Reason::Stale));
    assert_eq!(bench.responder.stats().arrived, 1);
}

/// The first packet of a message that came late, by way of the network, into a slot whose next frame has begun.
#[test]
fn a_message_in_its_slot_ends_a_frame() {
    let mut bench = Bench::new(QP);
    bench.receive(&part(10, 0, 0, b"head")).expect("a frame begins");
    let reth = Reth { address: BASE, key: QP.key, length: 16 };
    bench.receive(&several(Opcode::UcWriteFirst, 5, Some(reth), None, b"of other")).expect("it is late");
    assert_eq!(bench.receive(&last(11, 0, 4, b"tail")), Ok(None), "its head was written over");
    assert_eq!(bench.responder.stats().incomplete, 2, "the frame and the message");
    let whole = bench.receive(&whole(12, 0, b"next")).expect("it is right");
    assert!(whole.is_some_and(|arrived| arrived.bytes == 4));
}

#[test]
fn datagrams_are_checked_before_anything_else() {
    let envelope = Envelope::v4(
        "10.0.0.2:12288".parse().expect("an address"),
        "10.0.0.1:4791".parse().expect("an address"),
    );
    let mut bench = Bench::new(QP);
    let mut bytes = vec![0; 100];
    let length = whole(0, 0, b"good").write(&envelope, &mut bytes).expect("it fits");
    bytes.truncate(length);
    let mut receive = |bytes: &[u8], icrc| {
        let event = bench.responder.receive_datagram(bytes, &envelope, icrc, &mut bench.memory[..]);
        event.map(|event| match event {
            PacketEffect::Arrived(arrived) => arrived.slot,
            _ => unreachable!("one packet is a frame"),
        })
    };
    let mut damaged = bytes.clone();
    damaged[33] ^= 1;
    assert_eq!(receive(&damaged, IcrcCheck::Recover), Err(Reason::WrongIcrc));
    assert_eq!(receive(&bytes[..20], IcrcCheck::Ignore), Err(Reason::Malformed));
    assert_eq!(receive(&bytes, IcrcCheck::Zero), Ok(0));
    let stats = bench.responder.stats();
    assert_eq!((stats.refused.of(Reason::WrongIcrc), stats.refused.of(Reason::Malformed)), (1, 1));
    assert_eq!(&bench.memory[..4], b"good");
}

#[test]
fn a_frame_that_lost_a_packet_is_not_published() {
    let mut bench = Bench::new(QP);
    for lost in 0..3 {
        let psn = lost * 3;
        let parts = [part(psn, 1, 0, b"aaaa"), part(psn + 1, 1, 4, b"bbbb"), last(psn + 2, 1, 8, b"cccc")];
        for (index, packet) in parts.iter().enumerate() {
            if index as u32 != lost {
                assert_eq!(bench.receive(packet), Ok(None), "{lost}: {packet:?}");
            }
        }
    }
    assert_eq!(bench.receive(&whole(9, 1, b"dddd")).expect("taken").map(|a| a.bytes), Some(4));
    let stats = bench.responder.stats();
    assert_eq!((stats.incomplete, stats.arrived), (3, 1));
    // The sequence number of the first packet is unknown.
    assert_eq!(stats.lost_packets(), 2);
}

#[test]
fn or_is_published_as_incomplete() {
    let mut bench = Bench::new(LocalQueuePair { incomplete: Incomplete::Publish, ..QP });
    assert_eq!(bench.receive(&part(0, 1, 0, b"aaaa")), Ok(None));
    let arrived = bench.receive(&last(2, 1, 8, b"cccc")).expect("taken").expect("published");
    assert_eq!((arrived.bytes, arrived.complete), (12, false));
    assert_eq!(&bench.memory[64..76], b"aaaa\0\0\0\0cccc");
    assert_eq!(bench.responder.stats().arrived_incomplete, 1);
}

#[test]
fn a_leftover_does_not_harm_the_next_frame() {
    let mut bench = Bench::new(QP);
    for packet in
        [part(7, 1, 0, b"aaaa"), last(9, 1, 8, b"aaaa"), part(10, 1, 0, b"bbbb"), part(11, 1, 4, b"bbbb")]
    {
        assert_eq!(bench.receive(&packet), Ok(None));
    }
    assert_eq!(bench.receive(&part(8, 1, 4, b"aaaa")), Err(Reason::Stale));
    let arrived = bench.receive(&last(12, 1, 8, b"bbbb")).expect("taken").expect("it is whole");
    assert_eq!((arrived.bytes, &bench.memory[64..76]), (12, &b"bbbbbbbbbbbb"[..]));
    assert_eq!(bench.responder.stats().incomplete, 1);
}

#[test]
fn a_late_packet_completes_its_frame() {
    let mut bench = Bench::new(QP);
    assert_eq!(bench.receive(&last(11, 2, 4, b"bbbb")), Ok(None));
    let arrived = bench.receive(&part(10, 2, 0, b"aaaa")).expect("taken").expect("it is whole now");
    assert_eq!((arrived.slot, arrived.bytes, arrived.complete), (2, 8, true));
    assert_eq!(arrived.immediate.page(), 2);
}

#[test]
fn messages_of_several_packets() {
    let mut bench = Bench::new(QP);
    let announce = Reth { length: 10, ..reth(3, 0, b"") };
    let first = |psn| several(Opcode::UcWriteFirst, psn, Some(announce), None, b"aaaa");
    let middle = |psn| several(Opcode::UcWriteMiddle, psn, None, None, b"bbbb");
    let end = |psn| several(Opcode::UcWriteLastImmediate, psn, None, Some(3), b"cc");
    assert_eq!(bench.receive(&first(0)), Ok(None));
    assert_eq!(bench.receive(&middle(1)), Ok(None));
    let arrived = bench.receive(&end(2)).expect("taken").expect("published");
    assert_eq!((arrived.slot, arrived.bytes, &bench.memory[192..202]), (3, 10, &b"aaaabbbbcc"[..]));

    // A gap drops the rest.
    assert_eq!(bench.receive(&first(3)), Ok(None));
    assert_eq!(bench.receive(&end(5)), Err(Reason::NoMessage));
    assert_eq!(bench.receive(&middle(6)), Err(Reason::NoMessage));
    // A wrong length is refused, and what follows it, too.
    assert_eq!(bench.receive(&first(7)), Ok(None));
    assert_eq!(bench.receive(&end(8)), Err(Reason::WrongLength));
    assert_eq!(bench.receive(&end(9)), Err(Reason::NoMessage));
    // And so does another message in between.
    assert_eq!(bench.receive(&first(10)), Ok(None));
    assert!(bench.receive(&whole(11, 0, b"x")).expect("taken").is_some());
    assert_eq!(bench.receive(&middle(12)), Err(Reason::NoMessage));
    assert_eq!((bench.responder.stats().incomplete, bench.responder.stats().arrived), (3, 2));
}

#[test]
fn a_sender_that_begins_anew_is_taken_as_such() {
    let mut bench = Bench::new(QP);
    bench.receive(&whole(100_000, 0, b"x")).expect("taken");
    bench.receive(&part(100_001, 1, 0, b"x")).expect("taken");
    assert!(bench.receive(&whole(0, 0, b"x")).expect("taken").is_some());
    let stats = *bench.responder.stats();
    assert_eq!((stats.restarts, stats.lost_packets(), stats.incomplete), (1, 0, 1));
    // Too near to be told from duplicates: a caller that knows of a new peer says so.
    assert_eq!(bench.receive(&whole(0, 0, b"x")), Err(Reason::Duplicate));
    bench.responder.restart();
    assert!(bench.receive(&whole(0, 0, b"x")).expect("taken").is_some());
}

#[test]
fn sends_need_no_memory() {
    let mut responder = Responder::new(LocalQueuePair { slots: 0, ..QP }).expect("a queue pair");
    let event = responder.receive(&Packet::send(2, Psn::new(0), b"answer"), &mut NoMemory);
    assert_eq!(event, Ok(PacketEffect::Message(b"answer")));
    assert_eq!(responder.receive(&whole(1, 0, b"x"), &mut NoMemory), Err(Reason::OutOfRange));
}

/// Slots that are being served.
struct Served;

impl PeerMemory for Served {
    fn bytes(&self) -> u64 {
        1024
    }
    fn write(&mut self, _: u64, _: &[u8]) -> Result<(), Busy> {
        Err(Busy)
    }
}

#[test]
fn a_busy_slot_is_left_alone() {
    let mut responder = Responder::new(QP).expect("a queue pair");
    assert_eq!(responder.receive(&whole(0, 0, b"x"), &mut Served), Err(Reason::Busy));
    assert_eq!(responder.stats().refused.of(Reason::Busy), 1);
}

#[test]
fn queue_pairs_that_cannot_be() {
    let new = |qp| Responder::new(qp).err();
    assert_eq!(new(LocalQueuePair { number: 1 << 24, ..QP }), Some(QueuePairError::Number(1 << 24)));
    assert_eq!(new(LocalQueuePair { slots: 4097, ..QP }), Some(QueuePairError::Slots(4097)));
    assert_eq!(new(LocalQueuePair { slot_bytes: 0, ..QP }), Some(QueuePairError::SlotBytes));
    let base = u64::MAX - 10;
    assert_eq!(new(LocalQueuePair { base, ..QP }), Some(QueuePairError::Wraps { base, bytes: 256 }));
}

proptest! {
    /// Frames of one to four packets, shuffled within a few positions, with duplicates and losses: a frame arrives
    /// exactly if all its packets did, with its own bytes.
    #[test]
    fn frames_survive_disorder(
        lengths in prop::collection::vec(1_u32..5, 1..30),
        first in 0..=Psn::MASK,
        jitter in prop::collection::vec((0_u32..6, 0_u32..10), 120),
    ) {
        let mut psn = Psn::new(first);
        let mut sent = Vec::new();
        let mut lossless = Vec::new();
        let mut order = Vec::new();
        for (frame, &parts) in lengths.iter().enumerate() {
            // A slot is used again when nothing of its earlier frame can be on its way.
            let slot = frame as u32 % SLOTS;
            let mut lost = false;
            for index in 0..parts {
                let at = sent.len();
                let (delay, fate) = jitter[at % jitter.len()];
                let content = vec![frame as u8 ^ 0x55; 5];
                sent.push((psn, slot, index, parts, content));
                match fate {
                    0 => lost = true,
                    1 => order.extend([(at as u32 * 2 + delay / 2, at), (at as u32 * 2 + 9, at)]),
                    _ => order.push((at as u32 * 2 + delay / 2, at)),
                }
                psn = psn.next();
            }
            lossless.push(!lost);
        }
        order.sort_by_key(|(time, _)| *time);
        let mut bench = Bench::new(QP);
        let mut arrived = vec![0; lengths.len()];
        for (_, at) in order {
            let (psn, slot, index, parts, content) = &sent[at];
            let packet = if index + 1 == *parts {
                last(psn.get(), *slot, index * 5, content)
            } else {
                part(psn.get(), *slot, index * 5, content)
            };
            if let Ok(Some(arrived_now)) = bench.receive(&packet) {
                prop_assert!(arrived_now.complete);
                prop_assert_eq!(arrived_now.bytes, parts * 5);
                let start = (slot * SLOT) as usize;
                let bytes = &bench.memory[start..start + arrived_now.bytes as usize];
                prop_assert!(bytes.iter().all(|byte| *byte == content[0]));
                arrived[usize::from(content[0] ^ 0x55)] += 1;
            }
        }
        for (frame, (count, whole)) in arrived.iter().zip(&lossless).enumerate() {
            prop_assert_eq!(*count, u32::from(*whole), "frame {}", frame);
        }
    }
}
