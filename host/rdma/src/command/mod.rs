//! Commands that create a queue pair and advance it through its states, as bytes. Building them needs no adapter.
//!
//! An mlx5 adapter takes commands of named bit fields; rdma-core passes them on unread (`mlx5dv_devx_obj_create`,
//! `mlx5dv_devx_obj_modify`). The field offsets are those of the public mlx5_ifc.h.
//!
//! | command | effect |
//! |---|---|
//! | [`create_cq`] | creates a completion queue in registered memory |
//! | [`create_qp`] | creates a queue pair in registered memory, receive requests first |
//! | [`to_init`] | reset → initialised: port, partition, the peer's permissions |
//! | [`to_receive`] | initialised → ready to receive: the peer's address and number |
//! | [`to_send`] | ready to receive → ready to send |
//!
//! ```
//! use ringcall_rdma::command::{self, Completions, Queue};
//!
//! let queue = Queue { umem: 7, offset: 0, record_umem: 8, record_offset: 64 };
//! let cq = Completions { log_entries: 6, uar_page: 3, event_queue: 1, queue, ignore_overrun: true, collapsed: false };
//! let bytes = command::create_cq(&cq)?;
//! assert_eq!((bytes.len(), &bytes[..2]), (272, &[0x04, 0x00][..]));
//! # Ok::<(), command::CommandError>(())
//! ```

mod bits;
mod fields;

pub use bits::BitField;

use fields::*;
use std::net::Ipv4Addr;

/// A command's bytes.
pub type Command = [u8; COMMAND_BYTES];
/// An answer's bytes.
pub type Answer = [u8; ANSWER_BYTES];

/// Command numbers.
pub mod opcode {
    /// Creates a completion queue.
    pub const CREATE_CQ: u16 = 0x400;
    /// Creates a queue pair.
    pub const CREATE_QP: u16 = 0x500;
    /// Reset to initialised.
    pub const RST2INIT_QP: u16 = 0x502;
    /// Initialised to ready to receive.
    pub const INIT2RTR_QP: u16 = 0x503;
    /// Ready to receive to ready to send.
    pub const RTR2RTS_QP: u16 = 0x504;
}

/// A value that does not fit its field, or a command that the adapter refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum CommandError {
    /// The value is too large.
    #[error("{what} is {value:#x}, and has {bits} bits")]
    Field {
        /// The value's name.
        what: &'static str,
        /// The value.
        value: u64,
        /// Bits of its field.
        bits: usize,
    },
    /// The adapter refused the command.
    #[error("the adapter refused the command: status {status:#x}, syndrome {syndrome:#x}")]
    Refused {
        /// The answer's status.
        status: u8,
        /// The reason, as a code of the vendor's.
        syndrome: u32,
    },
}

/// Memory of a queue and of its doorbell record, registered with the adapter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Queue {
    /// Number of the registered memory that holds the queue.
    pub umem: u32,
    /// The queue's offset in that memory.
    pub offset: u64,
    /// Number of the registered memory that holds the record.
    pub record_umem: u32,
    /// The record's offset in that memory.
    pub record_offset: u64,
}

/// A completion queue of 64-byte entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Completions {
    /// Entries, as a power of two.
    pub log_entries: u8,
    /// The doorbell page.
    pub uar_page: u32,
    /// The event queue; it gets events only if the completion queue is armed.
    pub event_queue: u32,
    /// Its memory.
    pub queue: Queue,
    /// Whether the adapter may overwrite unread entries, so that it need not be told the consumer index. This is safe
    /// if the queue has as many entries as its work queue, and credit is returned only for entries that were read.
    pub ignore_overrun: bool,
    /// Whether the queue has a single entry, which each completion overwrites.
    pub collapsed: bool,
}

/// Service of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectionService {
    /// Reliable: acknowledged and retransmitted.
    Reliable,
    /// Unreliable: the service that a sensor bridge uses.
    Unreliable,
}

/// A queue pair of 64-byte send requests and 16-byte receive requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairSettings {
    /// Its service.
    pub service: ConnectionService,
    /// The protection domain.
    pub protection_domain: u32,
    /// The doorbell page.
    pub uar_page: u32,
    /// Completions of send requests.
    pub send_cq: u32,
    /// Completions of receive requests.
    pub receive_cq: u32,
    /// Send requests, as a power of two.
    pub log_send: u8,
    /// Receive requests, as a power of two.
    pub log_receive: u8,
    /// Memory of the receive requests, followed by the send requests.
    pub queue: Queue,
    /// How the adapter learns the send counter: 0 is by the doorbell record. Other modes depend on the hardware.
    pub send_record_mode: u8,
}

/// Path MTU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub enum Mtu {
    /// 256 bytes.
    B256 = 1,
    /// 512 bytes.
    B512 = 2,
    /// 1024 bytes.
    B1024 = 3,
    /// 2048 bytes.
    B2048 = 4,
    /// 4096 bytes: the interface needs an MTU of at least 4200, or packets vanish.
    B4096 = 5,
}

/// A peer, and the route to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// The adapter's port, from 1.
    pub port: u8,
    /// Index of the port's own address to send from.
    pub gid_index: u8,
    /// Path MTU.
    pub mtu: Mtu,
    /// The most routers that a packet may pass.
    pub hop_limit: u8,
    /// Traffic class; its upper six bits are the packets' DSCP.
    pub traffic_class: u8,
    /// UDP source port.
    pub udp_port: u16,
    /// The peer's address.
    pub gid: [u8; 16],
    /// The next hop's MAC address.
    pub mac: [u8; 6],
    /// The peer's queue pair.
    pub qp: u32,
    /// The peer's first sequence number.
    pub psn: u32,
}

/// An IPv4 host's address in the form that RoCE v2 uses: `::ffff:a.b.c.d`.
#[must_use]
pub fn gid_of(ip: Ipv4Addr) -> [u8; 16] {
    ip.to_ipv6_mapped().octets()
}

struct Writer {
    bytes: Command,
    error: Option<CommandError>,
}

impl Writer {
    fn new(opcode: u16) -> Self {
        let mut bytes = [0; COMMAND_BYTES];
        OPCODE.put(&mut bytes, opcode.into());
        Self { bytes, error: None }
    }

    fn put(&mut self, what: &'static str, field: BitField, value: impl Into<u64>) -> &mut Self {
        let value = value.into();
        if value > field.max() {
            self.error.get_or_insert(CommandError::Field { what, value, bits: field.bits });
        }
        field.put(&mut self.bytes, value);
        self
    }

    fn cq(&mut self, what: &'static str, field: BitField, value: impl Into<u64>) -> &mut Self {
        self.put(what, field.within(CQ_CONTEXT), value)
    }

    fn qp(&mut self, what: &'static str, field: BitField, value: impl Into<u64>) -> &mut Self {
        self.put(what, field.within(QP_CONTEXT), value)
    }

    fn path(&mut self, what: &'static str, field: BitField, value: impl Into<u64>) -> &mut Self {
        self.qp(what, field.within(PRIMARY_PATH), value)
    }

    fn done(&self) -> Result<Command, CommandError> {
        self.error.map_or(Ok(self.bytes), Err)
    }
}

/// The command that creates a completion queue.
///
/// # Errors
/// A value that does not fit its field.
pub fn create_cq(cq: &Completions) -> Result<Command, CommandError> {
    let Queue { umem, offset, record_umem, record_offset } = cq.queue;
    Writer::new(opcode::CREATE_CQ)
        .put("the queue's offset", CQ_UMEM_OFFSET, offset)
        .put("the queue's memory", CQ_UMEM_ID, umem)
        .put("the queue's memory", CQ_UMEM_VALID, true)
        .cq("the record's memory", CQC_RECORD_UMEM_VALID, true)
        .cq("the record's memory", CQC_RECORD_UMEM_ID, record_umem)
        .cq("the record's offset", CQC_RECORD_ADDRESS, record_offset)
        // 0 stands for 64 bytes.
        .cq("the entries' size", CQC_ENTRY_SIZE, 0_u8)
        .cq("collapsed", CQC_COLLAPSED, cq.collapsed)
        .cq("overrun", CQC_OVERRUN_IGNORE, cq.ignore_overrun)
        .cq("the number of entries, as a power of two", CQC_LOG_SIZE, cq.log_entries)
        .cq("the doorbell page", CQC_UAR_PAGE, cq.uar_page)
        .cq("the event queue", CQC_EVENT_QUEUE, cq.event_queue)
        // 0 stands for pages of 4 KiB.
        .cq("the page size", CQC_LOG_PAGE_SIZE, 0_u8)
        .done()
}

const fn service_number(service: ConnectionService) -> u8 {
    match service {
        ConnectionService::Reliable => 0,
        ConnectionService::Unreliable => 1,
    }
}

/// Path state "migrated", which every state change has to name.
const MIGRATED: u8 = 3;

/// The command that creates a queue pair.
///
/// # Errors
/// A value that does not fit its field.
pub fn create_qp(pair: &QueuePairSettings) -> Result<Command, CommandError> {
    let Queue { umem, offset, record_umem, record_offset } = pair.queue;
    Writer::new(opcode::CREATE_QP)
        .put("the queues' offset", WQ_UMEM_OFFSET, offset)
        .put("the queues' memory", WQ_UMEM_ID, umem)
        .put("the queues' memory", WQ_UMEM_VALID, true)
        .qp("the service", SERVICE, service_number(pair.service))
        .qp("the path's state", PATH_STATE, MIGRATED)
        .qp("the protection domain", PROTECTION_DOMAIN, pair.protection_domain)
        .qp("the number of send requests, as a power of two", LOG_SQ_SIZE, pair.log_send)
        .qp("the number of receive requests, as a power of two", LOG_RQ_SIZE, pair.log_receive)
        // 0 stands for 16 bytes.
        .qp("the receive requests' size", LOG_RQ_STRIDE, 0_u8)
        .qp("the receive queue's kind", RQ_TYPE, 0_u8)
        .qp("the doorbell page", UAR_PAGE, pair.uar_page)
        .qp("the send record's mode", SEND_RECORD_MODE, pair.send_record_mode)
        // No index: completions name the queue pair.
        .qp("the user's index", USER_INDEX, USER_INDEX.max())
        .qp("the page size", LOG_PAGE_SIZE, 0_u8)
        .qp("the completion queue of sends", SEND_CQN, pair.send_cq)
        .qp("the completion queue of receives", RECEIVE_CQN, pair.receive_cq)
        .qp("the record's memory", RECORD_UMEM_VALID, true)
        .qp("the record's memory", RECORD_UMEM_ID, record_umem)
        .qp("the record's offset", RECORD_ADDRESS, record_offset)
        .done()
}

fn modify(opcode: u16, qp: u32, service: ConnectionService) -> Writer {
    let mut writer = Writer::new(opcode);
    writer.put("the queue pair", MODIFY_QPN, qp).qp("the service", SERVICE, service_number(service)).qp(
        "the path's state",
        PATH_STATE,
        MIGRATED,
    );
    writer
}

/// The command from reset to initialised, with write permission for the peer.
///
/// # Errors
/// A value that does not fit its field.
pub fn to_init(
    qp: u32,
    service: ConnectionService,
    port: u8,
    pkey_index: u16,
) -> Result<Command, CommandError> {
    modify(opcode::RST2INIT_QP, qp, service)
        .qp("remote writes", REMOTE_WRITE, true)
        .path("the partition key", PATH_PKEY_INDEX, pkey_index)
        .path("the port", PATH_PORT, port)
        .done()
}

/// The longest message, as a power of two: 1 GiB.
const LOG_MESSAGE: u8 = 30;

/// The command from initialised to ready to receive from the peer of `path`.
///
/// # Errors
/// A value that does not fit its field.
pub fn to_receive(qp: u32, service: ConnectionService, path: &Path) -> Result<Command, CommandError> {
    let [m0, m1, m2, m3, m4, m5] = path.mac;
    let mut writer = modify(opcode::INIT2RTR_QP, qp, service);
    writer
        .qp("remote writes", REMOTE_WRITE, true)
        .qp("the MTU", MTU, path.mtu as u8)
        .qp("the longest message", LOG_MESSAGE_MAX, LOG_MESSAGE)
        .qp("the peer's queue pair", REMOTE_QPN, path.qp)
        .qp("the peer's sequence number", NEXT_RECEIVE_PSN, path.psn)
        .path("the own address's index", PATH_GID_INDEX, path.gid_index)
        .path("the hop limit", PATH_HOP_LIMIT, path.hop_limit)
        .path("the traffic class", PATH_TRAFFIC_CLASS, path.traffic_class)
        .path("the UDP port", PATH_UDP_PORT, path.udp_port)
        .path("the port", PATH_PORT, path.port)
        .path("the MAC address", PATH_MAC_HIGH, u16::from_be_bytes([m0, m1]))
        .path("the MAC address", PATH_MAC_LOW, u32::from_be_bytes([m2, m3, m4, m5]));
    for (index, byte) in path.gid.into_iter().enumerate() {
        writer.path("the peer's address", BitField::new(PATH_GID + 8 * index, 8), byte);
    }
    if service == ConnectionService::Reliable {
        writer.qp("the wait for credit", MIN_NO_CREDIT_TIMER, 12_u8).qp("reads", LOG_READS_IN, 0_u8);
    }
    writer.done()
}

/// The command from ready to receive to ready to send, with `psn` as the first sequence number.
///
/// # Errors
/// A value that does not fit its field.
pub fn to_send(qp: u32, service: ConnectionService, psn: u32) -> Result<Command, CommandError> {
    let mut writer = modify(opcode::RTR2RTS_QP, qp, service);
    writer.qp("the sequence number", NEXT_SEND_PSN, psn);
    if service == ConnectionService::Reliable {
        writer
            .qp("acknowledgements", LOG_ACK_FREQUENCY, 8_u8)
            .qp("reads", LOG_READS_OUT, 0_u8)
            .qp("repeats", RETRY_COUNT, 7_u8)
            .qp("repeats without credit", NO_CREDIT_RETRY, 7_u8)
            .path("the acknowledgement's timeout", PATH_ACK_TIMEOUT, 14_u8);
    }
    writer.done()
}

/// The number of the object that a command has created.
///
/// # Errors
/// The adapter's refusal.
pub fn made(answer: &Answer) -> Result<u32, CommandError> {
    match ANSWER_STATUS.get(answer) {
        // 24 bits.
        0 => Ok(ANSWER_NUMBER.get(answer) as u32),
        // 8 and 32 bits.
        status => {
            Err(CommandError::Refused { status: status as u8, syndrome: ANSWER_SYNDROME.get(answer) as u32 })
        }
    }
}

/// An answer for the adapter to fill.
#[must_use]
pub const fn answer() -> Answer {
    [0; ANSWER_BYTES]
}

#[cfg(test)]
mod tests;
