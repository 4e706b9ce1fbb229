//! Classification of receive completions: requests, and completions that are counted and dropped.

use super::block_state::Job;
use super::state::PollerState;
use super::{Machine, QueuePairDispatcher};
use core::sync::atomic::Ordering;
use ringcall_gpu::team::Warp;
use ringcall_mlx5::counters::Event;
use ringcall_mlx5::cq::{Arrival, PolledCompletion, Side};
use ringcall_mlx5::endpoint::{Config, SLOT_BITS, SLOT_MASK};
use ringcall_mlx5::layout::cqe::{self, Cqe, Syndrome, opcode};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sequence::Found;

/// The classification of this lane's completion.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Completion {
    /// [`Job::word`] of a request; 0 for none.
    pub(super) job: u64,
    /// The number of its message.
    pub(super) number: Option<u32>,
    /// Whether a receive request was used up.
    pub(super) uses: bool,
    /// The end of the queue pair.
    pub(super) flushed: bool,
}

/// Classifies a completion, by the lane that has it. Counts a completion that is dropped.
#[inline(always)]
pub(super) fn classify<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    poller: &PollerState,
    lane: u32,
    mut entry: Cqe,
) -> Completion {
    let drop = |event, uses| {
        dispatcher.block_state.add(event, 1);
        Completion { uses, ..Completion::default() }
    };
    if matches!(entry.opcode(), opcode::REQUEST_ERROR | opcode::RESPONSE_ERROR) {
        let at = poller.entry(lane) + cqe::offset::SYNDROME / 8;
        entry.0[cqe::offset::SYNDROME / 8] = dispatcher.windows.rx_completions.load(at, Ordering::Relaxed);
    }
    let (arrival, immediate, bytes, wqe_counter) = match PolledCompletion::of(&entry) {
        PolledCompletion::Received { arrival, immediate, bytes, wqe_counter } => {
            (arrival, immediate, bytes, wqe_counter)
        }
        PolledCompletion::Failed { side: Side::Receive, syndrome: Syndrome::FLUSHED, .. } => {
            return Completion { flushed: true, ..drop(Event::RxFlushed, false) };
        }
        PolledCompletion::Failed { side: Side::Receive, .. } => return drop(Event::RxErrors, true),
        _ => return drop(Event::RxStray, false),
    };
    let slot = match slot_of(&dispatcher.config, poller.sizes.receive, arrival, immediate, wqe_counter, bytes)
    {
        Ok(slot) => slot,
        Err(why) => return drop(why, true),
    };
    let number = number_of(arrival, immediate);
    Completion { job: Job::word(slot, bytes), number, uses: true, flushed: false }
}

/// The slot of a message of this many bytes, on a queue pair whose receive queue has this many entries.
///
/// # Errors
/// The event under which the message is counted and dropped.
#[inline(always)]
pub(crate) fn slot_of(
    config: &Config,
    receive_entries: u32,
    arrival: Arrival,
    immediate: u32,
    wqe_counter: u16,
    bytes: u32,
) -> Result<u32, Event> {
    let slot = match arrival {
        Arrival::WriteImm => immediate & SLOT_MASK,
        // A send went to the slot of its receive request; its immediate does not count.
        Arrival::Send | Arrival::SendImm if matches!(config.buffers, Buffers::Slots { .. }) => {
            u32::from(wqe_counter) & (receive_entries - 1)
        }
        _ => return Err(Event::RxUnaccepted),
    };
    if slot >= config.slots {
        return Err(Event::RxBadSlot);
    }
    if bytes > config.rx_stride {
        return Err(Event::RxTooLong);
    }
    Ok(slot)
}

/// Follows the numbers of the messages that were taken, in their order.
#[inline(always)]
pub(super) fn follow<M: Machine>(
    dispatcher: &QueuePairDispatcher<'_, M>,
    warp: Warp<'_>,
    poller: &mut PollerState,
    ready: u32,
    number: Option<u32>,
) {
    let word = number.map_or(0, |number| number + 1);
    for from in 0..ready {
        let Some(number) = warp.shuffle(word, from).checked_sub(1) else { continue };
        let found = poller.sequence.follow(number);
        if warp.lane() == 0 {
            match found {
                Found::Next { lost } => dispatcher.block_state.add(Event::RxLost, lost.into()),
                Found::Old => dispatcher.block_state.add(Event::RxReordered, 1),
            }
        }
    }
}

/// The number of a message, if it has one.
#[inline(always)]
pub(crate) fn number_of(arrival: Arrival, immediate: u32) -> Option<u32> {
    (arrival != Arrival::Send).then_some(immediate >> SLOT_BITS)
}
