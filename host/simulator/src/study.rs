//! The file of a study's state on a bad disk: processes that are killed or lose their power, full disks, second processes, users' files.

use crate::random::Random;
use crate::{Summary, Violation};
use ringcall_decoder_service::study::{
    Matching, Opened, Part, Point, Relay, Setup, Shard, ShotCounts, State, StateError, StateFile, Stop,
    Storage, merge,
};
use ringcall_gpu::clock;
use ringcall_qec::code::Basis;
use std::cell::RefCell;
use std::fs::TryLockError;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::rc::Rc;

const BATCH_SHOTS: u32 = 20;
/// The most processes of one file: the last ones meet no faults.
const PROCESSES: u32 = 60;

/// What a process meets, at one of its writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    /// It is killed, so many thousandths into the line.
    Kill(u64),
    /// The machine loses its power: what was not synchronised may be gone.
    Power(u64),
    /// The disk is full.
    Full(u64),
    /// The disk does not synchronise.
    Unsynchronised,
}

/// A file and its disk.
#[derive(Debug, Default)]
struct Disk {
    bytes: Vec<u8>,
    /// So many of them are on the disk itself.
    durable: usize,
    locked: bool,
    /// Writes until the fault.
    fault: Option<(u32, Fault)>,
    /// The process is gone: nothing that it does has an effect.
    gone: bool,
    /// Writes may take a part of their bytes, or be interrupted.
    nervous: Option<Random>,
}

impl Disk {
    /// The fault of this write, and how many of its bytes are written.
    fn next_fault(&mut self, len: usize) -> Option<(usize, Fault)> {
        let (left, fault) = self.fault?;
        self.fault = Some((left.saturating_sub(1), fault));
        let (Fault::Kill(part) | Fault::Power(part) | Fault::Full(part)) = fault else { return None };
        (left == 0).then_some((len * part as usize / 1000, fault))
    }
}

/// A process's handle of a file.
#[derive(Debug)]
struct Handle {
    disk: Rc<RefCell<Disk>>,
    at: usize,
    holds: std::cell::Cell<bool>,
}

impl Handle {
    fn new(disk: &Rc<RefCell<Disk>>) -> Self {
        Self { disk: Rc::clone(disk), at: 0, holds: std::cell::Cell::new(false) }
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if self.holds.get() {
            self.disk.borrow_mut().locked = false;
        }
    }
}

fn gone() -> io::Error {
    io::Error::other("this process is gone")
}

impl Read for Handle {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let disk = self.disk.borrow();
        let rest = disk.bytes.get(self.at..).unwrap_or_default();
        let len = rest.len().min(to.len());
        to[..len].copy_from_slice(&rest[..len]);
        self.at += len;
        Ok(len)
    }
}

impl Write for Handle {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.disk.borrow_mut();
        if disk.gone {
            return Err(gone());
        }
        let (mut len, mut error) = (bytes.len(), None);
        if let Some((part, fault)) = disk.next_fault(len) {
            len = part;
            disk.gone = matches!(fault, Fault::Kill(_) | Fault::Power(_));
            error = Some(if disk.gone { gone() } else { io::ErrorKind::StorageFull.into() });
            // A full disk takes what there is room for, and says so at the next write.
            if !disk.gone && part > 0 {
                disk.fault = Some((0, Fault::Full(0)));
                error = None;
            }
        } else if let Some(random) = &mut disk.nervous {
            match random.below(4) {
                0 => return Err(io::ErrorKind::Interrupted.into()),
                1 => len = random.between(1, len.max(1) as u64) as usize,
                _ => {}
            }
            len = len.min(bytes.len());
        }
        // Bytes that are there are overwritten, as in a file.
        let end = self.at + len;
        if disk.bytes.len() < end {
            disk.bytes.resize(end, 0);
        }
        disk.bytes[self.at..end].copy_from_slice(&bytes[..len]);
        self.at = end;
        error.map_or(Ok(len), Err)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for Handle {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        let SeekFrom::Start(at) = to else { return Err(io::ErrorKind::Unsupported.into()) };
        self.at = at as usize;
        Ok(at)
    }
}

impl Storage for Handle {
    fn try_lock(&self) -> Result<(), TryLockError> {
        let mut disk = self.disk.borrow_mut();
        if disk.locked {
            return Err(TryLockError::WouldBlock);
        }
        disk.locked = true;
        self.holds.set(true);
        Ok(())
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.disk.borrow().bytes.len() as u64)
    }

    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        let mut disk = self.disk.borrow_mut();
        disk.bytes.truncate(bytes as usize);
        disk.durable = disk.durable.min(bytes as usize);
        Ok(())
    }

    fn sync(&mut self) -> io::Result<()> {
        let mut disk = self.disk.borrow_mut();
        if disk.gone {
            return Err(gone());
        }
        if matches!(disk.fault, Some((_, Fault::Unsynchronised))) {
            return Err(io::Error::other("the disk does not synchronise"));
        }
        disk.durable = disk.bytes.len();
        Ok(())
    }
}

/// A study: its points, and what each batch has counted.
struct Study {
    points: Vec<Point>,
    stop: Stop,
    seed: u64,
}

impl Study {
    /// The same for each process: a batch's counts follow from the study's seed, its point and its number. Its time does not.
    fn counts(&self, point: usize, batch: u64, random: &mut Random) -> ShotCounts {
        let mut of_batch = Random::new(self.seed ^ (point as u64) << 32 ^ batch);
        let errors = of_batch.below(4);
        ShotCounts {
            shots: BATCH_SHOTS.into(),
            detectors: 24 * u64::from(BATCH_SHOTS),
            fired: of_batch.below(100),
            errors,
            observable_errors: errors,
            matching_ns: random.below(1 << 30),
            ..ShotCounts::default()
        }
    }

    fn batches(&self) -> u64 {
        self.stop.shots.div_ceil(BATCH_SHOTS.into())
    }

    fn setup(&self, seed: u64, shard: Option<Shard>) -> Setup {
        let part = shard.map(|shard| Part {
            shard,
            points: self.points.iter().map(ToString::to_string).collect(),
            shots: self.stop.shots,
            max_errors: self.stop.errors,
        });
        Setup {
            program: "simulated".to_owned(),
            seed,
            batch_shots: BATCH_SHOTS,
            matching: Matching::Plain,
            relay: Relay::default(),
            predecoder: None,
            deadline_ns: None,
            part,
        }
    }

    /// What an undisturbed study has: shots, detectors that fired, errors.
    fn expected(&self, point: usize) -> [u64; 3] {
        let mut sum = [0; 3];
        for batch in 0..self.batches() {
            let ShotCounts { shots, fired, errors, .. } = self.counts(point, batch, &mut Random::new(0));
            sum = [sum[0] + shots, sum[1] + fired, sum[2] + errors];
            if self.stop.errors.is_some_and(|enough| sum[2] >= enough) {
                break;
            }
        }
        sum
    }

    /// The next batches of a point that a process with this state counts: several threads work at them.
    fn open_batches(&self, state: &State, point: usize, shard: Option<Shard>) -> Vec<u64> {
        let point = &self.points[point];
        if shard.is_none() && state.outcome(point, &self.stop).complete {
            return Vec::new();
        }
        let finished = state.finished(point);
        let mine = |batch: &u64| shard.is_none_or(|shard| shard.holds(*batch)) && !finished.contains(batch);
        (0..self.batches()).filter(mine).take(3).collect()
    }
}

/// One file of a study, from its beginning until it has enough.
struct World<'a> {
    study: &'a Study,
    shard: Option<Shard>,
    disk: Rc<RefCell<Disk>>,
    /// The whole lines that a process was told are on the disk.
    promised: Vec<u8>,
    now: u64,
    summary: Summary,
    /// Batches that were counted, again and again.
    counted: u64,
}

pub(crate) fn run(seed: u64) -> Result<Summary, Violation> {
    let mut random = Random::new(seed);
    let point = |p| Point::surface(3, 3, Basis::Z, p);
    let study = Study {
        points: (1..=random.between(1, 2)).map(|i| point(0.01 * i as f64)).collect(),
        stop: Stop {
            shots: random.between(1, 240),
            errors: random.chance(500).then(|| random.between(1, 12)),
        },
        seed: random.number(),
    };
    let shards = random.between(1, 3) as u32;
    let outcome = study_on_disks(&study, shards, &mut random);
    clock::simulate(None);
    outcome
}

fn study_on_disks(study: &Study, shards: u32, random: &mut Random) -> Result<Summary, Violation> {
    let (mut summary, mut states) = (Summary::default(), Vec::new());
    let parts = (1..=shards).map(|index| Shard::new(index, shards).filter(|_| shards > 1));
    for shard in parts {
        let mut world = World {
            study,
            shard,
            disk: Rc::default(),
            promised: Vec::new(),
            now: 1,
            summary: Summary::default(),
            counted: 0,
        };
        let state = world.live(random)?;
        summary.add(&world.summary);
        states.push((format!("{shard:?}"), state));
    }
    let state = match states.pop() {
        Some((_, state)) if states.is_empty() => state,
        last => {
            states.extend(last);
            merge(states).map_err(|error| Violation::Books(format!("the shards: {error}")))?.state
        }
    };
    for (index, point) in study.points.iter().enumerate() {
        let outcome = state.outcome(point, &study.stop);
        let ShotCounts { shots, fired, errors, .. } = outcome.counts;
        let expected = study.expected(index);
        if !outcome.complete || [shots, fired, errors] != expected {
            return Err(Violation::Books(format!(
                "{point}: {shots} shots, {fired} fired, {errors} errors, and undisturbed {expected:?}"
            )));
        }
    }
    Ok(summary)
}

/// Without a last line that was cut short, which the next process drops.
fn whole_lines(bytes: &[u8]) -> Vec<u8> {
    let end = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |at| at + 1);
    bytes[..end].to_vec()
}

impl World<'_> {
    fn live(&mut self, random: &mut Random) -> Result<State, Violation> {
        if random.chance(100) {
            self.users_file(random)?;
        }
        let setup = self.study.setup(self.study.seed, self.shard);
        for process in 0..PROCESSES {
            let faultless = process + 3 >= PROCESSES;
            {
                let mut disk = self.disk.borrow_mut();
                disk.gone = false;
                disk.nervous = random.chance(300).then(|| random.fork());
                let fault = match random.below(8) {
                    0..=2 => Some(Fault::Kill(random.below(1001))),
                    3 => Some(Fault::Power(random.below(1001))),
                    4 => Some(Fault::Full(random.below(1001))),
                    5 => Some(Fault::Unsynchronised),
                    _ => None,
                };
                disk.fault = fault.filter(|_| !faultless).map(|fault| (random.below(8) as u32, fault));
            }
            if random.chance(100) {
                self.damage(random, &setup)?;
            }
            let opened = StateFile::open(Handle::new(&self.disk), setup.clone());
            let Opened { mut state, mut file, .. } =
                opened.map_err(|error| Violation::Books(format!("process {process} is refused: {error}")))?;
            let complete = self.count(random, &mut state, &mut file)?;
            // Only a process that was killed does not say that it ends.
            let finished = file.finish().is_ok();
            let fault = self.disk.borrow().fault;
            if finished {
                let disk = self.disk.borrow();
                if disk.durable < disk.bytes.len() {
                    return Err(Violation::Books(
                        "a process ended before its lines were on the disk".to_owned(),
                    ));
                }
                self.promised = whole_lines(&disk.bytes);
            }
            if let Some((_, Fault::Power(_))) = fault
                && self.disk.borrow().gone
            {
                let mut disk = self.disk.borrow_mut();
                let kept = random.between(disk.durable as u64, disk.bytes.len() as u64) as usize;
                disk.bytes.truncate(kept);
            }
            self.check_promise()?;
            if complete && finished {
                return self.settle(&state);
            }
        }
        Err(Violation::NoEnd { open: 1 })
    }

    /// Works until everything has enough, or until a write fails. Whether everything has enough.
    fn count(
        &mut self,
        random: &mut Random,
        state: &mut State,
        file: &mut StateFile<Handle>,
    ) -> Result<bool, Violation> {
        for index in 0..self.study.points.len() {
            loop {
                let open = self.study.open_batches(state, index, self.shard);
                if open.is_empty() {
                    break;
                }
                if random.chance(30) {
                    self.second_process(random)?;
                }
                self.now += random.below(700_000_000);
                clock::simulate(Some(self.now));
                let batch = random.pick(&open);
                let counts = self.study.counts(index, batch, random);
                self.counted += 1;
                let written = state.record(&self.study.points[index], batch, counts, file);
                // What was synchronised may be relied upon.
                let disk = self.disk.borrow();
                if disk.durable > self.promised.len() {
                    self.promised = whole_lines(&disk.bytes[..disk.durable]);
                }
                if written.is_err() {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// Another process must not get a file that is being worked at.
    fn second_process(&mut self, random: &mut Random) -> Result<(), Violation> {
        let before = self.disk.borrow().bytes.clone();
        let seed = if random.chance(500) { self.study.seed } else { random.number() };
        match StateFile::open(Handle::new(&self.disk), self.study.setup(seed, self.shard)) {
            Err(StateError::Locked) => self.refused(&before),
            other => Err(Violation::Books(format!("two processes at one state: {:?}", other.map(drop)))),
        }
    }

    /// A file of the user's in the place of the state: it is refused, and stays as it is.
    fn users_file(&mut self, random: &mut Random) -> Result<(), Violation> {
        // Longer than what every line begins with, a part of which might be our own.
        let mut text = vec![0; random.between(12, 60) as usize];
        random.fill(&mut text);
        match random.below(4) {
            0 => text = b"shots = 1000".to_vec(),
            1 => text.push(b'\n'),
            2 => text = b"{\"counts\":{}}\n".to_vec(),
            _ => {}
        }
        self.disk.borrow_mut().bytes.clone_from(&text);
        let setup = self.study.setup(self.study.seed, self.shard);
        let refused = match StateFile::open(Handle::new(&self.disk), setup) {
            Err(StateError::Line { .. } | StateError::OtherSetup { .. }) => self.refused(&text),
            other => {
                Err(Violation::Books(format!("a user's file is a state: {text:?}, {:?}", other.map(drop))))
            }
        };
        *self.disk.borrow_mut() = Disk::default();
        refused
    }

    /// A byte of a whole line is changed, or another study comes: both are refused, and nothing is written.
    fn damage(&mut self, random: &mut Random, setup: &Setup) -> Result<(), Violation> {
        let before = self.disk.borrow().bytes.clone();
        let Some(whole) = before.iter().rposition(|&byte| byte == b'\n') else { return Ok(()) };
        let foreign = random.chance(500);
        let setup = if foreign { self.study.setup(self.study.seed ^ 1, self.shard) } else { setup.clone() };
        let at = random.index(whole);
        if !foreign {
            if before[at] == b'\n' {
                return Ok(());
            }
            // Never a line's end: it would be two lines then, both refused all the same.
            let other = b'0' + (before[at].wrapping_sub(b'0').wrapping_add(1 + random.below(9) as u8)) % 10;
            self.disk.borrow_mut().bytes[at] = if other == before[at] { b'x' } else { other };
        }
        let damaged = self.disk.borrow().bytes.clone();
        let outcome = match StateFile::open(Handle::new(&self.disk), setup) {
            Err(StateError::Line { .. } | StateError::OtherSetup { .. }) => self.refused(&damaged),
            other => Err(Violation::Books(format!(
                "{} is believed: {:?}",
                if foreign { "another study's state" } else { "a state with another byte" },
                other.map(drop)
            ))),
        };
        self.disk.borrow_mut().bytes = before;
        outcome
    }

    fn refused(&mut self, before: &[u8]) -> Result<(), Violation> {
        self.summary.refused += 1;
        self.summary.requests += 1;
        if self.disk.borrow().bytes == before {
            return Ok(());
        }
        Err(Violation::Books("a file that was refused has been written to".to_owned()))
    }

    /// What is on the disk stays there.
    fn check_promise(&self) -> Result<(), Violation> {
        if self.disk.borrow().bytes.starts_with(&self.promised) {
            return Ok(());
        }
        Err(Violation::Books("lines that were on the disk are gone".to_owned()))
    }

    /// The file of a study that has enough: read once more, by itself.
    fn settle(&mut self, state: &State) -> Result<State, Violation> {
        let bytes = std::mem::take(&mut self.disk.borrow_mut().bytes);
        let setup = self.study.setup(self.study.seed, self.shard);
        let (again, whole) = State::read(&mut &bytes[..], setup)
            .map_err(|error| Violation::Books(format!("a finished state: {error}")))?;
        let finished =
            |state: &State| self.study.points.iter().map(|point| state.finished(point)).collect::<Vec<_>>();
        let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
        let batches = finished(state).iter().map(std::collections::BTreeSet::len).sum::<usize>();
        if whole != bytes.len() as u64
            || finished(&again) != finished(state)
            || (batches > 0 && lines != batches + 1)
        {
            return Err(Violation::Books(format!(
                "{lines} lines of {batches} batches, {whole} of {} bytes",
                bytes.len()
            )));
        }
        self.summary.answered = batches as u64;
        self.summary.lost = self.counted.saturating_sub(batches as u64);
        self.summary.requests += self.counted;
        Ok(again)
    }
}
