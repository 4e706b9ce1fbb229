//! The receiver and sender kernels around a ring's dispatcher: three kernels in place of one unified kernel.
//!
//! The receiver takes requests from a queue pair into a ring. Any dispatcher serves the ring. The sender takes answers from
//! the ring to a queue pair.
//!
//! ```text
//! NIC ─ payload into the ring's slot, completion ─► Receiver ─ request flag ─► dispatcher ─ response flag ─► Sender ─► NIC
//! ```
//! The NIC writes into the ring's request slots, so the receiver moves no bytes: it checks the message and sets the request
//! flag.
//!
//! A peer that has its answer must find the slot vacant. So the sender waits until the dispatcher has cleared the request
//! flag. Then the sender copies the response to a private send slot, frees the ring's slot, and rings the doorbell. Answers
//! leave in the order in which the sender finds them.
//!
//! The sender also answers an error mark. It takes the status from the response slot, and reads the request again for the
//! request id.
//!
//! The receiver is one warp, and the sender is one warp. Each lane polls one completion or one response flag. On a CPU one
//! thread is such a warp ([`Warp::single`](ringcall_gpu::team::Warp::single)).
//!
//! # Depths
//! A slot's request may be answered, and the peer may write the next request, before the receiver has posted the receive
//! request of the first again. So the receive queue has at least two receive requests a slot, and every message finds a
//! credit. The send queue has at least one entry a slot, so a response waits at most for a completion that is on its way.
//! Both constructors demand these depths. The ring may have any number of slots.
//!
//! # Records
//! A doorbell record is one word and has one writer, but receiver and sender are different agents. So they use two queue
//! pairs, or one queue pair whose NIC keeps the send counter itself
//! ([`RecordMode::NotWritten`](ringcall_mlx5::sq::RecordMode)). A peer does not notice the second queue pair: a message on an
//! unreliable connection does not name its queue pair.
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
