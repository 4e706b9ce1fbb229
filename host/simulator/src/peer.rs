//! A correct peer of a RoCE service: sends requests, takes answers, and keeps books.

use crate::Violation;
use crate::calls::Call;
use crate::network::{Datagram, Network};
use crate::random::Random;
use ringcall_roce::opcode::{Part, Service, Verb};
use ringcall_roce::{
    Envelope, IcrcCheck, Immediate, MAX_OVERHEAD_BYTES, Message, MessageOperation, Packet, PathMtu,
    PortOptions, Psn, Reth,
};
use ringcall_wire::{HEADER_BYTES, ResponseHeader, Status};
use std::collections::BTreeMap;
use std::net::SocketAddrV4;

/// The most packets of a frame.
const MOST_PIECES: u64 = 6;

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Answered,
    Refused(Status),
    Lost,
}

#[derive(Debug)]
struct Open {
    call: Call,
    page: u32,
    deadline: u64,
    in_messages: bool,
}

/// A request that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) call: Call,
    pub(crate) end: End,
    pub(crate) sent_at: u64,
    /// It was sent as one message of several packets, which are right in one order only.
    pub(crate) in_messages: bool,
    /// Its answer came after all.
    pub(crate) answered_late: bool,
}

/// How a peer behaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Manner {
    pub(crate) requests: u32,
    pub(crate) timeout_ns: u64,
    /// From one request to the next, at least.
    pub(crate) gap_ns: u64,
    pub(crate) first_id: u32,
    /// Pages from the first of these on are its own; `None`: any.
    pub(crate) pages: Option<(u32, u32)>,
    pub(crate) workers: bool,
}

/// The peer.
#[derive(Debug)]
pub(crate) struct Peer {
    number: u32,
    address: SocketAddrV4,
    service: SocketAddrV4,
    port: PortOptions,
    network: Network,
    manner: Manner,
    pub(crate) next_psn: Psn,
    next_id: u32,
    left: u32,
    not_before: u64,
    open: BTreeMap<u32, Open>,
    pub(crate) ended: BTreeMap<u32, Ended>,
    /// The answer of several packets that is coming, and the number of its next packet.
    gathering: Option<(Psn, Vec<u8>)>,
    pub(crate) sent: u64,
    pub(crate) answers: u64,
    /// Answers to requests that had one.
    pub(crate) again: u64,
}

impl Peer {
    pub(crate) fn new(
        number: u32,
        address: SocketAddrV4,
        (service, port): (SocketAddrV4, PortOptions),
        network: &Network,
        manner: Manner,
        random: &mut Random,
    ) -> Self {
        network.join(address, number);
        Self {
            number,
            address,
            service,
            port,
            network: network.clone(),
            manner,
            next_psn: Psn::new(if random.chance(300) { Psn::MASK - 10 } else { random.number() as u32 }),
            next_id: manner.first_id,
            left: manner.requests,
            not_before: 0,
            open: BTreeMap::new(),
            ended: BTreeMap::new(),
            gathering: None,
            sent: 0,
            answers: 0,
            again: 0,
        }
    }

    pub(crate) const fn number(&self) -> u32 {
        self.number
    }

    pub(crate) const fn address(&self) -> SocketAddrV4 {
        self.address
    }

    pub(crate) fn is_done(&self) -> bool {
        self.left == 0 && self.open.is_empty()
    }

    /// When it would act next if no datagram came.
    pub(crate) fn next_event(&self) -> Option<u64> {
        let deadline = self.open.values().map(|open| open.deadline).min();
        let may_send = self.left > 0 && self.free_page(None).is_some();
        let send = may_send.then_some(self.not_before);
        deadline.into_iter().chain(send).min()
    }

    /// Takes answers, gives up requests that are due, sends.
    pub(crate) fn turn(&mut self, random: &mut Random, now: u64) -> Result<(), Violation> {
        while let Some(datagram) = self.network.take(self.address) {
            self.receive(&datagram)?;
            self.network.recycle(datagram);
        }
        self.expire(now);
        if self.left > 0 && now >= self.not_before {
            self.send(random, now);
        }
        Ok(())
    }

    fn free_page(&self, random: Option<&mut Random>) -> Option<u32> {
        let (first, count) = self.manner.pages.unwrap_or((0, self.port.pages));
        let begin = random.map_or(0, |random| random.below(count.into()) as u32);
        (0..count)
            .map(|step| first + (begin + step) % count)
            .find(|page| self.open.values().all(|open| open.page != *page))
    }

    fn send(&mut self, random: &mut Random, now: u64) {
        let Some(page) = self.free_page(Some(random)) else { return };
        let id = self.next_id;
        let capacity = self.port.page_bytes as usize - HEADER_BYTES;
        let call = Call::new(random, (self.number, id), capacity, self.manner.workers, now);
        let frame = call.frame();
        let in_messages = frame.len() > PathMtu::B256.bytes() && random.chance(500);
        self.next_id = id.wrapping_add(1);
        self.left -= 1;
        self.sent += 1;
        self.not_before = now + self.manner.gap_ns + random.below(self.manner.gap_ns + 1);
        let address = self.port.base + u64::from(page) * u64::from(self.port.page_bytes);
        let key = self.port.key;
        if in_messages {
            let last = self.next_psn.plus(PathMtu::B256.packets(frame.len()) - 1);
            let immediate = Some(Immediate::new(page, last).0);
            let operation = MessageOperation::Write { address, key, immediate };
            let (service, mtu) = (Service::Uc, PathMtu::B256);
            let message = Message { service, operation, destination_qp: self.port.qp, mtu, bytes: &frame };
            for index in 0..message.packets() {
                self.post(&message.packet(index, self.next_psn), id, now + u64::from(index) * 50);
            }
            self.next_psn = last.next();
        } else {
            let pieces =
                if random.chance(300) { 1 } else { random.between(1, MOST_PIECES) }.min(frame.len() as u64);
            let mut at = 0;
            for piece in (0..pieces).rev() {
                let left = frame.len() - at;
                let most = left - piece as usize;
                let len = if piece == 0 { left } else { random.between(1, most as u64) as usize };
                let reth = Reth { address: address + at as u64, key, length: len as u32 };
                let (psn, bytes) = (self.next_psn, &frame[at..at + len]);
                let packet = if piece == 0 {
                    Packet::write_immediate(self.port.qp, psn, reth, Immediate::new(page, psn), bytes)
                } else {
                    Packet::write_only(self.port.qp, psn, reth, bytes)
                };
                self.post(&packet, id, now + (pieces - piece) * 50);
                self.next_psn = psn.next();
                at += len;
            }
        }
        let deadline = now + self.manner.timeout_ns;
        self.open.insert(id, Open { call, page, deadline, in_messages });
    }

    fn post(&self, packet: &Packet<'_>, id: u32, at: u64) {
        let mut bytes = self.network.room();
        bytes.resize(packet.payload.len() + MAX_OVERHEAD_BYTES, 0);
        let envelope = Envelope::v4(self.address, self.service);
        let Ok(len) = packet.write(&envelope, &mut bytes) else { unreachable!("the packet is right") };
        bytes.truncate(len);
        let subject = Some((self.number, id));
        self.network.send(Datagram { from: self.address, to: self.service, bytes, subject }, at);
    }

    fn expire(&mut self, now: u64) {
        while let Some((&id, _)) = self.open.iter().find(|(_, open)| open.deadline <= now) {
            self.end(id, End::Lost);
        }
    }

    /// It sends no more.
    pub(crate) fn stop_sending(&mut self) {
        self.left = 0;
    }

    /// Gives up every open request.
    pub(crate) fn give_up(&mut self) {
        self.left = 0;
        self.expire(u64::MAX);
    }

    fn end(&mut self, id: u32, end: End) {
        if let Some(Open { call, deadline, in_messages, .. }) = self.open.remove(&id) {
            let sent_at = deadline - self.manner.timeout_ns;
            self.ended.insert(id, Ended { call, end, sent_at, in_messages, answered_late: false });
        }
    }

    fn receive(&mut self, datagram: &Datagram) -> Result<(), Violation> {
        let envelope = Envelope::v4(datagram.from, self.address);
        if envelope.check(&datagram.bytes, IcrcCheck::Zero).is_err() {
            return Ok(());
        }
        let Ok(packet) = Packet::parse(&datagram.bytes) else {
            return Err(Violation::Answer(self.number, "a packet with the right iCRC is none".to_owned()));
        };
        let (verb, part, psn) = (packet.bth.opcode.verb(), packet.bth.opcode.part(), packet.bth.psn);
        if verb != Verb::Send || packet.bth.destination_qp != self.port.remote_qp {
            return Err(Violation::Answer(self.number, format!("{packet:?} is no answer")));
        }
        match part {
            Part::Only => {
                self.gathering = None;
                return self.answer(packet.payload);
            }
            Part::First => self.gathering = Some((psn.next(), packet.payload.to_vec())),
            Part::Middle | Part::Last => {
                let Some((next, bytes)) = &mut self.gathering else { return Ok(()) };
                if *next != psn {
                    // One that came twice changes nothing; one that is missing ends the answer.
                    if psn.offset_from(*next) > 0 {
                        self.gathering = None;
                    }
                    return Ok(());
                }
                bytes.extend_from_slice(packet.payload);
                *next = psn.next();
                if part == Part::Last
                    && let Some((_, bytes)) = self.gathering.take()
                {
                    return self.answer(&bytes);
                }
            }
        }
        Ok(())
    }

    fn answer(&mut self, bytes: &[u8]) -> Result<(), Violation> {
        let wrong = |text: String| Err(Violation::Answer(self.number, text));
        let Some(header) =
            ResponseHeader::from_bytes(bytes).ok().and_then(|header| header.check_magic().ok())
        else {
            return wrong(format!("an answer of {} bytes without a header", bytes.len()));
        };
        let (id, status) = (header.request_id, header.status());
        let Some(result) = bytes.get(HEADER_BYTES..).filter(|rest| rest.len() == header.result_len as usize)
        else {
            return wrong(format!(
                "the answer to {id} has {} bytes and says {}",
                bytes.len(),
                header.result_len
            ));
        };
        self.answers += 1;
        let (call, open) = match (self.open.get(&id), self.ended.get(&id)) {
            (Some(open), _) => (&open.call, true),
            (None, Some(ended)) => (&ended.call, false),
            (None, None) => return wrong(format!("an answer to {id}, which it never sent: {header:?}")),
        };
        if header.ptp_timestamp != call.header.ptp_timestamp {
            return wrong(format!("the answer to {id} has another request's time"));
        }
        let right = call.is_answered_by(status, result);
        let refused = matches!(status, Status::BACKPRESSURE | Status::SHUTTING_DOWN)
            || (call.by_worker && status == Status::TIMED_OUT);
        let empty_refusal = refused && result.is_empty();
        if !right && !empty_refusal {
            return wrong(format!(
                "the answer to {id} is {status}, {result:?}; the request was {:?}, {:?}",
                call.header, call.payload
            ));
        }
        if open {
            self.end(id, if right { End::Answered } else { End::Refused(status) });
        } else if let Some(ended) = self.ended.get_mut(&id)
            && ended.end == End::Lost
            && !ended.answered_late
        {
            ended.answered_late = true;
        } else {
            self.again += 1;
        }
        Ok(())
    }
}
