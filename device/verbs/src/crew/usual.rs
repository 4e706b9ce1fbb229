//! The usual case, straight: one request alone, in a slot of one wave, for a function that is called.
//!
//! What lies between a completion and its answer is executed by one warp, once, some five cycles an instruction; so the way
//! that nearly every request takes is written out here in as few as it takes, in a function of its own, with registers of its
//! own. Whatever is different (several requests at once, a stop, a completion that is no request, a refusal, a graph) is left
//! to `lead`, which can do everything and begins with what was seen: until a handler is called, nothing has changed.

use super::board::{Job, Tally};
use super::judge::number_of;
use super::lead::{ALONE, IMMEDIATE_WORD, Lead, Look};
use super::send::Done;
use super::serve::outcome;
use super::{Crew, Machine, Sizes};
use crate::cq::Polled;
use crate::layout::cqe::{self, Cqe};
use crate::layout::wqe;
use crate::unified::Extent;
use ringcall_dispatch::validate;
use ringcall_gpu::barrier;
use ringcall_gpu::shared::{Pair, Rows};
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::Warp;
use ringcall_wire::counter::Counter;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::status::DispatchMode;
use ringcall_wire::unified::control;

/// A crew whose usual case is this one, and its queues as rows.
pub(super) struct Near<'a, M> {
    crew: Crew<'a, M>,
    usual: Usual,
}

/// Queues and slots as rows; a request slot has fewer pairs than two for each lane.
#[derive(Debug, Clone)]
struct Usual {
    completions: Rows,
    requests: Rows,
    sends: Rows,
    responses: Rows,
}

/// Where the next request is expected, and its answer goes: worked out before it is looked for, not in its way.
#[derive(Debug, Clone, Copy)]
struct Next<'a> {
    /// The slot.
    guess: u32,
    /// Number of the send request.
    number: u64,
    /// This lane's part of what is fetched when its completion is there. The rest of the completion comes with the slot, to the
    /// last lane, which has no second pair of a slot.
    wave: [Pair<'a>; 2],
}

impl Usual {
    #[inline(always)]
    fn next(&self, warp: Warp<'_>, lead: &Lead) -> Next<'_> {
        let (lane, lanes, guess) = (warp.lane(), warp.lanes(), lead.guess);
        let second = if lane == lanes - 1 {
            self.completions.pair((lead.entry(0) / cqe::WORDS) as u32, IMMEDIATE_WORD as u32 / 2)
        } else {
            self.requests.pair(guess, lanes + lane)
        };
        Next { guess, number: lead.posted, wave: [self.requests.pair(guess, lane), second] }
    }
}

impl<'a, M: Machine> Crew<'a, M> {
    /// This crew, if it has a usual case: no graphs, and slots of one wave that leaves the last lane's second load free.
    #[inline(always)]
    pub(super) fn near(self, warp: Warp<'_>, sizes: Sizes) -> Option<Near<'a, M>> {
        let (windows, config) = (self.windows, &self.config);
        let entry = |words| (words * 8) as u32;
        let usual = Usual {
            completions: Rows::of(&windows.rx_completions, sizes.completions, entry(cqe::WORDS))?,
            requests: Rows::of(windows.rx_data.words(), config.slots, config.rx_stride)?,
            sends: Rows::of(&windows.send, sizes.send, entry(wqe::WORDS))?,
            responses: Rows::of(windows.tx_data.words(), sizes.send, config.tx_stride)?,
        };
        // A header takes two lanes.
        let one_wave = warp.lanes() >= 2 && usual.requests.pairs() < 2 * warp.lanes();
        (one_wave && !M::GRAPHS).then_some(Near { crew: self, usual })
    }
}

impl<M: Machine> Near<'_, M> {
    /// Polls, and serves requests that are usual, until there is something else, or the queue pair is dead (`None`).
    #[inline(never)]
    pub(super) fn watch(
        &self,
        warp: Warp<'_>,
        lead: &mut Lead,
        input: Stage<'_>,
        output: Stage<'_>,
    ) -> Option<Look> {
        // Copies, which stay in registers.
        let bell = self.crew.bell.clone();
        let crew = Crew { bell: &bell, ..self.crew };
        let usual = self.usual.clone();
        let mut owed = None;
        loop {
            let glance = crew.glance(warp, lead);
            // While it is under way, what nobody waits for.
            if let Some(after) = owed.take() {
                crew.settle(warp, lead, after);
            }
            let (next, free) = (usual.next(warp, lead), lead.free);
            let look = crew.see(warp, lead, glance);
            if lead.dead.is_some() {
                return None;
            }
            if look.ready == 0 && look.stop == control::STOP_NO {
                crew.rest(warp, lead);
                continue;
            }
            if look.ready != 1 || look.stop != control::STOP_NO || free == 0 {
                return Some(look);
            }
            owed = crew.serve_usual(&usual, warp, lead, next, look.owner, input, output);
            if owed.is_none() {
                return Some(look);
            }
        }
    }
}

/// What is left to be done when a request was answered.
#[derive(Debug, Clone, Copy)]
struct After {
    /// What is to be counted.
    tally: Tally,
    /// The number of its message.
    number: Option<u32>,
}

impl<M: Machine> Crew<'_, M> {
    /// Serves the request of the next completion, of whose owner word `owner` is lane 0's. `None`, and nothing is done, if it
    /// is not a usual one.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one call
    fn serve_usual(
        &self,
        usual: &Usual,
        warp: Warp<'_>,
        lead: &mut Lead,
        next: Next<'_>,
        owner: u64,
        input: Stage<'_>,
        output: Stage<'_>,
    ) -> Option<After> {
        // The payload, and the rest of the entry, are visible from here on.
        barrier::observe_from_peer();
        let (lane, lanes) = (warp.lane(), warp.lanes());
        let last = lanes - 1;
        let Next { guess, number, wave } = next;
        let [mut first, mut second] = Pair::load_two(wave[0], wave[1]);
        // What is looked at stands in the upper halves of the words.
        let upper = |word: u64, from| u64::from(warp.shuffle((word >> 32) as u32, from)) << 32;
        let mut entry = Cqe::default();
        (entry.0[IMMEDIATE_WORD], entry.0[IMMEDIATE_WORD + 1]) =
            (upper(second[0], last), upper(second[1], last));
        entry.0[cqe::OWNER_WORD] = upper(owner, 0);
        let Polled::Received { arrival, immediate, bytes, wqe_counter } = Polled::of(&entry) else {
            return None;
        };
        let Ok(slot) = self.slot_of(lead, arrival, immediate, wqe_counter, bytes) else { return None };
        let extent = match self.extent {
            Extent::Received => bytes,
            Extent::Slot => self.config.rx_stride,
        };
        let room = extent.checked_sub(HEADER_BYTES as u32)?;
        if slot != guess {
            let pair = |pair| usual.requests.pair(slot, pair);
            [first, second] = Pair::load_two(pair(lane), pair(lanes + lane));
        }
        let word = |word, from| warp.shuffle_u64(word, from);
        let header = RequestHeader::from_words([word(first[0], 0), word(first[1], 0), word(first[0], 1)]);
        let checked = validate::header(&header, room)
            .and_then(|()| validate::function(&self.table, &header, |mode| mode == DispatchMode::DeviceCall));
        let Ok(function) = checked else { return None };
        for (pair, value) in [(lane, first), (lanes + lane, second)] {
            if pair < usual.requests.pairs() {
                input.set_pair(pair as usize, value);
            }
        }
        warp.sync();
        let (status, len) = self.call(warp, 0, slot, function, header.arg_len, input, output);
        let reply = ResponseHeader::reply(&header, status.0, len).to_words();
        let job = Job { slot, bytes, index: number };
        // Both stages are free again, and the result visible to all lanes.
        warp.sync();
        let written = self.respond_to(
            warp,
            job,
            reply,
            len,
            output,
            lead.sizes.send,
            |place, at, pair| usual.responses.store_pair(place, at as u32, pair),
            |place, at, pair| usual.sends.store_pair(place, at as u32, pair),
        );
        let copy = self.bell.copies(lanes).then_some(written.own);
        self.commit(warp, lead, Done::ALONE, copy);
        // For the next look, at once.
        lead.idle = 0;
        lead.adapt(1);
        lead.guess = self.slot_after(slot);
        let tally = ALONE.and(written.tally).and(outcome(status)).counter(Counter::Dispatched);
        Some(After { tally, number: number_of(arrival, immediate) })
    }

    /// What is left to be done when a request was answered: nobody waits for it.
    #[inline(always)]
    fn settle(&self, warp: Warp<'_>, lead: &mut Lead, after: After) {
        if self.config.sequence {
            self.follow(warp, lead, 1, after.number);
        }
        self.board.tally_alone(warp, after.tally);
        self.publish_soon(warp, lead);
        lead.free -= 1;
        if 2 * lead.free < lead.sizes.send {
            self.reclaim_soon(warp, lead);
        }
    }
}
