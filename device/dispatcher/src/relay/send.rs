//! The sender kernel: answers from a ring to a queue pair.

use super::{Order, StopWord};
use crate::queue_pair::Bell;
use crate::queue_pair::send::{Posted, write_response};
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, hint};
use ringcall_mlx5::QueueError;
use ringcall_mlx5::counters::{Counters, Event};
use ringcall_mlx5::cq::CompletionQueue;
use ringcall_mlx5::doorbell::{Doorbell, DoorbellRecord};
use ringcall_mlx5::endpoint::{Config, ResponsePath, Windows};
use ringcall_mlx5::layout;
use ringcall_mlx5::layout::cqe::Syndrome;
use ringcall_mlx5::layout::wqe;
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use ringcall_mlx5::wait::WaitEnd;
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::Status;
use ringcall_wire::flag::{self, TxState};
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader, ResponseHeader};
use ringcall_wire::unified::control;

/// Looks at the stop word that order the end at once, before the last completions are given up.
const LAST_POLLS: u32 = 256;
/// Turns between two polls of the stop word while the NIC is waited for.
const TURNS_PER_CHECK: u32 = 16;
/// The bit beside a slot's number that says: its response flag is an error mark.
const MARKED: u32 = 1 << 31;

/// From a ring to a queue pair. One warp works it, each of whose lanes has one of these, and no other agent takes the ring's answers.
#[derive(Debug)]
pub struct Sender {
    config: Config,
    ring: SharedRing,
    flags: [Words; 2],
    /// The ring's request slots: what a failed request's answer echoes.
    asked: Bytes,
    answers: Words,
    requests: Words,
    data: Words,
    bell: Bell,
    /// Lane 0's, as are the record and the counters.
    send: SendQueue,
    record: DoorbellRecord,
    counters: Counters,
    stop: StopWord,
    /// Send requests posted.
    posted: u64,
    /// Send requests that there is room for, as last seen.
    free: u32,
    /// Whether answers wait for room: each wait is counted once. Lane 0's.
    full: bool,
    /// The slot whose answer is expected next.
    next: u32,
    /// The group of slots, a lane each, that is polled in this turn beside the slots that are expected next.
    group: u32,
    /// Turns without anything.
    quiet: u32,
    dead: Option<Syndrome>,
}

impl Sender {
    /// A sender over memory whose completion queue was [prepared](CompletionQueue::prepare): the send side of `windows`, and of its
    /// doorbell record the send counter, where the receive side is not another agent's. A staging buffer that it is run with is as long as
    /// a send slot.
    ///
    /// # Errors
    /// A shape that cannot be, fewer entries than the ring has slots, or memory too short.
    pub fn new(config: Config, windows: &Windows, ring: SharedRing, bell: Bell) -> Result<Self, QueueError> {
        let geometry = *ring.geometry();
        let stride = config.tx_stride;
        let fits = |stride: u32| stride.is_multiple_of(16) && stride < 1 << 31;
        if stride < geometry.tx_stride() || !fits(stride) || !fits(geometry.tx_stride()) {
            return Err(QueueError::Stride(stride));
        }
        if let ResponsePath::WriteImm { stride: have, .. } = config.reply
            && have < stride
        {
            return Err(QueueError::Remote { have, needed: stride });
        }
        let completions =
            CompletionQueue::new(windows.tx_completions.clone(), windows.tx_completions_record.clone())?;
        let send = SendQueue::new(windows.send.clone(), completions, config.qpn, config.record)?;
        if send.entries() < geometry.slots() {
            return Err(QueueError::Slots(geometry.slots()));
        }
        let needed = send.entries() as usize * stride as usize;
        if windows.tx_data.len() < needed {
            return Err(QueueError::TooSmall { needed: needed / 8, have: windows.tx_data.len() / 8 });
        }
        let of_ring = ring.windows();
        let words = |bytes: &Bytes| bytes.words().clone();
        Ok(Self {
            config,
            ring,
            flags: [of_ring.rx_flags, of_ring.tx_flags],
            asked: of_ring.rx_data,
            answers: words(&of_ring.tx_data),
            requests: windows.send.clone(),
            data: words(&windows.tx_data),
            bell,
            free: send.entries(),
            full: false,
            send,
            record: DoorbellRecord::new(windows.record.clone())?,
            counters: Counters::new(windows.counters.clone()),
            stop: StopWord::new(windows.shutdown.clone()),
            posted: 0,
            next: 0,
            group: 0,
            quiet: 0,
            dead: None,
        })
    }

    /// The counters; those of lane 0 count.
    #[must_use]
    pub fn counters(&self) -> &Counters {
        &self.counters
    }

    /// Takes the queue up where the last start left it; then tells the host that it works.
    #[must_use]
    #[inline(always)]
    pub fn open(mut self, warp: Warp<'_>, control: &Words) -> Self {
        let load = |word| control.load(word, Ordering::Relaxed);
        if super::opened(warp, control) {
            self.posted = load(control::POSTED);
            self.send = self.send.resumed(self.posted, load(control::DONE), load(control::SEND_CONSUMED));
            let written = self.config.record == RecordMode::Written;
            self.record = self.record.resumed(0, if written { self.posted as u16 } else { 0 });
            self.counters.resume(|event| load(control::EVENTS + event as usize));
        }
        let room = self.send.entries() - self.send.under_way() as u32;
        self.learn(warp, room);
        if warp.lane() == 0 {
            super::running(control);
        }
        warp.sync();
        self
    }

    /// Waits until the NIC has sent all answers, leaves the cursors for the next start, and tells the host that it has ended.
    #[inline(always)]
    pub fn close(&mut self, warp: Warp<'_>, control: &Words) {
        if warp.lane() == 0 {
            self.finish();
            let store = |word, value| control.store(word, value, Ordering::Relaxed);
            store(control::POSTED, self.send.posted());
            store(control::DONE, self.send.done());
            store(control::SEND_CONSUMED, self.send.completions_read());
            let dead = self.dead.or(self.send.dead());
            super::ended(control, dead.map_or(0, |syndrome| syndrome.0.into()));
        }
        warp.sync();
    }

    /// Sends answers until it is stopped or the queue pair dead; how many. A stop that drains sends every answer that is there.
    /// `relax` is called after a turn that found nothing.
    #[inline(always)]
    pub fn run(
        &mut self,
        warp: Warp<'_>,
        staging: StagingBuffer<'_>,
        mut relax: impl FnMut(),
    ) -> (u64, WaitEnd) {
        let mut sent = 0;
        let mut draining = false;
        loop {
            let order = self.stop.turn(warp);
            if order == Order::End {
                return (sent, WaitEnd::Stopped);
            }
            if order == Order::Drain && !draining {
                // Only polls from here on count.
                (draining, self.quiet) = (true, 0);
            }
            let more = self.step(warp, staging);
            sent += u64::from(more);
            if self.dead.is_some() {
                return (sent, WaitEnd::Dead);
            }
            if draining && self.quiet > self.groups(warp) {
                return (sent, WaitEnd::Stopped);
            }
            if more == 0 {
                relax();
                hint::spin();
            }
        }
    }

    /// Slots come in so many groups, a lane each.
    #[inline(always)]
    fn groups(&self, warp: Warp<'_>) -> u32 {
        self.ring.geometry().slots().div_ceil(warp.lanes())
    }

    /// One turn, by all lanes: polls the slots from the expected one on and one more group, and sends the answers that
    /// are there, as far as there is room; how many. `staging` is the warp's own, as long as a send slot.
    #[inline(always)]
    pub fn step(&mut self, warp: Warp<'_>, staging: StagingBuffer<'_>) -> u32 {
        let found = self.poll(warp);
        let [rx_flags, _] = &self.flags;
        let there = warp.any(found.is_some());
        if there {
            barrier::observe_from_peer();
        }
        // An answer is there before its request's flag is cleared. Sent now, it could bring the next request while the
        // slot does not look vacant yet: the receiver would drop it.
        let answer =
            found.filter(|&(slot, _)| rx_flags.load(slot.as_usize(), Ordering::Relaxed) == flag::FREE);
        let mut answers = warp.ballot(answer.is_some());
        self.quiet = if there { 0 } else { self.quiet.saturating_add(1) };
        if answers == 0 {
            return 0;
        }
        let room = self.room(warp, answers.count_ones());
        let (mut sent, mut own) = (0, [0; 2]);
        while answers != 0 && sent < room {
            let from = answers.trailing_zeros();
            answers &= answers - 1;
            let word = answer.map_or(0, |(slot, is_marked)| slot.get() | if is_marked { MARKED } else { 0 });
            let word = warp.shuffle(word, from);
            let index = word & !MARKED;
            let Some(slot) = self.ring.geometry().slot(index) else { continue };
            let number = self.posted + u64::from(sent);
            if let Some(written) = self.transmit(warp, slot, word & MARKED != 0, number, staging) {
                own = written.own;
                sent += 1;
            }
            self.next = if index + 1 < self.ring.geometry().slots() { index + 1 } else { 0 };
        }
        if sent > 0 {
            self.commit(warp, sent, own);
        }
        sent
    }

    /// A slot with an answer, if one of this lane's has one, and whether its flag is an error mark. No two lanes poll the same.
    #[inline(always)]
    fn poll(&mut self, warp: Warp<'_>) -> Option<(SlotIndex, bool)> {
        let geometry = *self.ring.geometry();
        let slots = geometry.slots();
        let (lane, lanes) = (warp.lane(), warp.lanes());
        let after = self.next + lane;
        let after = if after < slots { after } else { after - slots };
        let near = if lane < slots { geometry.slot(after) } else { None };
        // Every slot is polled in as many turns as there are groups, wherever answers are expected.
        let index = self.group * lanes + lane;
        let offset = if index < self.next { index + slots - self.next } else { index - self.next };
        let far = if index < slots && offset >= lanes { geometry.slot(index) } else { None };
        let [_, tx_flags] = &self.flags;
        let flag = |slot: Option<SlotIndex>| {
            slot.map_or(flag::FREE, |slot| tx_flags.load(slot.as_usize(), Ordering::Relaxed))
        };
        // Both loads before either is compared.
        let [first, second] = [flag(near), flag(far)];
        self.group = if self.group + 1 < self.groups(warp) { self.group + 1 } else { 0 };
        let answer = |slot: Option<SlotIndex>, flag| Some((slot?, is_marked(flag)?));
        answer(near, first).or(answer(far, second))
    }

    /// Takes the answer of a slot and writes it, with its send request; nothing if there is none: no response, or an error mark on what is
    /// no request.
    #[inline(always)]
    fn transmit(
        &mut self,
        warp: Warp<'_>,
        slot: SlotIndex,
        is_marked: bool,
        index: u64,
        staging: StagingBuffer<'_>,
    ) -> Option<Posted> {
        let geometry = *self.ring.geometry();
        let pairs = (geometry.tx_stride() / 16) as usize;
        let first = slot.as_usize() * geometry.tx_stride() as usize / 8;
        let fetch = |pair: usize| staging.set_pair(pair, self.answers.load_pair(first + 2 * pair));
        // The header has a pair and a half.
        let head = pairs.min(warp.lanes().max(2) as usize);
        for pair in warp.stride(head) {
            fetch(pair);
        }
        warp.sync();
        let mut words: [u64; HEADER_WORDS] = core::array::from_fn(|word| staging.word(word));
        if is_marked {
            words = self.failure(warp, slot, ResponseHeader::from_words(words));
        }
        // From here on all lanes have the same.
        let header = ResponseHeader::from_words(words);
        let len = header.result_len.min(geometry.result_capacity());
        let all = (HEADER_BYTES + len as usize).div_ceil(16);
        if all > head {
            for pair in warp.stride(all - head) {
                fetch(head + pair);
            }
            warp.sync();
        }
        if warp.lane() == 0 {
            // What was read, before the slot is another request's.
            barrier::publish_to_grid();
            let [_, tx_flags] = &self.flags;
            tx_flags.store(slot.as_usize(), flag::FREE, Ordering::Relaxed);
        }
        if !header.has_magic() {
            if warp.lane() == 0 {
                self.counters.count(Event::RxUnanswered);
            }
            warp.sync();
            return None;
        }
        let stride = self.config.tx_stride as usize / 8;
        let written = write_response(
            warp,
            &self.config,
            index,
            slot.get(),
            words,
            len,
            staging,
            self.send.entries(),
            |entry, at, pair| self.data.store_pair(entry as usize * stride + 2 * at, pair),
            |entry, at, pair| self.requests.store_pair(entry as usize * wqe::WORDS + 2 * at, pair),
        );
        if warp.lane() == 0 {
            for (event, n) in [
                (Event::TxPosted, true),
                (Event::TxInline, written.is_inline),
                (Event::TxSignalled, written.is_signalled),
            ] {
                self.counters.add(event, n.into());
            }
        }
        // The staging buffer is the next answer's.
        warp.sync();
        Some(written)
    }

    /// The header of the answer to a request that failed, whose slot holds `response`: what our dispatchers leave with an error mark says what
    /// failed, and what others leave says nothing of this request. Without magic where the slot holds no request. A peer may write it over
    /// meanwhile, so lane 0 reads it, and decides for all.
    #[inline(always)]
    fn failure(&self, warp: Warp<'_>, slot: SlotIndex, response: ResponseHeader) -> [u64; HEADER_WORDS] {
        let mut words = [0; HEADER_WORDS];
        if warp.lane() == 0 {
            let at = slot.as_usize() * self.ring.geometry().rx_stride() as usize;
            let request = RequestHeader::from_words(self.asked.read_words(at).unwrap_or_default());
            if request.has_magic() {
                let is_ours = response.has_magic() && response.request_id == request.request_id;
                let says = is_ours && response.status().is_protocol_error();
                let status = if says { response.status() } else { Status::LAUNCH_FAILED };
                words = ResponseHeader::reply(&request, status.0, 0).to_words();
            }
        }
        words.map(|word| warp.shuffle_u64(word, 0))
    }

    /// Makes `sent` send requests visible to the NIC, and rings. `own` is this lane's part of the request, if there is one alone.
    #[inline(always)]
    fn commit(&mut self, warp: Warp<'_>, sent: u32, own: [u64; 2]) {
        let lane = warp.lane();
        let copies = sent == 1 && self.bell.copies(warp.lanes());
        if copies {
            self.bell.copy_early(lane, own);
        }
        warp.sync();
        if lane == 0 {
            // Requests, answers and the slots' flags before the store that makes the NIC read them.
            barrier::publish_to_peer();
        }
        if copies {
            if self.bell.is_whole() {
                warp.sync();
            }
            self.bell.copy(lane, own);
        }
        self.posted += u64::from(sent);
        self.free = self.free.saturating_sub(sent);
        let mut room = 0;
        if lane == 0 {
            self.send.advance(sent.into());
            if self.config.record == RecordMode::Written {
                self.record.store_send(self.posted as u16);
                // The record before the doorbell: the NIC reads the record when it is rung.
                barrier::publish_to_peer();
            }
            let mut bell = &self.bell;
            bell.ring(layout::doorbell(self.config.qpn, self.posted as u16));
            // With half of the queue under way there is a completion to come: it is read before it is missed.
            if 2 * self.send.under_way() > u64::from(self.send.entries()) {
                self.reclaim();
            }
            room = self.send.entries() - self.send.under_way() as u32;
        }
        self.learn(warp, room);
    }

    /// How many send requests there is room for, of so many.
    #[inline(always)]
    fn room(&mut self, warp: Warp<'_>, wanted: u32) -> u32 {
        if self.free < wanted {
            let mut room = 0;
            if warp.lane() == 0 {
                self.reclaim();
                room = self.send.entries() - self.send.under_way() as u32;
                let begins = room < wanted && !self.full;
                self.counters.add(Event::TxFull, begins.into());
            }
            self.learn(warp, room);
        }
        self.full = self.free < wanted;
        // Flushed requests free their entries, too, of a queue that takes nothing more.
        if self.dead.is_some() { 0 } else { self.free }
    }

    /// Lets all lanes know what lane 0 knows of the send queue.
    #[inline(always)]
    fn learn(&mut self, warp: Warp<'_>, room: u32) {
        const DEAD: u32 = 1 << 31;
        let dead = if self.send.dead().is_some() { DEAD } else { 0 };
        let word = warp.shuffle(room | dead, 0);
        self.free = word & !DEAD;
        if word & DEAD != 0 {
            self.dead = Some(Syndrome::FLUSHED);
        }
    }

    /// Reads the send side's completions, and counts them. By lane 0.
    #[inline(always)]
    fn reclaim(&mut self) {
        let found = self.send.reclaim();
        for (event, n) in [
            (Event::TxCompletions, found.completions),
            (Event::TxErrors, found.failed),
            (Event::TxFlushed, found.flushed),
            (Event::TxStray, found.stray),
        ] {
            self.counters.add(event, n.into());
        }
    }

    /// Waits until the NIC is done with every answer, or until the end is ordered at once. By lane 0.
    #[inline(always)]
    fn finish(&mut self) {
        let (mut marked, mut left, mut turns) = (false, LAST_POLLS, 0_u32);
        while left > 0 && self.dead.is_none() {
            self.reclaim();
            if self.send.under_way() == 0 || self.send.dead().is_some() {
                return;
            }
            if !marked && self.send.has_room() {
                marked = true;
                let mut bell = &self.bell;
                // The last answers may not be signalled: an empty request that is asks for them.
                if let Ok(posted) = self.send.post_marker(&mut self.record, &mut bell) {
                    self.counters.add(Event::TxPosted, posted.into());
                    self.counters.add(Event::TxSignalled, posted.into());
                }
            }
            turns = turns.wrapping_add(1);
            if turns.is_multiple_of(TURNS_PER_CHECK) && self.stop.ordered() == control::STOP_NOW {
                left -= 1;
            }
            hint::spin();
        }
    }
}

/// Whether a response flag that says that there is an answer is an error mark.
#[inline(always)]
fn is_marked(flag: u64) -> Option<bool> {
    match TxState::decode(flag) {
        TxState::Ready(_) => Some(false),
        TxState::Error(_) => Some(true),
        TxState::Empty | TxState::InFlight => None,
    }
}
