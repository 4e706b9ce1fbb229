//! A network of datagrams: what is sent arrives, late, twice, damaged, in another order, or never.

use crate::random::Random;
use ringcall_roce::{Datagrams, Psn};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::io;
use std::net::SocketAddrV4;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Whose request a datagram belongs to: the peer's number and the request's id.
pub(crate) type Subject = (u32, u32);

/// How often what goes wrong, of a thousand datagrams, and how long datagrams take.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Weather {
    pub(crate) loss: u64,
    pub(crate) corruption: u64,
    pub(crate) duplication: u64,
    pub(crate) reordering: u64,
    /// A socket takes nothing for now.
    pub(crate) blocked: u64,
    /// A socket refuses a datagram.
    pub(crate) unreachable: u64,
    /// From sender to receiver.
    pub(crate) latency_ns: u64,
    /// How much longer a copy or a late datagram takes, at most.
    pub(crate) jitter_ns: u64,
    /// Datagrams that a socket's buffer has room for.
    pub(crate) buffer: usize,
}

impl Weather {
    /// Nothing goes wrong.
    pub(crate) fn quiet(random: &mut Random) -> Self {
        Self { latency_ns: random.between(200, 20_000), buffer: 4096, ..Self::default() }
    }

    pub(crate) fn stormy(random: &mut Random) -> Self {
        let mut rate = |most| if random.chance(500) { random.between(1, most) } else { 0 };
        let (loss, corruption, duplication) = (rate(100), rate(50), rate(100));
        let (reordering, blocked, unreachable) = (rate(150), rate(300), rate(20));
        Self {
            loss,
            corruption,
            duplication,
            reordering,
            blocked,
            unreachable,
            latency_ns: random.between(200, 20_000),
            jitter_ns: random.between(100, 20_000),
            buffer: random.pick(&[16, 64, 4096]),
        }
    }
}

/// What a datagram of a service says of the message that it is part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// It is an answer to the request of this id, or a request of this id.
    Whole(u32),
    /// It begins an answer to the request of this id.
    Begins(u32),
    /// It continues the answer that the last one to this peer began.
    Continues,
    /// It ends that answer.
    Ends,
    Other,
}

#[derive(Clone, Debug)]
pub(crate) struct Datagram {
    pub(crate) from: SocketAddrV4,
    pub(crate) to: SocketAddrV4,
    pub(crate) bytes: Vec<u8>,
    pub(crate) subject: Option<Subject>,
}

/// What has gone wrong, and what was sent.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) sent: u64,
    pub(crate) lost: u64,
    pub(crate) corrupted: u64,
    pub(crate) duplicated: u64,
    pub(crate) reordered: u64,
    pub(crate) overflowed: u64,
    pub(crate) blocked: u64,
    pub(crate) unreachable: u64,
    /// Answers that services began to send.
    pub(crate) answers: u64,
    /// Datagrams of services that continue no answer.
    pub(crate) headless: u64,
}

#[derive(Debug)]
struct Flying {
    at: u64,
    order: u64,
    datagram: Datagram,
}

impl PartialEq for Flying {
    fn eq(&self, other: &Self) -> bool {
        (self.at, self.order) == (other.at, other.order)
    }
}

impl Eq for Flying {}

impl PartialOrd for Flying {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Flying {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.order).cmp(&(other.at, other.order))
    }
}

/// Datagrams that were delivered lately: what a peer that listens can send again.
const OVERHEARD: usize = 48;

#[derive(Debug)]
struct State {
    now: u64,
    random: Random,
    weather: Weather,
    flying: BinaryHeap<Reverse<Flying>>,
    order: u64,
    inboxes: BTreeMap<SocketAddrV4, VecDeque<Datagram>>,
    /// When the last datagram from one address to another arrives that keeps its order.
    lanes: BTreeMap<(SocketAddrV4, SocketAddrV4), u64>,
    /// Which peer has an address.
    peers: BTreeMap<SocketAddrV4, u32>,
    /// What the answer to an address is about of which datagrams have gone, and others are to follow.
    about: BTreeMap<SocketAddrV4, Option<Subject>>,
    /// Requests of whose datagrams, or of whose answer's, one did not arrive once, whole and in order.
    harmed: BTreeSet<Subject>,
    overheard: VecDeque<Datagram>,
    spare: Vec<Vec<u8>>,
    first_psn: Psn,
    counts: Counts,
}

/// The network. Cheap to clone: a handle.
#[derive(Clone, Debug)]
pub(crate) struct Network(Arc<Mutex<State>>);

impl Network {
    pub(crate) fn new(mut random: Random, weather: Weather) -> Self {
        // Near the end of the numbers, so that they wrap, or anywhere.
        let first =
            if random.chance(300) { Psn::MASK - random.below(20) as u32 } else { random.number() as u32 };
        Self(Arc::new(Mutex::new(State {
            now: 0,
            random,
            weather,
            flying: BinaryHeap::new(),
            order: 0,
            inboxes: BTreeMap::new(),
            lanes: BTreeMap::new(),
            peers: BTreeMap::new(),
            about: BTreeMap::new(),
            harmed: BTreeSet::new(),
            overheard: VecDeque::with_capacity(OVERHEARD + 1),
            spare: Vec::new(),
            first_psn: Psn::new(first),
            counts: Counts::default(),
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the weather; what was before.
    pub(crate) fn change(&self, weather: Weather) -> Weather {
        std::mem::replace(&mut self.state().weather, weather)
    }

    /// A service's socket. `read` says what its datagrams are.
    pub(crate) fn serve(&self, address: SocketAddrV4, read: fn(&[u8]) -> Reading) -> Arc<Port> {
        self.state().inboxes.insert(address, VecDeque::new());
        Arc::new(Port { network: self.clone(), address, owner: None, read })
    }

    /// A peer's socket, for a client that ships. `read` says which request its datagrams are.
    pub(crate) fn call_from(
        &self,
        address: SocketAddrV4,
        number: u32,
        read: fn(&[u8]) -> Reading,
    ) -> Arc<Port> {
        self.join(address, number);
        Arc::new(Port { network: self.clone(), address, owner: Some(number), read })
    }

    /// A peer's socket.
    pub(crate) fn join(&self, address: SocketAddrV4, number: u32) {
        let mut state = self.state();
        state.inboxes.insert(address, VecDeque::new());
        state.peers.insert(address, number);
    }

    /// Sends a datagram of a correct peer: what leaves first arrives first, unless the weather is bad.
    pub(crate) fn send(&self, datagram: Datagram, leaves_at: u64) {
        self.state().send(datagram, leaves_at, true);
    }

    /// Sends a datagram from any address, past the network's faults.
    pub(crate) fn forge(&self, datagram: Datagram, leaves_at: u64) {
        self.state().fly(datagram, leaves_at);
    }

    /// Takes the datagram that came first.
    pub(crate) fn take(&self, address: SocketAddrV4) -> Option<Datagram> {
        self.state().inboxes.get_mut(&address)?.pop_front()
    }

    /// Delivers what has arrived by `now`; whether a datagram is still under way.
    pub(crate) fn advance(&self, now: u64) -> bool {
        let mut state = self.state();
        state.now = now;
        while state.flying.peek().is_some_and(|Reverse(first)| first.at <= now) {
            if let Some(Reverse(flying)) = state.flying.pop() {
                state.deliver(flying.datagram);
            }
        }
        !state.flying.is_empty()
    }

    /// When the next datagram arrives.
    pub(crate) fn next_arrival(&self) -> Option<u64> {
        self.state().flying.peek().map(|Reverse(first)| first.at)
    }

    /// A datagram to a service that was delivered lately.
    pub(crate) fn overheard(&self, random: &mut Random) -> Option<Datagram> {
        let state = self.state();
        let index = random.index(state.overheard.len());
        state.overheard.get(index).cloned()
    }

    /// Sends what `forged` makes of one of the datagrams that are under way to a service, right behind it.
    pub(crate) fn follow(&self, random: &mut Random, forged: impl Fn(&Datagram) -> Option<Datagram>) {
        let mut state = self.state();
        let to_services =
            state.flying.iter().filter(|Reverse(flying)| !state.peers.contains_key(&flying.datagram.to));
        let mut behind: Vec<(u64, Datagram)> =
            to_services.filter_map(|Reverse(flying)| Some((flying.at, forged(&flying.datagram)?))).collect();
        if !behind.is_empty() {
            let (at, datagram) = behind.swap_remove(random.index(behind.len()));
            state.fly(datagram, at);
        }
    }

    pub(crate) fn is_harmed(&self, subject: Subject) -> bool {
        self.state().harmed.contains(&subject)
    }

    pub(crate) fn counts(&self) -> Counts {
        self.state().counts
    }

    pub(crate) fn recycle(&self, datagram: Datagram) {
        self.state().spare.push(datagram.bytes);
    }

    /// Room for a datagram's bytes.
    pub(crate) fn room(&self) -> Vec<u8> {
        let mut room = self.state().spare.pop().unwrap_or_default();
        room.clear();
        room
    }
}

impl State {
    fn send(&mut self, datagram: Datagram, leaves_at: u64, in_order: bool) {
        let Weather { loss, corruption, duplication, reordering, latency_ns, jitter_ns, .. } = self.weather;
        self.counts.sent += 1;
        let mut datagram = datagram;
        let roll =
            if loss + corruption + duplication + reordering > 0 { self.random.below(1000) } else { 1000 };
        let lane = (datagram.from, datagram.to);
        let (mut copy, mut late) = (None, 0);
        if roll < loss {
            self.counts.lost += 1;
            self.harm(datagram.subject);
            self.spare.push(datagram.bytes);
            return;
        } else if roll < loss + corruption {
            self.counts.corrupted += 1;
            self.harm(datagram.subject);
            let bit = self.random.index(datagram.bytes.len() * 8);
            // Any bit but those that routers may set, which the iCRC leaves out.
            let byte = if bit / 8 == 4 { 0 } else { bit / 8 };
            datagram.bytes[byte] ^= 1 << (bit % 8);
        } else if roll < loss + corruption + duplication {
            self.counts.duplicated += 1;
            copy = Some(datagram.clone());
        } else if roll < loss + corruption + duplication + reordering {
            self.counts.reordered += 1;
            self.harm(datagram.subject);
            late = 1 + self.random.below(jitter_ns);
        }
        let mut at = leaves_at.max(self.now) + latency_ns;
        if in_order && late == 0 {
            let last = self.lanes.entry(lane).or_default();
            at = at.max(*last + 1);
            *last = at;
        }
        self.fly(datagram, at + late);
        if let Some(copy) = copy {
            let later = self.random.below(jitter_ns + 1);
            self.fly(copy, at + later);
        }
    }

    /// Books a datagram of a service.
    fn keep(&mut self, to: SocketAddrV4, reading: Reading, subject: Option<Subject>) {
        self.counts.answers += u64::from(matches!(reading, Reading::Whole(_) | Reading::Begins(_)));
        let follows = matches!(reading, Reading::Continues | Reading::Ends);
        self.counts.headless += u64::from(follows && !self.about.contains_key(&to));
        match reading {
            Reading::Begins(_) => {
                self.about.insert(to, subject);
            }
            Reading::Whole(_) | Reading::Ends => {
                self.about.remove(&to);
            }
            Reading::Continues | Reading::Other => (),
        }
    }

    fn harm(&mut self, subject: Option<Subject>) {
        self.harmed.extend(subject);
    }

    fn fly(&mut self, datagram: Datagram, at: u64) {
        self.order += 1;
        self.flying.push(Reverse(Flying { at, order: self.order, datagram }));
    }

    fn deliver(&mut self, datagram: Datagram) {
        let room = self.weather.buffer;
        let Some(inbox) = self.inboxes.get_mut(&datagram.to) else { return };
        if inbox.len() >= room {
            self.counts.overflowed += 1;
            return self.harm(datagram.subject);
        }
        // Peers have their own number; what is sent to them is of no use to a listener.
        if !self.peers.contains_key(&datagram.to) {
            self.overheard.push_back(datagram.clone());
            if self.overheard.len() > OVERHEARD
                && let Some(old) = self.overheard.pop_front()
            {
                self.spare.push(old.bytes);
            }
        }
        inbox.push_back(datagram);
    }
}

/// A service's socket, or a client's.
#[derive(Debug)]
pub(crate) struct Port {
    network: Network,
    address: SocketAddrV4,
    /// The client's number.
    owner: Option<u32>,
    read: fn(&[u8]) -> Reading,
}

impl Port {
    pub(crate) const fn address(&self) -> SocketAddrV4 {
        self.address
    }
}

impl Datagrams for Port {
    fn send(&self, to: SocketAddrV4, datagram: &[u8]) -> io::Result<()> {
        let mut state = self.network.state();
        let Weather { blocked, unreachable, .. } = state.weather;
        if blocked > 0 && state.random.chance(blocked) {
            state.counts.blocked += 1;
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let reading = (self.read)(datagram);
        let subject = match reading {
            Reading::Whole(id) if self.owner.is_some() => self.owner.map(|owner| (owner, id)),
            Reading::Whole(id) | Reading::Begins(id) => state.peers.get(&to).map(|&peer| (peer, id)),
            Reading::Continues | Reading::Ends => state.about.get(&to).copied().flatten(),
            Reading::Other => None,
        };
        if unreachable > 0 && state.random.chance(unreachable) {
            state.counts.unreachable += 1;
            state.harm(subject);
            return Err(io::ErrorKind::NetworkUnreachable.into());
        }
        if self.owner.is_none() {
            state.keep(to, reading, subject);
        }
        let mut bytes = state.spare.pop().unwrap_or_default();
        bytes.clear();
        bytes.extend_from_slice(datagram);
        let now = state.now;
        state.send(Datagram { from: self.address, to, bytes, subject }, now, true);
        Ok(())
    }

    fn receive(&self, room: &mut [u8]) -> io::Result<(SocketAddrV4, usize)> {
        let mut state = self.network.state();
        let datagram = state.inboxes.get_mut(&self.address).and_then(VecDeque::pop_front);
        let Some(Datagram { from, bytes, .. }) = datagram else {
            return Err(io::ErrorKind::WouldBlock.into());
        };
        let len = bytes.len().min(room.len());
        room[..len].copy_from_slice(&bytes[..len]);
        let whole = bytes.len();
        state.spare.push(bytes);
        Ok((from, whole))
    }

    /// Time passes between the turns of the simulation alone.
    fn wait(&self, _: Duration) -> io::Result<bool> {
        let state = self.network.state();
        Ok(state.inboxes.get(&self.address).is_some_and(|inbox| !inbox.is_empty()))
    }

    fn first_psn(&self) -> Psn {
        self.network.state().first_psn
    }
}
