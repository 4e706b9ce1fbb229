//! Callers of a UDP service on a bad network: the client that ships, and peers that send garbage.

use crate::calls::{Call, Runs};
use crate::network::{Datagram, Network, Port, Reading, Weather};
use crate::random::Random;
use crate::service::{Books, Ringed, Service};
use crate::{Summary, Violation};
use ringcall::{FunctionId, RingConfig, Status};
use ringcall_gpu::clock;
use ringcall_roce::Datagrams;
use ringcall_transport::udp::MAX_DATAGRAM_BYTES;
use ringcall_transport::wire::{ReceivedFrame, Sent, WireArrival};
use ringcall_transport::{
    Caller, CallerOptions, CallerStats, Outbox, RequestOutcome, TransportAddress, Wire,
};
use ringcall_wire::names::RPC_INCREMENT;
use ringcall_wire::{HEADER_BYTES, RESPONSE_MAGIC, RequestHeader, ResponseHeader};
use std::collections::BTreeMap;
use std::error::Error;
use std::io;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4};
use std::sync::Arc;
use std::time::Duration;

const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4000);
const DEADLINE: Duration = Duration::from_micros(2000);
/// The most turns of a world.
const TURNS: u32 = 2_000_000;

/// A datagram is a frame, as on a UDP socket.
struct SimulatedUdp {
    port: Arc<Port>,
    room: Vec<u8>,
}

impl SimulatedUdp {
    const fn new(port: Arc<Port>) -> Self {
        Self { port, room: Vec::new() }
    }
}

impl Wire for SimulatedUdp {
    type Peer = SocketAddrV4;
    const NAMES_SLOTS: bool = false;

    fn endpoint(&self) -> TransportAddress {
        TransportAddress::new("udp", SocketAddr::V4(self.port.address()))
    }

    fn max_frame_bytes(&self) -> usize {
        MAX_DATAGRAM_BYTES
    }

    fn open(&mut self, receive_bytes: usize, _: usize) -> io::Result<()> {
        self.room = vec![0; receive_bytes];
        Ok(())
    }

    fn receive(
        &mut self,
        limit: usize,
        take: &mut impl FnMut(WireArrival<'_, SocketAddrV4>),
    ) -> io::Result<()> {
        for _ in 0..limit {
            match self.port.receive(&mut self.room) {
                Ok((from, len)) => {
                    let bytes = &self.room[..len.min(self.room.len())];
                    take(WireArrival::Frame(ReceivedFrame { from, slot: None, bytes, len }));
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    fn send(&mut self, outbox: &Outbox<SocketAddrV4>) -> Sent {
        let mut frames = 0;
        for frame in outbox.frames() {
            if let Err(error) = self.port.send(frame.to, frame.bytes) {
                return Sent { frames, error: Some(error) };
            }
            frames += 1;
        }
        Sent { frames, error: None }
    }

    fn wait(&self, timeout: Duration) -> io::Result<()> {
        self.port.wait(timeout).map(drop)
    }
}

fn read_answer(datagram: &[u8]) -> Reading {
    ResponseHeader::from_bytes(datagram).map_or(Reading::Other, |header| Reading::Whole(header.request_id))
}

fn read_request(datagram: &[u8]) -> Reading {
    RequestHeader::from_bytes(datagram).map_or(Reading::Other, |header| Reading::Whole(header.request_id))
}

/// How a call ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    Refused,
    Lost,
    Unsent,
}

/// A correct client.
struct Client {
    number: u32,
    caller: Caller<SimulatedUdp>,
    capacity: usize,
    next_id: u32,
    left: u32,
    not_before: u64,
    gap_ns: u64,
    calls: BTreeMap<u32, (Call, Option<End>, u64)>,
}

impl Client {
    fn is_done(&self) -> bool {
        self.left == 0 && self.caller.waiting() == 0
    }

    fn turn(&mut self, random: &mut Random, now: u64) -> Result<(), Violation> {
        let Self { number, caller, calls, .. } = self;
        let mut violation = None;
        caller.poll(|ended| {
            let mut wrong = |text: String| violation = Some(Violation::Answer(*number, text));
            let Some((call, end, _)) = calls.get_mut(&ended.id) else {
                return wrong(format!("request {} ended, which was never sent", ended.id));
            };
            if let Some(end) = end {
                return wrong(format!("request {} ended twice: {end:?}, {:?}", ended.id, ended.outcome));
            }
            *end = Some(match ended.outcome {
                RequestOutcome::Lost => End::Lost,
                RequestOutcome::Unsent => End::Unsent,
                RequestOutcome::Answered(header, result) => {
                    let status = header.status();
                    let refused = status == Status::SHUTTING_DOWN
                        || status == Status::BACKPRESSURE
                        || (call.by_worker && status == Status::TIMED_OUT);
                    if header.ptp_timestamp == call.header.ptp_timestamp
                        && call.is_answered_by(status, result)
                    {
                        End::Answered
                    } else if refused && result.is_empty() {
                        End::Refused
                    } else {
                        let call = (&call.header, &call.payload);
                        return wrong(format!("{header:?}, {result:?} answers {call:?}"));
                    }
                }
            });
        });
        if let Some(violation) = violation {
            return Err(violation);
        }
        if self.left > 0 && now >= self.not_before {
            let id = self.next_id;
            let call = Call::new(random, (self.number, id), self.capacity, true, now);
            let function = FunctionId(call.header.function_id);
            if let Ok(sent) = self.caller.send(function, now, &call.payload) {
                if sent != id {
                    return Err(Violation::Books(format!("request {id} was given the id {sent}")));
                }
                self.calls.insert(id, (call, None, now));
                self.next_id = id.wrapping_add(1);
                self.left -= 1;
                self.not_before = now + random.below(self.gap_ns);
            }
        }
        Ok(())
    }
}

/// A peer that sends datagrams that are no requests, or nearly requests.
struct Garbage {
    address: SocketAddrV4,
    left: u32,
    id: u32,
}

impl Garbage {
    fn turn(&mut self, random: &mut Random, now: u64, network: &Network, slot_bytes: usize) {
        while let Some(datagram) = network.take(self.address) {
            network.recycle(datagram);
        }
        if self.left == 0 {
            return;
        }
        self.left -= 1;
        self.id = self.id.wrapping_add(1);
        let len = random.index(2 * slot_bytes);
        let mut bytes = network.room();
        bytes.resize(len, 0);
        random.fill(&mut bytes);
        let arg_len =
            random.pick(&[0, u32::MAX, len as u32, (len as u32).saturating_sub(HEADER_BYTES as u32)]);
        let header = RequestHeader::new(FunctionId::of(RPC_INCREMENT).0, arg_len, self.id, now).to_bytes();
        if random.chance(800)
            && let Some(begin) = bytes.first_chunk_mut::<HEADER_BYTES>()
        {
            *begin = header;
        }
        if random.chance(200)
            && let Some(magic) = bytes.first_chunk_mut::<4>()
        {
            *magic = RESPONSE_MAGIC.to_le_bytes();
        }
        network.forge(
            Datagram { from: self.address, to: SERVICE, bytes, subject: None },
            now + random.below(2000),
        );
    }
}

struct World {
    network: Network,
    service: Box<dyn Service>,
    clients: Vec<Client>,
    garbage: Vec<Garbage>,
    runs: Runs,
    slot_bytes: usize,
    quiet: bool,
    now: u64,
}

pub(crate) fn run(seed: u64) -> Result<Summary, Violation> {
    let mut random = Random::new(seed);
    let world = World::new(&mut random).map_err(|error| Violation::Setup(error.to_string()));
    let outcome = world.and_then(|mut world| {
        let stop_at = (!world.quiet && random.chance(200)).then(|| random.below(400_000));
        let stopped = world.live(&mut random, stop_at)?;
        world.settle(stopped)
    });
    clock::simulate(None);
    outcome
}

impl World {
    fn new(random: &mut Random) -> Result<Self, Box<dyn Error>> {
        let quiet = random.chance(400);
        let mut weather = if quiet { Weather::quiet(random) } else { Weather::stormy(random) };
        // A damaged datagram has a wrong checksum: no socket gives it to anybody.
        weather.loss += std::mem::take(&mut weather.corruption);
        let network = Network::new(random.fork(), weather);
        let runs = Runs::default();
        clock::simulate(Some(1));
        let slot_bytes = random.pick(&[64, 128, 512]);
        let ring = RingConfig { slots: random.between(1, 20) as u32, slot_bytes };
        let wire = SimulatedUdp::new(network.serve(SERVICE, read_answer));
        let service = Box::new(Ringed::new(wire, ring, &runs, random)?);
        let count = random.between(1, 5) as u32;
        let first_id = random.pick(&[0, 1, u32::MAX - 5]);
        let mut clients = Vec::new();
        for number in 0..count {
            let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, number as u8), 49_152);
            let options = CallerOptions {
                frame_bytes: slot_bytes as usize,
                window: random.between(1, 16) as usize,
                deadline: DEADLINE,
                pad_to: random.chance(200).then_some(slot_bytes as usize),
                first_id,
            };
            let wire = SimulatedUdp::new(network.call_from(address, number, read_request));
            clients.push(Client {
                number,
                caller: Caller::new(wire, SERVICE, &options)?,
                capacity: slot_bytes as usize - HEADER_BYTES,
                next_id: first_id,
                left: 60 / count,
                not_before: 0,
                gap_ns: random.between(100, 10_000),
                calls: BTreeMap::new(),
            });
        }
        let garbage = (0..random.below(3) as u8).map(|number| {
            let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, number), 49_152);
            network.join(address, crate::hostile::FIRST_NUMBER + u32::from(number));
            Garbage { address, left: 60, id: first_id }
        });
        let garbage = garbage.collect();
        let slot_bytes = slot_bytes as usize;
        Ok(Self { network, service, clients, garbage, runs, slot_bytes, quiet, now: 1 })
    }

    fn live(&mut self, random: &mut Random, stop_at: Option<u64>) -> Result<bool, Violation> {
        let Self { network, service, clients, garbage, slot_bytes, now, .. } = self;
        let mut quiet = 0;
        for _ in 0..TURNS {
            *now += 20 + random.below(400);
            if stop_at.is_some_and(|stop| *now >= stop) {
                return Ok(true);
            }
            clock::simulate(Some(*now));
            let under_way = network.advance(*now);
            match random.below(8) {
                0..=4 => service.turn(random, *now),
                5 | 6 => {
                    let index = random.index(clients.len());
                    clients[index].turn(random, *now)?;
                }
                _ if garbage.is_empty() => (),
                _ => {
                    let index = random.index(garbage.len());
                    garbage[index].turn(random, *now, network, *slot_bytes);
                }
            }
            quiet = if under_way || garbage.iter().any(|one| one.left > 0) { 0 } else { quiet + 1 };
            if quiet > 400 {
                if clients.iter().all(Client::is_done) {
                    return Ok(false);
                }
                *now += 100_000;
                quiet = 200;
            }
        }
        Err(Violation::NoEnd { open: clients.iter().filter(|client| !client.is_done()).count() })
    }

    fn settle(self, stopped: bool) -> Result<Summary, Violation> {
        let Self { network, service, mut clients, runs, quiet, mut now, .. } = self;
        let began_stop = now;
        let (Books { unbalanced, .. }, text) = service.stop();
        if unbalanced {
            return Err(Violation::Books(format!("the service's books: {text}")));
        }
        let mut random = Random::new(0);
        let mut summary = Summary::default();
        let duplicated = network.counts().duplicated;
        for client in &mut clients {
            client.left = 0;
            // Datagrams under way arrive, then every deadline passes.
            for _ in 0..3 {
                now += 3_000_000;
                clock::simulate(Some(now));
                network.advance(now);
                client.turn(&mut random, now)?;
                client.turn(&mut random, now)?;
            }
            let stats = client.caller.stats();
            let CallerStats {
                answered,
                refused,
                lost,
                unsent,
                sent,
                waiting,
                duplicates,
                strays,
                malformed,
                ..
            } = stats;
            let number = client.number;
            let kept = client.calls.len() as u64;
            if stats.balance() != 0
                || waiting > 0
                || sent != kept
                || strays + malformed > 0
                || duplicates > duplicated
            {
                return Err(Violation::Books(format!("peer {number} with {kept} calls counts {stats}")));
            }
            let mut counted = [0; 4];
            for (&id, (_, end, sent_at)) in &client.calls {
                let subject = (number, id);
                let run_times = runs.of(subject);
                if u64::from(run_times) > 1 + duplicated {
                    return Err(Violation::RunTwice { peer: number, id, runs: run_times });
                }
                let Some(end) = *end else {
                    return Err(Violation::Books(format!("peer {number}: request {id} has no outcome")));
                };
                counted[end as usize] += 1;
                let late = stopped && sent_at + 300_000 > began_stop;
                if end == End::Lost && !network.is_harmed(subject) && !late {
                    return Err(Violation::Missing { peer: number, id, books: text });
                }
                if end == End::Unsent && quiet {
                    return Err(Violation::Books(format!("peer {number}: request {id} was not sent")));
                }
            }
            // A protocol's status that was expected is an answer here, and a refusal there.
            let [answers, refusals, losses, never] = counted;
            if (answers + refusals, losses, never) != (answered + refused, lost, unsent) {
                return Err(Violation::Books(format!("peer {number} saw {counted:?} and counts {stats}")));
            }
            summary.add(&Summary {
                requests: kept,
                answered: answers,
                refused: refusals,
                lost: losses + never,
            });
        }
        Ok(summary)
    }
}
