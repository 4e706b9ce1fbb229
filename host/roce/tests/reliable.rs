//! The reliable service over a channel that loses, repeats and delays packets, from a seed: each message arrives once, in order.

use proptest::prelude::*;
use ringcall_roce::reliable::{
    AckSyndrome, Connection, ConnectionOptions, MessagePostError, ReliableError, RequesterOptions, rnr_ns,
};
use ringcall_roce::{
    Aeth, Busy, Envelope, IcrcCheck, Immediate, MessageOperation, NoMemory, Packet, PacketEffect, PathMtu,
    PeerMemory, PortOptions, Psn, Reason,
};
use std::collections::BTreeMap;

const SLOT: u32 = 1024;
const PORT: PortOptions = PortOptions::new(8, SLOT);
/// Of simulated time.
const MILLISECOND: u64 = 1_000_000;

/// Random numbers that are the same everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        // splitmix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// What happens to one packet in 1,000, by kind.
#[derive(Clone, Copy, Debug)]
struct Trouble {
    lost: u64,
    repeated: u64,
    damaged: u64,
    /// The longest delay, which changes the order.
    delay_ns: u64,
    /// A window that is busy now and then.
    busy: u64,
}

/// Packets under way in one direction, by time of arrival.
struct Channel {
    trouble: Trouble,
    under_way: BTreeMap<(u64, u64), Vec<u8>>,
    envelope: Envelope,
    packets: u64,
}

impl Channel {
    fn new(trouble: Trouble) -> Self {
        let [from, to] = ["10.0.0.1:4791", "10.0.0.2:4791"].map(|text| text.parse().expect("an address"));
        Self { trouble, under_way: BTreeMap::new(), envelope: Envelope::v4(from, to), packets: 0 }
    }

    fn send(&mut self, packet: &Packet<'_>, now: u64, random: &mut Random) {
        let mut bytes = vec![0; 2048];
        let length = packet.write(&self.envelope, &mut bytes).expect("it is a packet");
        bytes.truncate(length);
        let Trouble { lost, repeated, damaged, delay_ns, .. } = self.trouble;
        let roll = random.below(1000);
        if roll < lost {
            return;
        }
        for _ in 0..1 + u64::from(roll < lost + repeated) {
            let mut bytes = bytes.clone();
            if roll >= lost + repeated && roll < lost + repeated + damaged {
                // Not the congestion byte, which no CRC covers.
                bytes[random.below(3) as usize] ^= 1 << random.below(8);
            }
            self.packets += 1;
            self.under_way.insert((now + random.below(delay_ns + 1), self.packets), bytes);
        }
    }
}

/// Memory that says "busy" now and then.
struct Window<'a> {
    bytes: &'a mut [u8],
    busy: bool,
}

impl PeerMemory for Window<'_> {
    fn bytes(&self) -> u64 {
        self.bytes.len() as u64
    }

    fn write(&mut self, offset: u64, payload: &[u8]) -> Result<(), Busy> {
        if self.busy { Err(Busy) } else { self.bytes.write(offset, payload) }
    }
}

fn options(first: u32, mtu: PathMtu) -> ConnectionOptions {
    let requester = RequesterOptions {
        destination_qp: PORT.qp,
        first: Psn::new(first),
        mtu,
        window: 16,
        timeout_ns: 20 * MILLISECOND,
        retries: 60,
        messages: 8,
        message_bytes: SLOT as usize,
        ..RequesterOptions::default()
    };
    ConnectionOptions { requester, gathered_bytes: SLOT as usize, not_ready_timer: 12 }
}

/// Requests as WRITEs with immediate, each answered by a SEND of the same bytes, until every answer is there.
fn exchange(seed: u64, trouble: Trouble, first: u32, mtu: PathMtu, messages: usize) -> [Connection; 2] {
    let random = &mut Random(seed);
    let connection = || Connection::new(PORT.queue_pair(), options(first, mtu)).expect("a queue pair");
    let [mut client, mut service] = [connection(), connection()];
    let [mut there, mut back] = [Channel::new(trouble), Channel::new(trouble)];
    let payloads: Vec<Vec<u8>> = (0..messages)
        .map(|index| {
            let length = random.below(u64::from(SLOT) + 1) as usize;
            (0..length).map(|byte| (byte + index * 7) as u8).collect()
        })
        .collect();
    let mut memory = vec![0; (SLOT * PORT.pages) as usize];
    let (mut posted, mut served, mut answers) = (0, 0, Vec::new());
    let mut due: Vec<Vec<u8>> = Vec::new();
    let mut now = 0;
    for _ in 0..2_000_000 {
        while posted < messages && posted < answers.len() + PORT.pages as usize {
            let page = posted as u32 % PORT.pages;
            let immediate = Immediate::new(page, client.requester().last_of_next(payloads[posted].len()));
            let address = u64::from(page * SLOT);
            let operation = MessageOperation::Write { address, key: PORT.key, immediate: Some(immediate.0) };
            match client.post(operation, &payloads[posted]) {
                Ok(()) => posted += 1,
                Err(MessagePostError::Full(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        while let Some(answer) = due.first() {
            match service.post(MessageOperation::Send { immediate: None }, answer) {
                Ok(()) => drop(due.remove(0)),
                Err(MessagePostError::Full(_)) => break,
                Err(error) => panic!("{error}"),
            }
        }
        client.transmit(now, |packet| {
            there.send(packet, now, random);
            true
        });
        service.transmit(now, |packet| {
            back.send(packet, now, random);
            true
        });
        if answers.len() == messages && service.requester().waiting() == 0 {
            break;
        }
        // To the next event.
        let arrivals = [&there, &back].map(|channel| channel.under_way.keys().next().map(|&(at, _)| at));
        let deadlines = [client.deadline_ns(), service.deadline_ns()];
        let next = arrivals.into_iter().chain(deadlines).flatten().min();
        now = next.expect("something is under way, or waited for").max(now);
        while let Some(entry) = there.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let bytes = entry.remove();
            let Some(packet) = intact(&bytes, &there.envelope) else { continue };
            let mut window = Window { bytes: &mut memory, busy: random.below(1000) < trouble.busy };
            if let Ok(Some(PacketEffect::Arrived(arrived))) = service.receive(&packet, &mut window, now) {
                let page = &memory[(arrived.slot * SLOT) as usize..][..arrived.bytes as usize];
                assert_eq!(page, payloads[served], "message {served} of seed {seed}");
                due.push(page.to_vec());
                served += 1;
            }
        }
        while let Some(entry) = back.under_way.first_entry().filter(|entry| entry.key().0 <= now) {
            let bytes = entry.remove();
            let Some(packet) = intact(&bytes, &back.envelope) else { continue };
            match client.receive(&packet, &mut NoMemory, now) {
                Ok(Some(PacketEffect::Message(answer))) => answers.push(answer.to_vec()),
                Ok(Some(PacketEffect::Gathered)) => {
                    answers.push(client.responder().responder().gathered().to_vec());
                }
                _ => (),
            }
        }
    }
    assert_eq!((served, answers.len()), (messages, messages), "seed {seed}: {client:?} {service:?}");
    assert!(answers == payloads, "answers of seed {seed}");
    [client, service]
}

/// The packet in a datagram, if no bit was flipped.
fn intact<'a>(bytes: &'a [u8], envelope: &Envelope) -> Option<Packet<'a>> {
    envelope.check(bytes, IcrcCheck::Zero).ok()?;
    Packet::parse(bytes).ok()
}

const NONE: Trouble = Trouble { lost: 0, repeated: 0, damaged: 0, delay_ns: 0, busy: 0 };

#[test]
fn without_trouble_nothing_is_sent_twice() {
    let [client, service] = exchange(1, NONE, 0xFF_FFF0, PathMtu::B256, 200);
    for side in [&client, &service] {
        let stats = side.requester().stats();
        assert_eq!((stats.posted, stats.completed, stats.flushed), (200, 200, 0));
        assert_eq!((stats.retransmitted, stats.timeouts, stats.nak_sequence), (0, 0, 0));
        assert_eq!(side.responder().responder().stats().refused.total(), 0);
    }
}

#[test]
fn each_trouble_is_counted_under_its_name() {
    let [client, service] = exchange(2, Trouble { lost: 50, ..NONE }, 0, PathMtu::B256, 500);
    assert!(client.requester().stats().retransmitted > 0 && service.responder().stats().nak_sequence > 0);
    assert!(client.requester().stats().timeouts > 0, "a lost end of a burst is found by the time alone");
    assert!(service.responder().responder().stats().refused.of(Reason::WrongPsn) > 0);
    let [_, service] = exchange(3, Trouble { repeated: 100, ..NONE }, 0, PathMtu::B256, 500);
    assert!(service.responder().responder().stats().refused.of(Reason::Duplicate) > 0);
    let [client, service] = exchange(4, Trouble { busy: 100, ..NONE }, 0, PathMtu::B256, 500);
    assert!(client.requester().stats().not_ready > 0 && service.responder().stats().nak_not_ready > 0);
    assert!(service.responder().responder().stats().refused.of(Reason::Busy) > 0);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn each_message_arrives_once_and_in_order(
        seed: u64,
        lost in 0_u64..150,
        repeated in 0_u64..150,
        damaged in 0_u64..50,
        delay_ns in prop_oneof![Just(0_u64), 1_u64..3 * MILLISECOND],
        busy in 0_u64..50,
        first in prop_oneof![Just(0xFF_FFF0_u32), 0_u32..1 << 24],
        mtu in prop_oneof![Just(PathMtu::B256), Just(PathMtu::B512), Just(PathMtu::B1024)],
    ) {
        exchange(seed, Trouble { lost, repeated, damaged, delay_ns, busy }, first, mtu, 100);
    }

    /// Acknowledgements of any number and syndrome, forged or late, complete nothing that was not sent and end in no panic.
    #[test]
    fn forged_acknowledgements_are_survived(acks: Vec<(u32, u8, u32)>, first in 0_u32..1 << 24) {
        let mut client = Connection::new(PORT.queue_pair(), options(first, PathMtu::B256)).expect("a queue pair");
        for (now, (psn, syndrome, message)) in (0..).zip(acks) {
            let _ = client.post(MessageOperation::Send { immediate: None }, &[7; 600]);
            client.transmit(now * MILLISECOND, |_| true);
            let psn = Psn::new(if psn % 2 == 0 { first + psn % 64 } else { psn });
            let packet = Packet::acknowledge(PORT.qp, psn, Aeth { syndrome, message: message & Psn::MASK });
            let _ = client.receive(&packet, &mut NoMemory, now * MILLISECOND);
            let stats = *client.requester().stats();
            prop_assert_eq!(stats.completed + stats.flushed + client.requester().waiting() as u64, stats.posted);
            prop_assert!(stats.completed * 3 <= stats.packets);
        }
    }
}

fn write(key: u32, page: u32) -> MessageOperation {
    MessageOperation::Write { address: u64::from(page * SLOT), key, immediate: Some(page) }
}

/// A pair over a perfect channel, until nothing moves.
fn settle(client: &mut Connection, service: &mut Connection, memory: &mut [u8], now: u64) {
    for _ in 0..100 {
        let mut moved = client.transmit(now, |packet| {
            let _ = service.receive(packet, &mut *memory, now);
            true
        });
        moved += service.transmit(now, |packet| {
            let _ = client.receive(packet, &mut NoMemory, now);
            true
        });
        if moved == 0 {
            return;
        }
    }
    panic!("it never comes to rest");
}

#[test]
fn errors_have_names_and_a_new_connection_works() {
    let connection = || Connection::new(PORT.queue_pair(), options(7, PathMtu::B256)).expect("a queue pair");
    let [mut client, mut service] = [connection(), connection()];
    let mut memory = vec![0; (SLOT * PORT.pages) as usize];
    for (operation, error) in [
        (write(PORT.key ^ 1, 0), ReliableError::RemoteAccess),
        (write(PORT.key, PORT.pages), ReliableError::RemoteAccess),
        (
            MessageOperation::Write { address: 0, key: PORT.key, immediate: Some(3) },
            ReliableError::InvalidRequest,
        ),
    ] {
        client.post(write(PORT.key, 0), b"good").expect("room");
        client.post(operation, b"bad").expect("room");
        client.post(write(PORT.key, 1), b"never").expect("room");
        settle(&mut client, &mut service, &mut memory, 0);
        assert_eq!(client.ended(), Some(error));
        assert_eq!(client.post(write(PORT.key, 0), b""), Err(MessagePostError::Ended(error)));
        client.restart(PORT.qp);
        service.restart(PORT.qp);
    }
    assert_eq!((service.responder().stats().nak_access, service.responder().stats().nak_invalid), (2, 1));
    let refused = service.responder().responder().stats().refused;
    let each = [Reason::WrongKey, Reason::OutOfRange, Reason::WrongSlot].map(|reason| refused.of(reason));
    assert_eq!(each, [1, 1, 1]);
    let stats = client.requester().stats();
    assert_eq!((stats.completed + stats.flushed, stats.posted), (9, 9));
    client.post(write(PORT.key, 0), b"good").expect("room");
    settle(&mut client, &mut service, &mut memory, 0);
    assert_eq!((client.ended(), client.requester().waiting()), (None, 0));
}

/// A peer that says nothing is asked so many times, and no more.
#[test]
fn retries_are_bounded() {
    let mut client = Connection::new(PORT.queue_pair(), options(0, PathMtu::B256)).expect("a queue pair");
    client.post(write(PORT.key, 0), &[1; 600]).expect("room");
    let mut packets = 0;
    let mut now = 0;
    while client.ended().is_none() {
        packets += client.transmit(now, |_| true);
        now = client.deadline_ns().unwrap_or(now);
        assert!(now < 3600 * 1000 * MILLISECOND);
    }
    assert_eq!((packets, client.ended()), (3 * 61, Some(ReliableError::RetriesExceeded)));
    assert_eq!((now, client.requester().stats().flushed), (61 * 20 * MILLISECOND, 1));
}

/// A peer without room is asked again after the time that it says, so many times.
#[test]
fn a_peer_that_is_never_ready_is_given_up() {
    let mut client = Connection::new(PORT.queue_pair(), options(0, PathMtu::B256)).expect("a queue pair");
    client.post(write(PORT.key, 0), b"abc").expect("room");
    let aeth = Aeth { syndrome: AckSyndrome::NotReady { timer: 12 }.code(), message: 0 };
    let (mut now, mut packets) = (0, 0);
    while client.ended().is_none() {
        packets += client.transmit(now, |_| true);
        client
            .receive(&Packet::acknowledge(PORT.qp, Psn::new(0), aeth), &mut NoMemory, now)
            .expect("it is right");
        assert_eq!(client.transmit(now, |_| true), 0, "before the time is over");
        now += rnr_ns(12);
    }
    assert_eq!((packets, client.ended()), (65, Some(ReliableError::NotReadyRetriesExceeded)));
}
