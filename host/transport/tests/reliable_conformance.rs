//! The reliable RoCE wire passes the suite, also with a client whose packets are lost.

#[path = "support/reliable.rs"]
mod client;

use client::{FIRST_PSN, PAGE_BYTES, Requests, Service};
use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring, RingConfig};
use ringcall_roce::introduced::{Introducer, introductions};
use ringcall_roce::rendezvous::ConnectionSide;
use ringcall_roce::{PathMtu, PortOptions, RoceSocket};
use ringcall_transport::conformance::{FrameClient, Subject, check, serve};
use ringcall_transport::{Link, RingFilling, TransportAddress, TransportError, UnifiedTransport, roce};
use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

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
        at: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let address = at.map_or(SocketAddrV4::new(self.ip, 0), v4);
        let pages = ring.geometry().slots();
        let port = PortOptions { address, mtu: PathMtu::B256, ..PortOptions::new(pages, PAGE_BYTES) };
        let (introducer, heard) = introductions();
        self.pages.set(pages);
        *self.introducer.borrow_mut() = Some(introducer);
        let wire = roce::ReliableRoce::bind(&roce::ReliableOptions { port, first_psn: FIRST_PSN })?;
        serve(Link::attach(wire.introduced_by(heard), ring)?, dispatcher, self.one_thread)
    }

    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient> {
        let client = requests(service, self.pages.get(), 0);
        let side = ConnectionSide { qp: 2, key: 0, ip: *client.socket.local_addr().ip() };
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

/// A client at another address of the service's network.
fn requests(service: &TransportAddress, pages: u32, lost: u32) -> Requests {
    let [a, b, c, _] = v4(service).ip().octets();
    let socket = RoceSocket::bind(SocketAddrV4::new(Ipv4Addr::new(a, b, c, 2), 4791)).unwrap();
    Requests::new(socket, Service::of(service, pages), lost)
}

fn v4(endpoint: &TransportAddress) -> SocketAddrV4 {
    match endpoint.address {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address} is no IPv4 address"),
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

/// The counters of a connection's end; the next connection works.
#[test]
fn a_peer_that_says_nothing_is_given_up_and_the_next_one_is_served() {
    let ring = Ring::allocate(RingConfig { slots: 4, slot_bytes: 256 }).unwrap();
    let address = SocketAddrV4::new(Ipv4Addr::new(127, 45, 3, 1), 0);
    let port = PortOptions { address, ..PortOptions::new(4, PAGE_BYTES) };
    let (introducer, heard) = introductions();
    let options = roce::ReliableOptions { port, first_psn: FIRST_PSN };
    let wire = roce::ReliableRoce::bind(&options).unwrap().introduced_by(heard);
    let mut link = Link::attach(wire, &ring).unwrap();
    let table = ringcall::FunctionTable::builder().host_call("rpc_increment", |_: &[u8], _: &mut [u8]| Ok(0));
    let mut dispatcher =
        HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap().into_stepper();
    let service = link.endpoint().clone();
    let header =
        ringcall_wire::header::RequestHeader::new(ringcall_wire::FunctionId::of("rpc_increment").0, 0, 1, 0);
    for round in 0..2 {
        let mut client = requests(&service, 4, 0);
        let side = ConnectionSide { qp: 2, key: 0, ip: *client.socket.local_addr().ip() };
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
            link.watch().stats()
        };
        // The first client is gone when its answer comes.
        while round == 0 && turn().broken_silent == 0 {
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
        while round == 1 && client.queue.is_empty() {
            turn();
            client.turn();
            assert!(begin.elapsed() < Duration::from_secs(20));
        }
    }
    let counts = link.watch().stats();
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
    let mut client = requests(service.endpoint(), 8, 3);
    let side = ConnectionSide { qp: 2, key: 0, ip: *client.socket.local_addr().ip() };
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
    let counts = service.stop(Duration::from_secs(5)).stats;
    assert_eq!((counts.requests, counts.answered, counts.balance()), (60, 60, (0, 0)), "{counts}");
    assert!(client.connection.requester().stats().retransmitted > 0, "{client:?}");
}
