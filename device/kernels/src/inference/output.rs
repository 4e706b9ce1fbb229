//! The last kernel of a graph: from the output tensors to an answer, or to a record of the queue.

use super::{Instance, Memory};
use core::sync::atomic::Ordering;
use ringcall_dispatcher::ring::graph_end::{Child, ResponseWindows};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Block;
use ringcall_protocol::handoff::{DeviceEnd, Grant, Shape, Whose};
use ringcall_wire::handoff::{instance, queue};
use ringcall_wire::header::HEADER_WORDS;
use ringcall_wire::launch::io;
use ringcall_wire::status::Status;

/// What the kernel counts in, besides its queue: words of the dispatcher that launched it.
#[derive(Debug, Clone, Copy)]
pub struct Counts<'a> {
    /// Children that ended.
    pub finished: &'a DeviceU64,
    /// The children's counters.
    pub counters: Option<&'a [DeviceU64]>,
}

/// Hands the output over, or answers, and gives mailbox and executable back. By all threads of one block.
pub fn run<M: Memory>(
    block: Block<'_>,
    mailbox: &Words,
    instance: &Instance<'_>,
    memory: &M,
    counts: &Counts<'_>,
) {
    let child = Child::new(mailbox);
    let taken = Status(mailbox.load(io::SCRATCH, Ordering::Relaxed) as u32 as i32);
    let failed = taken.is_ok() && instance.has_failed(memory);
    let status = if failed { Status::ENGINE_FAILED } else { taken };
    match instance.queue(memory) {
        Some((shape, window)) if status.is_ok() => {
            hand_over(block, &child, mailbox, instance, memory, shape, &window);
        }
        queue => {
            if let Some((shape, window)) = queue
                && failed
                && block.thread() == 0
            {
                DeviceEnd::new(&window, shape).count(queue::ENGINE_FAILED);
            }
            answer(block, &child, instance, memory, status, counts);
        }
    }
    block.sync();
    if block.thread() == 0 {
        child.finish(counts.finished);
    }
}

/// Into the record that the first kernel was granted.
fn hand_over<M: Memory>(
    block: Block<'_>,
    child: &Child<'_>,
    mailbox: &Words,
    instance: &Instance<'_>,
    memory: &M,
    shape: Shape,
    window: &Words,
) {
    let end = DeviceEnd::new(window, shape);
    let grant: Grant = end.resume(instance.tail());
    if instance.copies(instance::COPIES_OUT) {
        each_pair(block, instance, memory, |pair, value| end.set_output_pair(grant, pair, value));
    }
    block.sync();
    if block.thread() == 0 {
        let whose = Whose {
            header: child.header(),
            slot: mailbox.load(io::SLOT, Ordering::Relaxed),
            answers: child.response_addresses().is_some(),
        };
        end.publish(grant, &whose);
        let tail = grant.sequence().wrapping_add(1);
        instance.set_tail(tail);
        // The dispatcher launches this graph no more before the next record is free. Ordered by `Child::finish`.
        let gate = instance.word(instance::QUEUE) + shape.record(shape.index(tail)) as u64 * 8;
        if mailbox.load(io::GATE, Ordering::Relaxed) != 0 {
            mailbox.store(io::GATE, gate, Ordering::Relaxed);
        }
    }
}

/// Into the response slot, where an answer is owed.
fn answer<M: Memory>(
    block: Block<'_>,
    child: &Child<'_>,
    instance: &Instance<'_>,
    memory: &M,
    status: Status,
    counts: &Counts<'_>,
) {
    let Some((slot, flag)) = child.response_addresses() else { return };
    let slot = memory.words(slot, HEADER_WORDS + child.capacity() as usize / 8);
    let (Some(slot), Some(flag)) = (slot, memory.words(flag, 1)) else { return };
    let response = ResponseWindows { slot: &slot, flag: &flag };
    let mut len = 0;
    if status.is_ok() {
        len = instance.word(instance::OUTPUT_BYTES) as u32;
        each_pair(block, instance, memory, |pair, value| {
            for (i, word) in value.into_iter().enumerate() {
                child.set_result_word(&response, 2 * pair + i, word);
            }
        });
    }
    block.sync();
    if block.thread() == 0 {
        child.answer(&response, counts.counters, status, len);
    }
}

/// Each 16 bytes of the outputs, by this thread's share, with their index.
fn each_pair<M: Memory>(
    block: Block<'_>,
    instance: &Instance<'_>,
    memory: &M,
    mut put: impl FnMut(usize, [u64; 2]),
) {
    let mut to = 0;
    for tensor in instance.outputs() {
        if let Some(window) = tensor.window(memory) {
            for pair in block.stride(tensor.pairs) {
                put(to + pair, window.load_pair(2 * pair));
            }
        }
        to += tensor.pairs;
    }
}
