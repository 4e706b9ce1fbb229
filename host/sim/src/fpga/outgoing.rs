//! Datagrams on their way out of a socket.

use crate::fpga::error::EmulatorError;
use ringcall_gpu::clock;
use ringcall_roce::{PacketError, PacketOutbox, PushError, RoceSocket};
use std::net::SocketAddrV4;

/// How long the kernel may take nothing.
const STUCK_NS: u64 = 1_000_000_000;

/// Puts a datagram into the outbox, which is sent first if it is full.
pub(crate) fn push(
    outbox: &mut PacketOutbox,
    socket: &RoceSocket,
    peer: SocketAddrV4,
    datagram: &[u8],
) -> Result<(), EmulatorError> {
    if outbox.is_full() {
        flush(outbox, socket)?;
    }
    outbox.push_bytes(peer, datagram).map_err(|error| match error {
        PushError::Packet(error) => error.into(),
        PushError::Full => PacketError::TooLong { bytes: datagram.len() }.into(),
    })
}

/// Sends all that is in the outbox.
pub(crate) fn flush(outbox: &mut PacketOutbox, socket: &RoceSocket) -> Result<(), EmulatorError> {
    let mut stuck_ns = None;
    while !outbox.is_empty() {
        if socket.send(outbox).map_err(EmulatorError::io("sending"))? > 0 {
            stuck_ns = None;
            continue;
        }
        let now = clock::now_ns();
        if now.saturating_sub(*stuck_ns.get_or_insert(now)) > STUCK_NS {
            return Err(EmulatorError::Stuck);
        }
        std::thread::yield_now();
    }
    Ok(())
}
