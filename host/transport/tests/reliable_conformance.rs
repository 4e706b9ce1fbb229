//! The reliable RoCE wire passes the suite, with a client whose packets are lost, too.

use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring, RingConfig};
use ringcall_gpu::clock;
use ringcall_roce::introduced::{Introducer, introductions};
use ringcall_roce::reliable::{Connection, ConnectionOptions, RequesterOptions};
use ringcall_roce::rendezvous::Side;
use ringcall_roce::{
    Event, IcrcCheck, Inbox, MAX_OVERHEAD_BYTES, NoMemory, Operation, Outbox, Packet, PathMtu, PortOptions,
    QueuePair, RoceSocket,
};
use ringcall_transport::conformance::{Client, Subject, check, serve};
use ringcall_transport::{Endpoint, Link, RingFilling, TransportError, Unified, roce};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

/// Room for frames that are longer than a slot: those must be refused, not lost.
const PAGE_BYTES: u32 = 1024;

struct Reliable {
    one_thread: bool,
    ip: Ipv4Addr,
    introducer: RefCell<Option<Introducer>>,
    pages: Cell<u32>,
}

impl Reliable {
    /// Each service and its client have addresses of their own: a client takes answers at port 4791.
    fn new(number: u8, one_thread: bool) -> Self {
        let ip = Ipv4Addr::new(127, 45, number, 1);
        Self { one_thread, ip, introducer: RefCell::default(), pages: Cell::default() }
    }
}

impl Subject for Reliable {
    fn start(
        &self,
        ring: &Ring,
        at: Option<&Endpoint>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let address = at.map_or(SocketAddrV4::new(self.ip, 0), v4);
        let pages = ring.geometry().slots();
        let port = PortOptions { address, mtu: PathMtu::B256, ..PortOptions::new(pages, PAGE_BYTES) };
        let (introducer, heard) = introductions();
        self.pages.set(pages);
        *self.introducer.borrow_mut() = Some(introducer);
        let wire = roce::ReliableRoce::bind(&roce::ReliableOptions { port, first_psn: 0xFF_FFF0 })?;
        serve(Link::attach(wire.introduced_by(heard), ring)?, dispatcher, self.one_thread)
    }

    fn client(&self, service: &Endpoint) -> Box<dyn Client> {
        let client = Requests::new(v4(service), self.pages.get(), 0);
        let side = Side { qp: 2, key: 0, ip: *client.socket.local_addr().ip() };
        let introducer = self.introducer.borrow().clone().expect("a service was started");
        assert!(introducer.introduce(side), "the service is there");
        Box::new(client)
    }

    fn takes_one_client(&self) -> bool {
        true
    }

    fn names_slots(&self) -> bool {
        true
    }
}

fn v4(endpoint: &Endpoint) -> SocketAddrV4 {
    match endpoint.address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} is no IPv4 address"),
    }
}

thread_local! {
    static NEXT: Cell<u32> = const { Cell::new(0) };
}

/// A client over a reliable connection: pages in turn, whichever client sends, so that none is taken whose answer is still to come.
#[derive(Debug)]
struct Requests {
    socket: RoceSocket,
    peer: SocketAddrV4,
    connection: Connection,
    pages: u32,
    /// One in so many packets is lost; 0: none.
    lost: u32,
    sent: u32,
    inbox: Inbox,
    outbox: Outbox,
    queue: VecDeque<Vec<u8>>,
}

impl Requests {
    fn new(peer: SocketAddrV4, pages: u32, lost: u32) -> Self {
        let [a, b, c, _] = peer.ip().octets();
        let number = 2;
        let qp =
            QueuePair { number, key: 0, base: 0, slot_bytes: 0, slots: 0, incomplete: Default::default() };
        let requester = RequesterOptions {
            destination_qp: 0x12,
            first: ringcall_roce::Psn::new(0xFF_FFF0),
            mtu: PathMtu::B256,
            message_bytes: PAGE_BYTES as usize,
            ..RequesterOptions::default()
        };
        let options = ConnectionOptions { requester, gathered_bytes: 2048, not_ready_timer: 12 };
        Self {
            socket: RoceSocket::bind(SocketAddrV4::new(Ipv4Addr::new(a, b, c, 2), 4791)).unwrap(),
            peer,
            connection: Connection::new(qp, options).unwrap(),
            pages,
            lost,
            sent: 0,
            inbox: Inbox::new(2048),
            outbox: Outbox::new(256 + MAX_OVERHEAD_BYTES),
            queue: VecDeque::new(),
        }
    }

    fn turn(&mut self) {
        let Self { socket, peer, connection, inbox, outbox, queue, lost, sent, .. } = self;
        socket.receive(inbox).unwrap();
        for (from, datagram) in inbox.iter() {
            socket.envelope_from(from).check(datagram, IcrcCheck::Recover).unwrap();
            let packet = Packet::parse(datagram).unwrap();
            match connection.receive(&packet, &mut NoMemory, clock::now_ns()) {
                Ok(Some(Event::Message(answer))) => queue.push_back(answer.to_vec()),
                Ok(Some(Event::Gathered)) => {
                    queue.push_back(connection.responder().responder().gathered().to_vec());
                }
                _ => (),
            }
        }
        connection.transmit(clock::now_ns(), |packet| {
            *sent += 1;
            if *lost > 0 && sent.is_multiple_of(*lost) {
                return true;
            }
            if outbox.is_full() {
                socket.send(outbox).unwrap();
            }
            outbox.push(socket, *peer, packet).is_ok()
        });
        socket.send(outbox).unwrap();
    }
}

impl Client for Requests {
    fn send(&mut self, frame: &[u8]) {
        let page = NEXT.with(|next| next.replace((next.get() + 1) % self.pages)) % self.pages;
        let immediate = Some(page);
        let operation = Operation::Write { address: u64::from(page * PAGE_BYTES), key: 0xBEEF, immediate };
        while self.connection.post(operation, frame).is_err() {
            assert_eq!(self.connection.ended(), None);
            self.turn();
        }
        self.turn();
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        let mut outbox = Outbox::new(bytes.len());
        outbox.push_bytes(self.peer, bytes).unwrap();
        self.socket.send(&mut outbox).unwrap();
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        let begin = Instant::now();
        while self.queue.is_empty() {
            if begin.elapsed() > timeout {
                return None;
            }
            self.turn();
            if self.queue.is_empty() {
                self.socket.wait(Duration::from_millis(1)).unwrap();
            }
        }
        self.queue.pop_front()
    }
}

#[test]
fn one_thread() {
    check(&Reliable::new(1, true)).unwrap();
}

#[test]
fn threads_of_their_own() {
    check(&Reliable::new(2, false)).unwrap();
}

/// What a connection's end is counted as, and that the next one works.
#[test]
fn a_peer_that_says_nothing_is_given_up_and_the_next_one_is_served() {
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 256 }).unwrap();
    let address = SocketAddrV4::new(Ipv4Addr::new(127, 45, 3, 1), 0);
    let port = PortOptions { address, ..PortOptions::new(4, PAGE_BYTES) };
    let (introducer, heard) = introductions();
    let options = roce::ReliableOptions { port, first_psn: 0xFF_FFF0 };
    let wire = roce::ReliableRoce::bind(&options).unwrap().introduced_by(heard);
    let mut link = Link::attach(wire, &ring).unwrap();
    let table = ringcall::FunctionTable::builder().host_call("rpc_increment", |_: &[u8], _: &mut [u8]| Ok(0));
    let mut dispatcher =
        HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap().into_stepper();
    let service = v4(link.endpoint());
    let header =
        ringcall_wire::header::RequestHeader::new(ringcall_wire::FunctionId::of("rpc_increment").0, 0, 1, 0);
    for round in 0..2 {
        let mut client = Requests::new(service, 4, 0);
        let side = Side { qp: 2, key: 0, ip: *client.socket.local_addr().ip() };
        let telling = introducer.clone();
        let rendezvous = std::thread::spawn(move || telling.introduce(side));
        let begin = Instant::now();
        while !rendezvous.is_finished() {
            link.poll();
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
        assert!(rendezvous.join().unwrap());
        client.send(&header.to_bytes());
        let mut turn = || {
            link.poll();
            dispatcher.step();
            link.publish();
            link.watch().statistics()
        };
        // The first client is not there any more when its answer comes.
        while round == 0 && turn().broken_silent == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
        while round == 1 && client.queue.is_empty() {
            turn();
            client.turn();
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
    }
    let counts = link.watch().statistics();
    assert_eq!((counts.requests, counts.broken_silent, counts.resent), (2, 1, 7), "{counts}");
}

/// One in three of the client's packets is lost, acknowledgements among them: each request is answered once.
#[test]
fn what_is_lost_is_sent_again() {
    let subject = Reliable::new(4, true);
    let ring = subject.ring(8, 256).unwrap();
    let table =
        ringcall::FunctionTable::builder().host_call("rpc_increment", |request: &[u8], out: &mut [u8]| {
            out[..request.len()].copy_from_slice(request);
            Ok(request.len())
        });
    let dispatcher = HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap();
    let service = subject.start(&ring, None, Some(dispatcher)).unwrap();
    let mut client = Requests::new(v4(service.endpoint()), 8, 3);
    let side = Side { qp: 2, key: 0, ip: *client.socket.local_addr().ip() };
    let introducer = subject.introducer.borrow().clone().expect("a service was started");
    assert!(introducer.introduce(side), "the service is there");
    for id in 0..60_u32 {
        let header = ringcall_wire::header::RequestHeader::new(
            ringcall_wire::FunctionId::of("rpc_increment").0,
            4,
            id,
            0,
        );
        client.send(&[&header.to_bytes()[..], &id.to_le_bytes()].concat());
        let answer = client.receive(Duration::from_secs(20)).expect("an answer");
        assert_eq!(answer[24..], id.to_le_bytes());
    }
    let counts = service.stop(Duration::from_secs(5)).statistics;
    assert_eq!((counts.requests, counts.answered, counts.balance()), (60, 60, (0, 0)), "{counts}");
    assert!(client.connection.requester().stats().retransmitted > 0, "{client:?}");
}
