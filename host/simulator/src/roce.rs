//! Peers of a RoCE service, correct and hostile, on a bad network.

use crate::calls::Runs;
use crate::hostile::{FIRST_NUMBER, Hostile, Malice};
use crate::network::{Counts, Network, Reading, Weather};
use crate::peer::{End, Manner, Peer};
use crate::random::Random;
use crate::service::{self, Books, Service};
use crate::{Size, Summary, Violation};
use ringcall_gpu::clock;
use ringcall_roce::opcode::{Part, Verb};
use ringcall_roce::{IcrcCheck, Packet, PathMtu, PortOptions};
use ringcall_transport::roce::DEFAULT_PEERS;
use ringcall_wire::ResponseHeader;
use std::net::{Ipv4Addr, SocketAddrV4};

/// The service at the other end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Behind {
    /// A ring and a host dispatcher.
    Ring,
    /// The emulated adapter's queues and the unified loop.
    Adapter,
}

/// A world's numbers.
#[derive(Clone, Copy, Debug)]
struct Numbers {
    peers: u32,
    hostile: u32,
    requests: u32,
    pages: u32,
    /// Nothing is lost on the way, and there are as many entries as peers.
    quiet: bool,
}

impl Numbers {
    fn draw(random: &mut Random) -> Self {
        // More peers than a handful now and then, since a service has entries for a number of them.
        let peers = if random.chance(150) { random.between(5, 9) } else { random.between(1, 4) } as u32;
        Self {
            peers,
            hostile: random.below(3) as u32,
            requests: 60 / peers,
            pages: random.between(4, 12) as u32,
            quiet: random.chance(500),
        }
    }

    fn of(size: &Size) -> Self {
        let Size { peers, hostile, requests } = *size;
        Self { peers: peers.max(1), hostile, requests, pages: 2 * peers.max(1) + 2, quiet: true }
    }
}

/// The most turns of a world for each request in it.
const TURNS: u64 = 20_000;

const SERVICE: SocketAddrV4 = SocketAddrV4::new(Ipv4Addr::new(10, 0, 0, 1), 4791);

/// What a packet of a service is, to the network's books.
fn read(datagram: &[u8]) -> Reading {
    let Ok(packet) = Packet::parse(datagram) else { return Reading::Other };
    if packet.bth.opcode.verb() != Verb::Send {
        return Reading::Other;
    }
    let id = ResponseHeader::from_bytes(packet.payload).map(|header| header.request_id);
    match (packet.bth.opcode.part(), id) {
        (Part::Only, Ok(id)) => Reading::Whole(id),
        (Part::First, Ok(id)) => Reading::Begins(id),
        (Part::Middle, _) => Reading::Continues,
        (Part::Last, _) => Reading::Ends,
        (Part::Only | Part::First, Err(_)) => Reading::Other,
    }
}

struct World {
    network: Network,
    service: Box<dyn Service>,
    peers: Vec<Peer>,
    hostile: Vec<Hostile>,
    runs: Runs,
    quiet: bool,
    /// More addresses have the key than the service has entries.
    dense: bool,
    now: u64,
}

pub(crate) fn run(seed: u64, behind: Behind, size: Option<&Size>) -> Result<Summary, Violation> {
    let mut random = Random::new(seed);
    let drawn = Numbers::draw(&mut random);
    let numbers = size.map_or(drawn, Numbers::of);
    let world = World::new(&mut random, behind, numbers);
    let mut world = world.map_err(|error| Violation::Setup(error.to_string()))?;
    let requests = u64::from(numbers.peers) * u64::from(numbers.requests);
    // A stop in the midst of it all, now and then.
    let stop_at = (!numbers.quiet && random.chance(200)).then(|| random.below(400_000));
    let end = world.live(&mut random, stop_at, TURNS * requests.max(100));
    let outcome = end.and_then(|stopped| world.settle(stopped));
    clock::simulate(None);
    outcome
}

impl World {
    fn new(
        random: &mut Random,
        behind: Behind,
        numbers: Numbers,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let Numbers { peers, hostile, requests, pages, quiet } = numbers;
        let mut weather = if quiet { Weather::quiet(random) } else { Weather::stormy(random) };
        // Peers give up, and use a page again, while a datagram of the last request in it is still under way. Not so late that it is
        // taken for a peer's that begins anew: 128 packets.
        let hasty = !quiet && random.chance(300);
        if hasty {
            weather.jitter_ns = 60_000;
            weather.latency_ns = random.between(200, 5_000);
        }
        let network = Network::new(random.fork(), weather);
        let runs = Runs::default();
        // As many as there are by default, or too few.
        let dense = !quiet && random.chance(300);
        let entries = if dense { random.between(1, peers.into()) as usize } else { DEFAULT_PEERS };
        // Answers of several packets above all where peers come and go.
        let (page_bytes, mtu) = if dense && random.chance(700) {
            (512, PathMtu::B256)
        } else {
            (random.pick(&[128, 256, 512]), random.pick(&[PathMtu::B256, PathMtu::B1024]))
        };
        let port = PortOptions {
            address: SERVICE,
            base: random.pick(&[0, 0x1_0000_0000, u64::MAX / 2]),
            key: random.number() as u32,
            // The other check lets one damaged packet in 32,768 pass.
            icrc: if weather.corruption > 0 { IcrcCheck::Zero } else { IcrcCheck::Recover },
            mtu,
            ..PortOptions::new(pages, page_bytes)
        };
        let socket = network.serve(SERVICE, read);
        clock::simulate(Some(0));
        let service = match behind {
            Behind::Ring => service::roce(&socket, port, entries, &runs, random)?,
            Behind::Adapter => service::nic(&socket, port, entries, &runs)?,
        };
        let together = random.chance(500);
        let first_id = random.pick(&[0, 1, u32::MAX - 3]);
        let correct_pages = pages - if hostile > 0 { 2 } else { 0 };
        let apart = correct_pages / peers;
        let to = (SERVICE, port);
        let correct = (0..peers).map(|number| {
            let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 1, number as u8), 49_152);
            let pages =
                if apart > 0 && !together { Some((number * apart, apart)) } else { Some((0, correct_pages)) };
            let manner = Manner {
                requests,
                timeout_ns: if hasty { random.between(20_000, 50_000) } else { 2_000_000 },
                gap_ns: random.between(if hasty { 4_000 } else { 1_000 }, 10_000),
                first_id: if together { first_id } else { random.number() as u32 },
                pages,
                workers: behind == Behind::Ring,
            };
            Peer::new(number, address, to, &network, manner, random)
        });
        let correct: Vec<Peer> = correct.collect();
        let malice = Malice {
            forges: random.chance(500),
            floods: random.chance(300),
            wanders: dense,
            sends: behind == Behind::Ring,
            packets: requests * 2,
        };
        let hostile = (0..hostile).map(|number| {
            let address = SocketAddrV4::new(Ipv4Addr::new(10, 0, 2, number as u8), 49_152);
            Hostile::new(FIRST_NUMBER + number, address, to, &network, malice, random)
        });
        let hostile = hostile.collect();
        Ok(Self { network, service, peers: correct, hostile, runs, quiet, dense, now: 0 })
    }

    /// Lets all act in turn until every request has ended, or until `stop_at`; whether it ended so early.
    fn live(
        &mut self,
        random: &mut Random,
        stop_at: Option<u64>,
        most_turns: u64,
    ) -> Result<bool, Violation> {
        let Self { network, service, peers, hostile, now, .. } = self;
        let mut quiet = 0;
        for _ in 0..most_turns {
            *now += 20 + random.below(400);
            if stop_at.is_some_and(|stop| *now >= stop) {
                return Ok(true);
            }
            clock::simulate(Some(*now));
            let under_way = network.advance(*now);
            match random.below(8) {
                0..=4 => service.turn(random, *now),
                5 | 6 => {
                    let index = random.index(peers.len());
                    peers[index].turn(random, *now)?;
                }
                _ if hostile.is_empty() => (),
                _ => {
                    let index = random.index(hostile.len());
                    hostile[index].turn(random, *now, peers)?;
                }
            }
            let busy = under_way || hostile.iter().any(|hostile| !hostile.is_done());
            quiet = if busy { 0 } else { quiet + 1 };
            if quiet > 400 {
                if peers.iter().all(Peer::is_done) {
                    return Ok(false);
                }
                // Nothing is under way: on to what comes next.
                let next = peers.iter().filter_map(Peer::next_event).chain(network.next_arrival()).min();
                *now = next.map_or(*now, |next| next.max(*now));
                quiet = 100;
            }
        }
        Err(Violation::NoEnd { open: peers.iter().filter(|peer| !peer.is_done()).count() })
    }

    /// Stops the service, delivers what is under way, and compares all books.
    fn settle(self, stopped: bool) -> Result<Summary, Violation> {
        let Self { network, service, mut peers, mut hostile, runs, quiet, dense, mut now } = self;
        let began_stop = now;
        let (books, text) = service.stop();
        now += 10_000_000;
        clock::simulate(Some(now));
        network.advance(now);
        let mut random = Random::new(0);
        for peer in &mut peers {
            // Everything is over: it takes answers, and sends no more.
            peer.stop_sending();
            peer.turn(&mut random, now)?;
            peer.give_up();
        }
        for one in &mut hostile {
            one.leave();
            one.turn(&mut random, now, &peers)?;
        }
        let mut audit = Audit {
            quiet,
            dense,
            stopped,
            began_stop,
            network: &network,
            runs: &runs,
            books,
            unexplained: 0,
            text: &text,
        };
        let mut summary = Summary::default();
        for peer in &peers {
            audit.peer(peer, &mut summary)?;
        }
        audit.service()?;
        let addresses = peers.len() as u32 + hostile.iter().map(Hostile::addresses).sum::<u32>();
        if books.evicted > 0 && addresses as usize <= DEFAULT_PEERS && !dense {
            return Err(Violation::Books(format!("{addresses} peers, and some were evicted: {text}")));
        }
        Ok(summary)
    }
}

/// Compares books.
struct Audit<'a> {
    quiet: bool,
    dense: bool,
    stopped: bool,
    began_stop: u64,
    network: &'a Network,
    runs: &'a Runs,
    books: Books,
    /// Requests lost although nothing was done to them on the way.
    unexplained: u64,
    text: &'a str,
}

impl Audit<'_> {
    fn peer(&mut self, peer: &Peer, summary: &mut Summary) -> Result<(), Violation> {
        let number = peer.number();
        if peer.ended.len() as u64 != peer.sent {
            return Err(Violation::Books(format!(
                "peer {number} sent {}, and {} ended",
                peer.sent,
                peer.ended.len()
            )));
        }
        let Counts { duplicated, .. } = self.network.counts();
        // A peer that lost its entry is a newcomer when it comes back: what it sent before is new then.
        let forgotten = self.dense && self.books.evicted > 0;
        if peer.again > duplicated && !forgotten {
            return Err(Violation::Answer(
                number,
                format!("{} answers came twice, and {duplicated} packets", peer.again),
            ));
        }
        for (&id, ended) in &peer.ended {
            let subject = (number, id);
            let runs = self.runs.of(subject);
            if runs > 1 && !forgotten {
                return Err(Violation::RunTwice { peer: number, id, runs });
            }
            let must_run = ended.end == End::Answered && !ended.call.status.is_protocol_error();
            if must_run && runs == 0 {
                return Err(Violation::Answer(number, format!("request {id} was answered, and never run")));
            }
            summary.requests += 1;
            match ended.end {
                End::Answered => summary.answered += 1,
                End::Refused(_) => summary.refused += 1,
                End::Lost => {
                    summary.lost += 1;
                    let disturbed = !self.quiet && ended.in_messages;
                    let late = self.stopped && ended.sent_at + 300_000 > self.began_stop;
                    if !self.network.is_harmed(subject) && !disturbed && !late && !ended.answered_late {
                        self.unexplained += 1;
                        if self.quiet {
                            return Err(Violation::Missing { peer: number, id, books: self.text.to_owned() });
                        }
                    }
                }
            }
        }
        Ok(())
    }

    fn service(&self) -> Result<(), Violation> {
        let text = self.text;
        let Books { unbalanced, answers, unsent, evicted, incomplete, dropped, errors, .. } = self.books;
        if unbalanced {
            return Err(Violation::Books(format!("the service's books: {text}")));
        }
        let counts = self.network.counts();
        if counts.headless > 0 && counts.unreachable == 0 {
            return Err(Violation::Books(format!("{} packets continue no answer: {text}", counts.headless)));
        }
        // An answer of several packets may have begun and then been given up. A refusal of the service itself is counted when it
        // is made, and may not have gone.
        let slack = if self.quiet { 0 } else { unsent + counts.blocked + errors + dropped };
        if counts.answers > answers + slack || answers > counts.answers + slack {
            return Err(Violation::Books(format!(
                "{} answers were sent, and counted: {text}",
                counts.answers
            )));
        }
        // What was lost and not on the way is counted.
        let counted = evicted + incomplete + unsent + counts.blocked + counts.unreachable;
        if self.unexplained > 0 && (counted == 0 || !self.dense && self.unexplained > counted) {
            return Err(Violation::Uncounted { requests: self.unexplained, books: text.to_owned() });
        }
        Ok(())
    }
}
