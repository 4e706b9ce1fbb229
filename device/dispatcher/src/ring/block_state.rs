//! Block state of a ring's dispatcher: warp mailboxes, cursor, counters, and the call of each warp.

use super::bits::lowest;
use super::launcher::LaunchState;
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::team::Warp;
use ringcall_protocol::counters::Bank;
use ringcall_wire::Counter;
use ringcall_wire::launch::MAX_WARPS;

/// The contents of a warp's mailbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WarpCommand {
    /// Nothing to do.
    Free,
    /// Poll.
    Poll,
    /// The end.
    Exit,
    /// Serve this slot.
    Serve {
        /// Its number.
        slot: u32,
        /// Whether the flag was the slot's address.
        valid_flag: bool,
    },
    /// Serve these slots at once.
    ServeBatch {
        /// The slot of bit 0 of the warp's word of slots.
        first: u32,
    },
}

/// Warps that may have a batch. A model has few warps, and a small stack.
const BATCHES: usize = if cfg!(loom) { 2 } else { MAX_WARPS };

const FREE: u64 = 0;
const POLL: u64 = 1;
const EXIT: u64 = 2;
const SERVE: u64 = 4;
const INVALID_FLAG: u64 = 8;
const BATCH: u64 = 16;
const SLOT_SHIFT: u32 = 8;

impl WarpCommand {
    #[inline(always)]
    const fn word(self) -> u64 {
        match self {
            Self::Free => FREE,
            Self::Poll => POLL,
            Self::Exit => EXIT,
            Self::Serve { slot, valid_flag } => {
                (slot as u64) << SLOT_SHIFT | SERVE | if valid_flag { 0 } else { INVALID_FLAG }
            }
            Self::ServeBatch { first } => (first as u64) << SLOT_SHIFT | BATCH,
        }
    }

    #[inline(always)]
    const fn of(word: u64) -> Self {
        match word {
            FREE => Self::Free,
            POLL => Self::Poll,
            EXIT => Self::Exit,
            _ if word & BATCH != 0 => Self::ServeBatch { first: (word >> SLOT_SHIFT) as u32 },
            _ => Self::Serve { slot: (word >> SLOT_SHIFT) as u32, valid_flag: word & INVALID_FLAG == 0 },
        }
    }
}

/// The shared words of one block. All zero is a block state on which nothing happened yet, so a kernel makes one by clearing
/// shared memory.
#[derive(Debug, Default)]
#[repr(C)]
pub struct BlockState {
    commands: [BlockU64; MAX_WARPS],
    batches: [[BlockU64; 2]; BATCHES],
    functions: [BlockU64; MAX_WARPS],
    since: [BlockU64; MAX_WARPS],
    /// Window that the next poller polls every turn.
    pub(super) cursor: BlockU64,
    /// Window that the last poller's sweep had come to.
    pub(super) sweep: BlockU64,
    /// Bit of a window after that of the request that was handed out last.
    pub(super) next_bit: BlockU64,
    /// Whether a warp serves a request that came alone, and the next poller lets it.
    pub(super) answering: BlockU64,
    /// When the last fast-path request's response flag left, in ticks, where the poller that set it polls again itself.
    pub(super) last_response: BlockU64,
    /// Turns as poller until requests are expected to come one at a time.
    pub(super) burst_cooldown: BlockU64,
    /// Polls since the drain began.
    pub(super) drained: BlockU64,
    /// The stop word, as the maintenance warp last read it.
    pub(super) stop: BlockU64,
    /// Graph launches.
    pub(super) launches: LaunchState,
    /// Graph launches of earlier executions.
    pub(super) launched_before: BlockU64,
    /// Requests that were seen when no warp was free, and those of them whose flag was not their address: a bit a slot of
    /// the window that [`backlog_window`](Self::backlog_window) names.
    backlog: BlockU64,
    invalid_flags: BlockU64,
    backlog_window: BlockU64,
    /// Requests that were let wait, and those of them that were taken and whose window was read.
    pushed: BlockU64,
    popped: BlockU64,
    turns: BlockU64,
    banks: [Bank; MAX_WARPS],
    /// [`moves`](Self::moves) at a drain's last poll.
    pub(super) moved: BlockU64,
}

impl BlockState {
    /// The mailbox of warp `warp`. Acquire: pairs with [`set_command`](Self::set_command).
    #[inline(always)]
    pub fn read(&self, warp: u32) -> WarpCommand {
        self.commands
            .get(warp as usize)
            .map_or(WarpCommand::Exit, |word| WarpCommand::of(word.load(Ordering::Acquire)))
    }

    /// The mailbox of this warp, read by one lane for all.
    #[inline(always)]
    pub(super) fn command_together(&self, warp: Warp<'_>, me: u32) -> WarpCommand {
        WarpCommand::of(super::together(warp, || self.read(me).word()))
    }

    /// Whether warp `warp` has nothing to do. Acquire: pairs with the release of its last `set_command`, after which its slot
    /// may be handed out again.
    #[inline(always)]
    pub(super) fn is_free(&self, warp: u32) -> bool {
        self.commands.get(warp as usize).is_some_and(|word| word.load(Ordering::Acquire) == FREE)
    }

    /// Fills the mailbox of warp `warp`: the poller those of free warps, a warp its own. Release: pairs with `read` and
    /// `is_free`.
    #[inline(always)]
    pub fn set_command(&self, warp: u32, command: WarpCommand) {
        if let Some(word) = self.commands.get(warp as usize) {
            word.store(command.word(), Ordering::Release);
        }
    }

    /// As [`set_command`](Self::set_command), into the warp's own mailbox and for the watchdog alone: orders nothing.
    #[inline(always)]
    pub(super) fn set_own_command(&self, warp: u32, command: WarpCommand) {
        if let Some(word) = self.commands.get(warp as usize) {
            word.store(command.word(), Ordering::Relaxed);
        }
    }

    /// Sets the slots of a [`WarpCommand::ServeBatch`], a bit each, and those of them whose flag is not their address, before
    /// the command.
    #[inline(always)]
    pub(super) fn set_batch(&self, warp: u32, slots: u64, invalid_flags: u64) {
        if let Some(words) = self.batches.get(warp as usize) {
            words[0].store(slots, Ordering::Relaxed);
            words[1].store(invalid_flags, Ordering::Relaxed);
        }
    }

    /// The slots of warp `warp`'s [`WarpCommand::ServeBatch`], and those of them whose flag is not their address, after that was
    /// read.
    #[inline(always)]
    pub(super) fn batch_of(&self, warp: u32) -> [u64; 2] {
        self.batches
            .get(warp as usize)
            .map_or([0; 2], |words| words.each_ref().map(|word| word.load(Ordering::Relaxed)))
    }

    /// The slot that warp `warp` serves, or the first of several, if it does.
    #[inline(always)]
    pub(super) fn slot_of(&self, warp: u32) -> Option<u32> {
        match self.read(warp) {
            WarpCommand::Serve { slot, .. } => Some(slot),
            WarpCommand::ServeBatch { first } => Some(first + self.batch_of(warp)[0].trailing_zeros() % 64),
            _ => None,
        }
    }

    /// Counts the turns of a poller that does the maintenance itself.
    pub(super) fn count_turn(&self, warp: Warp<'_>) -> u64 {
        super::together(warp, || {
            let turns = self.turns.load(Ordering::Relaxed).wrapping_add(1);
            self.turns.store(turns, Ordering::Relaxed);
            turns
        })
    }

    /// Whether a poller has something else to do than to poll: a stop, or requests that wait for a warp.
    #[inline(always)]
    pub(super) fn interrupts(&self) -> bool {
        self.stop.load(Ordering::Relaxed) | self.backlog.load(Ordering::Relaxed) != 0
    }

    /// Whether requests wait for a warp, or one was just taken whose window is still being read. By the poller.
    #[inline(always)]
    pub(super) fn has_backlog(&self) -> bool {
        // Acquire: pairs with `pop_backlog`, so that the words below are read no more.
        self.pushed.load(Ordering::Relaxed) != self.popped.load(Ordering::Acquire)
    }

    /// Lets requests wait for the next warp that becomes free. By the poller's lane 0, and only when none wait.
    #[inline(always)]
    pub(super) fn push_backlog(&self, window: u32, ready: u64, invalid_flags: u64) {
        self.backlog_window.store(u64::from(window), Ordering::Relaxed);
        self.invalid_flags.store(invalid_flags, Ordering::Relaxed);
        let pushed = self.pushed.load(Ordering::Relaxed).wrapping_add(u64::from(ready.count_ones()));
        self.pushed.store(pushed, Ordering::Relaxed);
        // Release: pairs with `pop_backlog`.
        self.backlog.store(ready, Ordering::Release);
    }

    /// Takes some of the requests that wait, no more than `most`: their window, their bits, and those of them whose flag was not
    /// their address. By one lane.
    #[inline(always)]
    pub(super) fn pop_backlog(&self, most: u32) -> Option<(u32, u64, u64)> {
        let mut left = self.backlog.load(Ordering::Relaxed);
        while left != 0 {
            let wanted = lowest(left, most);
            // Acquire: pairs with `push_backlog`.
            let before = self.backlog.fetch_and(!wanted, Ordering::Acquire);
            let taken = before & wanted;
            if taken != 0 {
                let window = self.backlog_window.load(Ordering::Relaxed) as u32;
                let invalid_flags = self.invalid_flags.load(Ordering::Relaxed) & taken;
                // Release: only now may the poller push again, and change the two words just read.
                self.popped.fetch_add(u64::from(taken.count_ones()), Ordering::Release);
                return Some((window, taken, invalid_flags));
            }
            left = before & !wanted;
        }
        None
    }

    /// How many requests wait for a warp.
    #[inline(always)]
    pub(super) fn backlog_len(&self) -> u32 {
        self.backlog.load(Ordering::Relaxed).count_ones()
    }

    /// Progress for a drain: requests answered or launched so far, and, if `all`, requests claimed from the
    /// backlog. A separate function: many loads, for a drain alone.
    #[inline(never)]
    pub(super) fn moves(&self, all: bool) -> u64 {
        let taken = if all { self.popped.load(Ordering::Relaxed) } else { 0 };
        self.total(Counter::Received).wrapping_add(taken)
    }

    /// Notes which function warp `warp` is about to call, and when.
    #[inline(always)]
    pub(super) fn begin(&self, warp: u32, function: u32, ticks: u64) {
        if let Some(word) = self.functions.get(warp as usize) {
            word.store(u64::from(function), Ordering::Relaxed);
        }
        if let Some(word) = self.since.get(warp as usize) {
            word.store(ticks, Ordering::Relaxed);
        }
    }

    /// Function and time of the last [`begin`](Self::begin).
    #[inline(always)]
    pub(super) fn begun(&self, warp: u32) -> (u32, u64) {
        let word = |words: &[BlockU64; MAX_WARPS]| {
            words.get(warp as usize).map_or(0, |word| word.load(Ordering::Relaxed))
        };
        (word(&self.functions) as u32, word(&self.since))
    }

    /// The counters that warp `warp` writes.
    #[inline(always)]
    pub(super) fn bank(&self, warp: u32) -> Option<&Bank> {
        self.banks.get(warp as usize)
    }

    /// One counter over all warps.
    pub(super) fn total(&self, counter: Counter) -> u64 {
        self.banks.iter().map(|bank| bank.get(counter)).sum()
    }
}
