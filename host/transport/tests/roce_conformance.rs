//! RoCE passes the suite. Other tests here are about sequence numbers and pages, which only this wire has.

use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring, RingConfig};
use ringcall_roce::{
    IcrcCheck, Immediate, Inbox, Incomplete, LocalQueuePair, MAX_OVERHEAD_BYTES, NoMemory, Packet,
    PacketEffect, PacketOutbox, PathMtu, PortOptions, Psn, Responder, Reth, RoceSocket,
};
use ringcall_transport::conformance::{FrameClient, Subject, check, serve};
use ringcall_transport::{
    Link, RingFilling, TransportAddress, TransportError, TransportStats, UnifiedTransport, roce,
};
use ringcall_wire::FunctionId;
use ringcall_wire::header::RequestHeader;
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

const ANY: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::LOCALHOST, 0);
/// Room for frames that are longer than a slot: those must be refused, not lost.
const PAGE_BYTES: u32 = 1024;

struct Roce {
    one_thread: bool,
    /// Payload bytes of a request's packet.
    packet_bytes: usize,
    /// Payload bytes of an answer's packet.
    mtu: PathMtu,
}

fn options(ring: &Ring) -> roce::RoceOptions {
    roce::RoceOptions { port: PortOptions::new(ring.geometry().slots(), PAGE_BYTES), ..Default::default() }
}

impl Subject for Roce {
    fn start(
        &self,
        ring: &Ring,
        at: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let address = at.map_or(ANY, v4);
        let mut options = options(ring);
        options.port.address = address;
        options.port.mtu = self.mtu;
        let link = Link::attach(roce::Roce::bind(&options)?, ring)?;
        serve(link, dispatcher, self.one_thread)
    }

    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient> {
        Box::new(Bridge::new(service, self.packet_bytes))
    }

    fn names_slots(&self) -> bool {
        true
    }
}

fn v4(endpoint: &TransportAddress) -> SocketAddrV4 {
    match endpoint.address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} is no IPv4 address"),
    }
}

fn detail(endpoint: &TransportAddress, key: &str) -> u32 {
    let (_, value) = endpoint.details.iter().find(|(name, _)| *name == key).unwrap();
    match value.strip_prefix("0x") {
        Some(hex) => u32::from_str_radix(hex, 16).unwrap(),
        None => value.parse().unwrap(),
    }
}

/// A sensor bridge's data plane: it uses the pages in turn, whichever client sends, so no client takes a page whose answer is
/// still to come.
struct Bridge {
    socket: RoceSocket,
    peer: SocketAddrV4,
    qp: u32,
    key: u32,
    pages: u32,
    psn: Psn,
    packet_bytes: usize,
    page_bytes: u32,
    answers: Responder,
    inbox: Inbox,
    queue: VecDeque<Vec<u8>>,
}

thread_local! {
    static NEXT: Cell<u32> = const { Cell::new(0) };
}

impl Bridge {
    fn new(service: &TransportAddress, packet_bytes: usize) -> Self {
        let qp = LocalQueuePair {
            number: 2,
            key: 0,
            base: 0,
            slot_bytes: 0,
            slots: 0,
            incomplete: Incomplete::Discard,
        };
        Self {
            socket: RoceSocket::bind(ANY).unwrap(),
            peer: v4(service),
            qp: detail(service, "qp"),
            key: detail(service, "rkey"),
            pages: detail(service, "pages"),
            psn: Psn::new(0xFF_FFF0),
            packet_bytes,
            page_bytes: PAGE_BYTES,
            answers: Responder::new(qp).unwrap().gathering(2048),
            inbox: Inbox::new(2048),
            queue: VecDeque::new(),
        }
    }

    /// The packets of a frame for a page.
    fn packets(&mut self, page: u32, frame: &[u8]) -> Vec<Vec<u8>> {
        let mut address = u64::from(page * self.page_bytes);
        let count = frame.len().div_ceil(self.packet_bytes).max(1);
        let mut packets = Vec::new();
        for index in 0..count {
            let begin = index * self.packet_bytes;
            let part = &frame[begin..frame.len().min(begin + self.packet_bytes)];
            let reth = Reth { address, key: self.key, length: part.len() as u32 };
            let packet = if index + 1 < count {
                Packet::write_only(self.qp, self.psn, reth, part)
            } else {
                Packet::write_immediate(self.qp, self.psn, reth, Immediate::new(page, self.psn), part)
            };
            let mut bytes = vec![0; part.len() + MAX_OVERHEAD_BYTES];
            let length = packet.write(&self.socket.envelope_to(self.peer), &mut bytes).unwrap();
            bytes.truncate(length);
            packets.push(bytes);
            self.psn = self.psn.next();
            address += part.len() as u64;
        }
        packets
    }
}

impl FrameClient for Bridge {
    fn send(&mut self, frame: &[u8]) {
        let page = NEXT.with(|next| next.replace((next.get() + 1) % self.pages)) % self.pages;
        for packet in self.packets(page, frame) {
            self.send_raw(&packet);
        }
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        let mut outbox = PacketOutbox::new(bytes.len());
        outbox.push_bytes(self.peer, bytes).unwrap();
        assert_eq!(self.socket.send(&mut outbox).unwrap(), 1);
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        let deadline = Instant::now() + timeout;
        while self.queue.is_empty() {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            self.socket.wait(left).unwrap();
            self.socket.receive(&mut self.inbox).unwrap();
            for (from, datagram) in self.inbox.iter() {
                let envelope = self.socket.envelope_from(from);
                match self.answers.receive_datagram(datagram, &envelope, IcrcCheck::Recover, &mut NoMemory) {
                    Ok(PacketEffect::Message(answer)) => self.queue.push_back(answer.to_vec()),
                    Ok(PacketEffect::Gathered) => self.queue.push_back(self.answers.gathered().to_vec()),
                    Ok(PacketEffect::Written) => (),
                    other => panic!("{other:?}"),
                }
            }
        }
        self.queue.pop_front()
    }
}

#[test]
fn threads_of_their_own() {
    check(&Roce { one_thread: false, packet_bytes: 1024, mtu: PathMtu::B1024 }).unwrap();
}

#[test]
fn one_thread() {
    check(&Roce { one_thread: true, packet_bytes: 1024, mtu: PathMtu::B1024 }).unwrap();
}

#[test]
fn frames_in_pieces() {
    check(&Roce { one_thread: true, packet_bytes: 20, mtu: PathMtu::B1024 }).unwrap();
}

/// The suite's longest answers need several packets.
#[test]
fn answers_in_several_packets() {
    check(&Roce { one_thread: true, packet_bytes: 1024, mtu: PathMtu::B256 }).unwrap();
}

/// The socket takes only some packets of an answer at once: each answer arrives whole, and once.
#[test]
fn answers_longer_than_the_send_buffer_arrive_whole() {
    const SLOTS: u32 = 32;
    let ring = Ring::allocate(RingConfig { slots: SLOTS, slot_bytes: 16 * 1024 }).unwrap();
    let mut port = PortOptions::new(SLOTS, 16 * 1024);
    port.mtu = PathMtu::B256;
    let options = roce::RoceOptions { port, ..Default::default() };
    let mut link = Link::attach(roce::Roce::bind(&options).unwrap(), &ring).unwrap();
    let table =
        ringcall::FunctionTable::builder().host_call("rpc_increment", |request: &[u8], out: &mut [u8]| {
            out[..request.len()].copy_from_slice(request);
            Ok(request.len())
        });
    let mut dispatcher =
        HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap().into_stepper();
    let mut bridge = Bridge { page_bytes: 16 * 1024, ..Bridge::new(link.endpoint(), 1024) };
    bridge.answers = bridge.answers.gathering(16 * 1024);
    for round in 0..8_u8 {
        for page in 0..SLOTS {
            let payload = vec![round ^ page as u8; 15_000 + page as usize];
            for packet in bridge.packets(page, &request(page, &payload)) {
                bridge.send_raw(&packet);
            }
            link.poll();
        }
        let (begin, mut answers) = (Instant::now(), Vec::new());
        while answers.len() < SLOTS as usize {
            assert!(begin.elapsed() < Duration::from_secs(20), "{}", link.watch().stats());
            link.poll();
            dispatcher.step();
            link.publish();
            answers.extend(bridge.receive(Duration::from_micros(1)));
        }
        answers.sort_by_key(Vec::len);
        for (page, answer) in answers.iter().enumerate() {
            assert_eq!(answer[24..], vec![round ^ page as u8; 15_000 + page]);
        }
    }
    assert_eq!(bridge.answers.stats().lost_packets(), 0);
}

fn request(id: u32, payload: &[u8]) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of("rpc_increment").0, payload.len() as u32, id, 0);
    [&header.to_bytes()[..], payload].concat()
}

/// A link without a dispatcher, in this thread.
fn link(change: impl FnOnce(&mut roce::RoceOptions)) -> (Ring, Link<roce::Roce>) {
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 256 }).unwrap();
    let mut options = options(&ring);
    change(&mut options);
    let link = Link::attach(roce::Roce::bind(&options).unwrap(), &ring).unwrap();
    (ring, link)
}

fn until(link: &mut Link<roce::Roce>, received: u64, lost: u64) -> TransportStats {
    let begin = Instant::now();
    loop {
        link.poll();
        let counts = link.watch().stats();
        if (counts.received, counts.lost) == (received, lost) {
            return counts;
        }
        assert!(begin.elapsed() < Duration::from_secs(20), "{counts}");
    }
}

#[test]
fn lost_and_repeated_packets_are_counted_and_no_half_frame_is_served() {
    let (_ring, mut link) = link(|_| ());
    let mut bridge = Bridge::new(link.endpoint(), 20);
    let first = bridge.packets(0, &request(1, &[1; 50]));
    let second = bridge.packets(1, &request(2, &[2; 50]));
    let third = bridge.packets(2, &request(3, &[3; 50]));
    assert_eq!((first.len(), second.len(), third.len()), (4, 4, 4));
    first.iter().for_each(|packet| bridge.send_raw(packet));
    // The second frame lacks a packet in its middle, and the first frame's end comes again.
    [&second[0], &second[2], &second[3], &first[3]].into_iter().for_each(|packet| bridge.send_raw(packet));
    third.iter().for_each(|packet| bridge.send_raw(packet));
    let counts = until(&mut link, 3, 1);
    assert_eq!((counts.requests, counts.repeated, counts.malformed), (2, 1, 0), "{counts}");
    // The missing packet comes: the frame is whole.
    bridge.send_raw(&second[1]);
    assert_eq!(until(&mut link, 4, 1).requests, 3);
}

#[test]
fn a_slot_in_use_and_a_page_without_slot_are_refused() {
    let (_ring, mut link) = link(|options| options.port.pages = 5);
    let mut bridge = Bridge::new(link.endpoint(), 1024);
    for page in [0, 0, 4] {
        for packet in bridge.packets(page, &request(page, b"abc")) {
            bridge.send_raw(&packet);
        }
    }
    let counts = until(&mut link, 3, 0);
    assert_eq!((counts.requests, counts.slot_taken, counts.bad_slot), (1, 1, 1), "{counts}");
}

#[test]
fn what_is_not_for_this_queue_pair_is_counted() {
    let (_ring, mut link) = link(|_| ());
    let mut bridge = Bridge::new(link.endpoint(), 1024);
    let right = bridge.key;
    bridge.key = right ^ 1;
    let wrong_key = bridge.packets(0, &request(1, &[])).remove(0);
    bridge.key = right;
    bridge.qp ^= 1;
    let wrong_qp = bridge.packets(0, &request(1, &[])).remove(0);
    bridge.qp ^= 1;
    let mut damaged = bridge.packets(0, &request(1, &[])).remove(0);
    damaged[40] ^= 4;
    let good = bridge.packets(0, &request(1, &[])).remove(0);
    for packet in [&wrong_key, &wrong_qp, &damaged, &good] {
        bridge.send_raw(packet);
    }
    let counts = until(&mut link, 4, 0);
    let refused = (counts.wrong_icrc, counts.wrong_key, counts.malformed);
    assert_eq!((counts.requests, refused), (1, (1, 1, 1)), "{counts}");
}

#[test]
fn the_peer_that_is_configured_is_the_only_one_and_gets_the_answers() {
    let listener = RoceSocket::bind(ANY).unwrap();
    let (_ring, mut link) = link(|options| options.port.peer = Some(listener.local_addr()));
    let mut bridge = Bridge::new(link.endpoint(), 1024);
    // The frame is shorter than its header says: an answer refuses it at once.
    let mut frame = request(9, b"abc");
    frame.truncate(25);
    FrameClient::send(&mut bridge, &frame);
    assert_eq!(until(&mut link, 1, 0).truncated, 1);
    link.stop(Duration::ZERO, &mut || ());
    let mut inbox = Inbox::new(2048);
    assert!(listener.wait(Duration::from_secs(20)).unwrap());
    assert_eq!(listener.receive(&mut inbox).unwrap(), 1);
    assert!(bridge.receive(Duration::ZERO).is_none());

    let elsewhere = SocketAddrV4::new(Ipv4Addr::new(127, 0, 0, 9), 4791);
    let (_ring, mut other) = self::link(|options| options.port.peer = Some(elsewhere));
    let mut bridge = Bridge::new(other.endpoint(), 1024);
    FrameClient::send(&mut bridge, &request(9, b"abc"));
    assert_eq!(until(&mut other, 1, 0).forbidden, 1);
}

#[test]
fn options_that_cannot_work_are_refused() {
    let wrong = |change: fn(&mut roce::RoceOptions)| {
        let mut options = roce::RoceOptions::default();
        change(&mut options);
        roce::Roce::bind(&options).unwrap_err().to_string()
    };
    assert_eq!(wrong(|o| o.port.pages = 4097), "the number of pages is 4097: give 1 to 4096");
    assert_eq!(wrong(|o| o.port.page_bytes = 100), "the page size is 100: give a multiple of 128 bytes");
    assert_eq!(wrong(|o| o.port.qp = 1 << 24), "queue pair number 0x1000000 does not fit in 24 bits");
    assert!(wrong(|o| o.port.base = u64::MAX).contains("wraps around"));
    assert!(
        wrong(|o| o.port.address = SocketAddrV4::new(Ipv4Addr::UNSPECIFIED, 0)).contains("not one address")
    );
    assert!(wrong(|o| o.peers = 0).contains("at least 1"));
    assert!(wrong(|o| o.port.remote_qp = u32::MAX).contains("24 bits"));
}

#[test]
fn a_newcomer_replaces_whoever_was_silent_longest() {
    let (_ring, mut link) = link(|options| options.peers = 1);
    let mut first = Bridge::new(link.endpoint(), 1024);
    let mut second = Bridge::new(link.endpoint(), 1024);
    for (bridge, page) in [(&mut first, 0), (&mut second, 1)] {
        for packet in bridge.packets(page, &request(page, b"abc")) {
            bridge.send_raw(&packet);
        }
        until(&mut link, u64::from(page) + 1, 0);
    }
    let report = link.stop(Duration::ZERO, &mut || ());
    assert_eq!((report.dropped, report.stats.balance()), (2, (0, 0)));
    // The wire has forgotten one of the two peers: it cannot send that answer, and counts an error.
    assert_eq!(report.stats.errors, 1, "{}", report.stats);
    assert!(second.receive(Duration::from_secs(20)).is_some());
    assert!(first.receive(Duration::ZERO).is_none());
}

/// Frames of several packets are lost, and counted, if more peers send than the wire knows; as many peers as it knows lose none.
#[test]
fn frames_of_more_peers_than_are_known_are_counted() {
    for (peers, whole) in [(3, 0), (4, 4)] {
        let (_ring, mut link) = link(|options| options.peers = peers);
        let mut bridges: Vec<_> = (0..4).map(|_| Bridge::new(link.endpoint(), 20)).collect();
        let packets: Vec<_> = (0..)
            .zip(&mut bridges)
            .map(|(page, bridge)| bridge.packets(page, &request(page, &[7; 50])))
            .collect();
        let count = packets[0].len();
        assert!(count > 1);
        for part in 0..count {
            for (bridge, packets) in bridges.iter_mut().zip(&packets) {
                bridge.send_raw(&packets[part]);
            }
        }
        let begin = std::time::Instant::now();
        let counted = |link: &Link<roce::Roce>| {
            let counts = link.watch().stats();
            (counts.requests, counts.incomplete > 0, counts.evicted > 0)
        };
        while counted(&link) != (whole, whole == 0, whole == 0) {
            link.poll();
            assert!(begin.elapsed() < Duration::from_secs(20), "{peers}: {}", link.watch().stats());
        }
    }
}

#[test]
fn nothing_is_allocated_between_start_and_stop() {
    let (ring, mut link) = link(|_| ());
    let table = ringcall::FunctionTable::builder().host_call("rpc_increment", |_: &[u8], _: &mut [u8]| Ok(0));
    let mut dispatcher =
        HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap().into_stepper();
    let mut bridge = Bridge::new(link.endpoint(), 20);
    let mut turns = |link: &mut Link<roce::Roce>| {
        for _ in 0..10_000 {
            link.poll();
            dispatcher.step();
            link.publish();
        }
    };
    // A thread allocates its own tables at its first packets.
    FrameClient::send(&mut bridge, &request(0, &[7; 50]));
    turns(&mut link);
    for id in 1..4 {
        FrameClient::send(&mut bridge, &request(id, &[7; 50]));
    }
    let info = allocation_counter::measure(|| turns(&mut link));
    assert_eq!(info.count_total, 0, "{info:?}");
    assert_eq!(link.watch().stats().answered, 4);
}
