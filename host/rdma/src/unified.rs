//! A unified kernel's queue pair, from a transport context and the struct that it names.
//!
//! [`UnifiedQueues`] serves both kinds of loop: a kernel on a GPU (`ringcall_launch::queue_pair::QueuePair::from_raw`
//! with [`config`](UnifiedQueues::config) and [`addresses`](UnifiedQueues::addresses)), and a loop on a CPU thread over
//! an emulated adapter ([`emulated`](UnifiedQueues::emulated)). Invalid values are refused by name before anything is
//! launched.
//!
//! ```
//! use ringcall_rdma::context::{Context, Context72};
//! use ringcall_rdma::doca::QpLayout;
//! use ringcall_rdma::unified::{QueuesError, UnifiedQueues};
//!
//! // A context that says nothing, of the form of 72 bytes.
//! let error = Context::of_any_form(&[0; 72]).expect_err("no queue pair");
//! assert_eq!(error.to_string(), "the queue pair is 0x0: an address that is a multiple of 8");
//! // A queue pair's struct of the open GPUNetIO cannot receive.
//! # let _ = |context: Context, bytes: &[u8]| -> Result<UnifiedQueues, QueuesError> {
//! UnifiedQueues::new(&context, &QpLayout::SDK.read(bytes)?)
//! # };
//! ```

use crate::context::{Context, ContextError};
use crate::devx::QueuePairLayout;
use crate::doca::{DeviceCompletions, DeviceQp, DeviceReceive, DocaError};
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_mlx5::endpoint::{Config, ResponsePath, Windows};
use ringcall_mlx5::layout::{
    BLUE_FLAME_BYTES, RECEIVE_WQE_BYTES, RECEIVE_WQE_WORDS, RECORD_BYTES, RECORD_SEND, cqe, wqe,
};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{BlueFlame, Endpoint, QueueError};
use ringcall_wire::unified::UnifiedParams;

/// Frames of a unified dispatcher are multiples of this many bytes.
const UNIT: u64 = 16;

/// Why a kernel cannot be launched with a context.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum QueuesError {
    /// The context is invalid.
    #[error("the transport context: {0}")]
    Context(#[from] ContextError),
    /// The struct that the context names is invalid.
    #[error("the queue pair of the transport context: {0}")]
    Pair(#[from] DocaError),
    /// The queue pair has no receive queue.
    #[error("queue pair {0:#x} has no receive queue: a GPUNetIO without one serves no requests")]
    NoReceiveQueue(u32),
    /// Answers would overwrite requests that are in flight.
    #[error(
        "response slots are the request slots: a context of 48 bytes is not enough, give one of 72 or 80"
    )]
    SharedSlots,
    /// A send request would have its response slot outside the ring.
    #[error("{slots} response slots, where the send queue has {sends} requests: give as many slots")]
    ResponseSlots {
        /// Slots of the context.
        slots: u32,
        /// Requests of the send queue.
        sends: u32,
    },
    /// An address or length is not aligned as the device needs it.
    #[error("{what} is at {address:#x}: it has to be a multiple of {unit}")]
    Unaligned {
        /// The part's name.
        what: &'static str,
        /// Its address or length.
        address: u64,
        /// The required alignment.
        unit: u64,
    },
    /// The two counters of the queue pair are not one record.
    #[error(
        "the send counter is at {send:#x} and the receive counter at {receive:#x}: the first belongs 4 bytes after the second"
    )]
    Record {
        /// The send counter's address.
        send: u64,
        /// The receive counter's address.
        receive: u64,
    },
    /// The memory belongs to another device, or to none.
    #[error("{what} at {address:#x} is {}, not of device {wanted}", whose(.found))]
    ForeignDevice {
        /// The part's name.
        what: &'static str,
        /// Its address.
        address: u64,
        /// The device that owns the memory, if any does.
        found: Option<u32>,
        /// The device that will run the kernel.
        wanted: u32,
    },
    /// The memory does not belong to the emulated adapter.
    #[error("{what} at {address:#x}, of {bytes} bytes, is not the emulated adapter's")]
    ForeignMemory {
        /// The part's name.
        what: &'static str,
        /// Its address.
        address: u64,
        /// Its length.
        bytes: usize,
    },
    /// Queues whose sizes no endpoint can have.
    #[error("{0}")]
    Queues(QueueError),
}

fn whose(found: &Option<u32>) -> String {
    found.map_or_else(|| "no device's memory".to_owned(), |device| format!("memory of device {device}"))
}

/// Where queues in this process's memory are, and how many entries each has: `uar` is their doorbell register.
#[must_use]
pub fn addresses_of(windows: &Windows, uar: &Words) -> UnifiedParams {
    let entries = |words: &Words, each: usize| u32::try_from(words.len() / each).unwrap_or(u32::MAX);
    UnifiedParams {
        rx_completions: windows.rx_completions.address(),
        rx_completion_entries: entries(&windows.rx_completions, cqe::WORDS),
        receive: windows.receive.address(),
        receive_entries: entries(&windows.receive, RECEIVE_WQE_WORDS),
        tx_completions: windows.tx_completions.address(),
        tx_completion_entries: entries(&windows.tx_completions, cqe::WORDS),
        send: windows.send.address(),
        send_entries: entries(&windows.send, wqe::WORDS),
        record: windows.record.address(),
        uar: uar.address(),
        rx_data: windows.rx_data.address(),
        tx_data: windows.tx_data.address(),
        ..UnifiedParams::default()
    }
}

/// The struct of queue pair `number`, whose queues, record and register are at these addresses.
#[must_use]
pub fn pair_at(number: u32, at: &UnifiedParams) -> DeviceQp {
    let completions = |address, entries| DeviceCompletions { address, entries };
    DeviceQp {
        number,
        send: at.send,
        send_entries: at.send_entries,
        send_record: at.record + RECORD_SEND as u64,
        doorbell: at.uar,
        send_completions: completions(at.tx_completions, at.tx_completion_entries),
        receive: Some(DeviceReceive {
            address: at.receive,
            entries: at.receive_entries,
            record: at.record,
            completions: completions(at.rx_completions, at.rx_completion_entries),
        }),
    }
}

/// A queue pair as a unified loop is told of it, whose values were checked.
#[derive(Debug, Clone, Copy)]
pub struct UnifiedQueues {
    /// The endpoint.
    pub config: Config,
    /// Addresses of queues, doorbell record, register and slots, and the entries of each.
    pub addresses: UnifiedParams,
    /// Whether the register takes whole requests.
    pub blue_flame: bool,
}

impl UnifiedQueues {
    /// Queues from a context and the struct at its `qp`, which the caller has copied from the device. Every receive
    /// request is a credit: the peer's writes bring their own addresses.
    ///
    /// # Errors
    /// The first value with which no kernel can be launched, by name.
    pub fn new(context: &Context, pair: &DeviceQp) -> Result<Self, QueuesError> {
        let context = context.check()?;
        let receive = pair.receive.ok_or(QueuesError::NoReceiveQueue(pair.number))?;
        if context.tx_data == context.rx_data {
            return Err(QueuesError::SharedSlots);
        }
        if context.slots < pair.send_entries {
            return Err(QueuesError::ResponseSlots { slots: context.slots, sends: pair.send_entries });
        }
        if pair.send_record != receive.record + RECORD_SEND as u64 {
            return Err(QueuesError::Record { send: pair.send_record, receive: receive.record });
        }
        let blue_flame = context.blue_flame != 0;
        for (what, address, unit) in [
            ("the receive completions", receive.completions.address, cqe::BYTES as u64),
            ("the receive queue", receive.address, RECEIVE_WQE_BYTES as u64),
            ("the send completions", pair.send_completions.address, cqe::BYTES as u64),
            ("the send queue", pair.send, wqe::BYTES as u64),
            ("the doorbell record", receive.record, RECORD_BYTES as u64),
            ("the doorbell register", pair.doorbell, if blue_flame { BLUE_FLAME_BYTES as u64 } else { 8 }),
            ("request slot 0", context.rx_data, UNIT),
            ("response slot 0", context.tx_data, UNIT),
            ("the request stride", context.rx_stride, UNIT),
            ("the response stride", context.tx_stride, UNIT),
        ] {
            if !address.is_multiple_of(unit) {
                return Err(QueuesError::Unaligned { what, address, unit });
            }
        }
        for (requests, completions) in [
            (receive.entries, receive.completions.entries),
            (pair.send_entries, pair.send_completions.entries),
        ] {
            if completions < requests {
                return Err(QueuesError::Queues(QueueError::Completions { requests, completions }));
            }
        }
        // Below 2³¹, as `check` has seen.
        let [rx_stride, tx_stride] = [context.rx_stride, context.tx_stride].map(|stride| stride as u32);
        let config = Config {
            qpn: pair.number,
            slots: context.slots,
            rx_stride,
            tx_stride,
            tx_lkey: context.tx_key(),
            tx_base: 0,
            depth: receive.entries,
            buffers: Buffers::Credits,
            sequence: false,
            reply: ResponsePath::Send,
            record: RecordMode::Written,
        };
        let addresses = UnifiedParams {
            rx_completions: receive.completions.address,
            receive: receive.address,
            tx_completions: pair.send_completions.address,
            send: pair.send,
            record: receive.record,
            uar: pair.doorbell,
            rx_data: context.rx_data,
            tx_data: context.tx_data,
            rx_completion_entries: receive.completions.entries,
            receive_entries: receive.entries,
            tx_completion_entries: pair.send_completions.entries,
            send_entries: pair.send_entries,
            ..UnifiedParams::default()
        };
        Ok(Self { config, addresses, blue_flame })
    }

    /// Queues made by [`devx`](crate::devx): with this `layout` at device address `memory`, this `number`, and the
    /// doorbell register at device address `doorbell`. Slots and keys are those of `context`, whose `qp` is ignored.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn of_devx(
        context: &Context,
        layout: &QueuePairLayout,
        memory: u64,
        number: u32,
        doorbell: u64,
    ) -> Result<Self, QueuesError> {
        let (sends, receives) = (1 << layout.log_send, 1 << layout.log_receive);
        let at = |offset: usize| memory + offset as u64;
        let addresses = UnifiedParams {
            rx_completions: at(layout.receive_completions),
            rx_completion_entries: receives,
            receive: at(layout.receive),
            receive_entries: receives,
            tx_completions: at(layout.send_completions),
            tx_completion_entries: sends,
            send: at(layout.send),
            send_entries: sends,
            record: at(layout.record),
            uar: doorbell,
            ..UnifiedParams::default()
        };
        Self::new(&Context { qp: memory, ..*context }, &pair_at(number, &addresses))
    }

    /// Checks that all memory belongs to the device `wanted`; `of` returns the owner of an address. The register
    /// belongs to the adapter and is not checked.
    ///
    /// # Errors
    /// The first part that belongs to another device, or to none.
    pub fn check_device(&self, wanted: u32, of: impl Fn(u64) -> Option<u32>) -> Result<(), QueuesError> {
        let UnifiedParams { rx_completions, receive, tx_completions, send, record, rx_data, tx_data, .. } =
            self.addresses;
        for (what, address) in [
            ("the receive completions", rx_completions),
            ("the receive queue", receive),
            ("the send completions", tx_completions),
            ("the send queue", send),
            ("the doorbell record", record),
            ("request slot 0", rx_data),
            ("response slot 0", tx_data),
        ] {
            let found = of(address);
            if found != Some(wanted) {
                return Err(QueuesError::ForeignDevice { what, address, found, wanted });
            }
        }
        Ok(())
    }

    /// The endpoint of a loop on a CPU thread, over these queues of an emulated adapter with memory `windows` and
    /// doorbell register `uar`. Every address has to be within them.
    ///
    /// # Errors
    /// An address or length that is not the adapter's, or queues whose sizes no endpoint can have.
    pub fn emulated(&self, windows: &Windows, uar: &Words) -> Result<Endpoint<BlueFlame>, QueuesError> {
        let (at, config) = (&self.addresses, &self.config);
        let whole = |words: &Words| (words.address(), words.len() * 8);
        let slots = |bytes: &Bytes| (bytes.address(), bytes.len());
        for (what, address, bytes, (start, len)) in [
            (
                "the receive completions",
                at.rx_completions,
                at.rx_completion_entries as usize * cqe::BYTES,
                whole(&windows.rx_completions),
            ),
            (
                "the receive queue",
                at.receive,
                at.receive_entries as usize * RECEIVE_WQE_BYTES,
                whole(&windows.receive),
            ),
            (
                "the send completions",
                at.tx_completions,
                at.tx_completion_entries as usize * cqe::BYTES,
                whole(&windows.tx_completions),
            ),
            ("the send queue", at.send, at.send_entries as usize * wqe::BYTES, whole(&windows.send)),
            ("the doorbell record", at.record, RECORD_BYTES, whole(&windows.record)),
            ("the doorbell register", at.uar, BLUE_FLAME_BYTES, whole(uar)),
            (
                "request slot 0",
                at.rx_data,
                config.slots as usize * config.rx_stride as usize,
                slots(&windows.rx_data),
            ),
            (
                "response slot 0",
                at.tx_data,
                at.send_entries as usize * config.tx_stride as usize,
                slots(&windows.tx_data),
            ),
        ] {
            if (address, bytes) != (start, len) {
                return Err(QueuesError::ForeignMemory { what, address, bytes });
            }
        }
        let register = BlueFlame::new(uar.clone()).map_err(QueuesError::Queues)?;
        Endpoint::new(self.config, windows.clone(), register).map_err(QueuesError::Queues)
    }
}
