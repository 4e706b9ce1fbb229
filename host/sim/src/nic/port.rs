//! Ports of a simulated NIC: the source and destination of its messages.

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// A message without its payload.
///
/// Packets, sequence numbers and addresses of hosts are the port's own business.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Message {
    /// Bytes for registered memory, unseen by software.
    Write {
        /// Where, in the region's terms.
        address: u64,
        /// Key of the region.
        rkey: u32,
    },
    /// Bytes for registered memory; uses up a receive request.
    WriteImm {
        /// Where, in the region's terms.
        address: u64,
        /// Key of the region.
        rkey: u32,
        /// For the completion entry.
        immediate: u32,
    },
    /// Bytes for the next receive request.
    Send,
    /// Bytes for the next receive request.
    SendImm {
        /// For the completion entry.
        immediate: u32,
    },
}

/// A connection of one queue pair to its peer.
pub trait Port {
    /// The next message, if there is one: its payload replaces the contents of `payload`. Never blocks.
    fn receive(&mut self, payload: &mut Vec<u8>) -> Option<Message>;

    /// Sends a message; false if it was lost. Never blocks.
    fn send(&mut self, message: Message, payload: &[u8]) -> bool;

    /// The NIC dropped the [`WriteImm`](Message::WriteImm) that it has just received: no receive request, or memory that it
    /// must not write. No answer to it will be sent.
    fn undelivered(&mut self) {}
}

/// One end of a wire within the process.
///
/// ```
/// use ringcall_sim::nic::{Message, Port, Wire};
///
/// let (mut here, mut there) = Wire::pair(4);
/// assert!(here.send(Message::Send, b"syndrome"));
/// let mut payload = Vec::new();
/// assert_eq!(there.receive(&mut payload), Some(Message::Send));
/// assert_eq!(payload, b"syndrome");
/// ```
#[derive(Debug)]
pub struct Wire {
    outbound: SyncSender<(Message, Vec<u8>)>,
    inbound: Receiver<(Message, Vec<u8>)>,
}

impl Wire {
    /// Two ends; `capacity` messages may be under way in each direction, and more are lost.
    #[must_use]
    pub fn pair(capacity: usize) -> (Self, Self) {
        let (there, from_here) = sync_channel(capacity);
        let (here, from_there) = sync_channel(capacity);
        (Self { outbound: there, inbound: from_there }, Self { outbound: here, inbound: from_here })
    }
}

impl Port for Wire {
    fn receive(&mut self, payload: &mut Vec<u8>) -> Option<Message> {
        let (message, bytes) = self.inbound.try_recv().ok()?;
        *payload = bytes;
        Some(message)
    }

    fn send(&mut self, message: Message, payload: &[u8]) -> bool {
        self.outbound.try_send((message, payload.to_vec())).is_ok()
    }
}
