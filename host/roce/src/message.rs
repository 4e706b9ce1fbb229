//! Messages, cut into packets by the path MTU.

use crate::mtu::PathMtu;
use crate::opcode::{Opcode, Part, Service, Verb};
use crate::packet::{Packet, Reth};
use crate::psn::Psn;

/// What a message does at its receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageOperation {
    /// SEND: data for the receiver's next buffer.
    Send {
        /// A number for the receiving program.
        immediate: Option<u32>,
    },
    /// RDMA WRITE: data for an address of the receiver's memory.
    Write {
        /// The address of the first byte.
        address: u64,
        /// The key to that memory.
        key: u32,
        /// A number for the receiving program.
        immediate: Option<u32>,
    },
}

/// A message, and the queue pair to which it goes.
///
/// ```
/// use ringcall_roce::opcode::Service;
/// use ringcall_roce::{Message, Opcode, MessageOperation, PathMtu, Psn};
///
/// let (operation, bytes) = (MessageOperation::Send { immediate: None }, [7; 600]);
/// let message = Message { service: Service::Uc, operation, destination_qp: 2, mtu: PathMtu::B256, bytes: &bytes };
/// let packets: Vec<_> = (0..message.packets()).map(|index| message.packet(index, Psn::new(5))).collect();
/// let opcodes = [Opcode::UcSendFirst, Opcode::UcSendMiddle, Opcode::UcSendLast];
/// assert!(packets.iter().map(|packet| packet.bth.opcode).eq(opcodes));
/// assert!(packets.iter().map(|packet| packet.payload.len()).eq([256, 256, 88]));
/// assert!(packets.iter().map(|packet| packet.bth.psn.get()).eq([5, 6, 7]));
/// ```
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    /// The service of the queue pairs; any service other than RC is sent as UC.
    pub service: Service,
    /// The operation.
    pub operation: MessageOperation,
    /// The receiving queue pair.
    pub destination_qp: u32,
    /// The most bytes of a packet.
    pub mtu: PathMtu,
    /// The message.
    pub bytes: &'a [u8],
}

impl<'a> Message<'a> {
    /// The number of packets, at least one.
    #[must_use]
    pub const fn packets(&self) -> u32 {
        self.mtu.packets(self.bytes.len())
    }

    /// Packet `index` of [`packets`](Self::packets), if the first one has the sequence number `first`. An index past
    /// the end gives the last packet.
    #[must_use]
    pub fn packet(&self, index: u32, first: Psn) -> Packet<'a> {
        let last = self.packets() - 1;
        let index = index.min(last);
        let part = match (index, last) {
            (0, 0) => Part::Only,
            (0, _) => Part::First,
            (index, last) if index == last => Part::Last,
            _ => Part::Middle,
        };
        let mtu = self.mtu.bytes();
        let begin = index as usize * mtu;
        let payload = &self.bytes[begin..self.bytes.len().min(begin + mtu)];
        let (verb, immediate) = match self.operation {
            MessageOperation::Send { immediate } => (Verb::Send, immediate),
            MessageOperation::Write { immediate, .. } => (Verb::Write, immediate),
        };
        let immediate = immediate.filter(|_| index == last);
        let reth = match self.operation {
            // A message has at most 2³¹ bytes.
            MessageOperation::Write { address, key, .. } if index == 0 => {
                Some(Reth { address, key, length: self.bytes.len() as u32 })
            }
            _ => None,
        };
        let opcode = Opcode::of(self.service == Service::Rc, verb == Verb::Write, part, immediate.is_some());
        Packet { reth, immediate, ..Packet::new(opcode, self.destination_qp, first.plus(index), payload) }
    }
}
