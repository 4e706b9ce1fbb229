//! The conformance suite over RDMA verbs, for a machine with an RDMA device: `cargo xtask rdma` runs it in a virtual
//! one.
//!
//! `verbs_suite DEVICE uc|rc adapter|NAMESPACE`: the service uses the device. Its client uses it, too, or is software
//! RoCE in the network namespace of that name, at address 10.0.0.1.

#![allow(clippy::print_stdout, clippy::print_stderr)] // what it is for

#[path = "../tests/support/reliable.rs"]
mod client;

use client::{FIRST_PSN, PAGE_BYTES, Requests, Service, next_page};
use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring};
use ringcall_rdma::verbs::{SendError, SendOperation, WorkCompletion};
use ringcall_roce::RoceSocket;
use ringcall_roce::introduced::{Introducer, introductions};
use ringcall_roce::rendezvous::ConnectionSide;
use ringcall_transport::conformance::{CASES, FrameClient, Subject, serve};
use ringcall_transport::verbs::{PairOptions, RemoteQueuePair, Verbs, VerbsOptions, VerbsQueuePair};
use ringcall_transport::{Link, RingFilling, TransportAddress, TransportError};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::net::Ipv4Addr;
use std::os::fd::AsFd;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// More than the requests in flight in any case, since each needs a posted receive.
const RECEIVES: u32 = 64;

struct Adapter {
    device: String,
    reliable: bool,
    /// The network namespace of a software client.
    namespace: Option<String>,
    introducer: RefCell<Option<Introducer>>,
    pages: Cell<u32>,
}

impl Adapter {
    fn pair(&self) -> PairOptions {
        let (device, reliable) = (self.device.clone(), self.reliable);
        let (slots, slot_bytes) = (RECEIVES, PAGE_BYTES);
        PairOptions { device, ip: None, reliable, slots, slot_bytes, mtu: 256, first_psn: FIRST_PSN }
    }

    fn introduce(&self, side: ConnectionSide) {
        let introducer = self.introducer.borrow().clone().expect("a service was started");
        // The kernel may first have to resolve the client's address, which takes longer than a rendezvous waits.
        let met = (0..20).any(|_| introducer.introduce(side));
        assert!(met, "the service is there");
    }
}

impl Subject for Adapter {
    fn start(
        &self,
        ring: &Ring,
        _: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError> {
        let (introducer, heard) = introductions();
        self.pages.set(ring.geometry().slots());
        *self.introducer.borrow_mut() = Some(introducer);
        let wire = Verbs::open(VerbsOptions { pair: self.pair(), peer: None })?.introduced_by(heard);
        serve(Link::attach(wire, ring)?, dispatcher, true)
    }

    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient> {
        let service = Service::of(service, self.pages.get());
        let Some(namespace) = &self.namespace else {
            let mut pair = VerbsQueuePair::open(self.pair()).expect("a device");
            self.introduce(ConnectionSide { qp: pair.number(), key: 0, ip: pair.ip() });
            pair.connect(RemoteQueuePair { qp: service.qp, ip: *service.address.ip() }).expect("connected");
            return Box::new(ByAdapter { pair, service });
        };
        // A socket stays in the namespace of the thread that made it.
        let path = format!("/run/netns/{namespace}");
        let socket = std::thread::spawn(move || {
            let namespace = File::open(path).expect("a namespace");
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).expect("allowed");
            RoceSocket::bind("10.0.0.1:4791".parse().expect("an address")).expect("a socket")
        });
        let client = Requests::new(socket.join().expect("it ran"), service, 0);
        self.introduce(ConnectionSide { qp: 2, key: 0, ip: Ipv4Addr::new(10, 0, 0, 1) });
        Box::new(client)
    }

    fn takes_one_client(&self) -> bool {
        true
    }

    fn overwrites_pages(&self) -> bool {
        true
    }

    fn names_slots(&self) -> bool {
        true
    }
}

/// A client over a queue pair of the adapter.
struct ByAdapter {
    pair: VerbsQueuePair,
    service: Service,
}

impl FrameClient for ByAdapter {
    fn send(&mut self, frame: &[u8]) {
        let page = next_page(self.service.pages);
        let address = u64::from(page * PAGE_BYTES);
        let operation = SendOperation::WriteImmediate { address, key: self.service.key, immediate: page };
        let begin = Instant::now();
        while let Err(error) = self.pair.send(operation, frame) {
            assert!(error == SendError::Full && begin.elapsed() < Duration::from_secs(20), "{error}");
            // Answers stay in the completion queue.
            std::thread::yield_now();
        }
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        // An adapter sends nothing but messages.
        self.send(bytes);
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        let begin = Instant::now();
        loop {
            match self.pair.poll().expect("a connection") {
                Some(WorkCompletion::Received { slot, bytes }) => {
                    let mut answer = vec![0; bytes as usize];
                    self.pair.read(slot, &mut answer);
                    self.pair.release(slot).expect("posted");
                    return Some(answer);
                }
                Some(other) => panic!("{other:?}"),
                None if begin.elapsed() > timeout => return None,
                None => std::thread::yield_now(),
            }
        }
    }
}

fn main() -> ExitCode {
    let mut args = std::env::args().skip(1);
    let (Some(device), Some(service), Some(client)) = (args.next(), args.next(), args.next()) else {
        eprintln!("verbs_suite DEVICE uc|rc adapter|NAMESPACE");
        return ExitCode::from(2);
    };
    let namespace = Some(client).filter(|client| client != "adapter");
    let reliable = service == "rc";
    let (introducer, pages) = (RefCell::default(), Cell::default());
    let subject = Adapter { device, reliable, namespace, introducer, pages };
    let mut failed = 0;
    for case in CASES {
        if let Err(why) = (case.run)(&subject) {
            println!("{}: {why}", case.name);
            failed += 1;
        }
    }
    println!("suite passed {} failed {failed}", CASES.len() - failed);
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
