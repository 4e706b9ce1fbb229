//! The first kernel of a graph: from a request into the input tensors.

use super::{Instance, Memory};
use core::sync::atomic::Ordering;
use ringcall_dispatcher::ring::graph_end::Child;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Block;
use ringcall_protocol::handoff::DeviceEnd;
use ringcall_wire::handoff::{instance, queue};
use ringcall_wire::launch::io;
use ringcall_wire::status::Status;

/// Checks the request, waits for a record where there is a queue, and fills the input tensors. By all threads of one block.
///
/// The mailbox's scratch word holds the outcome for [`output`](super::output::run): a status, and 0 to go on.
pub fn run<M: Memory>(block: Block<'_>, mailbox: &Words, instance: &Instance<'_>, memory: &M) {
    let fits = u64::from(Child::new(mailbox).arg_len()) == instance.word(instance::REQUEST_BYTES);
    if block.thread() == 0 {
        let status = if fits { admit(instance, memory) } else { refuse_length(instance, memory) };
        // Seen by the next kernel, since kernels of a graph run one after the other.
        mailbox.store(io::SCRATCH, u64::from(status.0 as u32), Ordering::Relaxed);
    }
    if !fits || !instance.copies(instance::COPIES_IN) {
        return;
    }
    // Also while there is no record yet: the tensors are this graph's alone.
    let mut from = io::PAYLOAD / 8;
    for tensor in instance.inputs() {
        if let Some(window) = tensor.window(memory) {
            for pair in block.stride(tensor.pairs) {
                window.store_pair(2 * pair, mailbox.load_pair(from + 2 * pair));
            }
        }
        from += 2 * tensor.pairs;
    }
}

/// Takes the record of the next job, if there is a queue.
fn admit<M: Memory>(instance: &Instance<'_>, memory: &M) -> Status {
    if instance.word(instance::QUEUE) == 0 {
        return Status::OK;
    }
    let Some((shape, window)) = instance.queue(memory) else { return Status::ENGINE_FAILED };
    let polls = instance.word(instance::POLL_LIMIT);
    match DeviceEnd::new(&window, shape).grant(instance.tail(), polls) {
        Some(_) => Status::OK,
        None => Status::BACKPRESSURE,
    }
}

fn refuse_length<M: Memory>(instance: &Instance<'_>, memory: &M) -> Status {
    if let Some((shape, window)) = instance.queue(memory) {
        DeviceEnd::new(&window, shape).count(queue::BAD_LENGTH);
    }
    Status::SCHEMA_MISMATCH
}
