//! The data plane: sends requests, takes answers.

use crate::fpga::config::{PlayerConfig, RequestIds, TimeFormat};
use crate::fpga::error::EmulatorError;
use crate::fpga::faults::Injector;
use crate::fpga::metadata::{FrameMetadata, METADATA_BYTES, PtpTime};
use crate::fpga::outgoing::{flush, push};
use crate::fpga::reliable::Reliable;
use crate::fpga::report::Report;
use crate::fpga::request_log::RequestLog;
use crate::fpga::windows::{Checker, Windows};
use ringcall_gpu::clock;
use ringcall_roce::{
    BATCH, Envelope, Immediate, Inbox, Incomplete, LocalQueuePair, MAX_OVERHEAD_BYTES, NoMemory, Packet,
    PacketEffect, PacketOutbox, PathMtu, Psn, Reason, Responder, Reth, RoceSocket,
};
use ringcall_wire::tag::TAG_BYTES;
use ringcall_wire::{HEADER_BYTES, RequestHeader};
use std::io::ErrorKind;
use std::net::SocketAddrV4;
use std::time::Duration;

/// Room for an answer, from the BTH to the iCRC: a packet of the largest path MTU.
const ANSWER_BYTES: usize = 4096 + MAX_OVERHEAD_BYTES;
/// How long the player polls without an event before it sleeps until the next.
const POLL_NS: u64 = 200_000;
/// The longest sleep: how fast a stop is noticed.
const SLEEP: Duration = Duration::from_millis(2);

/// Plays requests to one host's window, many in flight, and checks the answers. One thread drives it; nothing waits
/// longer than [`PlayerConfig::timeout`].
#[derive(Debug)]
pub struct Player {
    socket: RoceSocket,
    config: PlayerConfig,
    envelope: Envelope,
    log: RequestLog,
    injector: Injector,
    outbox: PacketOutbox,
    inbox: Inbox,
    answers: Responder,
    reliable: Option<Box<Reliable>>,
    psn: Psn,
    next_id: u32,
    /// Windows played since the first.
    played: u64,
    began_ns: Option<u64>,
    datagram: Vec<u8>,
    window: Vec<u8>,
}

/// Whether the window at hand could be played.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    Played,
    NotDue,
    NoPage,
}

impl Player {
    /// A player on its own socket, which sends requests and takes answers.
    ///
    /// # Errors
    /// Settings that do not work.
    pub fn new(socket: RoceSocket, config: PlayerConfig) -> Result<Self, EmulatorError> {
        config.check()?;
        let qp = LocalQueuePair {
            number: config.qp,
            key: 0,
            base: 0,
            slot_bytes: 0,
            slots: 0,
            incomplete: Incomplete::Discard,
        };
        let reliable =
            config.reliable.map(|mtu| Reliable::new(&config, qp, mtu).map(Box::new)).transpose()?;
        let answers = Responder::new(qp)?.gathering(HEADER_BYTES + config.target.page_bytes as usize);
        let first_psn = config.first_psn.map_or_else(Psn::first, Psn::new);
        let most = config.reliable.map_or(config.packet_bytes as usize, PathMtu::bytes);
        let datagram = vec![0; most + MAX_OVERHEAD_BYTES];
        Ok(Self {
            envelope: socket.envelope_to(config.target.peer),
            log: RequestLog::new(&config),
            injector: Injector::new(config.faults),
            outbox: PacketOutbox::new(datagram.len()),
            inbox: Inbox::new(ANSWER_BYTES),
            answers,
            reliable,
            psn: first_psn,
            next_id: 0,
            played: 0,
            began_ns: None,
            datagram,
            window: Vec::new(),
            socket,
            config,
        })
    }

    /// Where answers are expected.
    #[must_use]
    pub const fn local_addr(&self) -> SocketAddrV4 {
        self.socket.local_addr()
    }

    /// Plays until there are no more windows or `stop` says so, then waits until every request is answered or given up. A
    /// socket that [tells closed ports](RoceSocket::tell_closed_ports) ends the run when the host's is
    /// ([`Report::closed`]).
    ///
    /// # Errors
    /// A window that is no request, or a socket that fails: a route's MTU below the packets' size, for one.
    pub fn run<W: Windows + ?Sized, C: Checker + ?Sized>(
        &mut self,
        windows: &mut W,
        checker: &mut C,
        stop: &dyn Fn() -> bool,
    ) -> Result<Report, EmulatorError> {
        match self.play(windows, checker, stop) {
            Err(EmulatorError::Io { source, .. }) if source.kind() == ErrorKind::ConnectionRefused => {
                self.log.give_up();
                self.log.report.closed = true;
            }
            outcome => outcome?,
        }
        Ok(self.report())
    }

    fn play<W: Windows + ?Sized, C: Checker + ?Sized>(
        &mut self,
        windows: &mut W,
        checker: &mut C,
        stop: &dyn Fn() -> bool,
    ) -> Result<(), EmulatorError> {
        let began = *self.began_ns.get_or_insert_with(clock::now_ns);
        let mut more = true;
        let mut waiting = false;
        let mut stalled = false;
        let mut busy_ns = began;
        loop {
            let mut active = self.receive(checker)? + self.transmit()? > 0;
            self.log.expire(clock::now_ns());
            for _ in 0..BATCH {
                if more && !waiting {
                    more = !stop() && windows.next(&mut self.window);
                    waiting = more;
                    stalled = false;
                }
                if !waiting {
                    break;
                }
                match self.turn(began)? {
                    Turn::Played => {
                        waiting = false;
                        active = true;
                    }
                    Turn::NotDue => break,
                    Turn::NoPage => {
                        self.log.report.stalls += u64::from(!stalled);
                        stalled = true;
                        break;
                    }
                }
            }
            if !active && self.injector.is_holding() {
                // Nothing follows for now that the held packets could come after.
                let Self { injector, outbox, socket, config, .. } = self;
                injector.release(true, |bytes| push(outbox, socket, config.target.peer, bytes))?;
            }
            self.transmit()?;
            flush(&mut self.outbox, &self.socket)?;
            if waiting && stop() {
                waiting = false;
                more = false;
            }
            let now = clock::now_ns();
            let settled = !more && !waiting && self.log.is_settled();
            if settled && self.reliable.as_mut().is_none_or(|reliable| reliable.is_over(now)) {
                return Ok(());
            }
            if active {
                busy_ns = now;
            } else if now.saturating_sub(busy_ns) < POLL_NS {
                std::thread::yield_now();
            } else {
                self.sleep(now, waiting && self.log.has_room(), began)?;
            }
        }
    }

    /// The results so far.
    #[must_use]
    pub fn report(&self) -> Report {
        let elapsed_ns = self.began_ns.map_or(0, |began| clock::now_ns().saturating_sub(began));
        Report {
            faults: *self.injector.stats(),
            answers: *self
                .reliable
                .as_ref()
                .map_or(self.answers.stats(), |reliable| reliable.connection.responder().responder().stats()),
            reliable: self.reliable.as_ref().map(|reliable| reliable.connection.stats()),
            ..self.log.summary(elapsed_ns)
        }
    }

    fn due_ns(&self, began: u64) -> u64 {
        let interval = u64::try_from(self.config.interval.as_nanos()).unwrap_or(u64::MAX);
        began.saturating_add(self.played.saturating_mul(interval))
    }

    /// Sleeps until the next event, but for the time that polling takes.
    fn sleep(&self, now: u64, may_send: bool, began: u64) -> Result<(), EmulatorError> {
        let due = if may_send { self.due_ns(began) } else { u64::MAX };
        let overdue = self.reliable.as_ref().and_then(|reliable| reliable.connection.deadline_ns());
        let next = due.min(self.log.next_deadline().unwrap_or(u64::MAX)).min(overdue.unwrap_or(u64::MAX));
        let free = Duration::from_nanos(next.saturating_sub(now).saturating_sub(POLL_NS)).min(SLEEP);
        if free.is_zero() {
            std::thread::yield_now();
            return Ok(());
        }
        self.socket.wait(free).map(drop).map_err(EmulatorError::io("waiting for answers"))
    }

    /// Plays the window at hand, if it is time and there is a page for it.
    fn turn(&mut self, began: u64) -> Result<Turn, EmulatorError> {
        let tag_bytes = if self.config.key.is_some() { TAG_BYTES } else { 0 };
        let bytes = self.window.len() + tag_bytes;
        let bytes = if self.config.metadata { FrameMetadata::offset(bytes) + METADATA_BYTES } else { bytes };
        let (least, most) = (HEADER_BYTES, self.config.target.page_bytes);
        let wrong = || EmulatorError::Window { index: self.played, bytes, least, most };
        if bytes > most as usize {
            return Err(wrong());
        }
        let mut header = RequestHeader::from_bytes(&self.window).map_err(|_| wrong())?;
        if clock::now_ns() < self.due_ns(began) {
            return Ok(Turn::NotDue);
        }
        match self.config.ids {
            RequestIds::Counted => header.request_id = self.next_id,
            RequestIds::AsWritten if self.log.is_open(header.request_id) => return Ok(Turn::NoPage),
            RequestIds::AsWritten => {}
        }
        if self.reliable.as_ref().is_some_and(|reliable| !reliable.has_room(&self.config)) {
            return Ok(Turn::NoPage);
        }
        header.ptp_timestamp = self.config.time.now();
        let Some(page) = self.log.enter(header, &self.window[HEADER_BYTES..], clock::now_ns()) else {
            return Ok(Turn::NoPage);
        };
        self.window[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
        self.append_tag();
        self.next_id = self.next_id.wrapping_add(1);
        self.played += 1;
        if self.config.metadata {
            self.append_metadata();
        }
        self.send(page, header.request_id)?;
        Ok(Turn::Played)
    }

    /// Ends the request at hand with its tag, if it has one.
    fn append_tag(&mut self) {
        let Some(key) = &self.config.key else { return };
        let frame_bytes = self.window.len();
        self.window.resize(frame_bytes + TAG_BYTES, 0);
        // A window that is shorter than it says has no place for a tag: it goes out as it is, and is refused.
        let sealed = key.seal(&mut self.window, frame_bytes).unwrap_or(frame_bytes);
        self.window.truncate(sealed);
    }

    /// Ends the window at hand with its block.
    fn append_metadata(&mut self) {
        let time = TimeFormat::SecondsNanoseconds.now();
        let time = PtpTime { seconds: time >> 32, nanoseconds: time as u32 };
        let data_bytes = self.window.len();
        let offset = FrameMetadata::offset(data_bytes);
        // The last packet's number: the block's own.
        let packets = (offset + METADATA_BYTES).div_ceil(self.config.packet_bytes as usize);
        let block = FrameMetadata {
            flags: 0,
            psn: self.psn.plus(packets as u32 - 1).get(),
            crc: FrameMetadata::crc_of(&self.window),
            time,
            bytes_written: data_bytes as u64,
            frame_number: self.played.wrapping_sub(1) as u16,
            metadata_time: time,
        };
        self.window.resize(offset, 0);
        self.window.extend_from_slice(&block.to_bytes());
    }

    /// Sends the window at hand into a page: all packets but the last as plain WRITEs, the last with the immediate.
    fn send(&mut self, page: u32, id: u32) -> Result<(), EmulatorError> {
        if let Some(reliable) = &mut self.reliable {
            self.log.report.payload_bytes += self.window.len() as u64;
            return reliable.post(&self.config, page, &self.window);
        }
        let Self { socket, config, envelope, log, injector, outbox, psn, datagram, window, .. } = self;
        let target = &config.target;
        let mut address = target.base + u64::from(page) * u64::from(target.page_bytes);
        let mut parts = window.chunks(config.packet_bytes as usize).peekable();
        while let Some(part) = parts.next() {
            // No part is longer than a packet.
            let reth = Reth { address, key: target.key, length: part.len() as u32 };
            let packet = if parts.peek().is_some() {
                Packet::write_only(target.qp, *psn, reth, part)
            } else {
                Packet::write_immediate(target.qp, *psn, reth, Immediate::new(page, *psn), part)
            };
            let length = packet.write(envelope, datagram)?;
            let arrives =
                injector.pass(&mut datagram[..length], |bytes| push(outbox, socket, target.peer, bytes))?;
            if !arrives {
                log.harm(id);
            }
            log.report.packets += 1;
            log.report.payload_bytes += part.len() as u64;
            *psn = psn.next();
            address += part.len() as u64;
        }
        Ok(())
    }

    /// Over a reliable connection: sends the packets that are due. Returns how many packets.
    fn transmit(&mut self) -> Result<usize, EmulatorError> {
        let Self { socket, config, envelope, log, injector, outbox, datagram, reliable, .. } = self;
        let Some(reliable) = reliable else { return Ok(0) };
        let sent =
            reliable.transmit(clock::now_ns(), (socket, envelope), config, injector, outbox, datagram)?;
        log.report.packets += sent as u64;
        Ok(sent)
    }

    /// Takes what has come. Returns how many packets.
    fn receive<C: Checker + ?Sized>(&mut self, checker: &mut C) -> Result<usize, EmulatorError> {
        let count = self.socket.receive(&mut self.inbox).map_err(EmulatorError::io("receiving answers"))?;
        if count == 0 {
            return Ok(0);
        }
        let now = clock::now_ns();
        for (peer, datagram) in self.inbox.iter() {
            // An adapter's source port is any.
            let Self { socket, config, answers, reliable, .. } = self;
            if peer.ip() != config.target.peer.ip() {
                match reliable {
                    Some(reliable) => reliable.connection.count_refusal(Reason::WrongPeer),
                    None => answers.count_refusal(Reason::WrongPeer),
                }
                continue;
            }
            let envelope = socket.envelope_from(peer);
            let event = match reliable {
                Some(reliable) => reliable.receive(datagram, &envelope, config.icrc, now),
                None => answers.receive_datagram(datagram, &envelope, config.icrc, &mut NoMemory).map(Some),
            };
            let answer = match event {
                Ok(Some(PacketEffect::Message(answer))) => answer,
                Ok(Some(PacketEffect::Gathered)) => match reliable {
                    Some(reliable) => reliable.connection.responder().responder().gathered(),
                    None => answers.gathered(),
                },
                _ => continue,
            };
            let answer = match &self.config.key {
                None => answer,
                Some(key) => {
                    let Some(answer) = key.open(answer) else {
                        self.log.report.wrong_tag += 1;
                        continue;
                    };
                    answer
                }
            };
            let read = RequestLog::read(answer);
            if self.injector.drops_answer() {
                if let Some((response, _)) = read {
                    self.log.harm(response.request_id);
                }
                continue;
            }
            checker.capture(answer, self.config.time.now());
            match read {
                Some((response, result)) => self.log.settle(response, result, now, checker),
                None => self.log.report.malformed += 1,
            }
        }
        Ok(count)
    }
}
