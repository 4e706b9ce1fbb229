//! Three kernels in place of one: requests go from a queue pair into a ring of flags, any dispatcher serves the ring, and
//! its answers go from the ring to a queue pair.
//!
//! ```text
//! NIC ─ payload into the ring's slot, completion ─► Receiver ─ request flag ─► dispatcher ─ response flag ─► Sender ─► NIC
//! ```
//! The NIC's window *is* the ring's request slots, so a receiver moves no bytes: it checks what came and sets
//! the flag. A peer that has its answer has to find the slot vacant. So a sender copies a response to a private
//! send slot and frees the ring's slot before it rings, and sends an answer only once the dispatcher has
//! cleared the request's flag. Answers are sent in the order in which they come. An error mark is answered, too: the response slot says what
//! failed, and the request, which is read again, whose answer it is.
//!
//! Each of the two is one warp, whose lanes poll as many completions, or response flags, as there are lanes. On a CPU a
//! thread alone is such a warp ([`Warp::single`](ringcall_gpu::team::Warp::single)).
//!
//! # Depths
//! A slot has one request under way, which may be answered, and followed by the next, before the receiver has given the credit of
//! the first back. So with two receive requests a slot no message finds no credit, and with an entry of the send queue a slot a
//! response waits at most for a completion that is on its way: both constructors demand it. The number of slots is any.
//!
//! # Records
//! The two are different agents, and a doorbell record is one word with one writer. So they belong to two
//! queue pairs (a message on an unreliable connection does not name its queue pair, so the peer cannot tell),
//! or to one whose NIC keeps the send counter itself ([`RecordMode::NotWritten`](ringcall_mlx5::sq::RecordMode)).
//!
//! | module | what |
//! |---|---|
//! | `receive` | from the queue pair into the ring |
//! | `send` | from the ring to the queue pair |

mod receive;
mod send;

pub use receive::{CREDITS_PER_SLOT, Receiver, Step};
pub use send::Sender;

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_wire::unified::control;

/// Turns between two polls of the stop word, which may lie across the bus.
const TURNS_PER_STOP_CHECK: u32 = 16;

/// How an agent's end is ordered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    /// It is not.
    Continue,
    /// Do what there is to do, then end.
    Drain,
    /// End at once.
    End,
}

/// The stop word of an agent: [`control::STOP_DRAIN`] or [`control::STOP_NOW`].
#[derive(Debug)]
struct StopWord {
    word: Words,
    turns: u32,
    order: Order,
}

impl StopWord {
    fn new(word: Words) -> Self {
        Self { word, turns: 0, order: Order::Continue }
    }

    /// The order, as of the last poll; by all lanes, once a turn.
    #[inline(always)]
    fn turn(&mut self, warp: Warp<'_>) -> Order {
        if self.turns.is_multiple_of(TURNS_PER_STOP_CHECK) {
            self.poll(warp);
        }
        self.turns = self.turns.wrapping_add(1);
        self.order
    }

    /// Looks; one lane's for all.
    #[inline(always)]
    fn poll(&mut self, warp: Warp<'_>) {
        let seen = if warp.lane() == 0 { self.ordered() } else { 0 };
        self.order = match u64::from(warp.shuffle(seen as u32, 0)) {
            control::STOP_NO => self.order,
            control::STOP_DRAIN => Order::Drain,
            _ => Order::End,
        };
    }

    /// The word itself; a window without one never stops.
    #[inline(always)]
    fn ordered(&self) -> u64 {
        self.word.get(0).map_or(control::STOP_NO, |word| word.load(Ordering::Relaxed))
    }
}

/// The state of an agent that begins: `opened` says whether its queues were worked before.
#[inline(always)]
fn opened(warp: Warp<'_>, control: &Words) -> bool {
    warp.any(control.load(control::OPENED, Ordering::Relaxed) != 0)
}

/// Tells the host that the agent works; by lane 0.
#[inline(always)]
fn running(control: &Words) {
    control.store(control::OPENED, 1, Ordering::Relaxed);
    control.store(control::DEAD, 0, Ordering::Relaxed);
    control.store(control::STATE, control::STATE_RUNNING, Ordering::Release);
}

/// Tells the host that the agent has ended, after all that it wrote; by lane 0.
#[inline(always)]
fn ended(control: &Words, dead: u64) {
    control.store(control::DEAD, dead, Ordering::Relaxed);
    control.store(control::STATE, control::STATE_ENDED, Ordering::Release);
}
