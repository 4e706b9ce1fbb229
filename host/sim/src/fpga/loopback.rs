//! A service to test against: a queue pair over plain memory, and answers from its own thread.

use crate::fpga::config::{EMULATOR_QP, PlayerTarget};
use crate::fpga::error::EmulatorError;
use crate::fpga::outgoing::{flush, push};
use ringcall::thread::{GRACE_PERIOD, STOP_CHECK_INTERVAL, StopFlag, Supervised};
use ringcall_roce::{
    IcrcCheck, Inbox, Incomplete, LocalQueuePair, MAX_OVERHEAD_BYTES, Packet, PacketEffect, PacketOutbox,
    Psn, Responder, ResponderStats, RoceSocket,
};
use ringcall_wire::{FunctionId, HEADER_BYTES, RequestHeader, ResponseHeader, Status, names};
use std::net::SocketAddrV4;

/// Makes an answer of a request: the whole slot's content in, header and result out. Returns the answer's bytes.
pub type Handler = fn(&[u8], &mut [u8]) -> usize;

/// Options of a loopback service: which requests it answers, and how.
#[derive(Clone, Copy, Debug)]
pub struct LoopbackConfig {
    /// Its queue pair and window.
    pub queue_pair: LocalQueuePair,
    /// The queue pair that answers are addressed to.
    pub remote_qp: u32,
    /// Makes the answers.
    pub handler: Handler,
}

impl Default for LoopbackConfig {
    fn default() -> Self {
        Self {
            queue_pair: LocalQueuePair {
                number: 0x12,
                key: 0xBEEF,
                base: 0,
                slot_bytes: 4096,
                slots: 64,
                incomplete: Incomplete::Discard,
            },
            remote_qp: EMULATOR_QP,
            handler: increment,
        }
    }
}

/// Counters of a loopback service.
pub type LoopbackStats = ResponderStats;

/// The handler of `rpc_increment`: adds one to each byte of the payload.
#[must_use]
pub fn increment(request: &[u8], answer: &mut [u8]) -> usize {
    let Ok(header) = RequestHeader::from_bytes(request) else { return 0 };
    let arguments = request.get(HEADER_BYTES..).and_then(|rest| rest.get(..header.arg_len as usize));
    let status = match arguments {
        _ if !header.has_magic() => Status::BAD_MAGIC,
        _ if header.function_id != FunctionId::of(names::RPC_INCREMENT).0 => Status::UNKNOWN_FUNCTION,
        None => Status::ARG_TOO_LONG,
        Some(_) => Status::OK,
    };
    let arguments = arguments.filter(|_| status.is_ok()).unwrap_or_default();
    let length = HEADER_BYTES + arguments.len();
    let Some(answer) = answer.get_mut(..length) else { return 0 };
    // It came in 32 bits.
    let response = ResponseHeader::reply(&header, status.0, arguments.len() as u32);
    answer[..HEADER_BYTES].copy_from_slice(&response.to_bytes());
    for (answer, byte) in answer[HEADER_BYTES..].iter_mut().zip(arguments) {
        *answer = byte.wrapping_add(1);
    }
    length
}

/// A service on its own thread, until it is stopped or dropped.
#[derive(Debug)]
pub struct Loopback {
    address: SocketAddrV4,
    queue_pair: LocalQueuePair,
    stop: StopFlag,
    thread: Supervised<Result<LoopbackStats, EmulatorError>>,
}

/// Empty looks at the socket before it sleeps.
const POLLS: u32 = 200;

impl Loopback {
    /// Starts one on this address.
    ///
    /// # Errors
    /// A socket or thread that cannot be made, or numbers that make no queue pair.
    pub fn start(address: SocketAddrV4, config: LoopbackConfig) -> Result<Self, EmulatorError> {
        let socket = RoceSocket::bind(address)?;
        let responder = Responder::new(config.queue_pair)?;
        let stop = StopFlag::default();
        let (local, seen) = (socket.local_addr(), stop.clone());
        let thread = Supervised::start("loopback", None, move || serve(&socket, responder, &config, &seen))
            .map_err(EmulatorError::io("the loopback service's thread"))?;
        Ok(Self { address: local, queue_pair: config.queue_pair, stop, thread })
    }

    /// Where its window is.
    #[must_use]
    pub const fn target(&self) -> PlayerTarget {
        let LocalQueuePair { number, key, base, slot_bytes, slots, .. } = self.queue_pair;
        PlayerTarget { peer: self.address, qp: number, key, base, page_bytes: slot_bytes, pages: slots }
    }

    /// Stops it. Returns what it counted.
    ///
    /// # Errors
    /// What ended it before, or a handler that does not return.
    pub fn stop(mut self) -> Result<LoopbackStats, EmulatorError> {
        self.stop.set();
        let ended = self.thread.wait(GRACE_PERIOD);
        ended.map_err(std::io::Error::other).map_err(EmulatorError::io("the loopback service's thread"))?
    }
}

impl Drop for Loopback {
    fn drop(&mut self) {
        self.stop.set();
        // The port is free again when this returns.
        let _ = self.thread.wait(GRACE_PERIOD);
    }
}

fn serve(
    socket: &RoceSocket,
    mut responder: Responder,
    config: &LoopbackConfig,
    stop: &StopFlag,
) -> Result<LoopbackStats, EmulatorError> {
    let LocalQueuePair { slot_bytes, slots, .. } = config.queue_pair;
    let slot_bytes = slot_bytes as usize;
    let mut memory = vec![0; slot_bytes * slots as usize];
    let mut answer = vec![0; slot_bytes];
    let packet_bytes = slot_bytes + MAX_OVERHEAD_BYTES;
    let (mut inbox, mut outbox) = (Inbox::new(packet_bytes), PacketOutbox::new(packet_bytes));
    let mut datagram = vec![0; packet_bytes];
    let mut psn = Psn::new(0);
    let mut peer = None;
    let mut idle = 0;
    while !stop.is_set() {
        if socket.receive(&mut inbox).map_err(EmulatorError::io("receiving requests"))? == 0 {
            idle += 1;
            if idle < POLLS {
                std::thread::yield_now();
            } else {
                socket.wait(STOP_CHECK_INTERVAL).map_err(EmulatorError::io("waiting for requests"))?;
            }
            continue;
        }
        idle = 0;
        for (from, bytes) in inbox.iter() {
            if peer.replace(from).is_some_and(|before| before != from) {
                responder.restart();
            }
            let envelope = socket.envelope_from(from);
            let event = responder.receive_datagram(bytes, &envelope, IcrcCheck::Recover, &mut memory[..]);
            let Ok(PacketEffect::Arrived(arrived)) = event else { continue };
            let slot = &memory[arrived.slot as usize * slot_bytes..][..arrived.bytes as usize];
            let length = (config.handler)(slot, &mut answer);
            if length == 0 {
                continue;
            }
            let packet = Packet::send(config.remote_qp, psn, &answer[..length]);
            let written = packet.write(&socket.envelope_to(from), &mut datagram)?;
            push(&mut outbox, socket, from, &datagram[..written])?;
            psn = psn.next();
        }
        flush(&mut outbox, socket)?;
    }
    Ok(*responder.stats())
}
