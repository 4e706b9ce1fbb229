//! A peer of the reliable service on a bad network: lost packets are sent again, unless a connection ends.

use crate::calls::{Call, Runs};
use crate::network::{Datagram, Network, Reading, Weather};
use crate::random::Random;
use crate::service::{self, Books, Service};
use crate::{Summary, Violation};
use ringcall_gpu::clock;
use ringcall_roce::introduced::Introducer;
use ringcall_roce::opcode;
use ringcall_roce::reliable::{Connection, ConnectionOptions, RequesterOptions};
use ringcall_roce::rendezvous::ConnectionSide;
use ringcall_roce::{
    Envelope, IcrcCheck, Immediate, LocalQueuePair, MAX_OVERHEAD_BYTES, Message, MessageOperation, NoMemory,
    Packet, PacketEffect, PathMtu, PortOptions, Psn,
};
use ringcall_transport::roce::ReliableOptions;
use ringcall_wire::{HEADER_BYTES, RequestHeader, ResponseHeader, Status};
use std::collections::BTreeMap;
use std::error::Error;
use std::net::{Ipv4Addr, SocketAddrV4};

const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4791);
/// A rendezvous names no port, so this one is everybody's.
const CLIENT: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, 1), 4791);
const STRANGER: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, 1), 4791);
const REQUESTS: u32 = 60;
/// Longer than a requester tries: an answer that has not come by then comes on this connection no more.
const DEADLINE_NS: u64 = 3_000_000_000;
/// Before a new connection begins: nothing of the last one is under way any more.
const SLEEP_NS: u64 = 1_000_000;
/// The most turns of a world.
const TURNS: u32 = 2_000_000;

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    Refused,
    /// With its connection.
    Lost,
}

#[derive(Debug)]
struct Sent {
    call: Call,
    page: u32,
    at: u64,
    end: Option<End>,
}

/// A correct peer: both halves of its connection ship.
struct Client {
    network: Network,
    port: PortOptions,
    first: Psn,
    introducer: Introducer,
    connection: Connection,
    /// Connections before this one.
    generation: u32,
    /// Until then it rests between two connections.
    rests: Option<u64>,
    calls: BTreeMap<u32, Sent>,
    open: u32,
    next_id: u32,
    left: u32,
    not_before: u64,
    gap_ns: u64,
    answers: u64,
}

impl Client {
    fn connection(port: &PortOptions, first: Psn, number: u32) -> Result<Connection, Box<dyn Error>> {
        let qp = LocalQueuePair {
            number,
            key: 0,
            base: 0,
            slot_bytes: 0,
            slots: 0,
            incomplete: Default::default(),
        };
        let requester = RequesterOptions {
            destination_qp: port.qp,
            first,
            mtu: port.mtu,
            messages: 2 * port.pages as usize,
            message_bytes: port.page_bytes as usize,
            ..RequesterOptions::default()
        };
        let gathered_bytes = HEADER_BYTES + port.page_bytes as usize;
        Ok(Connection::new(qp, ConnectionOptions { requester, gathered_bytes, not_ready_timer: 12 })?)
    }

    /// Its queue pair's number is another one for each connection.
    const fn number(&self) -> u32 {
        2 + self.generation
    }

    fn introduce(&mut self) -> Result<(), Violation> {
        let made = Self::connection(&self.port, self.first, self.number());
        self.connection = made.map_err(|error| Violation::Setup(error.to_string()))?;
        let side = ConnectionSide { qp: self.number(), key: 0, ip: *CLIENT.ip() };
        if self.introducer.tell(side) { Ok(()) } else { Err(Violation::Setup("no service".to_owned())) }
    }

    fn is_done(&self) -> bool {
        self.left == 0 && self.open == 0 && self.rests.is_none() && self.connection.requester().waiting() == 0
    }

    fn turn(&mut self, random: &mut Random, now: u64) -> Result<(), Violation> {
        if let Some(until) = self.rests {
            while let Some(datagram) = self.network.take(CLIENT) {
                self.network.recycle(datagram);
            }
            if now < until {
                return Ok(());
            }
            self.rests = None;
            self.introduce()?;
        }
        while let Some(datagram) = self.network.take(CLIENT) {
            self.receive(&datagram, now)?;
            self.network.recycle(datagram);
        }
        let mut overdue = self.calls.values().filter(|sent| sent.end.is_none());
        if self.connection.ended().is_some() || overdue.any(|sent| now - sent.at > DEADLINE_NS) {
            self.lose(now);
            return Ok(());
        }
        if self.left > 0 && now >= self.not_before {
            self.send(random, now);
        }
        self.transmit(now);
        Ok(())
    }

    /// The connection is over: its requests are lost, and the next one begins soon.
    fn lose(&mut self, now: u64) {
        for sent in self.calls.values_mut().filter(|sent| sent.end.is_none()) {
            sent.end = Some(End::Lost);
        }
        self.open = 0;
        self.generation += 1;
        self.rests = Some(now + SLEEP_NS);
    }

    fn send(&mut self, random: &mut Random, now: u64) {
        let taken = |page| self.calls.values().any(|sent| sent.end.is_none() && sent.page == page);
        let begin = random.below(self.port.pages.into()) as u32;
        let mut pages = (0..self.port.pages).map(|step| (begin + step) % self.port.pages);
        let Some(page) = pages.find(|&page| !taken(page)) else { return };
        let id = self.next_id;
        let capacity = self.port.page_bytes as usize - HEADER_BYTES;
        let call = Call::new(random, (0, id), capacity, true, now);
        let frame = call.frame();
        let address = self.port.base + u64::from(page) * u64::from(self.port.page_bytes);
        let last = self.connection.requester().last_of_next(frame.len());
        let immediate = Some(Immediate::new(page, last).0);
        let operation = MessageOperation::Write { address, key: self.port.key, immediate };
        if self.connection.post(operation, &frame).is_err() {
            return;
        }
        self.calls.insert(id, Sent { call, page, at: now, end: None });
        self.open += 1;
        self.next_id = id.wrapping_add(1);
        self.left -= 1;
        self.not_before = now + random.below(self.gap_ns);
    }

    fn transmit(&mut self, now: u64) {
        let Self { network, connection, .. } = self;
        connection.transmit(now, |packet| {
            network.send(datagram(network, CLIENT, packet), now);
            true
        });
    }

    fn receive(&mut self, datagram: &Datagram, now: u64) -> Result<(), Violation> {
        let envelope = Envelope::v4(datagram.from, CLIENT);
        if envelope.check(&datagram.bytes, IcrcCheck::Zero).is_err() {
            return Ok(());
        }
        let Ok(packet) = Packet::parse(&datagram.bytes) else {
            return Err(Violation::Answer(0, "a packet with the right iCRC is none".to_owned()));
        };
        let answer = match self.connection.receive(&packet, &mut NoMemory, now) {
            Ok(Some(PacketEffect::Message(answer))) => answer.to_vec(),
            Ok(Some(PacketEffect::Gathered)) => self.connection.responder().responder().gathered().to_vec(),
            // An acknowledgement, a part of an answer, or what came before.
            Ok(None | Some(PacketEffect::Written)) | Err(_) => return Ok(()),
            Ok(Some(event)) => return Err(Violation::Answer(0, format!("{event:?} is no answer"))),
        };
        self.answer(&answer)
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let wrong = |text: String| Err(Violation::Answer(0, text));
        let Some(header) =
            ResponseHeader::from_bytes(bytes).ok().and_then(|header| header.check_magic().ok())
        else {
            return wrong(format!("an answer of {} bytes without a header", bytes.len()));
        };
        let (id, status, result) = (header.request_id, header.status(), &bytes[HEADER_BYTES..]);
        self.answers += 1;
        let Some(sent) = self.calls.get_mut(&id) else {
            return wrong(format!("an answer to {id}, which it never sent: {header:?}"));
        };
        if let Some(end) = sent.end {
            return wrong(format!(
                "request {id} was {end:?}, and is answered on a later connection or again"
            ));
        }
        let call = &sent.call;
        let same =
            header.ptp_timestamp == call.header.ptp_timestamp && result.len() == header.result_len as usize;
        // A page may still be in use by a request of the connection before.
        let refused = result.is_empty()
            && ((status == Status::BACKPRESSURE && self.generation > 0)
                || (call.by_worker && status == Status::TIMED_OUT));
        sent.end = Some(match (same, call.is_answered_by(status, result), refused) {
            (true, true, _) => End::Answered,
            (true, false, true) => End::Refused,
            _ => return wrong(format!("{header:?}, {result:?} answers {call:?}")),
        });
        self.open -= 1;
        Ok(())
    }
}

fn datagram(network: &Network, from: SocketAddrV4, packet: &Packet<'_>) -> Datagram {
    let mut bytes = network.room();
    bytes.resize(packet.payload.len() + MAX_OVERHEAD_BYTES, 0);
    let Ok(len) = packet.write(&Envelope::v4(from, SERVICE), &mut bytes) else {
        unreachable!("the packet is right")
    };
    bytes.truncate(len);
    Datagram { from, to: SERVICE, bytes, subject: None }
}

/// Packets that must change nothing: strangers', and such with the peer's address that no check lets pass. (A packet of the peer's address
/// with the right key and the next number is the peer's, to any adapter: against those there are tags.)
struct Forger {
    left: u32,
    /// It sends the peer's own packets again.
    replays: bool,
}

impl Forger {
    fn turn(&mut self, random: &mut Random, now: u64, client: &Client) {
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        let (network, port) = (&client.network, client.port);
        let next = client.connection.requester().last_of_next(1);
        let page = random.below(port.pages.into()) as u32;
        let address = port.base + u64::from(page) * u64::from(port.page_bytes);
        let mut payload = vec![0xEE; HEADER_BYTES + random.below(32) as usize];
        let header = RequestHeader::new(random.number() as u32, 8, random.number() as u32, now);
        payload[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        let (mut service, mut qp, mut psn, mut from) = (opcode::Service::Rc, port.qp, next, CLIENT);
        let mut key = port.key;
        match random.below(7) {
            0 => from = STRANGER,
            1 => service = opcode::Service::Uc,
            2 => qp ^= 1 << random.below(20),
            // Its number is looked at before its key.
            3 => (psn, key) = (next.plus(10_000 + random.below(100_000) as u32), random.number() as u32),
            4 => {
                (psn, key) =
                    (next.plus(Psn::MASK - 10_000 - random.below(1000) as u32), random.number() as u32);
            }
            5 if self.replays && client.generation == 0 => {
                if let Some(copy) = network.overheard(random) {
                    network.forge(copy, now + random.below(2000));
                }
                return;
            }
            _ => {
                let mut bytes = network.room();
                bytes.resize(random.index(200), 0);
                random.fill(&mut bytes);
                network.forge(Datagram { from: CLIENT, to: SERVICE, bytes, subject: None }, now);
                return;
            }
        }
        let operation =
            MessageOperation::Write { address, key, immediate: Some(Immediate::new(page, psn).0) };
        let message = Message { service, operation, destination_qp: qp, mtu: port.mtu, bytes: &payload };
        network.forge(datagram(network, from, &message.packet(0, psn)), now + random.below(2000));
    }
}

struct World {
    network: Network,
    service: Box<dyn Service>,
    client: Client,
    forger: Forger,
    runs: Runs,
    /// Nothing arrives from the first of these times on until the second.
    blackout: Option<(u64, u64)>,
    /// So little goes wrong that no connection may end.
    mild: bool,
    now: u64,
}

pub(crate) fn run(seed: u64) -> Result<Summary, Violation> {
    let mut random = Random::new(seed);
    let world = World::new(&mut random).map_err(|error| Violation::Setup(error.to_string()));
    let outcome = world.and_then(|mut world| {
        world.live(&mut random)?;
        world.settle(&mut random)
    });
    clock::simulate(None);
    outcome
}

impl World {
    fn new(random: &mut Random) -> Result<Self, Box<dyn Error>> {
        let (quiet, mild) = (random.chance(250), random.chance(500));
        let mut weather = if quiet { Weather::quiet(random) } else { Weather::stormy(random) };
        if mild && !quiet {
            let mut rate = |most: u64| random.below(most + 1);
            (weather.loss, weather.corruption, weather.reordering) = (rate(20), rate(10), rate(20));
            (weather.blocked, weather.unreachable, weather.buffer) = (0, 0, 4096);
        }
        let network = Network::new(random.fork(), weather);
        let runs = Runs::default();
        clock::simulate(Some(1));
        let first = Psn::new(random.pick(&[0, Psn::MASK - 30, 77]));
        let port = PortOptions {
            address: SERVICE,
            base: random.pick(&[0, 0x1_0000_0000]),
            key: random.number() as u32,
            icrc: if weather.corruption > 0 { IcrcCheck::Zero } else { IcrcCheck::Recover },
            mtu: random.pick(&[PathMtu::B256, PathMtu::B1024]),
            ..PortOptions::new(random.between(1, 12) as u32, random.pick(&[128, 256, 512, 1024]))
        };
        let socket = network.serve(SERVICE, |_| Reading::Other);
        let options = ReliableOptions { port, first_psn: first.get() };
        let (service, introducer) = service::reliable(&socket, &options, &runs, random)?;
        network.join(CLIENT, 0);
        network.join(STRANGER, 1);
        let mut client = Client {
            network: network.clone(),
            port,
            first,
            introducer,
            connection: Client::connection(&port, first, 2)?,
            generation: 0,
            rests: None,
            calls: BTreeMap::new(),
            open: 0,
            next_id: random.pick(&[0, 1, u32::MAX - 5]),
            left: REQUESTS,
            not_before: 0,
            gap_ns: random.between(100, 20_000),
            answers: 0,
        };
        client.introduce()?;
        let blackout = random.chance(150).then(|| {
            let from = random.below(500_000);
            (from, from + random.between(1_000_000, 1_500_000_000))
        });
        let hostile = random.chance(500);
        let forger = Forger { left: if hostile { 60 } else { 0 }, replays: !mild && !quiet };
        let mild = (mild || quiet) && blackout.is_none();
        Ok(Self { network, service, client, forger, runs, blackout, mild, now: 1 })
    }

    fn live(&mut self, random: &mut Random) -> Result<(), Violation> {
        let Self { network, service, client, forger, blackout, now, .. } = self;
        let (mut idle, mut before) = (0, None);
        for _ in 0..TURNS {
            *now += 20 + random.below(400);
            clock::simulate(Some(*now));
            if let Some((from, until)) = *blackout {
                if before.is_none() && *now >= from {
                    before = Some(network.change(Weather { loss: 1000, ..Weather::quiet(random) }));
                }
                if *now >= until
                    && let Some(weather) = before.take()
                {
                    network.change(weather);
                    *blackout = None;
                }
            }
            let under_way = network.advance(*now);
            match random.below(8) {
                0..=4 => service.turn(random, *now),
                5 | 6 => client.turn(random, *now)?,
                _ => forger.turn(random, *now, client),
            }
            idle = if under_way || forger.left > 0 { 0 } else { idle + 1 };
            if idle > 60 {
                if client.is_done() {
                    return Ok(());
                }
                // Nothing is under way: on to the next retransmission.
                *now += random.between(1_000_000, 20_000_000);
                idle = 30;
            }
        }
        Err(Violation::NoEnd { open: 1 })
    }

    /// Lets the last acknowledgements arrive, stops the service, and compares all books.
    fn settle(self, random: &mut Random) -> Result<Summary, Violation> {
        let Self { network, mut service, mut client, runs, mild, mut now, .. } = self;
        network.change(Weather::quiet(random));
        for _ in 0..12 {
            // Longer than a requester waits for an acknowledgement.
            now += 80_000_000;
            for _ in 0..40 {
                now += 1000;
                clock::simulate(Some(now));
                network.advance(now);
                service.turn(random, now);
                client.turn(random, now)?;
            }
        }
        let (Books { unbalanced, answers, unsent, broken, .. }, text) = service.stop();
        if unbalanced {
            return Err(Violation::Books(format!("the service's books: {text}")));
        }
        let ends = u64::from(client.generation);
        if mild && ends + broken > 0 {
            return Err(Violation::Books(format!(
                "{ends} connections ended on this side and {broken} on the other, for nothing: {text}"
            )));
        }
        if client.answers > answers || (ends + broken == 0 && client.answers != answers) {
            return Err(Violation::Books(format!(
                "{} answers came, {unsent} were not sent: {text}",
                client.answers
            )));
        }
        let mut summary = Summary::default();
        for (&id, Sent { call, end, .. }) in &client.calls {
            let times = runs.of((0, id));
            if times > 1 {
                return Err(Violation::RunTwice { peer: 0, id, runs: times });
            }
            if *end == Some(End::Answered) && !call.status.is_protocol_error() && times == 0 {
                return Err(Violation::Answer(0, format!("request {id} was answered, and never run")));
            }
            summary.requests += 1;
            match end {
                Some(End::Answered) => summary.answered += 1,
                Some(End::Refused) => summary.refused += 1,
                Some(End::Lost) if ends > 0 => summary.lost += 1,
                Some(End::Lost) | None => return Err(Violation::Missing { peer: 0, id, books: text }),
            }
        }
        Ok(summary)
    }
}
