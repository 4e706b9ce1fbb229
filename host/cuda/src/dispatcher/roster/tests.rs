//! The book against a plain account of who did what, with another dispatcher on the same ring.

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
    /// What became of its answer was told.
    told: bool,
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

impl Signs for World {
    fn has_ended(&self, worker: usize, _: u64, answered: bool) -> bool {
        if self.ends_show { self.graphs[worker].ended } else { answered && self.graphs[worker].ended }
    }

    fn state(&self, worker: usize) -> LaneState {
        if self.graphs[worker].ended { LaneState::Done } else { LaneState::Busy }
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

/// Looks at every worker, and checks what the roster makes of it against the truth.
fn sweep(roster: &mut Roster<&Seen64>, world: &mut World, ask: bool, early: bool) {
    for worker in roster.workers() {
        let Some(seen) = roster.look(worker, ask, &*world) else { continue };
        let graph = world.graphs[worker];
        assert!(graph.runs && seen.slot == graph.slot);
        assert!(seen.end.is_none() || graph.ended, "{graph:?}");
        assert!(seen.end.is_some() || !(ask && graph.ended), "an end that nobody sees: {graph:?}");
        assert!(seen.end.is_none() || seen.answer.is_none() == (graph.told || graph.replaced), "{graph:?}");
        if seen.end.is_none() && !early {
            continue;
        }
        match seen.answer {
            Some(_) if graph.told || graph.replaced => panic!("told twice: {graph:?}"),
            Some(Answer::Given) => {
                assert!(graph.answered, "{graph:?}");
                world.graphs[worker].told = true;
                roster.settle(worker);
            }
            Some(Answer::Never(code)) => {
                assert_eq!((code, graph.answered, graph.ended), (UNKNOWN, false, true));
                assert_eq!(world.whose[graph.slot as usize], Whose::Worker(worker), "another's mark");
                world.graphs[worker].told = true;
                world.set(graph.slot, flag::error(code), Whose::Consumers);
            }
            None => (),
        }
        if seen.end.is_some() {
            roster.give_back(worker);
            world.graphs[worker].runs = false;
        }
    }
}

fn launch(roster: &mut Roster<&Seen64>, world: &mut World, slot: u32) {
    let Found::Worker(worker) = roster.find(Some((7, 0))) else { return };
    let before = (0..WORKERS).find(|&before| {
        let Graph { slot: had, runs, told, replaced, .. } = world.graphs[before];
        runs && !told && !replaced && had == slot
    });
    let taken = roster.take(worker, slot);
    if world.whose[slot as usize] != Whose::Nobodys {
        assert_eq!((before.is_some(), taken), (true, Err(NotTaken::Served)));
        return;
    }
    taken.expect("whoever had the slot has answered, and the answer was taken");
    if let Some(before) = before {
        world.graphs[before].replaced = true;
    }
    world.set(slot, flag::IN_FLIGHT, Whose::Worker(worker));
    roster.launched(worker, true);
    world.graphs[worker] = Graph { slot, runs: true, ..Graph::default() };
}

#[test]
fn every_launch_is_told_once_and_truly_and_no_others_mark_is_touched() {
    for seed in 0..300 {
        let mut random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let (ends_show, early) = (random.random_bool(0.5), random.random_bool(0.5));
        let (flags, slots) = (words(SLOTS as usize), words(SLOTS as usize * STRIDE));
        let answers = Answers::new(flags.clone(), Some((slots.clone(), STRIDE)), true);
        let mask = Seen64::default();
        let mut roster = Roster::new(answers, &mask);
        roster.share();
        (0..WORKERS).for_each(|_| roster.add(7, 0));
        let whose = [Whose::Nobodys; SLOTS as usize];
        let mut world = World { flags, slots, graphs: Default::default(), whose, ends_show };
        for _ in 0..400 {
            let (slot, worker) = (random.random_range(0..SLOTS), random.random_range(0..WORKERS));
            let Graph { slot: own, runs, answered, ended, .. } = world.graphs[worker];
            match (random.random_range(0..7), world.whose[slot as usize]) {
                (0, Whose::Nobodys) => launch(&mut roster, &mut world, slot),
                // Asked for what is under way.
                (0, Whose::Worker(_)) => launch(&mut roster, &mut world, slot),
                (1, _) if runs && !answered && !ended => {
                    world.respond(own);
                    world.graphs[worker].answered = true;
                }
                (2, Whose::Consumers) => world.set(slot, flag::FREE, Whose::Nobodys),
                (3, Whose::Nobodys) => {
                    // Another roster's launch, perhaps.
                    if random.random_bool(0.5) {
                        let token = Answers::token(random.random());
                        world.slots.store(slot as usize * STRIDE, token, Ordering::Relaxed);
                    }
                    world.set(slot, flag::IN_FLIGHT, Whose::Others);
                }
                (4, Whose::Others) => world.respond(slot),
                (5, _) if runs && (answered || random.random_bool(0.2)) => world.graphs[worker].ended = true,
                (6, _) => sweep(&mut roster, &mut world, random.random_bool(0.3), early),
                _ => (),
            }
            let busy = world.graphs.iter().filter(|graph| graph.runs).count();
            assert_eq!((mask.0.get().count_ones() as usize, roster.is_idle()), (WORKERS - busy, busy == 0));
        }
        world.graphs.iter_mut().for_each(|graph| graph.ended = true);
        sweep(&mut roster, &mut world, true, early);
        assert!(roster.is_idle() && mask.0.get() == (1 << WORKERS) - 1);
        assert!((0..SLOTS).all(|slot| !roster.serves(slot)));
        assert!(!world.whose.iter().any(|whose| matches!(whose, Whose::Worker(_))), "unanswered for ever");
    }
}

fn roster(marks: bool, separate: bool) -> (Roster, Words, Words) {
    let (flags, slots) = (words(SLOTS as usize), words(SLOTS as usize * STRIDE));
    let place = separate.then(|| (slots.clone(), STRIDE));
    (Roster::new(Answers::new(flags.clone(), place, marks), ()), flags, slots)
}

/// A stream that stands so, and memory that says nothing.
struct Stands(LaneState);

impl Signs for Stands {
    fn has_ended(&self, _: usize, _: u64, _: bool) -> bool {
        false
    }

    fn state(&self, _: usize) -> LaneState {
        self.0
    }
}

#[test]
fn workers_are_found_by_function_and_key() {
    let (mut roster, ..) = roster(true, true);
    for (function, key) in [(1, 5), (1, 0), (2, 6)] {
        roster.add(function, key);
    }
    let found = |roster: &Roster, function, key| roster.find(Some((function, key)));
    assert_eq!(found(&roster, 1, 5), Found::Worker(0));
    assert_eq!(found(&roster, 1, 6), Found::Worker(1));
    assert_eq!(found(&roster, 2, 5), Found::Nobody);
    assert_eq!(roster.find(None), Found::Worker(0));
    assert_eq!(roster.take(1, 0), Ok(1));
    roster.launched(1, true);
    assert_eq!((found(&roster, 1, 6), found(&roster, 1, 5)), (Found::Busy, Found::Worker(0)));
    roster.retire(1);
    assert_eq!((found(&roster, 1, 6), roster.is_idle()), (Found::Nobody, true));
    assert_eq!(roster.take(1, 0), Err(NotTaken::Busy), "it is broken");
    assert_eq!((roster.take(9, 0), roster.take(0, SLOTS)), (Err(NotTaken::NoWorker), Err(NotTaken::NoSlot)));
    assert_eq!(
        (roster.take(0, 0), roster.take(2, 0)),
        (Ok(1), Err(NotTaken::Served)),
        "it is being launched"
    );
    roster.refused(0);
    assert_eq!((roster.take(0, 0), roster.is_busy(0)), (Ok(2), true));
}

#[test]
fn streams_are_asked_now_and_then() {
    let (mut roster, ..) = roster(true, true);
    assert_eq!((0..3 * LOOK).filter(|_| roster.due()).count(), 3);
}

#[test]
fn without_marks_the_word_tells_a_taken_answer_from_none() {
    for answers in [false, true] {
        let (mut roster, flags, slots) = roster(false, true);
        roster.add(1, 0);
        roster.take(0, 2).expect("idle");
        roster.launched(0, true);
        if answers {
            slots.store(2 * STRIDE, RESPONSE_MAGIC.into(), Ordering::Relaxed);
        }
        assert_eq!(roster.look(0, true, &Stands(LaneState::Busy)).map(|seen| seen.answer), Some(None));
        let seen = roster.look(0, true, &Stands(LaneState::Done)).expect("it runs");
        assert_eq!(seen.answer, Some(if answers { Answer::Given } else { Answer::Never(UNKNOWN) }));
        assert_eq!(flags.load(2, Ordering::Relaxed), flag::FREE);
    }
}

#[test]
fn in_place_the_stream_answers_unless_it_failed() {
    for (whole, state, answer) in [
        (true, LaneState::Done, Answer::Given),
        (false, LaneState::Done, Answer::Never(UNKNOWN)),
        (true, LaneState::Failed(700), Answer::Never(700)),
    ] {
        let (mut roster, flags, _) = roster(true, false);
        roster.share();
        roster.add(1, 0);
        roster.take(0, 0).expect("idle");
        flags.store(0, flag::IN_FLIGHT, Ordering::Release);
        roster.launched(0, whole);
        let seen = roster.look(0, true, &Stands(state)).expect("it runs");
        assert_eq!((seen.answer, seen.end), (Some(answer), Some(state)));
    }
}

#[test]
fn a_mark_that_can_be_nobody_elses_is_unanswered() {
    // The graph has written its response and not the flag.
    for shared in [false, true] {
        let (mut roster, flags, slots) = roster(true, true);
        if shared {
            roster.share();
        }
        roster.add(1, 0);
        roster.take(0, 1).expect("idle");
        flags.store(1, flag::IN_FLIGHT, Ordering::Release);
        roster.launched(0, true);
        slots.store(STRIDE, RESPONSE_MAGIC.into(), Ordering::Relaxed);
        let seen = roster.look(0, true, &Stands(LaneState::Done)).expect("it runs");
        assert_eq!(seen.answer, Some(if shared { Answer::Given } else { Answer::Never(UNKNOWN) }));
    }
}

#[test]
fn every_launch_leaves_a_word_of_its_own() {
    let (mut one, _, slots) = roster(true, true);
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
