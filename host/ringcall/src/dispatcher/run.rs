//! The dispatcher's loop.

use super::answer::{answer, check, is_answered_in_place};
use super::malformed::MalformedLock;
use super::pool::Pool;
use super::scanner::Scanner;
use super::{DispatcherError, HostOptions};
use crate::external::{ExecutorClaim, ExternalExecutor, Marks, RingCompat};
use crate::shared::{Control, Shared};
use crate::table::{Function, FunctionTable, Slots};
use crate::wait::TURNS_PER_CHECK;
use crate::worker::WorkerSpec;
use ringcall_gpu::clock;
use ringcall_protocol::slot::{Request, Seen};
use ringcall_protocol::{RingMemory, SlotIndex};
use ringcall_wire::counter::Counter;
use ringcall_wire::flag;
use ringcall_wire::header::{HEADER_BYTES, HEADER_WORDS, RequestHeader};
use ringcall_wire::status::{DispatchMode, Status};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use zerocopy::IntoBytes;

/// How long a halt waits for workers in the middle of an answer and for a reader of completions: well within the time
/// that a stop allows for a halt. The limit is a time and not a number of turns, since on a busy machine one yield
/// may take a time slice.
pub(super) const HALT_TIMEOUT_NS: u64 = 200_000_000;

/// Result of one step.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DispatchStep {
    /// There was something to do: step again at once.
    Busy,
    /// There was nothing to do.
    Idle,
    /// The dispatcher is drained or halted: no work is left.
    Ended,
}

/// State of the dispatcher thread. A stop hands it back, so that a restart keeps cursors and handlers.
pub(super) struct Loop {
    shared: Arc<Shared>,
    pub(super) table: FunctionTable,
    pub(super) pool: Pool,
    pub(super) scan: Scanner,
    /// Private copies of request and response for an inline call.
    slots: Slots,
    pub(super) options: HostOptions,
    pub(super) compat: RingCompat,
    pub(super) executor: Option<Box<dyn ExternalExecutor>>,
    /// The lock for malformed requests, if other dispatchers serve the ring, too.
    pub(super) malformed: Option<&'static MalformedLock>,
}

impl std::fmt::Debug for Loop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Loop")
            .field("table", &self.table)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

impl Loop {
    pub(super) fn new(
        shared: Arc<Shared>,
        table: FunctionTable,
        workers: Vec<WorkerSpec>,
        options: HostOptions,
    ) -> Result<Self, DispatcherError> {
        let geometry = *shared.ring.geometry();
        let pool = Pool::new(&shared, &table.functions, workers)?;
        Ok(Self {
            table,
            pool,
            scan: Scanner::any_order(geometry.slots()),
            slots: Slots::new(&geometry),
            options,
            compat: RingCompat::default(),
            executor: None,
            malformed: None,
            shared,
        })
    }

    /// Runs until stopped and drained, or halted.
    pub(super) fn run(&mut self) {
        let shared = Arc::clone(&self.shared);
        let mut waiter = self.options.wait.waiter();
        let mut pace = Pace::new(&self.options);
        loop {
            match self.step(&shared, &mut pace) {
                DispatchStep::Busy => waiter.reset(),
                DispatchStep::Idle if !self.ends_round() => (),
                DispatchStep::Idle => {
                    let _ = waiter.idle();
                }
                DispatchStep::Ended => return,
            }
        }
    }

    /// One turn; some turns also check for late requests and read the control word.
    #[inline(always)]
    pub(super) fn step(&mut self, shared: &Shared, pace: &mut Pace) -> DispatchStep {
        let busy = self.turn(shared) > 0;
        pace.turn = pace.turn.wrapping_add(1);
        if busy && !pace.turn.is_multiple_of(TURNS_PER_CHECK) {
            return DispatchStep::Busy;
        }
        if pace.timer.due(pace.turn) {
            let _ = self.pool.give_up(shared, Status::TIMED_OUT, pace.timer.oldest());
        }
        match shared.control() {
            Control::Run => (),
            Control::Drain if !busy && self.is_drained(shared) => return DispatchStep::Ended,
            Control::Drain => (),
            Control::Halt => {
                self.halt(shared, HALT_TIMEOUT_NS);
                return DispatchStep::Ended;
            }
        }
        if busy { DispatchStep::Busy } else { DispatchStep::Idle }
    }

    /// Whether every slot was polled since this function last returned true.
    pub(super) const fn ends_round(&self) -> bool {
        self.scan.ends_round()
    }

    /// The next turn polls this slot first.
    pub(super) fn hint_next(&mut self, slot: SlotIndex) {
        self.scan.aim(slot);
    }

    /// Polls the ring and the queues once. Returns how much there was to do.
    #[inline(always)]
    fn turn(&mut self, shared: &Shared) -> u32 {
        let Self { scan, pool, .. } = self;
        let mut done = pool.refill(shared);
        let mut context = PollContext {
            shared,
            table: &mut self.table,
            pool,
            slots: &mut self.slots,
            compat: self.compat,
            executor: &mut self.executor,
            malformed: self.malformed,
            turned_away: false,
        };
        done += context.service();
        done += scan.turn(&shared.ring, |seen| context.serve(seen));
        done
    }

    /// Whether nothing is in flight and a poll of every slot finds no request.
    fn is_drained(&mut self, shared: &Shared) -> bool {
        let Self { scan, .. } = self;
        let mut context = PollContext {
            shared,
            table: &mut self.table,
            pool: &mut self.pool,
            slots: &mut self.slots,
            compat: self.compat,
            executor: &mut self.executor,
            malformed: self.malformed,
            turned_away: false,
        };
        let mut done = context.service();
        done += scan.full(&shared.ring, |seen| {
            // The request is taken as soon as the slot's previous completion was read.
            u32::from(shared.completion_unread(seen.slot())) + context.serve(seen)
        });
        let turned_away = context.turned_away;
        let executor_idle = self.executor.as_ref().is_none_or(|executor| executor.is_idle());
        let mine_done = shared.ledger().in_flight().next().is_none() && executor_idle;
        // On a shared ring another dispatcher's in-flight marks do not count.
        done == 0 && !turned_away && mine_done && (self.compat.shared_ring || !shared.any_in_flight())
    }
}

/// Borrowed context of one turn of the dispatcher's loop.
struct PollContext<'a> {
    shared: &'a Shared,
    table: &'a mut FunctionTable,
    pool: &'a mut Pool,
    slots: &'a mut Slots,
    compat: RingCompat,
    executor: &'a mut Option<Box<dyn ExternalExecutor>>,
    malformed: Option<&'a MalformedLock>,
    /// A malformed request was left because another dispatcher held the lock, perhaps for another slot: it is polled again.
    turned_away: bool,
}

impl PollContext<'_> {
    /// Collects the requests that the external executor has ended. Returns how many.
    #[inline(always)]
    fn service(&mut self) -> u32 {
        let Some(executor) = &mut self.executor else { return 0 };
        let mut ended = 0;
        executor.service(&mut |status| {
            self.shared.bank.count(Counter::of_status(status));
            ended += 1;
        });
        ended
    }

    /// Takes one request, if its slot's previous response was taken. Returns 1 if it took the request.
    #[inline(always)]
    fn serve(&mut self, seen: Seen) -> u32 {
        let Self { shared, table, pool, compat, executor, malformed, .. } = self;
        let (shared, compat, malformed) = (*shared, *compat, *malformed);
        let ring = &shared.ring;
        // The previous response is still in the slot, or its completion is unread: the next turn polls the slot
        // again.
        if shared.completion_unread(seen.slot()) {
            return 0;
        }
        // The external executor answered the slot's last request, and the answer was taken, perhaps after the poll
        // for ended work. The next turn will notice that end and must not take it for the end of this request, which
        // may have another worker.
        if executor.as_ref().is_some_and(|executor| executor.serves(seen.slot())) {
            return 0;
        }
        let Some(mut request) = seen.claim(ring) else { return 0 };
        let mut checked = check(shared, table, pool, compat, &request);
        let mut guard = None;
        if compat.shared_ring && !checked.is_err_and(|status| compat.leaves(status)) {
            if checked.is_err_and(|status| compat.is_malformed(status)) {
                guard = malformed.and_then(MalformedLock::take);
                if guard.is_none() {
                    self.turned_away = true;
                    request.leave();
                    return 0;
                }
            }
            // The request is this dispatcher's if a second read confirms it: see `Request::again`. Then no other
            // agent takes it.
            let value = ring.rx(request.slot());
            if value == flag::FREE {
                request.leave();
                return 0;
            }
            let Some(whole) = request.again(ring, value) else { return 0 };
            request = whole;
            checked = check(shared, table, pool, compat, &request);
        }
        let malformed_request = checked.is_err_and(|status| compat.is_malformed(status));
        let anothers = checked.is_err_and(|status| compat.leaves(status));
        if anothers || malformed_request && is_answered_in_place(ring, &request) {
            request.leave();
            return 0;
        }
        if malformed_request && guard.is_none() {
            self.turned_away = true;
            request.leave();
            return 0;
        }
        // The lock is released after the answer.
        let _guard = guard.filter(|_| malformed_request);
        if matches!(checked, Ok((_, _, true))) {
            return self.send_external(request);
        }
        shared.bank.count(Counter::Received);
        match checked {
            Err(status) if compat.bad_requests.drops(status) => {
                shared.bank.count(Counter::of_status(status));
                request.drop_unanswered(ring);
            }
            Err(status) => answer(shared, request, status, &[]),
            Ok((index, DispatchMode::GraphLaunch, _)) => pool.accept(shared, index, request.take(ring)),
            Ok((index, ..)) => call(shared, table, self.slots, request, index),
        }
        1
    }

    /// Hands a checked request to the executor, which answers it in its slot, or refuses a request that the executor
    /// can never take. Returns 1 if it did either.
    fn send_external(&mut self, request: Request) -> u32 {
        let shared = self.shared;
        let ring = &shared.ring;
        let refuse = |request| {
            shared.bank.count(Counter::Received);
            answer(shared, request, Status::NO_WORKER, &[]);
            1
        };
        let Some(executor) = &mut self.executor else { return refuse(request) };
        let mut key = [0; 8];
        if request.header().arg_len as usize >= key.len() {
            request.read_payload(ring, &mut key);
        }
        let slot = request.slot();
        let worker = match executor.claim(slot, request.header(), u64::from_le_bytes(key)) {
            ExecutorClaim::Worker(worker) => worker,
            ExecutorClaim::Later => {
                request.leave();
                return 0;
            }
            ExecutorClaim::Never => return refuse(request),
        };
        shared.bank.count(Counter::Received);
        shared.bank.count(Counter::Dispatched);
        let marks = executor.marks();
        if marks == Marks::BeforeStart {
            request.mark(ring);
        }
        match executor.start(worker, slot) {
            Ok(()) if marks == Marks::Never => request.leave(),
            Ok(()) => request.hand_over(ring),
            Err(error) => {
                shared.bank.count(Counter::of_status(Status::LAUNCH_FAILED));
                request.take(ring).fail(ring, Status::LAUNCH_FAILED, error.code);
            }
        }
        1
    }
}

/// Runs an inline call on private copies.
///
/// The handler and the code after it read at once what is written here. A processor serves such a load from its store
/// buffer if one store covers the load. Otherwise the load waits until the buffer has drained, and the buffer holds
/// the flags and the response of the previous request, whose cache lines other cores own. So every load here is at
/// most as wide as the store before it.
#[inline(always)]
fn call(shared: &Shared, table: &mut FunctionTable, slots: &mut Slots, request: Request, index: usize) {
    let FunctionTable { functions, handlers } = table;
    let (Some(Function { id, .. }), Some(Some(handler))) =
        (functions.entries.get(index), handlers.get_mut(index))
    else {
        return answer(shared, request, Status::UNKNOWN_FUNCTION, &[]);
    };
    // Field by field, as the request was copied: these values are still in registers.
    let &RequestHeader { function_id, arg_len, request_id, ptp_timestamp, .. } = request.header();
    let header = RequestHeader::new(function_id, arg_len, request_id, ptp_timestamp);
    slots.request[..HEADER_WORDS].copy_from_slice(&header.to_words());
    // Checked against the capacity: the slot's bytes after the header.
    let len = arg_len as usize;
    request.read_payload(&shared.ring, &mut slots.request.as_mut_bytes()[HEADER_BYTES..][..len]);
    shared.bank.count(Counter::Dispatched);
    shared.inline_function.store(u64::from(id.0) + 1, Ordering::Relaxed);
    let outcome = catch_unwind(AssertUnwindSafe(|| packed(handler.call_in_slots(&header, slots))));
    shared.inline_function.store(0, Ordering::Relaxed);
    let (status, len) = unpacked(outcome.unwrap_or_else(|_| packed(Err(Status::HANDLER_PANIC))));
    let result = &slots.response.as_bytes()[HEADER_BYTES..];
    let (status, len) = status.clamped(len, result.len());
    answer(shared, request, status, &result[..len]);
}

/// A handler's outcome in one word, which is passed through memory: the status in the upper half, the length of the
/// result in the lower half. (Every slot is small enough for that.)
#[inline(always)]
fn packed(outcome: Result<(Status, usize), Status>) -> u64 {
    let (Status(status), len) = outcome.unwrap_or_else(|status| (status, 0));
    u64::from(status.cast_unsigned()) << 32 | u64::from(u32::try_from(len).unwrap_or(u32::MAX))
}

/// The outcome that was [`packed`].
#[inline(always)]
const fn unpacked(word: u64) -> (Status, usize) {
    (Status(((word >> 32) as u32).cast_signed()), word as u32 as usize)
}

/// State that the loop keeps from one turn to the next.
#[derive(Debug)]
pub(super) struct Pace {
    timer: Timer,
    turn: u32,
}

impl Pace {
    pub(super) fn new(options: &HostOptions) -> Self {
        Self { timer: Timer::new(options), turn: 0 }
    }
}

/// When to check for requests that are late: eight times within the time allowed.
#[derive(Debug)]
struct Timer {
    timeout_ns: u64,
    next_ns: u64,
    now_ns: u64,
}

impl Timer {
    fn new(options: &HostOptions) -> Self {
        let timeout_ns = options
            .request_timeout
            .map_or(0, |timeout| u64::try_from(timeout.as_nanos()).unwrap_or(u64::MAX).max(1));
        Self { timeout_ns, next_ns: 0, now_ns: 0 }
    }

    fn due(&mut self, turn: u32) -> bool {
        if self.timeout_ns == 0 || !turn.is_multiple_of(TURNS_PER_CHECK) {
            return false;
        }
        self.now_ns = clock::now_ns();
        if self.now_ns < self.next_ns {
            return false;
        }
        self.next_ns = self.now_ns + (self.timeout_ns / 8).max(1000);
        self.now_ns > self.timeout_ns
    }

    /// Requests accepted before this are late.
    fn oldest(&self) -> u64 {
        self.now_ns.saturating_sub(self.timeout_ns).max(1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outcome_is_unpacked_as_it_was_packed() {
        for status in [Status::OK, Status::RESULT_TOO_LONG, Status(i32::MIN), Status(i32::MAX)] {
            for len in [0, 1, 40, u32::MAX as usize] {
                assert_eq!(unpacked(packed(Ok((status, len)))), (status, len));
            }
            assert_eq!(unpacked(packed(Err(status))), (status, 0));
        }
        let most = u32::MAX as usize;
        assert_eq!(unpacked(packed(Ok((Status::OK, usize::MAX)))), (Status::OK, most), "fits no slot either");
    }
}
