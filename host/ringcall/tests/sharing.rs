//! Several host dispatchers on one ring: every request is answered once, also requests that no dispatcher can
//! read.

use proptest::prelude::*;
use ringcall::dispatcher::{DispatchStep, HostDispatcher, Running, Wired};
use ringcall::external::{BadRequests, ExecutorClaim, ExternalExecutor, LaunchError, Marks, RingCompat};
use ringcall::wire::counter::Counter;
use ringcall::wire::{RequestHeader, flag};
use ringcall::{FunctionId, FunctionTable, HostOptions, Ring, RingConfig, Status, Wait};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{RingMemory, SlotIndex};
use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Against hanging.
const LIMIT: Duration = Duration::from_secs(120);
const NAMES: [&str; 3] = ["one", "other", "third"];

/// A dispatcher with one function, that shares the ring.
fn dispatcher(ring: &Ring, name: &str, any_flag: bool) -> HostDispatcher<Running> {
    wired(ring, name, any_flag).start().expect("a thread")
}

fn wired(ring: &Ring, name: &str, any_flag: bool) -> HostDispatcher<Wired> {
    let table = FunctionTable::builder().host_call(name, |request: &[u8], result: &mut [u8]| {
        result[..request.len()].copy_from_slice(request);
        Ok(request.len())
    });
    let compat = RingCompat { shared_ring: true, any_flag, bad_requests: BadRequests::Answer };
    // Of its own: as a C program's dispatchers have it.
    let ring = Ring::external(ring.shared().clone());
    let builder = HostDispatcher::builder(&ring, table.build(&ring).expect("a table")).compat(compat);
    let options = HostOptions { wait: Wait::Yield { spins: 64 }, ..HostOptions::default() };
    builder.options(options).build().expect("wired")
}

/// What a producer does to a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    /// For that dispatcher.
    Good(usize),
    /// For that dispatcher, with a flag that is not its slot's address.
    WrongFlag(usize),
    Magic,
    Length,
}

impl Kind {
    /// The answer, and its counter.
    fn owed(self, any_flag: bool) -> (Status, Counter) {
        match self {
            Self::WrongFlag(_) if !any_flag => (Status::BAD_FLAG, Counter::BadFlag),
            Self::Good(_) | Self::WrongFlag(_) => (Status::OK, Counter::Completed),
            Self::Magic => (Status::BAD_MAGIC, Counter::BadMagic),
            Self::Length => (Status::ARG_TOO_LONG, Counter::ArgTooLong),
        }
    }

    fn header(self, id: u32) -> RequestHeader {
        let (function, len) = match self {
            Self::Good(which) | Self::WrongFlag(which) => (FunctionId::of(NAMES[which]).0, 0),
            Self::Magic => (FunctionId::of(NAMES[0]).0, 0),
            Self::Length => (FunctionId::of(NAMES[1]).0, 4000),
        };
        let header = RequestHeader::new(function, len, id, 0);
        if self == Self::Magic { RequestHeader { magic: !header.magic, ..header } } else { header }
    }
}

/// Sends `kinds` through `slots` slots as they become free; each is answered, with what it is owed, and counted once.
fn each_is_answered_once(slots: u32, dispatchers: usize, any_flag: bool, kinds: &[Kind]) {
    let ring = Ring::allocate(RingConfig { slots, slot_bytes: 64 }).expect("a ring");
    let running: Vec<_> = NAMES[..dispatchers].iter().map(|name| dispatcher(&ring, name, any_flag)).collect();
    let shared = ring.shared();
    let all: Vec<_> = ring.geometry().iter().collect();
    let mut open: Vec<Option<u32>> = vec![None; all.len()];
    let (mut sent, mut taken) = (0, 0);
    let begin = Instant::now();
    while taken < kinds.len() {
        assert!(begin.elapsed() < LIMIT, "{taken} of {} were answered: {}", kinds.len(), running[0].dump());
        for (&slot, open) in all.iter().zip(&mut open) {
            if let Some(response) = Response::probe(shared, slot) {
                let id = open.take().expect("an answer that nobody is owed");
                let header = response.header();
                let owed = kinds[id as usize].owed(any_flag).0;
                assert_eq!((header.request_id, Status(header.status)), (id, owed), "answered twice");
                response.release(shared);
                taken += 1;
            }
            if open.is_none() && sent < kinds.len() && Vacant::probe(shared, slot).is_some() {
                let wrong = matches!(kinds[sent], Kind::WrongFlag(_));
                let flag = if wrong { 0x10 } else { ring.geometry().request_address(slot) };
                shared.forge_request(slot, &kinds[sent].header(sent as u32).to_bytes(), flag);
                *open = Some(sent as u32);
                sent += 1;
            }
        }
        std::thread::yield_now();
    }
    let mut owed: HashMap<Counter, u64> = HashMap::new();
    for kind in kinds {
        *owed.entry(kind.owed(any_flag).1).or_default() += 1;
    }
    let counters: Vec<_> = running
        .into_iter()
        .map(|running| {
            let stopped = running.stop(LIMIT);
            assert_eq!((stopped.report.dropped, stopped.report.unfinished), (0, None));
            stopped.dispatcher.expect("it ends").counters()
        })
        .collect();
    for (counter, n) in owed {
        assert_eq!(counters.iter().map(|c| c.get(counter)).sum::<u64>(), n, "{counter:?}");
    }
    assert_eq!(
        counters.iter().map(ringcall::dispatcher::Snapshot::answered).sum::<u64>(),
        kinds.len() as u64
    );
    for slot in all {
        assert_eq!((shared.rx(slot), shared.tx(slot)), (flag::FREE, flag::FREE));
    }
}

#[test]
fn what_is_broken_is_answered_by_one_of_several() {
    let kinds: Vec<_> = (0..15_000).map(|i| if i % 2 == 0 { Kind::Magic } else { Kind::Length }).collect();
    for (slots, dispatchers) in [(8, 2), (32, 3)] {
        each_is_answered_once(slots, dispatchers, true, &kinds);
    }
}

#[test]
fn a_halt_answers_what_is_its_own_and_leaves_the_rest() {
    for any_flag in [false, true] {
        let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 64 }).expect("a ring");
        let [mut one, mut other] = [0, 1].map(|which| wired(&ring, NAMES[which], any_flag).into_stepper());
        let (shared, slots) = (ring.shared(), ring.geometry().iter().collect::<Vec<_>>());
        let kinds =
            [Kind::Good(0), Kind::Good(1), Kind::Good(2), Kind::Good(0), Kind::WrongFlag(0), Kind::Magic];
        for ((id, kind), &slot) in (0..).zip(kinds).zip(&slots) {
            let flag = match kind {
                Kind::WrongFlag(_) => 0x10,
                _ => ring.geometry().request_address(slot),
            };
            shared.forge_request(slot, &kind.header(id).to_bytes(), flag);
        }
        // The other's, who is in the middle of it.
        shared.publish_tx(slots[6], flag::IN_FLIGHT);
        one.halt(Duration::ZERO);
        for (slot, id) in [(0, 0), (3, 3), (4, 4), (5, 5)] {
            let response = Response::probe(shared, slots[slot]).expect("answered");
            let header = *response.header();
            assert_eq!((header.request_id, Status(header.status)), (id, Status::SHUTTING_DOWN), "{any_flag}");
            response.release(shared);
        }
        let counted = |counter| one.counters().get(counter);
        assert_eq!([Counter::Received, Counter::ShuttingDown].map(counted), [4, 4]);
        for slot in [1, 2] {
            assert!(
                shared.rx(slots[slot]) != flag::FREE && shared.tx(slots[slot]) == flag::FREE,
                "not its own"
            );
        }
        assert_eq!(shared.tx(slots[6]), flag::IN_FLIGHT);
        while other.step() == DispatchStep::Busy {}
        let served = Response::probe(shared, slots[1]).expect("the other's");
        assert_eq!(Status(served.header().status), Status::OK);
        // A third one's that never comes waits indefinitely, as it should.
        assert!(shared.rx(slots[2]) != flag::FREE && shared.tx(slots[2]) == flag::FREE);
        one.halt(Duration::ZERO);
        assert_eq!(one.counters().get(Counter::ShuttingDown), 4, "once");
    }
}

/// Nobody, who counts how often it is asked.
struct Idle(Arc<DeviceU64>);

impl ExternalExecutor for Idle {
    fn service(&mut self, _: &mut dyn FnMut(Status)) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }

    fn claim(&mut self, _: SlotIndex, _: &RequestHeader, _: u64) -> ExecutorClaim {
        ExecutorClaim::Never
    }

    fn start(&mut self, _: u32, _: SlotIndex) -> Result<(), LaunchError> {
        Err(LaunchError { code: 1 })
    }

    fn marks(&self) -> Marks {
        Marks::BeforeStart
    }

    fn serves(&self, _: SlotIndex) -> bool {
        false
    }

    fn is_idle(&self) -> bool {
        true
    }
}

#[test]
fn a_halt_does_not_wait_for_another_dispatchers_marks() {
    for (shared_ring, waits) in [(true, false), (false, true)] {
        let ring = Ring::allocate(RingConfig { slots: 2, slot_bytes: 64 }).expect("a ring");
        let (asked, compat) =
            (Arc::new(DeviceU64::new(0)), RingCompat { shared_ring, ..RingCompat::default() });
        let table = FunctionTable::builder().host_call("one", |_: &[u8], _: &mut [u8]| Ok(0));
        let builder = HostDispatcher::builder(&ring, table.build(&ring).expect("a table")).compat(compat);
        let executor = Box::new(Idle(Arc::clone(&asked)));
        let mut dispatcher = builder.executor(executor).build().expect("wired").into_stepper();
        let slot = ring.geometry().slot(1).expect("a slot");
        ring.shared().publish_tx(slot, flag::IN_FLIGHT);
        dispatcher.halt(Duration::from_millis(50));
        assert_eq!(asked.load(Ordering::Relaxed) > 1, waits, "shared: {shared_ring}");
    }
}

fn kind() -> impl Strategy<Value = Kind> {
    prop_oneof![
        (0..2_usize).prop_map(Kind::Good),
        (0..2_usize).prop_map(Kind::WrongFlag),
        Just(Kind::Magic),
        Just(Kind::Length)
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn whatever_comes_is_answered_once(
        kinds in proptest::collection::vec(kind(), 1..400),
        slots in 1..10_u32,
        dispatchers in 2..4_usize,
        any_flag in any::<bool>(),
    ) {
        each_is_answered_once(slots, dispatchers, any_flag, &kinds);
    }
}
