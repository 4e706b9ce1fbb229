//! The usual case, straight: one request alone in a ring of one window, for a handler that is called.
//!
//! What lies between a flag and its answer is executed by one warp, once, some five cycles an instruction; so the way that
//! nearly every request takes is written out here in as few as it takes. Whatever is different (several requests at once, a
//! stop, a flag that lies, a refusal, a graph) is left to `lead` and `serve`, which can do everything.

use super::board::Post;
use super::lead::{Job, SERVED, TURNS_A_ROUND, WRITTEN, spread};
use super::pause::let_pass;
use super::staged::Wave;
use super::{Block, Call, Machine};
use crate::validate;
use crate::{RingMemory, SlotIndex};
use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Rows;
use ringcall_gpu::stage::Stage;
use ringcall_gpu::team::Warp;
use ringcall_gpu::{barrier, clock, hint};
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::{DispatchMode, Status};

/// How long an heir lets the request before it be answered, in ticks: 1.5 us on a device of 2 GHz, and about as long as the
/// rest of the way takes.
const LET_TICKS: u64 = 3_000;

/// How long an heir that has let a request be answered goes on waiting, in ticks. A client that waited for the answer cannot
/// have asked again yet: the answer has to cross the bus, and the next request to come back. A poll that just misses that costs
/// another poll. Measured: see the record of this dispatcher's design.
const HUSH_TICKS: u64 = 300;
/// The same for a leader that is its own heir, from when the response flag left: it has more to do until then.
const OWN_HUSH_TICKS: u64 = 517;

/// A block whose usual case is this one, and its slots as rows.
pub(super) struct Near<'a, M> {
    block: Block<'a, M>,
    usual: Usual,
}

/// The slots of a ring as rows, each of no more than one wave.
#[derive(Debug, Clone)]
struct Usual {
    requests: Rows,
    responses: Rows,
}

/// This lane's marks and flags of a window, the marks read first.
pub(super) type Look = [[u64; 2]; 2];

/// How a watch ended.
pub(super) enum Watched {
    /// The lead was passed on, and a request served.
    Served,
    /// The lead was passed on; this request is to be served, and is not a usual one.
    Serve(Job),
    /// The leader, which keeps house, is to do so.
    Round,
    /// The leader has seen something that is not usual, and leads on.
    Unusual(Option<Look>),
}

impl<'a, M: Machine> Block<'a, M> {
    /// This block, if it has a usual case: one window, slots of one wave.
    #[inline(always)]
    pub(super) fn near(self, warp: Warp<'_>) -> Option<Near<'a, M>> {
        let [requests, responses] = self.ring.rows()?;
        let window = 2 * warp.lanes();
        let one_wave = self.share.count <= window && requests.pairs() <= window && warp.lanes() >= 2;
        let plain = !M::GRAPHS && !self.options.is_shared();
        (one_wave && plain).then_some(Near { block: self, usual: Usual { requests, responses } })
    }
}

impl<M: Machine> Near<'_, M> {
    /// Polls until a request is there, and serves it, if it is alone or this warp is; or until there is something else.
    ///
    /// A function of its own, with registers of its own.
    #[inline(never)]
    pub(super) fn watch(&self, warp: Warp<'_>, me: u32, input: Stage<'_>, output: Stage<'_>) -> Watched {
        // Copies again, which stay in registers.
        let ring = self.block.ring.clone();
        let block = Block { ring: &ring, ..self.block };
        block.watch(&self.usual.clone(), warp, me, [input, output])
    }
}

impl<M: Machine> Block<'_, M> {
    #[inline(always)]
    fn watch(&self, usual: &Usual, warp: Warp<'_>, me: u32, stages: [Stage<'_>; 2]) -> Watched {
        self.let_answer(warp);
        let first = self.first_of(warp, 0);
        // Read here, before the first vote: until every lane has read it, no lane changes it.
        let turn = if self.is_alone() { self.board.place.load(Ordering::Relaxed) as u32 % 64 } else { 0 };
        loop {
            if self.keeps_house && self.board.count_turn(warp).is_multiple_of(TURNS_A_ROUND) {
                return Watched::Round;
            }
            if warp.any(self.board.interrupts()) {
                return Watched::Unusual(None);
            }
            let mut odd = false;
            // Marks before flags: see `look`.
            let [marks, flags] = [self.marks(warp, 0), self.flags(warp, 0, true)];
            if self.is_alone() {
                self.clear_seen(warp, marks);
            }
            let mut set = [false; 2];
            for i in 0..2 {
                set[i] = flags[i] != flag::FREE && marks[i] == 0;
                let left_alone = marks[i] != 0 && marks[i] < WRITTEN;
                odd |= left_alone || set[i] && !self.ring.is_address_of(first + i as u32, flags[i]);
            }
            let [even, other] = set.map(|set| warp.ballot(set));
            let several = even.count_ones() + other.count_ones() > 1;
            // One warp serves them one by one in any case.
            if warp.any(odd) || several && !self.is_alone() {
                return Watched::Unusual(Some([marks, flags]));
            }
            if even | other == 0 {
                continue;
            }
            // The payload is visible from here on; to all lanes, whichever saw the flag.
            barrier::observe_from_peer();
            warp.sync();
            let bit = if several {
                // Around the window from where the last one was, so that no slot waits for ever for those before it.
                let seen = spread(even) | spread(other) << 1;
                (seen.rotate_right(turn).trailing_zeros() + turn) % 64
            } else {
                2 * (even | other).trailing_zeros() + u32::from(other != 0)
            };
            let slot = self.share.first + bit;
            let Some(index) = self.ring.geometry().slot(slot) else {
                return Watched::Unusual(Some([marks, flags])); // no flag lies behind the last slot
            };
            // Its loads are under way while the rest is seen to.
            let wave = Wave::of_row(warp, self.ring, &usual.requests, slot);
            let free = self.free_warps(warp, me);
            if free == 0 && self.workers > 1 {
                return Watched::Unusual(Some([marks, flags]));
            }
            if warp.lane() == 0 {
                self.mark(slot, SERVED);
                self.board.answering.store(1, Ordering::Relaxed);
                self.board.note(me, Post::Serve { slot, honest: true });
                self.board.place.store(u64::from(bit + 1), Ordering::Relaxed);
            }
            let job = Job { slot, honest: true, alone: true, wave };
            if let Some(job) = self.serve_usual(usual, warp, me, job, index, free, stages) {
                return Watched::Serve(job);
            }
            if several && warp.lane() == 0 {
                self.board.answered.store(0, Ordering::Relaxed); // the next one is there already
            }
            return Watched::Served;
        }
    }

    /// Waits until the request that came before has its answer, for a while: reads of flags beside it make its fence, and its
    /// own reads, take longer. Then until the next request can be there.
    #[inline(always)]
    fn let_answer(&self, warp: Warp<'_>) {
        if self.workers == 1 {
            // The answer was this warp's.
            let_pass(warp, self.board.answered.load(Ordering::Relaxed), OWN_HUSH_TICKS);
            return;
        }
        let begin = clock::ticks();
        let waits = || {
            let answering = self.board.answering.load(Ordering::Relaxed) != 0;
            answering && clock::ticks().wrapping_sub(begin) < LET_TICKS
        };
        let mut waited = false;
        while warp.any(waits()) {
            waited = true;
            hint::spin();
        }
        if waited {
            let_pass(warp, clock::ticks(), HUSH_TICKS);
        }
    }

    /// Passes the lead on to one of the `free` warps, if there are any, and serves a request that came alone; or gives it
    /// back, if it is not for a handler that is called, or is to be refused.
    #[inline(always)]
    #[allow(clippy::too_many_arguments)] // one call
    fn serve_usual(
        &self,
        usual: &Usual,
        warp: Warp<'_>,
        me: u32,
        job: Job,
        index: SlotIndex,
        free: u32,
        [input, output]: [Stage<'_>; 2],
    ) -> Option<Job> {
        let Job { slot, wave, .. } = job;
        wave.put(warp, input, usual.requests.pairs());
        let header = wave.header(warp);
        let held = wave.is_held(warp);
        // The stage is whole, and the mark set, before anything below.
        warp.sync();
        if warp.lane() == 0 && free != 0 {
            self.board.post(free.trailing_zeros(), Post::Lead);
        }
        let geometry = self.ring.geometry();
        let checked = validate::header(&header, geometry.request_capacity())
            .and_then(|()| validate::function(&self.table, &header, |mode| mode == DispatchMode::DeviceCall));
        let (entry, kind) = match checked.map(|entry| (entry, HandlerKind::from_raw(entry.kind))) {
            Ok((entry, Some(kind @ (HandlerKind::Thread | HandlerKind::Warp | HandlerKind::Grid))))
                if !held =>
            {
                (entry, kind)
            }
            _ => {
                if warp.lane() == 0 {
                    self.board.answering.store(0, Ordering::Relaxed);
                }
                return Some(job);
            }
        };
        if warp.lane() == 0 && kind != HandlerKind::Grid {
            self.begin(me, entry.id, slot);
        }
        let capacity = geometry.result_capacity();
        let call = Call { address: entry.address, input, output, arg_len: header.arg_len, capacity };
        let returned = self.call_handler(warp, kind, &call, || self.begin(me, entry.id, slot));
        let (status, len) = if returned.len > capacity {
            (Status::RESULT_TOO_LONG, capacity)
        } else if i64::from(returned.status) == flag::GRAPH_TRIGGER as i64 {
            (Status::LAUNCH_FAILED, returned.len) // no graphs here
        } else {
            (Status(returned.status), returned.len)
        };
        // Lanes 0 and 1 have the words of the request's header that they echo.
        let [a, b] = wave.first_pair();
        let own = RequestHeader::from_words([a, b, a]);
        let [first, second, third] = ResponseHeader::reply(&own, status.0, len).to_words();
        for pair in warp.stride((HEADER_BYTES + len as usize).div_ceil(16)) {
            let [a, b] = output.pair(pair);
            let value = match pair {
                0 => [first, second],
                1 => [third, b],
                _ => [a, b],
            };
            usual.responses.store_pair(slot, pair as u32, value);
        }
        // What the other lanes wrote is before the barrier, and so before lane 0's release.
        warp.sync();
        if warp.lane() == 0 {
            self.ring.publish_tx(index, geometry.response_address(index));
            self.board.answering.store(0, Ordering::Relaxed);
            if self.workers == 1 {
                self.board.answered.store(clock::ticks(), Ordering::Relaxed);
            }
            // Nobody waits for these; they are counted before the warp is free, which an end waits for.
            if let Some(bank) = self.board.bank(me) {
                bank.count(Counter::Received);
                bank.count(Counter::Dispatched);
                bank.count(if status.is_ok() { Counter::Completed } else { Counter::for_rejection(status) });
            }
            if self.keeps_house && !self.is_alone() {
                self.ring.clear_rx(index);
                self.answered(slot, true);
            } else {
                self.retire_later(slot);
            }
        }
        None
    }
}
