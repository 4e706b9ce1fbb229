//! Completions that should not be, on demand: what software has to survive.

use ringcall_mlx5::layout::cqe::Syndrome;

/// One of a queue pair's two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Queue {
    /// The receive side.
    Receive,
    /// The send side.
    Send,
}

/// Something that goes wrong.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// An entry that belongs to no request, with this opcode and request index.
    Stray {
        /// Whose completion queue.
        queue: Queue,
        /// The entry's opcode.
        opcode: u8,
        /// The request that it names.
        wqe_counter: u16,
    },
    /// A receive request that fails, and is used up. The queue pair lives on, as after a message that does not fit.
    FailReceive(Syndrome),
    /// The next send request fails and is not sent. The queue pair lives on.
    FailSend(Syndrome),
    /// The queue pair goes into the error state: posted requests are flushed.
    Break,
}
