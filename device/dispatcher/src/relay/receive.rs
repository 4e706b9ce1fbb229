//! The receiver kernel: requests from a queue pair into a ring.

use super::{Order, StopWord};
use crate::queue_pair::completion::{number_of, slot_of};
use crate::queue_pair::single::Extent;
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, hint};
use ringcall_mlx5::QueueError;
use ringcall_mlx5::counters::{Counters, Event};
use ringcall_mlx5::cq::{PolledCompletion, RECORD_MASK, Side};
use ringcall_mlx5::doorbell::DoorbellRecord;
use ringcall_mlx5::endpoint::{Config, MAX_SLOTS, Windows};
use ringcall_mlx5::layout::cqe::{self, Cqe, Syndrome, opcode};
use ringcall_mlx5::layout::{RECEIVE_WQE_WORDS, pair};
use ringcall_mlx5::rq::{Buffers, ReceiveQueue};
use ringcall_mlx5::sequence::{Found, Sequence};
use ringcall_mlx5::wait::WaitEnd;
use ringcall_protocol::slot::Vacant;
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::header::HEADER_BYTES;
use ringcall_wire::unified::control;

/// The word of a completion entry that holds the immediate; the next word holds the byte count.
const IMMEDIATE_WORD: usize = cqe::offset::IMMEDIATE / 8;
/// Turns without a completion between two checks which slots are vacant.
const TURNS_PER_VACANCY_CHECK: u32 = 8;

/// Receive requests that each slot needs: of its request, and of the next, which may come before the first one's is posted again.
pub const CREDITS_PER_SLOT: u32 = 2;

/// What completions that bring no request are counted as.
const DROPS: [Event; 6] = [
    Event::RxBadSlot,
    Event::RxTooLong,
    Event::RxUnaccepted,
    Event::RxStray,
    Event::RxErrors,
    Event::RxFlushed,
];

/// What a turn did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// There was nothing.
    Idle,
    /// Completions were taken.
    Took {
        /// Requests that are in the ring now.
        filled: u32,
        /// Completions that brought none: counted.
        dropped: u32,
    },
    /// The queue pair is in the error state.
    Dead,
}

/// What became of a lane's completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Outcome {
    /// There is none.
    Nothing,
    /// A request.
    Request { slot: SlotIndex, bytes: u32, number: Option<u32> },
    /// Dropped, and what for; whether it used up a receive request.
    Dropped { event: Event, uses: bool },
}

/// From a queue pair into a ring. One warp works it, each of whose lanes has one of these, and no other agent fills the ring.
#[derive(Debug)]
pub struct Receiver {
    config: Config,
    extent: Extent,
    ring: SharedRing,
    flags: Words,
    data: Bytes,
    completions: Words,
    completions_record: Option<Words>,
    receive: Words,
    /// Entries of the completion queue and of the receive queue.
    entries: [u32; 2],
    record: DoorbellRecord,
    /// Lane 0's.
    counters: Counters,
    stop: StopWord,
    sequence: Sequence,
    /// Completions read.
    consumed: u64,
    /// Receive requests posted.
    receives: u64,
    /// The slot that the next message is expected in.
    next: u32,
    /// Completions polled in one turn.
    width: u32,
    /// Turns without anything.
    idle: u32,
    /// A slot that this lane knows to be vacant: it stays so, since this agent alone fills the ring.
    vacant: Option<SlotIndex>,
    dead: Option<Syndrome>,
}

impl Receiver {
    /// A receiver whose queue pair's request slots are the ring's. The send side is not used.
    ///
    /// # Errors
    /// Other slots than the ring's, fewer receive requests than [`CREDITS_PER_SLOT`] a slot, or receive requests with buffers of their own: the NIC
    /// would write a send into the slot of a request that is being served. A shape that cannot be, or memory too short for it.
    pub fn new(
        config: Config,
        windows: &Windows,
        ring: SharedRing,
        extent: Extent,
    ) -> Result<Self, QueueError> {
        let geometry = *ring.geometry();
        if config.buffers != Buffers::Credits {
            return Err(QueueError::Buffers);
        }
        if config.slots != geometry.slots() || config.slots > MAX_SLOTS {
            return Err(QueueError::Slots(config.slots));
        }
        if config.rx_stride != geometry.rx_stride() || !config.rx_stride.is_multiple_of(16) {
            return Err(QueueError::Stride(config.rx_stride));
        }
        let receive = ringcall_mlx5::entries(&windows.receive, RECEIVE_WQE_WORDS)?;
        if config.depth == 0 || config.depth > receive {
            return Err(QueueError::Depth { depth: config.depth, entries: receive });
        }
        let needed = CREDITS_PER_SLOT * config.slots;
        if config.depth < needed {
            return Err(QueueError::Depth { depth: config.depth, entries: needed });
        }
        let completions = ringcall_mlx5::entries(&windows.rx_completions, cqe::WORDS)?;
        if completions < config.depth {
            return Err(QueueError::Completions { requests: config.depth, completions });
        }
        let of_ring = ring.windows();
        Ok(Self {
            config,
            extent,
            ring,
            flags: of_ring.rx_flags,
            data: of_ring.rx_data,
            completions: windows.rx_completions.clone(),
            completions_record: windows.rx_completions_record.clone(),
            receive: windows.receive.clone(),
            entries: [completions, receive],
            record: DoorbellRecord::new(windows.record.clone())?,
            counters: Counters::new(windows.counters.clone()),
            stop: StopWord::new(windows.shutdown.clone()),
            sequence: Sequence::default(),
            consumed: 0,
            receives: 0,
            next: 0,
            width: 1,
            idle: 0,
            vacant: None,
            dead: None,
        })
    }

    /// The counters; those of lane 0 count.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Posts the receive requests of a queue pair that was never worked. By all lanes, before the first turn.
    #[inline(always)]
    pub fn begin(&mut self, warp: Warp<'_>) {
        let [_, receive] = self.entries;
        self.receives = self.config.depth.into();
        if warp.lane() == 0 {
            ReceiveQueue::fill(&self.receive, receive, self.config.buffers);
            self.record.publish_receive(self.receives as u16);
        }
        warp.sync();
    }

    /// Takes the queues up where the last start left them, or begins with them; then tells the host that it works.
    #[must_use]
    #[inline(always)]
    pub fn open(mut self, warp: Warp<'_>, control: &Words) -> Self {
        let load = |word| control.load(word, Ordering::Relaxed);
        if super::opened(warp, control) {
            self.consumed = load(control::CONSUMED);
            self.receives = load(control::RECEIVES);
            self.sequence = Sequence::from_word(load(control::SEQUENCE));
            self.counters.resume(|event| load(control::EVENTS + event as usize));
            // Nothing is written: the NIC has seen it.
            self.record = self.record.resumed(self.receives as u16, 0);
        } else {
            self.begin(warp);
        }
        if warp.lane() == 0 {
            super::running(control);
        }
        warp.sync();
        self
    }

    /// Leaves the cursors for the next start, and tells the host that it has ended.
    #[inline(always)]
    pub fn close(&mut self, warp: Warp<'_>, control: &Words) {
        warp.sync();
        if warp.lane() == 0 {
            let store = |word, value| control.store(word, value, Ordering::Relaxed);
            store(control::CONSUMED, self.consumed);
            store(control::RECEIVES, self.receives);
            store(control::SEQUENCE, self.sequence.to_word());
            super::ended(control, self.dead.map_or(0, |syndrome| syndrome.0.into()));
        }
    }

    /// Fills the ring until it is stopped or the queue pair dead; how many requests. `relax` is called after a turn that found
    /// nothing.
    #[inline(always)]
    pub fn run(&mut self, warp: Warp<'_>, mut relax: impl FnMut()) -> (u64, WaitEnd) {
        let mut filled = 0;
        loop {
            let order = self.stop.turn(warp);
            if order == Order::End {
                return (filled, WaitEnd::Stopped);
            }
            match self.step(warp) {
                Step::Took { filled: more, .. } => filled += u64::from(more),
                Step::Dead => return (filled, WaitEnd::Dead),
                Step::Idle if order == Order::Drain => return (filled, WaitEnd::Stopped),
                Step::Idle => {
                    relax();
                    hint::spin();
                }
            }
        }
    }

    /// One turn, by all lanes: takes the completions that are there, as many as were polled.
    #[inline(always)]
    pub fn step(&mut self, warp: Warp<'_>) -> Step {
        if self.dead.is_some() {
            return Step::Dead;
        }
        let lane = warp.lane();
        let polls = lane < self.width;
        let at = self.entry(lane) + cqe::OWNER_WORD - 1;
        let [[_, owner], _] = Words::load_two(polls.then_some((&self.completions, at)), None);
        let [entries, _] = self.entries;
        let there = polls && cqe::is_ours(owner, self.consumed + u64::from(lane), entries.into());
        let ready = warp.ballot(there).trailing_ones();
        if ready == 0 {
            self.rest(lane);
            return Step::Idle;
        }
        self.idle = 0;
        barrier::observe_from_peer();
        let outcome = self.poll(lane, ready, owner);
        self.take(warp, ready, outcome)
    }

    /// First word of the completion entry `ahead` of the next.
    #[inline(always)]
    fn entry(&self, ahead: u32) -> usize {
        let [entries, _] = self.entries;
        ((self.consumed + u64::from(ahead)) & u64::from(entries - 1)) as usize * cqe::WORDS
    }

    /// The slot that a lane's message is expected in.
    #[inline(always)]
    fn expected(&self, lane: u32) -> u32 {
        let slot = self.next + lane;
        if slot < self.config.slots { slot } else { slot.checked_rem(self.config.slots).unwrap_or(0) }
    }

    /// Nothing came: looks for what the next message will need, so that it has not to be waited for then.
    #[inline(always)]
    fn rest(&mut self, lane: u32) {
        self.width = 1;
        if self.vacant.is_none() && self.idle.is_multiple_of(TURNS_PER_VACANCY_CHECK) {
            let slot = self.ring.geometry().slot(self.expected(lane));
            self.vacant = slot.filter(|&slot| Vacant::probe(&self.ring, slot).is_some());
        }
        self.idle = self.idle.wrapping_add(1);
    }

    /// This lane's completion, with the slot's header made to say no more than what came.
    #[inline(always)]
    fn poll(&self, lane: u32, ready: u32, owner: u64) -> (Outcome, [u64; 2], u32) {
        let expected = self.expected(lane);
        if lane >= ready {
            return (Outcome::Nothing, [0; 2], expected);
        }
        // With the rest of the entry, what the expected slot's header says: if it is that slot, a round trip is saved.
        let stride = self.config.rx_stride as usize;
        let header = (self.extent == Extent::Received)
            .then_some((self.data.words(), expected as usize * (stride / 8)));
        let at = self.entry(lane);
        let [head, [immediate, count]] =
            Words::load_two(header, Some((&self.completions, at + IMMEDIATE_WORD)));
        let mut entry = Cqe::default();
        (entry.0[IMMEDIATE_WORD], entry.0[IMMEDIATE_WORD + 1]) = (immediate, count);
        entry.0[cqe::OWNER_WORD] = owner;
        if matches!(entry.opcode(), opcode::REQUEST_ERROR | opcode::RESPONSE_ERROR) {
            let word = cqe::offset::SYNDROME / 8;
            entry.0[word] = self.completions.load(at + word, Ordering::Relaxed);
        }
        (self.classify(&entry), head, expected)
    }

    /// What a completion says.
    #[inline(always)]
    fn classify(&self, entry: &Cqe) -> Outcome {
        let drop = |event, uses| Outcome::Dropped { event, uses };
        let (arrival, immediate, bytes, wqe_counter) = match PolledCompletion::of(entry) {
            PolledCompletion::Received { arrival, immediate, bytes, wqe_counter } => {
                (arrival, immediate, bytes, wqe_counter)
            }
            PolledCompletion::Failed { side: Side::Receive, syndrome: Syndrome::FLUSHED, .. } => {
                return drop(Event::RxFlushed, false);
            }
            PolledCompletion::Failed { side: Side::Receive, .. } => return drop(Event::RxErrors, true),
            _ => return drop(Event::RxStray, false),
        };
        let [_, receive] = self.entries;
        match slot_of(&self.config, receive, arrival, immediate, wqe_counter, bytes) {
            Err(event) => drop(event, true),
            Ok(slot) => match self.ring.geometry().slot(slot) {
                Some(slot) => Outcome::Request { slot, bytes, number: number_of(arrival, immediate) },
                None => drop(Event::RxBadSlot, true),
            },
        }
    }

    /// Puts this turn's requests into the ring, counts, and posts the receive requests that were used up again.
    #[inline(always)]
    fn take(&mut self, warp: Warp<'_>, ready: u32, polled: (Outcome, [u64; 2], u32)) -> Step {
        let (outcome, head, expected) = polled;
        let request = match outcome {
            Outcome::Request { slot, bytes, .. } => Some((slot, bytes)),
            _ => None,
        };
        let requests = warp.ballot(request.is_some());
        // A peer that writes into a slot whose request is being served has spoilt it; a second flag would make it two.
        let vacant = request
            .filter(|&(slot, _)| self.vacant == Some(slot) || Vacant::probe(&self.ring, slot).is_some());
        let first = self.is_first(warp, requests, vacant.map(|(slot, _)| slot));
        let fills = vacant.filter(|_| first);
        self.vacant = None;
        let mended = fills.is_some_and(|(slot, bytes)| self.mend(slot, bytes, head, expected));
        // Pairs with the dispatcher's `RingMemory::observe`. The payload was seen after the completion's fence.
        if warp.any(mended) {
            barrier::publish_to_peer();
        } else {
            barrier::publish_to_grid();
        }
        if let Some((slot, _)) = fills {
            let address = self.ring.geometry().request_address(slot);
            self.flags.store(slot.as_usize(), address, Ordering::Relaxed);
        }
        let filled = warp.ballot(fills.is_some());
        // All lanes learn where the last message went.
        let last = u32::BITS - requests.leading_zeros();
        if last > 0 {
            let slot = request.map_or(0, |(slot, _)| slot.get());
            let slot = warp.shuffle(slot, last - 1) + 1;
            self.next = if slot < self.config.slots { slot } else { 0 };
        }
        self.account(warp, ready, outcome, requests, filled);
        self.width = if ready == self.width { (2 * ready).min(warp.lanes()) } else { self.width / 2 }.max(1);
        if self.dead.is_some() {
            return Step::Dead;
        }
        let filled = filled.count_ones();
        Step::Took { filled, dropped: ready - filled }
    }

    /// Whether no lane before this one has the same slot.
    #[inline(always)]
    fn is_first(&self, warp: Warp<'_>, requests: u32, slot: Option<SlotIndex>) -> bool {
        // None of a slot that there is.
        let own = slot.map_or(u32::MAX, SlotIndex::get);
        let mut first = true;
        let mut others = if requests.count_ones() > 1 { requests } else { 0 };
        while others != 0 {
            let from = others.trailing_zeros();
            others &= others - 1;
            let other = warp.shuffle(own, from);
            first &= from >= warp.lane() || other != own;
        }
        first
    }

    /// A request that is shorter than it says would be served with bytes of an earlier one. Made to say more than a slot
    /// holds it is answered `ARG_TOO_LONG`; without a whole header, `BAD_MAGIC`. Whether it had to be.
    #[inline(always)]
    fn mend(&self, slot: SlotIndex, bytes: u32, head: [u64; 2], expected: u32) -> bool {
        if self.extent != Extent::Received {
            return false;
        }
        let at = slot.as_usize() * self.config.rx_stride as usize;
        let fetched = if slot.get() == expected { Some(head) } else { self.data.read_words::<2>(at) };
        let Some([head, lengths]) = fetched else { return false };
        match bytes.checked_sub(HEADER_BYTES as u32) {
            None => self.data.write_words(at, [head & !MAGIC_MASK]),
            Some(room) if lengths as u32 > room => self.data.write_words(at + 8, [lengths | ARG_LEN_MASK]),
            Some(_) => false,
        }
    }

    /// Counts what was taken, and gives the NIC its credit back.
    #[inline(always)]
    fn account(&mut self, warp: Warp<'_>, ready: u32, outcome: Outcome, requests: u32, filled: u32) {
        let lane = warp.lane();
        let (event, uses) = match outcome {
            Outcome::Dropped { event, uses } => (Some(event), uses),
            Outcome::Request { .. } => (None, true),
            Outcome::Nothing => (None, false),
        };
        let used = warp.ballot(uses).count_ones();
        if warp.any(event.is_some()) {
            for kind in DROPS {
                let n = warp.ballot(event == Some(kind)).count_ones();
                if kind == Event::RxFlushed && n > 0 {
                    self.dead = Some(Syndrome::FLUSHED);
                }
                if lane == 0 {
                    self.counters.add(kind, n.into());
                }
            }
        }
        if self.config.sequence {
            self.follow(warp, requests, outcome);
        }
        self.consumed += u64::from(ready);
        if self.dead.is_none() {
            self.receives += u64::from(used);
        }
        if lane != 0 {
            return;
        }
        let unanswered = (requests & !filled).count_ones();
        for (event, n) in [
            (Event::RxCompletions, ready),
            (Event::RxRequests, requests.count_ones()),
            (Event::RxUnanswered, unanswered),
        ] {
            self.counters.add(event, n.into());
        }
        if self.dead.is_some() {
            return;
        }
        if used > 0 {
            // The low 16 bits; the wrap is intended.
            self.record.publish_receive(self.receives as u16);
        }
        if let Some(record) = &self.completions_record {
            // The NIC may write the entries over once it sees this: the reads of them come first.
            record.store(0, pair((self.consumed & RECORD_MASK) as u32, 0), Ordering::Release);
        }
        self.counters.add(Event::RxReposted, used.into());
    }

    /// Follows the numbers of the messages that were taken, in their order.
    #[inline(always)]
    fn follow(&mut self, warp: Warp<'_>, mut requests: u32, outcome: Outcome) {
        let word = match outcome {
            Outcome::Request { number: Some(number), .. } => number + 1,
            _ => 0,
        };
        while requests != 0 {
            let from = requests.trailing_zeros();
            requests &= requests - 1;
            let Some(number) = warp.shuffle(word, from).checked_sub(1) else { continue };
            let found = self.sequence.follow(number);
            if warp.lane() == 0 {
                match found {
                    Found::Next { lost } => self.counters.add(Event::RxLost, lost.into()),
                    Found::Old => self.counters.count(Event::RxReordered),
                }
            }
        }
    }
}

/// The magic in a header's first word.
const MAGIC_MASK: u64 = u32::MAX as u64;
/// The payload's length in a header's second word.
const ARG_LEN_MASK: u64 = u32::MAX as u64;
