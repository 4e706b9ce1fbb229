//! The leader: polls, takes completions, has them served, ends.

use super::board::{EXIT, Job, Tally};
use super::graph::Tending;
use super::judge::Verdict;
use super::send::Done;
use super::usual::Near;
use super::{Crew, MOST_JOBS, Machine, Over, Sizes};
use crate::QueueError;
use crate::counters::Event;
use crate::cq::CompletionQueue;
use crate::doorbell::DoorbellRecord;
use crate::layout::cqe::{self, Cqe, Syndrome};
use crate::rq::ReceiveQueue;
use crate::sequence::Sequence;
use crate::sq::{RecordMode, SendQueue};
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, clock, hint};
use ringcall_wire::counter::Counter;
use ringcall_wire::unified::control;

/// Looks between two looks at the stop word, where nothing comes.
const LOOKS: u32 = 16;
/// Looks between two signs of life, where nothing comes.
const LOOKS_A_BEAT: u32 = 1024;
/// Looks for the last send completions after the end was ordered at once.
const LAST_LOOKS: u32 = 4096;
/// What a request that came alone counts as, when it arrives.
pub(super) const ALONE: Tally = Tally::NONE
    .event(Event::RxCompletions, true)
    .event(Event::RxRequests, true)
    .event(Event::RxReposted, true);
/// How long counts wait to be shown to the host while requests come one behind the other, in ticks: some 10 us.
const SHOW_TICKS: u64 = 20_000;
/// The word of an entry that the immediate stands in; the byte count stands in the next.
pub(super) const IMMEDIATE_WORD: usize = cqe::offset::IMMEDIATE / 8;

/// What the leading warp knows of the queues. The same on all lanes, but for what lane 0 alone works.
#[derive(Debug)]
pub(super) struct Lead {
    pub(super) sizes: Sizes,
    /// Completions read.
    pub(super) consumed: u64,
    /// Receive requests posted.
    pub(super) receives: u64,
    /// Send requests posted.
    pub(super) posted: u64,
    /// The slot that the next request is expected in.
    pub(super) guess: u32,
    /// Completions looked at in one turn.
    pub(super) width: u32,
    /// Turns without anything.
    pub(super) idle: u32,
    /// Send requests that there is room for, as last seen.
    pub(super) free: u32,
    /// Whether there are counts that the host has not been shown, and when it was shown the last, in ticks.
    pub(super) unshown: bool,
    shown: u64,
    pub(super) sequence: Sequence,
    /// Whether the queue pair is in the error state.
    pub(super) dead: Option<Syndrome>,
    beat: u64,
    /// Of use where graphs are launched.
    pub(super) graphs: Tending,
    /// Lane 0's.
    pub(super) send: SendQueue,
    /// Lane 0's.
    pub(super) record: DoorbellRecord,
}

/// A look that was begun.
#[derive(Debug, Clone, Copy)]
pub(super) struct Glance {
    /// This lane's owner word, and the number of its completion; and lane 0's stop word.
    owner: u64,
    index: Option<u64>,
    stop: u64,
    /// Whether the stop word was looked at.
    stops: bool,
}

/// What one look found.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// Completions, in a row.
    pub(super) ready: u32,
    /// This lane's owner word.
    pub(super) owner: u64,
    /// The stop word, if it was looked at and set; else 0.
    pub(super) stop: u64,
}

/// Why the rounds ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Left {
    /// Stopped, or dead.
    End,
    /// The budget of launches is used: the next execution goes on.
    Relaunch,
}

impl<M: Machine> Crew<'_, M> {
    /// The life of the leading warp. `meet` is the barrier with the warps that share its rounds.
    #[inline(always)]
    pub(super) fn lead(&self, meet: &impl Fn(), warp: Warp<'_>, input: Stage<'_>, output: Stage<'_>) -> Over {
        let over = match self.open(warp) {
            Ok(mut lead) => {
                let near = Crew { ..*self }.near(warp, lead.sizes);
                let left = self.rounds(meet, warp, &mut lead, near.as_ref(), input, output);
                self.close(warp, &mut lead, left);
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
            self.board.set_jobs(EXIT, 0);
        }
        meet();
        over
    }

    /// Takes the queues up where the last start left them; at the first one, posts the receive requests.
    #[inline(always)]
    fn open(&self, warp: Warp<'_>) -> Result<Lead, QueueError> {
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
        let mut lead = Lead {
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
        self.board.resume(
            warp,
            |place| load(control::COUNTERS + place),
            |place| load(control::EVENTS + place),
        );
        if warp.lane() == 0 {
            if !opened {
                ReceiveQueue::fill(&windows.receive, sizes.receive, self.config.buffers);
                lead.record.publish_receive(receives as u16);
                self.control.store(control::OPENED, 1, Ordering::Relaxed);
            }
            self.control.store(control::DEAD, 0, Ordering::Relaxed);
            self.control.store(control::STATE, control::STATE_RUNNING, Ordering::Release);
        }
        warp.sync();
        Ok(lead)
    }

    /// Serves until the end.
    #[inline(always)]
    fn rounds(
        &self,
        meet: &impl Fn(),
        warp: Warp<'_>,
        lead: &mut Lead,
        near: Option<&Near<'_, M>>,
        input: Stage<'_>,
        output: Stage<'_>,
    ) -> Left {
        loop {
            if M::GRAPHS {
                self.tend(warp, lead, input, output);
                if lead.dead.is_some() {
                    return Left::End;
                }
                if self.should_relaunch(warp, lead) {
                    return Left::Relaunch;
                }
            }
            let look = match near {
                Some(near) => near.watch(warp, lead, input, output),
                None => Some(self.look(warp, lead)),
            };
            let Some(look) = look else { return Left::End };
            // What a graph will answer is waited for, unless the end is to be at once.
            let done = look.ready == 0 && (!M::GRAPHS || lead.graphs.held() == 0);
            if look.stop == control::STOP_NOW || (look.stop != control::STOP_NO && done) {
                return Left::End;
            }
            if look.ready == 0 {
                self.rest(warp, lead);
                continue;
            }
            let room = self.room(warp, lead, look.ready);
            if room == 0 {
                return Left::End;
            }
            let ready = look.ready.min(room);
            self.round(meet, warp, lead, ready, look.owner, input, output);
            lead.adapt(ready);
            self.publish_soon(warp, lead);
            if M::GRAPHS {
                // A handler may have launched its follow-up.
                self.show_launches(warp, lead);
            }
            self.reclaim_soon(warp, lead);
            if lead.dead.is_some() {
                return Left::End;
            }
        }
    }

    /// One look at the next completions, a lane each; now and then at the stop word too, in the same wave.
    #[inline(always)]
    fn look(&self, warp: Warp<'_>, lead: &Lead) -> Look {
        self.see(warp, lead, self.glance(warp, lead))
    }

    /// Begins a look. On a device what is done between this and [`see`](Self::see) is done while the look is under way.
    #[inline(always)]
    pub(super) fn glance(&self, warp: Warp<'_>, lead: &Lead) -> Glance {
        let lane = warp.lane();
        let stops = lead.idle.is_multiple_of(LOOKS);
        let ours = lane < lead.width;
        let first = ours.then_some((&self.windows.rx_completions, lead.entry(lane) + cqe::OWNER_WORD - 1));
        let second = (stops && lane == 0).then_some((self.control, control::STOP));
        let [[_, owner], [stop, _]] = Words::load_two(first, second);
        let index = ours.then_some(lead.consumed + u64::from(lane));
        Glance { owner, stop, stops, index }
    }

    /// What a look found.
    #[inline(always)]
    pub(super) fn see(&self, warp: Warp<'_>, lead: &Lead, glance: Glance) -> Look {
        let Glance { owner, stop, stops, index } = glance;
        let entries = lead.sizes.completions.into();
        let there = index.is_some_and(|index| cqe::is_ours(owner, index, entries));
        let ready = warp.ballot(there).trailing_ones();
        let stop = if stops { warp.shuffle(stop as u32, 0).into() } else { control::STOP_NO };
        Look { ready, owner, stop }
    }

    /// Nothing came.
    #[inline(always)]
    pub(super) fn rest(&self, warp: Warp<'_>, lead: &mut Lead) {
        if lead.unshown {
            self.publish(warp);
            lead.unshown = false;
        }
        lead.width = 1;
        lead.idle = lead.idle.wrapping_add(1);
        if lead.idle.is_multiple_of(LOOKS_A_BEAT) && warp.lane() == 0 {
            lead.beat = lead.beat.wrapping_add(1);
            self.control.store(control::HEARTBEAT, lead.beat, Ordering::Relaxed);
        }
        if lead.idle % LOOKS_A_BEAT == 1 {
            // No handler runs.
            for place in warp.stride(self.warps as usize) {
                let at = control::BUSY + place * control::BUSY_WORDS;
                self.control.store(at, 0, Ordering::Relaxed);
            }
        }
        hint::spin();
    }

    /// How many send requests there is room for, at least one; 0 when it is time to end instead.
    #[inline(always)]
    fn room(&self, warp: Warp<'_>, lead: &mut Lead, wanted: u32) -> u32 {
        if lead.free >= wanted {
            return lead.free;
        }
        let mut room = 0;
        if warp.lane() == 0 {
            room = self.room_of(lead, wanted);
        }
        self.learn(warp, lead, room);
        if lead.dead.is_some() { 0 } else { lead.free }
    }

    /// By lane 0.
    #[inline(always)]
    fn room_of(&self, lead: &mut Lead, wanted: u32) -> u32 {
        let entries = lead.send.entries();
        let free = |lead: &Lead| entries - lead.send.under_way() as u32;
        if free(lead) < wanted {
            self.reclaim(lead);
        }
        if free(lead) > 0 {
            return free(lead);
        }
        self.board.add(Event::TxFull, 1);
        let mut looks = 0_u32;
        loop {
            self.reclaim(lead);
            if free(lead) > 0 || lead.send.dead().is_some() {
                return free(lead);
            }
            looks = looks.wrapping_add(1);
            if looks.is_multiple_of(LOOKS)
                && self.control.load(control::STOP, Ordering::Relaxed) == control::STOP_NOW
            {
                return 0;
            }
            hint::spin();
        }
    }

    /// Reads the send side's completions. By lane 0.
    #[inline(always)]
    fn reclaim(&self, lead: &mut Lead) {
        let found = lead.send.reclaim();
        for (event, n) in [
            (Event::TxCompletions, found.completions),
            (Event::TxErrors, found.failed),
            (Event::TxFlushed, found.flushed),
            (Event::TxStray, found.stray),
        ] {
            self.board.add(event, n.into());
        }
    }

    /// Reads completions before they are missed: with half of the queue under way there is one to come.
    #[inline(always)]
    pub(super) fn reclaim_soon(&self, warp: Warp<'_>, lead: &mut Lead) {
        let mut room = 0;
        if warp.lane() == 0 {
            if 2 * lead.send.under_way() > u64::from(lead.sizes.send) {
                self.reclaim(lead);
            }
            room = lead.sizes.send - lead.send.under_way() as u32;
        }
        self.learn(warp, lead, room);
    }

    /// Reads completions once, and learns how much room there is.
    pub(super) fn look_for_room(&self, warp: Warp<'_>, lead: &mut Lead) {
        let mut room = 0;
        if warp.lane() == 0 {
            self.reclaim(lead);
            room = lead.sizes.send - lead.send.under_way() as u32;
        }
        self.learn(warp, lead, room);
    }

    /// Lets all lanes know what lane 0 knows of the send side.
    #[inline(always)]
    fn learn(&self, warp: Warp<'_>, lead: &mut Lead, room: u32) {
        const DEAD: u32 = 1 << 31;
        let dead = if lead.send.dead().is_some() { DEAD } else { 0 };
        let word = warp.shuffle(room | dead, 0);
        lead.free = word & !DEAD;
        if word & DEAD != 0 {
            lead.dead = Some(Syndrome::FLUSHED);
        }
    }

    /// The slot that is expected after this one.
    #[inline(always)]
    pub(super) fn slot_after(&self, slot: u32) -> u32 {
        if slot + 1 < self.config.slots { slot + 1 } else { 0 }
    }

    /// One round: `ready` completions are taken, their requests served, the responses rung.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // what a round consists of
    fn round(
        &self,
        meet: &impl Fn(),
        warp: Warp<'_>,
        lead: &mut Lead,
        ready: u32,
        owner: u64,
        input: Stage<'_>,
        output: Stage<'_>,
    ) {
        lead.idle = 0;
        barrier::observe_from_peer();
        let lane = warp.lane();
        // With the rest of the entries, what the expected slot holds: if it is that slot, a round trip is saved.
        let (cq, data) = (&self.windows.rx_completions, self.windows.rx_data.words());
        let expected = ready == 1 && lane < self.config.rx_stride / 16;
        let slot = expected.then_some((data, self.slot_word(lead.guess) + 2 * lane as usize));
        let rest = (lane < ready).then_some((cq, lead.entry(lane) + IMMEDIATE_WORD));
        let [wave, [immediate, count]] = Words::load_two(slot, rest);

        let mut entry = Cqe::default();
        (entry.0[IMMEDIATE_WORD], entry.0[IMMEDIATE_WORD + 1]) = (immediate, count);
        entry.0[cqe::OWNER_WORD] = owner;
        let verdict = if lane < ready { self.judge(lead, lane, entry) } else { Verdict::default() };
        let requests = warp.ballot(verdict.job != 0);
        let used = warp.ballot(verdict.uses).count_ones();
        if warp.any(verdict.flushed) {
            lead.dead = Some(Syndrome::FLUSHED);
        }
        if self.config.sequence {
            self.follow(warp, lead, ready, verdict.number);
        }
        let jobs = requests.count_ones();
        // Counted when it is answered: it used up a receive request.
        let alone = ready == 1 && jobs == 1;
        if lane == 0 && !alone {
            self.board.add(Event::RxCompletions, ready.into());
            self.board.add(Event::RxRequests, jobs.into());
            self.board.add(Event::RxReposted, used.into());
        }

        if M::GRAPHS && lane == 0 {
            self.board.begin_round(lead.posted);
        }
        let mut copy = None;
        let mut tally = Tally::NONE;
        if alone {
            let job = Job::of(warp.shuffle_u64(verdict.job, 0), lead.posted);
            // A header takes two lanes.
            let wave = (job.slot == lead.guess && warp.lanes() > 1).then_some(wave);
            lead.guess = self.slot_after(job.slot);
            let written = self.serve(warp, 0, job, wave, input, output);
            tally = ALONE.and(written.map_or(Tally::NONE, |written| written.tally));
            copy = written.filter(|_| self.bell.copies(warp.lanes())).map(|written| written.own);
        } else if jobs > 0 {
            let place = (requests & ((1 << lane) - 1)).count_ones();
            if verdict.job != 0 {
                self.board.set_job(place, verdict.job);
            }
            if lane == 0 {
                self.board.set_jobs(jobs.into(), lead.posted);
            }
            meet();
            self.share(warp, 0, jobs.into(), input, output);
            meet();
        }
        let mut sent = jobs.into();
        if M::GRAPHS && jobs > 0 {
            let [answered, aside] = self.board.round();
            sent = answered;
            self.took(lead, aside);
            // All lanes have read it.
            warp.sync();
        }
        let done = Done { completions: ready.into(), receives: used.into(), sent };
        self.commit(warp, lead, done, copy);
        if alone {
            self.board.tally_alone(warp, tally);
        }
    }

    /// Shows the counts to the host, if they have waited for long; else when nothing comes: not in the next request's way.
    #[inline(always)]
    pub(super) fn publish_soon(&self, warp: Warp<'_>, lead: &mut Lead) {
        let now = clock::ticks();
        lead.unshown = true;
        // One lane's clock for all.
        if warp.any(warp.lane() == 0 && now.wrapping_sub(lead.shown) >= SHOW_TICKS) {
            self.publish(warp);
            (lead.unshown, lead.shown) = (false, now);
        }
    }

    /// Shows the counts to the host.
    #[inline(always)]
    pub(super) fn publish(&self, warp: Warp<'_>) {
        for pair in warp.stride(Counter::COUNT.div_ceil(2)) {
            self.control.store_pair(control::COUNTERS + 2 * pair, self.board.counter_pair(pair));
        }
        for pair in warp.stride(Event::COUNT.div_ceil(2)) {
            self.control.store_pair(control::EVENTS + 2 * pair, self.board.event_pair(pair));
        }
    }

    /// The end: the NIC is waited for, the cursors are left for the next start, and the last words written. Before a relaunch
    /// the NIC is not waited for, and the state stays.
    #[inline(always)]
    fn close(&self, warp: Warp<'_>, lead: &mut Lead, left: Left) {
        if warp.lane() == 0 {
            if lead.dead.is_none() && left == Left::End {
                self.drain(lead);
            }
            let store = |word, value| self.control.store(word, value, Ordering::Relaxed);
            store(control::CONSUMED, lead.consumed);
            store(control::RECEIVES, lead.receives);
            store(control::POSTED, lead.send.posted());
            store(control::DONE, lead.send.done());
            store(control::SEND_CONSUMED, lead.send.completions_read());
            store(control::SEQUENCE, lead.sequence.to_word());
            let dead = lead.dead.or(lead.send.dead());
            store(control::DEAD, dead.map_or(0, |syndrome| syndrome.0.into()));
        }
        for place in warp.stride(self.warps as usize) {
            self.control.store(control::BUSY + place * control::BUSY_WORDS, 0, Ordering::Relaxed);
        }
        warp.sync();
        self.publish(warp);
        let mut state = control::STATE_ENDED;
        if M::GRAPHS {
            self.close_graphs(warp, lead);
            if left == Left::Relaunch {
                if self.relaunch(warp) {
                    return;
                }
                state = control::STATE_FAILED;
            }
        }
        // Release, after the barrier: whoever sees the state sees the last figures.
        warp.sync();
        if warp.lane() == 0 {
            self.control.store(control::STATE, state, Ordering::Release);
        }
    }

    /// Waits until the NIC is done with every response. By lane 0.
    #[inline(always)]
    fn drain(&self, lead: &mut Lead) {
        let mut marked = false;
        let mut left = LAST_LOOKS;
        while left > 0 {
            self.reclaim(lead);
            if lead.send.under_way() == 0 || lead.send.dead().is_some() {
                return;
            }
            if !marked && lead.send.has_room() {
                let mut bell = self.bell;
                marked = true;
                // The last responses may not be signalled: an empty request that is asks for them.
                if let Ok(posted) = lead.send.post_marker(&mut lead.record, &mut bell) {
                    self.board.add(Event::TxPosted, posted.into());
                    self.board.add(Event::TxSignalled, posted.into());
                }
            }
            if self.control.load(control::STOP, Ordering::Relaxed) == control::STOP_NOW {
                left -= 1;
            }
            hint::spin();
        }
    }
}

impl Lead {
    /// Looks at more completions in the next turn if all that were looked at in this one were there, else at fewer.
    #[inline(always)]
    pub(super) fn adapt(&mut self, ready: u32) {
        self.width = if ready == self.width { (2 * ready).min(MOST_JOBS) } else { self.width / 2 }.max(1);
    }

    /// First word of the completion entry `ahead` of the next.
    #[inline(always)]
    pub(super) fn entry(&self, ahead: u32) -> usize {
        let index = self.consumed + u64::from(ahead);
        (index & u64::from(self.sizes.completions - 1)) as usize * cqe::WORDS
    }
}
