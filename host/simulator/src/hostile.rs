//! Hostile peers of a RoCE service: they have the key, or not, and an address of their own, or another's.

use crate::Violation;
use crate::network::{Datagram, Network};
use crate::peer::Peer;
use crate::random::Random;
use ringcall::FunctionId;
use ringcall_roce::opcode::{Part, Verb};
use ringcall_roce::{
    Envelope, IcrcCheck, Immediate, MAX_OVERHEAD_BYTES, Opcode, Packet, PortOptions, Psn, Reth,
};
use ringcall_wire::names::RPC_INCREMENT;
use ringcall_wire::{HEADER_BYTES, RESPONSE_MAGIC, RequestHeader, ResponseHeader};
use std::net::SocketAddrV4;

/// The numbers of hostile peers, from here on.
pub(crate) const FIRST_NUMBER: u32 = 1 << 16;

/// What no packet of a message brings: its packets have 256 bytes, and the last of them has one at least.
const NO_PIECE: [&[u8]; 2] = [&[], &[7; 300]];

/// Bytes that it has written into a page.
#[derive(Debug)]
struct Written {
    page: u32,
    start: usize,
    bytes: Vec<u8>,
}

/// What it may do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Malice {
    /// It sends from other peers' addresses.
    pub(crate) forges: bool,
    /// It uses every page, also those of correct peers.
    pub(crate) floods: bool,
    /// It comes back with another address now and then.
    pub(crate) wanders: bool,
    /// It forges SENDs, too.
    pub(crate) sends: bool,
    pub(crate) packets: u32,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Hostile {
    number: u32,
    address: SocketAddrV4,
    service: SocketAddrV4,
    port: PortOptions,
    network: Network,
    malice: Malice,
    psn: Psn,
    next_id: u32,
    left: u32,
    written: Vec<Written>,
    /// Its pages' requests: by id, the page.
    pages: Vec<(u32, u32)>,
    addresses: u32,
    pub(crate) answers: u64,
}

impl Hostile {
    pub(crate) fn new(
        number: u32,
        address: SocketAddrV4,
        (service, port): (SocketAddrV4, PortOptions),
        network: &Network,
        malice: Malice,
        random: &mut Random,
    ) -> Self {
        network.join(address, number);
        Self {
            number,
            address,
            service,
            port,
            network: network.clone(),
            malice,
            psn: Psn::new(random.number() as u32),
            next_id: random.pick(&[0, 1, 1000, u32::MAX - 3]),
            left: malice.packets,
            written: Vec::new(),
            pages: Vec::new(),
            addresses: 1,
            answers: 0,
        }
    }

    pub(crate) const fn is_done(&self) -> bool {
        self.left == 0
    }

    /// It sends no more.
    pub(crate) const fn leave(&mut self) {
        self.left = 0;
    }

    /// Addresses under which it has brought the key, at most.
    pub(crate) const fn addresses(&self) -> u32 {
        self.addresses
    }

    /// Looks at answers, and does something bad.
    pub(crate) fn turn(&mut self, random: &mut Random, now: u64, victims: &[Peer]) -> Result<(), Violation> {
        while let Some(datagram) = self.network.take(self.address) {
            self.receive(&datagram)?;
            self.network.recycle(datagram);
        }
        if self.left == 0 {
            return Ok(());
        }
        self.left -= 1;
        match random.below(if self.malice.forges { 13 } else { 8 }) {
            0..=2 => self.frame(random, now),
            3 => self.lie(random, now),
            4 => self.garbage(random, now),
            5 => self.other_operation(random, now),
            6 => self.psn = Psn::new(random.number() as u32),
            7 if self.malice.wanders => self.wander(random),
            7 => (),
            8 | 9 => self.forge_key(random, now, victims),
            10 => self.replay(random, now),
            11 => self.interrupt(random),
            _ => self.forge_operation(random, now, victims),
        }
        Ok(())
    }

    fn page(&self, random: &mut Random) -> u32 {
        // Without a flood the last pages are its own.
        let pages = self.port.pages;
        let own = if self.malice.floods { pages } else { 2 };
        pages - 1 - random.below(own.into()) as u32
    }

    fn request(&mut self, random: &mut Random, page: u32) -> Vec<u8> {
        let room = self.port.page_bytes as usize - HEADER_BYTES;
        let len = random.between(8, room as u64) as usize;
        let mut bytes = vec![0; HEADER_BYTES + len];
        let id = self.next_id;
        self.next_id = id.wrapping_add(1);
        let header = RequestHeader::new(FunctionId::of(RPC_INCREMENT).0, len as u32, id, random.number());
        bytes[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        bytes[HEADER_BYTES..HEADER_BYTES + 4].copy_from_slice(&self.number.to_le_bytes());
        bytes[HEADER_BYTES + 4..HEADER_BYTES + 8].copy_from_slice(&id.to_le_bytes());
        random.fill(&mut bytes[HEADER_BYTES + 8..]);
        self.pages.push((id, page));
        bytes
    }

    /// A request in pieces, of which one is missing, elsewhere, twice, or in another order: header at the start, number p; the
    /// last, number p + 2, with a hole before it; a filler as long as the hole, number p + 1, somewhere.
    fn frame(&mut self, random: &mut Random, now: u64) {
        let page = self.page(random);
        let bytes = self.request(random, page);
        let first =
            if random.chance(500) { HEADER_BYTES } else { random.between(1, HEADER_BYTES as u64) as usize };
        let hole = first + 1 + random.index(bytes.len() - first - 1);
        let filler = hole - first;
        let room = self.port.page_bytes as usize - filler;
        let place = match random.below(4) {
            0 => first,
            1 => random.index(room + 1),
            2 => first.saturating_sub(random.index(4)),
            _ => (first + random.index(9)).min(room),
        };
        let psn = self.psn;
        let mut pieces = [
            (psn, 0, &bytes[..first], false),
            (psn.next(), place, &bytes[first..hole], false),
            (psn.plus(2), hole, &bytes[hole..], true),
        ];
        match random.below(3) {
            0 => pieces.swap(1, 2),
            1 => pieces.swap(0, 1),
            _ => (),
        }
        let missing = if random.chance(200) { random.index(3) } else { 3 };
        for (index, (psn, start, bytes, last)) in pieces.into_iter().enumerate() {
            if index != missing {
                self.write(random, now, page, psn, start, bytes, last);
            }
        }
        self.psn = psn.plus(3 + random.below(2) as u32);
    }

    #[expect(clippy::too_many_arguments, reason = "the fields of one packet")]
    fn write(
        &mut self,
        random: &mut Random,
        now: u64,
        page: u32,
        psn: Psn,
        start: usize,
        bytes: &[u8],
        last: bool,
    ) {
        let PortOptions { qp, key, base, page_bytes, .. } = self.port;
        let address = base + u64::from(page) * u64::from(page_bytes) + start as u64;
        let reth = Reth { address, key, length: bytes.len() as u32 };
        let packet = if last {
            Packet::write_immediate(qp, psn, reth, Immediate::new(page, psn), bytes)
        } else {
            Packet::write_only(qp, psn, reth, bytes)
        };
        self.written.push(Written { page, start, bytes: bytes.to_vec() });
        self.post(random, now, self.address, &packet);
    }

    /// A whole packet, of which one field lies.
    fn lie(&mut self, random: &mut Random, now: u64) {
        let page = self.page(random);
        let mut bytes = self.request(random, page);
        let PortOptions { mut qp, mut key, base, page_bytes, pages, .. } = self.port;
        let mut address = base + u64::from(page) * u64::from(page_bytes);
        let mut named = page;
        match random.below(9) {
            0 => qp ^= 1,
            1 => key ^= 1 << random.below(32),
            2 => address = random.number(),
            3 => address += random.below(page_bytes.into()),
            4 => named = random.below(4096) as u32,
            5 => bytes.truncate(random.index(HEADER_BYTES + 1)),
            6 => bytes[random.index(8)] ^= 1,
            7 => bytes[..4].copy_from_slice(&RESPONSE_MAGIC.to_le_bytes()),
            _ => {
                // A length that is not the payload's.
                let at = 8;
                let len = random.pick(&[0, u32::MAX, page_bytes, bytes.len() as u32]);
                bytes[at..at + 4].copy_from_slice(&len.to_le_bytes());
            }
        }
        let end = base + u64::from(pages) * u64::from(page_bytes);
        if let Some(at) = address.checked_sub(base).filter(|_| address < end) {
            let (page, start) = (at / u64::from(page_bytes), at % u64::from(page_bytes));
            self.written.push(Written { page: page as u32, start: start as usize, bytes: bytes.clone() });
        }
        let reth = Reth { address, key, length: bytes.len() as u32 };
        let packet = Packet::write_immediate(qp, self.psn, reth, Immediate::new(named, self.psn), &bytes);
        self.psn = self.psn.next();
        self.post(random, now, self.address, &packet);
    }

    fn garbage(&mut self, random: &mut Random, now: u64) {
        let mut bytes = self.network.room();
        bytes.resize(random.index(120), 0);
        random.fill(&mut bytes);
        if let Some(first) = bytes.first_mut().filter(|_| random.chance(500)) {
            *first = random.pick(Opcode::ALL).code();
        }
        self.fly(random, now, self.address, bytes);
    }

    /// A packet of any opcode that is right in itself.
    fn other_operation(&mut self, random: &mut Random, now: u64) {
        let page = self.page(random);
        let mut payload = [0; 64];
        random.fill(&mut payload);
        let payload = &payload[..random.index(65)];
        let PortOptions { base, key, page_bytes, .. } = self.port;
        let address = base + u64::from(page) * u64::from(page_bytes);
        let opcode = random.pick(Opcode::ALL);
        let packet = any_packet(
            opcode,
            self.port.qp,
            self.psn,
            Reth { address, key, length: payload.len() as u32 },
            page,
            payload,
        );
        self.written.push(Written { page, start: 0, bytes: payload.to_vec() });
        self.psn = self.psn.next();
        self.post(random, now, self.address, &packet);
    }

    /// A request from the address of a victim, with the number that the victim's next packet has, or nearly, and a wrong key.
    fn forge_key(&mut self, random: &mut Random, now: u64, victims: &[Peer]) {
        let victim = &victims[random.index(victims.len())];
        let page = random.below(self.port.pages.into()) as u32;
        let PortOptions { qp, key, base, page_bytes, .. } = self.port;
        let address = base + u64::from(page) * u64::from(page_bytes);
        let psn = victim.next_psn.plus(random.below(3) as u32);
        let mut bytes = [0; 32];
        random.fill(&mut bytes);
        let reth = Reth { address, key: key ^ (1 << random.below(32)), length: 32 };
        let packet = Packet::write_immediate(qp, psn, reth, Immediate::new(page, psn), &bytes);
        self.post(random, now, victim.address(), &packet);
    }

    /// What needs no key, from the address of a victim: it continues a message, or sends.
    fn forge_operation(&mut self, random: &mut Random, now: u64, victims: &[Peer]) {
        let victim = &victims[random.index(victims.len())];
        // An adapter takes SENDs.
        let keyless = [
            Opcode::UcWriteMiddle,
            Opcode::UcWriteLast,
            Opcode::UcWriteLastImmediate,
            Opcode::UcSendFirst,
            Opcode::UcSendMiddle,
            Opcode::UcSendLast,
            Opcode::UcSendOnly,
        ];
        let keyless = if self.malice.sends { &keyless[..] } else { &keyless[..3] };
        let psn = victim.next_psn.plus(random.below(3) as u32);
        let nothing = Reth { address: 0, key: 0, length: 0 };
        let packet = any_packet(random.pick(keyless), self.port.qp, psn, nothing, 0, random.pick(&NO_PIECE));
        self.post(random, now, victim.address(), &packet);
    }

    /// Into a message of several packets that is under way, right behind one of them: what would be its next packet, which
    /// needs no key, of another length.
    fn interrupt(&self, random: &mut Random) {
        let opcode = random.pick(&[Opcode::UcWriteMiddle, Opcode::UcWriteLast, Opcode::UcWriteLastImmediate]);
        let payload = random.pick(&NO_PIECE);
        let nothing = Reth { address: 0, key: 0, length: 0 };
        self.network.follow(random, |leader| {
            let Packet { bth, .. } = Packet::parse(&leader.bytes).ok()?;
            if bth.opcode.verb() != Verb::Write || !matches!(bth.opcode.part(), Part::First | Part::Middle) {
                return None;
            }
            let packet = any_packet(opcode, self.port.qp, bth.psn.next(), nothing, 0, payload);
            let mut bytes = vec![0; payload.len() + MAX_OVERHEAD_BYTES];
            let len = packet.write(&Envelope::v4(leader.from, leader.to), &mut bytes).ok()?;
            bytes.truncate(len);
            Some(Datagram { from: leader.from, to: leader.to, bytes, subject: None })
        });
    }

    /// What a peer sent lately, once more, from its address.
    fn replay(&mut self, random: &mut Random, now: u64) {
        if let Some(datagram) = self.network.overheard(random) {
            let later = now + random.below(1000);
            self.network.forge(Datagram { subject: None, ..datagram }, later + 1000);
        }
    }

    /// The same host from another port.
    fn wander(&mut self, random: &mut Random) {
        let port = 20_000 + random.below(4) as u16 + 4 * (self.number & 0xFF) as u16;
        self.address = SocketAddrV4::new(*self.address.ip(), port);
        self.addresses += 1;
        self.network.join(self.address, self.number);
        self.psn = Psn::new(random.number() as u32);
    }

    fn post(&self, random: &mut Random, now: u64, from: SocketAddrV4, packet: &Packet<'_>) {
        let mut bytes = self.network.room();
        bytes.resize(packet.payload.len() + MAX_OVERHEAD_BYTES, 0);
        let Ok(len) = packet.write(&Envelope::v4(from, self.service), &mut bytes) else {
            return self.network.recycle(Datagram { from, to: from, bytes, subject: None });
        };
        bytes.truncate(len);
        self.fly(random, now, from, bytes);
    }

    fn fly(&self, random: &mut Random, now: u64, from: SocketAddrV4, bytes: Vec<u8>) {
        let later = random.pick(&[0, 50, 100, 1000]) + random.below(200);
        self.network.forge(Datagram { from, to: self.service, bytes, subject: None }, now + later);
    }

    /// A result brings back bytes that this peer wrote there, and no others.
    fn receive(&mut self, datagram: &Datagram) -> Result<(), Violation> {
        let envelope = Envelope::v4(datagram.from, self.address);
        if envelope.check(&datagram.bytes, IcrcCheck::Zero).is_err() {
            return Ok(());
        }
        let Ok(packet) = Packet::parse(&datagram.bytes) else { return Ok(()) };
        let Some(header) =
            ResponseHeader::from_bytes(packet.payload).ok().and_then(|header| header.check_magic().ok())
        else {
            return Ok(());
        };
        self.answers += 1;
        let result = packet.payload.get(HEADER_BYTES..).unwrap_or_default();
        if !header.status().is_ok() || result.is_empty() {
            return Ok(());
        }
        let pages: Vec<u32> =
            self.pages.iter().filter(|(id, _)| *id == header.request_id).map(|(_, page)| *page).collect();
        for (index, byte) in result.iter().enumerate() {
            let (at, byte) = (HEADER_BYTES + index, byte.wrapping_sub(1));
            let wrote = |written: &Written| {
                pages.contains(&written.page)
                    && at.checked_sub(written.start).and_then(|at| written.bytes.get(at)) == Some(&byte)
            };
            if !self.written.iter().any(wrote) {
                let id = header.request_id;
                return Err(Violation::ForeignByte { peer: self.number, id, at: index, byte });
            }
        }
        Ok(())
    }
}

/// A packet of an opcode, with the headers that it has.
fn any_packet(opcode: Opcode, qp: u32, psn: Psn, reth: Reth, page: u32, payload: &[u8]) -> Packet<'_> {
    let mut packet = Packet::send(qp, psn, payload);
    packet.bth.opcode = opcode;
    packet.reth = opcode.has_reth().then_some(reth);
    packet.immediate = opcode.has_immediate().then_some(Immediate::new(page, psn).0);
    packet.aeth = opcode.has_aeth().then_some(ringcall_roce::Aeth { syndrome: 0, message: 0 });
    packet
}
