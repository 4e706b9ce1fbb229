//! The poller: polls, takes completions, has them served, ends.

use super::block_state::{CounterBits, EXIT, Job};
use super::completion::Completion;
use super::fast_path::FastPath;
use super::state::{ALONE, Done, IMMEDIATE_WORD, PendingPoll, Poll, PollerState, Tending};
use super::{Machine, Over, QueuePairDispatcher};
use crate::ring::WarpContext;
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, clock, hint};
use ringcall_mlx5::QueueError;
use ringcall_mlx5::counters::Event;
use ringcall_mlx5::cq::CompletionQueue;
use ringcall_mlx5::doorbell::DoorbellRecord;
use ringcall_mlx5::layout::cqe::{self, Cqe, Syndrome};
use ringcall_mlx5::rq::ReceiveQueue;
use ringcall_mlx5::sequence::Sequence;
use ringcall_mlx5::sq::{RecordMode, SendQueue};
use ringcall_wire::counter::Counter;
use ringcall_wire::unified::control;

/// Polls between two polls at the stop word, where nothing comes.
const POLLS_PER_STOP_CHECK: u32 = 16;
/// Polls between two signs of life, where nothing comes.
const POLLS_PER_HEARTBEAT: u32 = 1024;
/// Polls for the last send completions after the end was ordered at once.
const LAST_POLLS: u32 = 4096;

/// How long counts wait to be shown to the host while requests come one after the other, in ticks: some 10 us.
const SHOW_TICKS: u64 = 20_000;

/// Why the rounds ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Stopped, or dead.
    End,
    /// The budget of launches is used: the next execution continues.
    Relaunch,
}

impl<M: Machine> QueuePairDispatcher<'_, M> {
    /// The life of the polling warp. `meet` is the barrier with the warps that share its rounds.
    #[inline(always)]
    pub(super) fn run_poller(&self, meet: &impl Fn(), context: WarpContext<'_>) -> Over {
        let warp = context.warp;
        let over = match self.open(warp) {
            Ok(mut poller) => {
                let fast_path = QueuePairDispatcher { ..*self }.fast_path(warp, poller.sizes);
                let left = self.rounds(meet, context, &mut poller, fast_path.as_ref());
                self.close(warp, &mut poller, left);
                Over::Ended
            }
            Err(why) => {
                if warp.lane() == 0 {
                    self.control.store(control::STATE, control::STATE_FAILED, Ordering::Release);
                }
                Over::Refused(why)
            }
        };
        if warp.lane() == 0 {
            self.block_state.set_jobs(EXIT, 0);
        }
        meet();
        over
    }

    /// Takes the queues up where the last start left them; at the first one, posts the receive requests.
    #[inline(always)]
    fn open(&self, warp: Warp<'_>) -> Result<PollerState, QueueError> {
        let sizes = self.check()?;
        let load = |word| self.control.load(word, Ordering::Relaxed);
        let windows = self.windows;
        let completions =
            CompletionQueue::new(windows.tx_completions.clone(), windows.tx_completions_record.clone())?
                .resumed(load(control::SEND_CONSUMED));
        let send = SendQueue::new(windows.send.clone(), completions, self.config.qpn, self.config.record)?
            .resumed(load(control::POSTED), load(control::DONE));
        let record = DoorbellRecord::new(windows.record.clone())?;
        let opened = warp.any(load(control::OPENED) != 0);
        let receives = if opened { load(control::RECEIVES) } else { self.config.depth.into() };
        let written = self.config.record == RecordMode::Written;
        let posted = load(control::POSTED);
        let mut poller = PollerState {
            sizes,
            consumed: load(control::CONSUMED),
            receives,
            posted,
            guess: 0,
            width: 1,
            idle: 0,
            free: 0,
            unshown: false,
            shown: 0,
            sequence: Sequence::from_word(load(control::SEQUENCE)),
            dead: None,
            beat: load(control::HEARTBEAT),
            graphs: if M::GRAPHS { self.open_graphs(warp) } else { Tending::default() },
            send,
            record: record.resumed(receives as u16, if written { posted as u16 } else { 0 }),
        };
        self.block_state.resume(
            warp,
            |index| load(control::COUNTERS + index),
            |index| load(control::EVENTS + index),
        );
        if warp.lane() == 0 {
            if !opened {
                ReceiveQueue::fill(&windows.receive, sizes.receive, self.config.buffers);
                poller.record.publish_receive(receives as u16);
                self.control.store(control::OPENED, 1, Ordering::Relaxed);
            }
            self.control.store(control::DEAD, 0, Ordering::Relaxed);
            self.control.store(control::STATE, control::STATE_RUNNING, Ordering::Release);
        }
        warp.sync();
        Ok(poller)
    }

    /// Serves until the end.
    #[inline(always)]
    fn rounds(
        &self,
        meet: &impl Fn(),
        context: WarpContext<'_>,
        poller: &mut PollerState,
        fast_path: Option<&FastPath<'_, M>>,
    ) -> Left {
        let WarpContext { warp, input, output, .. } = context;
        loop {
            if M::GRAPHS {
                self.tend(context, poller);
                if poller.dead.is_some() {
                    return Left::End;
                }
                if self.should_relaunch(warp, poller) {
                    return Left::Relaunch;
                }
            }
            let poll = match fast_path {
                Some(fast_path) => fast_path.serve_requests(warp, poller, input, output),
                None => Some(self.poll(warp, poller)),
            };
            let Some(poll) = poll else { return Left::End };
            // What a graph will answer is waited for, unless the end is to be at once.
            let done = poll.ready == 0 && (!M::GRAPHS || poller.graphs.held() == 0);
            if poll.stop == control::STOP_NOW || (poll.stop != control::STOP_NO && done) {
                return Left::End;
            }
            if poll.ready == 0 {
                self.rest(warp, poller);
                continue;
            }
            let room = self.room(warp, poller, poll.ready);
            if room == 0 {
                return Left::End;
            }
            let ready = poll.ready.min(room);
            self.round(meet, context, poller, ready, poll.owner);
            poller.adapt(ready);
            self.publish_soon(warp, poller);
            if M::GRAPHS {
                // A handler may have launched its follow-up.
                self.show_launches(warp, poller);
            }
            self.reclaim_soon(warp, poller);
            if poller.dead.is_some() {
                return Left::End;
            }
        }
    }

    /// One poll at the next completions, a lane each; now and then at the stop word too, in the same burst.
    #[inline(always)]
    fn poll(&self, warp: Warp<'_>, poller: &PollerState) -> Poll {
        self.poll_finish(warp, poller, self.poll_begin(warp, poller))
    }

    /// Begins a poll. On a device, work between this and [`poll_finish`](Self::poll_finish) is done while the
    /// loads are under way.
    #[inline(always)]
    pub(super) fn poll_begin(&self, warp: Warp<'_>, poller: &PollerState) -> PendingPoll {
        let lane = warp.lane();
        let stops = poller.idle.is_multiple_of(POLLS_PER_STOP_CHECK);
        let ours = lane < poller.width;
        let first = ours.then_some((&self.windows.rx_completions, poller.entry(lane) + cqe::OWNER_WORD - 1));
        let second = (stops && lane == 0).then_some((self.control, control::STOP));
        let [[_, owner], [stop, _]] = Words::load_two(first, second);
        let index = ours.then_some(poller.consumed + u64::from(lane));
        PendingPoll { owner, stop, stops, index }
    }

    /// What a poll found.
    #[inline(always)]
    pub(super) fn poll_finish(&self, warp: Warp<'_>, poller: &PollerState, begun: PendingPoll) -> Poll {
        let PendingPoll { owner, stop, stops, index } = begun;
        let entries = poller.sizes.completions.into();
        let there = index.is_some_and(|index| cqe::is_ours(owner, index, entries));
        let ready = warp.ballot(there).trailing_ones();
        let stop = if stops { warp.shuffle(stop as u32, 0).into() } else { control::STOP_NO };
        Poll { ready, owner, stop }
    }

    /// Nothing came.
    #[inline(always)]
    pub(super) fn rest(&self, warp: Warp<'_>, poller: &mut PollerState) {
        if poller.unshown {
            self.publish(warp);
            poller.unshown = false;
        }
        poller.width = 1;
        poller.idle = poller.idle.wrapping_add(1);
        if poller.idle.is_multiple_of(POLLS_PER_HEARTBEAT) && warp.lane() == 0 {
            poller.beat = poller.beat.wrapping_add(1);
            self.control.store(control::HEARTBEAT, poller.beat, Ordering::Relaxed);
        }
        if poller.idle % POLLS_PER_HEARTBEAT == 1 {
            // No handler runs.
            for index in warp.stride(self.warps as usize) {
                let at = control::BUSY + index * control::BUSY_WORDS;
                self.control.store(at, 0, Ordering::Relaxed);
            }
        }
        hint::spin();
    }

    /// How many send requests there is room for, at least one; 0 when it is time to end instead.
    #[inline(always)]
    fn room(&self, warp: Warp<'_>, poller: &mut PollerState, wanted: u32) -> u32 {
        if poller.free >= wanted {
            return poller.free;
        }
        let mut room = 0;
        if warp.lane() == 0 {
            room = self.room_of(poller, wanted);
        }
        self.learn(warp, poller, room);
        if poller.dead.is_some() { 0 } else { poller.free }
    }

    /// By lane 0.
    #[inline(always)]
    fn room_of(&self, poller: &mut PollerState, wanted: u32) -> u32 {
        let entries = poller.send.entries();
        let free = |poller: &PollerState| entries - poller.send.under_way() as u32;
        if free(poller) < wanted {
            self.reclaim(poller);
        }
        if free(poller) > 0 {
            return free(poller);
        }
        self.block_state.add(Event::TxFull, 1);
        let mut polls = 0_u32;
        loop {
            self.reclaim(poller);
            if free(poller) > 0 || poller.send.dead().is_some() {
                return free(poller);
            }
            polls = polls.wrapping_add(1);
            if polls.is_multiple_of(POLLS_PER_STOP_CHECK)
                && self.control.load(control::STOP, Ordering::Relaxed) == control::STOP_NOW
            {
                return 0;
            }
            hint::spin();
        }
    }

    /// Reads the send side's completions. By lane 0.
    #[inline(always)]
    fn reclaim(&self, poller: &mut PollerState) {
        let found = poller.send.reclaim();
        for (event, n) in [
            (Event::TxCompletions, found.completions),
            (Event::TxErrors, found.failed),
            (Event::TxFlushed, found.flushed),
            (Event::TxStray, found.stray),
        ] {
            self.block_state.add(event, n.into());
        }
    }

    /// Reads completions before they are missed: with half of the queue under way there is one to come.
    #[inline(always)]
    pub(super) fn reclaim_soon(&self, warp: Warp<'_>, poller: &mut PollerState) {
        let mut room = 0;
        if warp.lane() == 0 {
            if 2 * poller.send.under_way() > u64::from(poller.sizes.send) {
                self.reclaim(poller);
            }
            room = poller.sizes.send - poller.send.under_way() as u32;
        }
        self.learn(warp, poller, room);
    }

    /// Reads completions once, and learns how much room there is.
    pub(super) fn reclaim_for_room(&self, warp: Warp<'_>, poller: &mut PollerState) {
        let mut room = 0;
        if warp.lane() == 0 {
            self.reclaim(poller);
            room = poller.sizes.send - poller.send.under_way() as u32;
        }
        self.learn(warp, poller, room);
    }

    /// Lets all lanes know what lane 0 knows of the send side.
    #[inline(always)]
    fn learn(&self, warp: Warp<'_>, poller: &mut PollerState, room: u32) {
        const DEAD: u32 = 1 << 31;
        let dead = if poller.send.dead().is_some() { DEAD } else { 0 };
        let word = warp.shuffle(room | dead, 0);
        poller.free = word & !DEAD;
        if word & DEAD != 0 {
            poller.dead = Some(Syndrome::FLUSHED);
        }
    }

    /// The slot that is expected after this one.
    #[inline(always)]
    pub(super) fn slot_after(&self, slot: u32) -> u32 {
        if slot + 1 < self.config.slots { slot + 1 } else { 0 }
    }

    /// One round: `ready` completions are taken, their requests served, the responses rung.
    #[inline(always)]
    fn round(
        &self,
        meet: &impl Fn(),
        context: WarpContext<'_>,
        poller: &mut PollerState,
        ready: u32,
        owner: u64,
    ) {
        let warp = context.warp;
        poller.idle = 0;
        barrier::observe_from_peer();
        let lane = warp.lane();
        // With the rest of the entries, what the expected slot holds: if it is that slot, a round trip is saved.
        let (cq, data) = (&self.windows.rx_completions, self.windows.rx_data.words());
        let expected = ready == 1 && lane < self.config.rx_stride / 16;
        let slot = expected.then_some((data, self.slot_word(poller.guess) + 2 * lane as usize));
        let rest = (lane < ready).then_some((cq, poller.entry(lane) + IMMEDIATE_WORD));
        let [burst, [immediate, count]] = Words::load_two(slot, rest);

        let mut entry = Cqe::default();
        (entry.0[IMMEDIATE_WORD], entry.0[IMMEDIATE_WORD + 1]) = (immediate, count);
        entry.0[cqe::OWNER_WORD] = owner;
        let completion =
            if lane < ready { self.classify(poller, lane, entry) } else { Completion::default() };
        let requests = warp.ballot(completion.job != 0);
        let used = warp.ballot(completion.uses).count_ones();
        if warp.any(completion.flushed) {
            poller.dead = Some(Syndrome::FLUSHED);
        }
        if self.config.sequence {
            self.follow(warp, poller, ready, completion.number);
        }
        let jobs = requests.count_ones();
        // Counted when it is answered: it used up a receive request.
        let alone = ready == 1 && jobs == 1;
        if lane == 0 && !alone {
            self.block_state.add(Event::RxCompletions, ready.into());
            self.block_state.add(Event::RxRequests, jobs.into());
            self.block_state.add(Event::RxReposted, used.into());
        }

        if M::GRAPHS && lane == 0 {
            self.block_state.begin_round(poller.posted);
        }
        let mut copy = None;
        let mut counted = CounterBits::NONE;
        if alone {
            let job = Job::of(warp.shuffle_u64(completion.job, 0), poller.posted);
            // A header takes two lanes.
            let burst = (job.slot == poller.guess && warp.lanes() > 1).then_some(burst);
            poller.guess = self.slot_after(job.slot);
            let written = self.serve(context, job, burst);
            counted = ALONE.and(written.map_or(CounterBits::NONE, |written| written.counted));
            copy = written.filter(|_| self.bell.copies(warp.lanes())).map(|written| written.own);
        } else if jobs > 0 {
            let index = (requests & ((1 << lane) - 1)).count_ones();
            if completion.job != 0 {
                self.block_state.set_job(index, completion.job);
            }
            if lane == 0 {
                self.block_state.set_jobs(jobs.into(), poller.posted);
            }
            meet();
            self.share(context, jobs.into());
            meet();
        }
        let mut sent = jobs.into();
        if M::GRAPHS && jobs > 0 {
            let [answered, aside] = self.block_state.round();
            sent = answered;
            self.took(poller, aside);
            // All lanes have read it.
            warp.sync();
        }
        let done = Done { completions: ready.into(), receives: used.into(), sent };
        self.commit(warp, poller, done, copy);
        if alone {
            self.block_state.count_bits_alone(warp, counted);
        }
    }

    /// Shows the counts to the host, if they have waited for long; else when nothing comes: not in the next request's way.
    #[inline(always)]
    pub(super) fn publish_soon(&self, warp: Warp<'_>, poller: &mut PollerState) {
        let now = clock::ticks();
        poller.unshown = true;
        // One lane's clock for all.
        if warp.any(warp.lane() == 0 && now.wrapping_sub(poller.shown) >= SHOW_TICKS) {
            self.publish(warp);
            (poller.unshown, poller.shown) = (false, now);
        }
    }

    /// Shows the counts to the host.
    #[inline(always)]
    pub(super) fn publish(&self, warp: Warp<'_>) {
        for pair in warp.stride(Counter::COUNT.div_ceil(2)) {
            self.control.store_pair(control::COUNTERS + 2 * pair, self.block_state.counter_pair(pair));
        }
        for pair in warp.stride(Event::COUNT.div_ceil(2)) {
            self.control.store_pair(control::EVENTS + 2 * pair, self.block_state.event_pair(pair));
        }
    }

    /// The end: the NIC is waited for, the cursors are left for the next start, and the last words written. Before a relaunch
    /// the NIC is not waited for, and the state stays.
    #[inline(always)]
    fn close(&self, warp: Warp<'_>, poller: &mut PollerState, left: Left) {
        if warp.lane() == 0 {
            if poller.dead.is_none() && left == Left::End {
                self.drain(poller);
            }
            let store = |word, value| self.control.store(word, value, Ordering::Relaxed);
            store(control::CONSUMED, poller.consumed);
            store(control::RECEIVES, poller.receives);
            store(control::POSTED, poller.send.posted());
            store(control::DONE, poller.send.done());
            store(control::SEND_CONSUMED, poller.send.completions_read());
            store(control::SEQUENCE, poller.sequence.to_word());
            let dead = poller.dead.or(poller.send.dead());
            store(control::DEAD, dead.map_or(0, |syndrome| syndrome.0.into()));
        }
        for index in warp.stride(self.warps as usize) {
            self.control.store(control::BUSY + index * control::BUSY_WORDS, 0, Ordering::Relaxed);
        }
        warp.sync();
        self.publish(warp);
        let mut state = control::STATE_ENDED;
        if M::GRAPHS {
            self.close_graphs(warp, poller);
            if left == Left::Relaunch {
                if self.relaunch(warp) {
                    return;
                }
                state = control::STATE_FAILED;
            }
        }
        // Release, after the barrier: an agent that sees the state sees the last counters.
        warp.sync();
        if warp.lane() == 0 {
            self.control.store(control::STATE, state, Ordering::Release);
        }
    }

    /// Waits until the NIC is done with every response. By lane 0.
    #[inline(always)]
    fn drain(&self, poller: &mut PollerState) {
        let mut marked = false;
        let mut left = LAST_POLLS;
        while left > 0 {
            self.reclaim(poller);
            if poller.send.under_way() == 0 || poller.send.dead().is_some() {
                return;
            }
            if !marked && poller.send.has_room() {
                let mut bell = self.bell;
                marked = true;
                // The last responses may not be signalled: an empty request that is asks for them.
                if let Ok(posted) = poller.send.post_marker(&mut poller.record, &mut bell) {
                    self.block_state.add(Event::TxPosted, posted.into());
                    self.block_state.add(Event::TxSignalled, posted.into());
                }
            }
            if self.control.load(control::STOP, Ordering::Relaxed) == control::STOP_NOW {
                left -= 1;
            }
            hint::spin();
        }
    }
}
