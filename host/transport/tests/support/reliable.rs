//! A client over a reliable connection of software RoCE.
#![allow(dead_code)] // each program uses some of it

use ringcall_gpu::clock;
use ringcall_roce::reliable::{Connection, ConnectionOptions, RequesterOptions};
use ringcall_roce::{
    IcrcCheck, Inbox, LocalQueuePair, MAX_OVERHEAD_BYTES, MessageOperation, NoMemory, Packet, PacketEffect,
    PacketOutbox, PathMtu, Psn, RoceSocket,
};
use ringcall_transport::TransportAddress;
use ringcall_transport::conformance::FrameClient;
use std::cell::Cell;
use std::collections::VecDeque;
use std::net::{SocketAddr, SocketAddrV4};
use std::time::{Duration, Instant};

/// Room for frames that are longer than a slot: those must be refused, not lost.
pub(crate) const PAGE_BYTES: u32 = 1024;
/// Sequence numbers begin here, so that they wrap.
pub(crate) const FIRST_PSN: u32 = 0xFF_FFF0;

thread_local! {
    static NEXT: Cell<u32> = const { Cell::new(0) };
}

/// The next page to use, whichever client asks.
pub(crate) fn next_page(pages: u32) -> u32 {
    NEXT.with(|next| next.replace((next.get() + 1) % pages)) % pages
}

/// A client over a reliable connection: clients use the pages in turn, so none takes a page whose answer is still to come.
#[derive(Debug)]
pub(crate) struct Requests {
    pub(crate) socket: RoceSocket,
    peer: SocketAddrV4,
    pub(crate) connection: Connection,
    key: u32,
    pages: u32,
    /// One in this many packets is lost; 0: none.
    lost: u32,
    sent: u32,
    inbox: Inbox,
    outbox: PacketOutbox,
    pub(crate) queue: VecDeque<Vec<u8>>,
}

/// A service's queue pair and window.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Service {
    pub(crate) address: SocketAddrV4,
    pub(crate) qp: u32,
    pub(crate) key: u32,
    /// Pages that requests use in turn.
    pub(crate) pages: u32,
}

impl Service {
    /// The service as its endpoint describes it, but for the pages.
    pub(crate) fn of(endpoint: &TransportAddress, pages: u32) -> Self {
        let SocketAddr::V4(address) = endpoint.address else { panic!("{endpoint} is no IPv4 address") };
        let number = |key| {
            let (_, value) = endpoint.details.iter().find(|(name, _)| *name == key).unwrap();
            u32::from_str_radix(value.strip_prefix("0x").unwrap(), 16).unwrap()
        };
        Self { address, qp: number("qp"), key: number("rkey"), pages }
    }
}

impl Requests {
    /// A client at a local address.
    pub(crate) fn new(socket: RoceSocket, service: Service, lost: u32) -> Self {
        let Service { address: peer, qp: destination_qp, key, pages } = service;
        let number = 2;
        let qp = LocalQueuePair {
            number,
            key: 0,
            base: 0,
            slot_bytes: 0,
            slots: 0,
            incomplete: Default::default(),
        };
        let requester = RequesterOptions {
            destination_qp,
            first: Psn::new(FIRST_PSN),
            mtu: PathMtu::B256,
            message_bytes: PAGE_BYTES as usize,
            ..RequesterOptions::default()
        };
        let options = ConnectionOptions { requester, gathered_bytes: 2048, not_ready_timer: 12 };
        Self {
            socket,
            peer,
            connection: Connection::new(qp, options).unwrap(),
            key,
            pages,
            lost,
            sent: 0,
            inbox: Inbox::new(2048),
            outbox: PacketOutbox::new(256 + MAX_OVERHEAD_BYTES),
            queue: VecDeque::new(),
        }
    }

    pub(crate) fn turn(&mut self) {
        let Self { socket, peer, connection, inbox, outbox, queue, lost, sent, .. } = self;
        socket.receive(inbox).unwrap();
        for (from, datagram) in inbox.iter() {
            socket.envelope_from(from).check(datagram, IcrcCheck::Recover).unwrap();
            let packet = Packet::parse(datagram).unwrap();
            match connection.receive(&packet, &mut NoMemory, clock::now_ns()) {
                Ok(Some(PacketEffect::Message(answer))) => queue.push_back(answer.to_vec()),
                Ok(Some(PacketEffect::Gathered)) => {
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

impl FrameClient for Requests {
    fn send(&mut self, frame: &[u8]) {
        let page = next_page(self.pages);
        let immediate = Some(page);
        let operation =
            MessageOperation::Write { address: u64::from(page * PAGE_BYTES), key: self.key, immediate };
        while self.connection.post(operation, frame).is_err() {
            assert_eq!(self.connection.ended(), None);
            self.turn();
        }
        self.turn();
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        let mut outbox = PacketOutbox::new(bytes.len());
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
