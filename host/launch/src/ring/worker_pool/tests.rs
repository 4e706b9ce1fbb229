//! The pool against a plain account of who did what, with another dispatcher on the same ring.

use super::*;
use core::cell::Cell;
use core::sync::atomic::Ordering;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall_gpu::shared::{Region, Words};
use ringcall_wire::flag;
use ringcall_wire::header::RESPONSE_MAGIC;

const SLOTS: u32 = 3;
const WORKERS: usize = 3;
/// Words of a slot.
const STRIDE: usize = 8;

fn words(count: usize) -> Words {
    Region::zeroed(count * 8).expect("memory").words(0, count).expect("all of it")
}

/// Who is idle, as others see it.
#[derive(Debug, Default)]
struct Seen64(Cell<u64>);

impl IdleMask for &Seen64 {
    fn set(&self, worker: usize, idle: bool) {
        let bit = 1 << worker;
        self.0.set(if idle { self.0.get() | bit } else { self.0.get() & !bit });
    }
}

/// What has become of the graphs, in truth.
#[derive(Debug, Clone, Copy, Default)]
struct Graph {
    slot: u32,
    runs: bool,
    answered: bool,
    ended: bool,
    /// What became of its answer was reported.
    reported: bool,
    /// Another took its slot before that.
    replaced: bool,
}

/// Whose a slot is, in truth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Whose {
    Nobodys,
    Worker(usize),
    Others,
    /// Answered, by whomever.
    Consumers,
}

struct World {
    flags: Words,
    slots: Words,
    graphs: [Graph; WORKERS],
    whose: [Whose; SLOTS as usize],
    /// Ends show in memory, or by the answer alone.
    ends_show: bool,
}

impl CompletionProbe for World {
    fn has_ended(&self, worker: usize, _: u64, answered: bool) -> bool {
        if self.ends_show { self.graphs[worker].ended } else { answered && self.graphs[worker].ended }
    }

    fn state(&self, worker: usize) -> WorkerStream {
        if self.graphs[worker].ended { WorkerStream::Done } else { WorkerStream::Busy }
    }
}

impl World {
    fn set(&mut self, slot: u32, flag: u64, whose: Whose) {
        self.flags.store(slot as usize, flag, Ordering::Release);
        self.whose[slot as usize] = whose;
    }

    fn respond(&mut self, slot: u32) {
        self.slots.store(slot as usize * STRIDE, RESPONSE_MAGIC.into(), Ordering::Relaxed);
        self.set(slot, 0x1000 + u64::from(slot), Whose::Consumers);
    }
}

/// Polls every worker, and checks what the pool makes of it against the truth.
fn sweep(pool: &mut WorkerPool<&Seen64>, world: &mut World, ask: bool, early: bool) {
    for worker in pool.workers() {
        let Some(seen) = pool.poll(worker, ask, &*world) else { continue };
        let graph = world.graphs[worker];
        assert!(graph.runs && seen.slot == graph.slot);
        assert!(seen.end.is_none() || graph.ended, "{graph:?}");
        assert!(seen.end.is_some() || !(ask && graph.ended), "an end that nobody sees: {graph:?}");
        assert!(
            seen.end.is_none() || seen.answer.is_none() == (graph.reported || graph.replaced),
            "{graph:?}"
        );
        if seen.end.is_none() && !early {
            continue;
        }
        match seen.answer {
            Some(_) if graph.reported || graph.replaced => panic!("reported twice: {graph:?}"),
            Some(Answer::Given) => {
                assert!(graph.answered, "{graph:?}");
                world.graphs[worker].reported = true;
                pool.complete(worker);
            }
            Some(Answer::Never(code)) => {
                assert_eq!((code, graph.answered, graph.ended), (UNKNOWN, false, true));
                assert_eq!(world.whose[graph.slot as usize], Whose::Worker(worker), "another's mark");
                world.graphs[worker].reported = true;
                world.set(graph.slot, flag::error(code), Whose::Consumers);
            }
            None => (),
        }
        if seen.end.is_some() {
            pool.release(worker);
            world.graphs[worker].runs = false;
        }
    }
}

fn launch(pool: &mut WorkerPool<&Seen64>, world: &mut World, slot: u32) {
    let Found::Worker(worker) = pool.find(Some((7, 0))) else { return };
    let before = (0..WORKERS).find(|&before| {
        let Graph { slot: had, runs, reported, replaced, .. } = world.graphs[before];
        runs && !reported && !replaced && had == slot
    });
    let taken = pool.take(worker, slot);
    if world.whose[slot as usize] != Whose::Nobodys {
        assert_eq!((before.is_some(), taken), (true, Err(NotTaken::Served)));
        return;
    }
    taken.expect("whoever had the slot has answered, and the answer was taken");
    if let Some(before) = before {
        world.graphs[before].replaced = true;
    }
    world.set(slot, flag::IN_FLIGHT, Whose::Worker(worker));
    pool.launched(worker, true);
    world.graphs[worker] = Graph { slot, runs: true, ..Graph::default() };
}

#[test]
fn every_launch_is_reported_once_and_truly_and_no_others_mark_is_touched() {
    for seed in 0..300 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (ends_show, early) = (random.random_bool(0.5), random.random_bool(0.5));
        let (flags, slots) = (words(SLOTS as usize), words(SLOTS as usize * STRIDE));
        let answers = Answers::new(flags.clone(), Some((slots.clone(), STRIDE)), true);
        let mask = Seen64::default();
        let mut pool = WorkerPool::new(answers, &mask);
        pool.share();
        (0..WORKERS).for_each(|_| pool.add(7, 0));
        let whose = [Whose::Nobodys; SLOTS as usize];
        let mut world = World { flags, slots, graphs: Default::default(), whose, ends_show };
        for _ in 0..400 {
            let (slot, worker) = (random.random_range(0..SLOTS), random.random_range(0..WORKERS));
            let Graph { slot: own, runs, answered, ended, .. } = world.graphs[worker];
            match (random.random_range(0..7), world.whose[slot as usize]) {
                (0, Whose::Nobodys) => launch(&mut pool, &mut world, slot),
                // Asked for a run under way.
                (0, Whose::Worker(_)) => launch(&mut pool, &mut world, slot),
                (1, _) if runs && !answered && !ended => {
                    world.respond(own);
                    world.graphs[worker].answered = true;
                }
                (2, Whose::Consumers) => world.set(slot, flag::FREE, Whose::Nobodys),
                (3, Whose::Nobodys) => {
                    // Another pool's launch, perhaps.
                    if random.random_bool(0.5) {
                        let token = Answers::token(random.random());
                        world.slots.store(slot as usize * STRIDE, token, Ordering::Relaxed);
                    }
                    world.set(slot, flag::IN_FLIGHT, Whose::Others);
                }
                (4, Whose::Others) => world.respond(slot),
                (5, _) if runs && (answered || random.random_bool(0.2)) => world.graphs[worker].ended = true,
                (6, _) => sweep(&mut pool, &mut world, random.random_bool(0.3), early),
                _ => (),
            }
            let busy = world.graphs.iter().filter(|graph| graph.runs).count();
            assert_eq!((mask.0.get().count_ones() as usize, pool.is_idle()), (WORKERS - busy, busy == 0));
        }
        world.graphs.iter_mut().for_each(|graph| graph.ended = true);
        sweep(&mut pool, &mut world, true, early);
        assert!(pool.is_idle() && mask.0.get() == (1 << WORKERS) - 1);
        assert!((0..SLOTS).all(|slot| !pool.serves(slot)));
        assert!(!world.whose.iter().any(|whose| matches!(whose, Whose::Worker(_))), "unanswered for ever");
    }
}

fn pool(marks: bool, separate: bool) -> (WorkerPool, Words, Words) {
    let (flags, slots) = (words(SLOTS as usize), words(SLOTS as usize * STRIDE));
    let answers = separate.then(|| (slots.clone(), STRIDE));
    (WorkerPool::new(Answers::new(flags.clone(), answers, marks), ()), flags, slots)
}

/// A stream that stands so, and memory that says nothing.
struct Stands(WorkerStream);

impl CompletionProbe for Stands {
    fn has_ended(&self, _: usize, _: u64, _: bool) -> bool {
        false
    }

    fn state(&self, _: usize) -> WorkerStream {
        self.0
    }
}

#[test]
fn workers_are_found_by_function_and_key() {
    let (mut pool, ..) = pool(true, true);
    for (function, key) in [(1, 5), (1, 0), (2, 6)] {
        pool.add(function, key);
    }
    let found = |pool: &WorkerPool, function, key| pool.find(Some((function, key)));
    assert_eq!(found(&pool, 1, 5), Found::Worker(0));
    assert_eq!(found(&pool, 1, 6), Found::Worker(1));
    assert_eq!(found(&pool, 2, 5), Found::NoWorker);
    assert_eq!(pool.find(None), Found::Worker(0));
    assert_eq!(pool.take(1, 0), Ok(1));
    pool.launched(1, true);
    assert_eq!((found(&pool, 1, 6), found(&pool, 1, 5)), (Found::Busy, Found::Worker(0)));
    pool.retire(1);
    assert_eq!((found(&pool, 1, 6), pool.is_idle()), (Found::NoWorker, true));
    assert_eq!(pool.take(1, 0), Err(NotTaken::Busy), "it is broken");
    assert_eq!((pool.take(9, 0), pool.take(0, SLOTS)), (Err(NotTaken::NoWorker), Err(NotTaken::NoSlot)));
    assert_eq!((pool.take(0, 0), pool.take(2, 0)), (Ok(1), Err(NotTaken::Served)), "it is being launched");
    pool.refused(0);
    assert_eq!((pool.take(0, 0), pool.is_busy(0)), (Ok(2), true));
}

#[test]
fn streams_are_asked_now_and_then() {
    let (mut pool, ..) = pool(true, true);
    assert_eq!((0..3 * SWEEPS_PER_QUERY).filter(|_| pool.due()).count(), 3);
}

#[test]
fn without_marks_the_word_separates_a_taken_answer_from_none() {
    for answers in [false, true] {
        let (mut pool, flags, slots) = pool(false, true);
        pool.add(1, 0);
        pool.take(0, 2).expect("idle");
        pool.launched(0, true);
        if answers {
            slots.store(2 * STRIDE, RESPONSE_MAGIC.into(), Ordering::Relaxed);
        }
        assert_eq!(pool.poll(0, true, &Stands(WorkerStream::Busy)).map(|seen| seen.answer), Some(None));
        let seen = pool.poll(0, true, &Stands(WorkerStream::Done)).expect("it runs");
        assert_eq!(seen.answer, Some(if answers { Answer::Given } else { Answer::Never(UNKNOWN) }));
        assert_eq!(flags.load(2, Ordering::Relaxed), flag::FREE);
    }
}

#[test]
fn in_place_the_stream_answers_unless_it_failed() {
    for (whole, state, answer) in [
        (true, WorkerStream::Done, Answer::Given),
        (false, WorkerStream::Done, Answer::Never(UNKNOWN)),
        (true, WorkerStream::Failed(700), Answer::Never(700)),
    ] {
        let (mut pool, flags, _) = pool(true, false);
        pool.share();
        pool.add(1, 0);
        pool.take(0, 0).expect("idle");
        flags.store(0, flag::IN_FLIGHT, Ordering::Release);
        pool.launched(0, whole);
        let seen = pool.poll(0, true, &Stands(state)).expect("it runs");
        assert_eq!((seen.answer, seen.end), (Some(answer), Some(state)));
    }
}

#[test]
fn a_mark_that_can_be_nobody_elses_is_unanswered() {
    // The graph has written its response and not the flag.
    for shared in [false, true] {
        let (mut pool, flags, slots) = pool(true, true);
        if shared {
            pool.share();
        }
        pool.add(1, 0);
        pool.take(0, 1).expect("idle");
        flags.store(1, flag::IN_FLIGHT, Ordering::Release);
        pool.launched(0, true);
        slots.store(STRIDE, RESPONSE_MAGIC.into(), Ordering::Relaxed);
        let seen = pool.poll(0, true, &Stands(WorkerStream::Done)).expect("it runs");
        assert_eq!(seen.answer, Some(if shared { Answer::Given } else { Answer::Never(UNKNOWN) }));
    }
}

#[test]
fn every_launch_leaves_a_word_of_its_own() {
    let (mut one, _, slots) = pool(true, true);
    one.add(1, 0);
    let mut seen = std::collections::HashSet::new();
    for _ in 0..1000 {
        one.take(0, 0).expect("idle");
        let token = slots.load(0, Ordering::Relaxed);
        assert_ne!(token as u32, RESPONSE_MAGIC);
        assert!(seen.insert(token));
        one.refused(0);
    }
}
