//! The in-flight table of a remote dispatcher: for each slot, whether the device's response and the user's completion are
//! outstanding. Each of the two ends exactly once.
//!
//! | phase | device response outstanding | completion outstanding | left by |
//! |---|---|---|---|
//! | `IdlePipeline` | | | [`InFlightTable::reserve`] (injector) |
//! | `Reserved` | | | [`InFlightTable::announce`] (injector) |
//! | `Sent` | yes | yes | [`InFlightTable::claim`] (worker): `Taken`; [`InFlightTable::expire`]: `Expired` |
//! | `Taken` | | yes | [`InFlightTable::complete`] (worker), [`InFlightTable::expire`]: `IdlePipeline` |
//! | `Expired` | yes | | [`InFlightTable::claim`] (worker): `Discarding` |
//! | `Discarding` | | | [`InFlightTable::discarded`] (worker): `IdlePipeline` |
//!
//! A slot whose device response is outstanding is not written again: the device may still read the request or write the
//! response, even long after the request timed out. The device never accesses this table, so read-modify-write is allowed.
//! Each word contains the slot's generation, which every request increments, so a late update fails its compare-exchange.

use ringcall::dispatcher::{SlotDump, SlotState, Snapshot};
use ringcall::wire::counter::{COUNT, Counter};
use ringcall::wire::flag;
use ringcall::wire::header::{RESPONSE_MAGIC, ResponseHeader};
use ringcall::{Ring, Status};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use ringcall_gpu::pad::CachePadded;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use std::sync::atomic::Ordering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Phase {
    Idle = 0,
    Reserved = 1,
    Sent = 2,
    Taken = 3,
    Expired = 4,
    Discarding = 5,
}

/// The phases in which a completion is outstanding.
pub(crate) const UNDER_WAY: &[Phase] = &[Phase::Reserved, Phase::Sent, Phase::Taken];

/// An entry's state: generation << 8 | phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    fn phase(self) -> Phase {
        match self.0 & 0xFF {
            1 => Phase::Reserved,
            2 => Phase::Sent,
            3 => Phase::Taken,
            4 => Phase::Expired,
            5 => Phase::Discarding,
            _ => Phase::Idle,
        }
    }

    fn to(self, phase: Phase) -> Self {
        Self(self.0 & !0xFF | phase as u64)
    }

    fn next(self, phase: Phase) -> Self {
        Self((self.0 >> 8).wrapping_add(1) << 8 | phase as u64)
    }
}

#[derive(Debug, Default)]
struct Entry {
    word: DeviceU64,
    since_ns: DeviceU64,
}

/// A device response that a worker has claimed.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The response to a request in flight: to be copied, released and [completed](InFlightTable::complete).
    Answer(Word, Response),
    /// A response to a request that was completed before, or to none: to be released and
    /// [discarded](InFlightTable::discarded).
    Late(Word, Response),
}

/// The response that is written for the consumer.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Reply<'a> {
    Answer(Status, &'a [u8]),
    /// The device set an error mark with this code.
    Error(u16),
}

/// Requests in flight at a remote dispatcher: one entry per slot of its ring.
#[derive(Debug)]
pub(crate) struct InFlightTable {
    ring: Ring,
    in_flight: Box<[CachePadded<Entry>]>,
    counts: Counts,
}

/// Counters over the pipeline's life.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) taken: CachePadded<DeviceU64>,
    pub(crate) late: DeviceU64,
    pub(crate) garbage: DeviceU64,
    pub(crate) dropped: DeviceU64,
}

impl InFlightTable {
    pub(crate) fn new(ring: Ring) -> Self {
        let in_flight = (0..ring.geometry().slots()).map(|_| CachePadded::default()).collect();
        Self { ring, in_flight, counts: Counts::default() }
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    fn entry(&self, slot: SlotIndex) -> &Entry {
        &self.in_flight[slot.as_usize()].0
    }

    /// Acquire: pairs with the [`exchange`](Self::exchange) that set the word.
    fn word(&self, slot: SlotIndex) -> Word {
        Word(self.entry(slot).word.load(Ordering::Acquire))
    }

    /// Acquire-release: each owner of the slot sees everything that the previous owner did.
    fn exchange(&self, slot: SlotIndex, from: Word, to: Word) -> bool {
        self.entry(slot).word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Injector: claims the slot if nothing is outstanding for it and its last response was harvested from `answers`.
    #[inline]
    pub(crate) fn reserve(&self, slot: SlotIndex, answers: &SharedRing) -> Option<Vacant> {
        let word = self.word(slot);
        if word.phase() != Phase::Idle || answers.tx(slot) != flag::FREE {
            return None;
        }
        let vacant = Vacant::probe(self.ring.shared(), slot)?;
        // Before the request can be answered: mark the response as outstanding.
        answers.publish_tx(slot, flag::IN_FLIGHT);
        if !self.exchange(slot, word, word.next(Phase::Reserved)) {
            answers.publish_tx(slot, flag::FREE); // a late response was claimed first
            return None;
        }
        Some(vacant)
    }

    /// Injector: the request's id is recorded, and the request is published next.
    #[inline]
    pub(crate) fn announce(&self, slot: SlotIndex) {
        let entry = self.entry(slot);
        entry.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        let word = Word(entry.word.load(Ordering::Relaxed));
        // Only the injector writes a reserved entry. Release: pairs with `word`.
        entry.word.store(word.to(Phase::Sent).0, Ordering::Release);
    }

    /// Worker: claims the device's response in a slot, if there is one and no other worker has claimed it.
    ///
    /// The word is read before the flag: a flag read after the word was `Sent` belongs to that request, since the slot was
    /// free when the word was set.
    #[inline]
    pub(crate) fn claim(&self, slot: SlotIndex) -> Option<Claim> {
        let word = self.word(slot);
        let to = match word.phase() {
            Phase::Sent => Phase::Taken,
            // Idle: the device answers although there was no request.
            Phase::Expired | Phase::Idle => Phase::Discarding,
            Phase::Reserved | Phase::Taken | Phase::Discarding => return None,
        };
        let response = Response::probe(self.ring.shared(), slot)?;
        let next = word.to(to);
        if !self.exchange(slot, word, next) {
            return None;
        }
        Some(if to == Phase::Taken { Claim::Answer(next, response) } else { Claim::Late(next, response) })
    }

    /// Worker: a late response was released.
    pub(crate) fn discarded(&self, slot: SlotIndex, word: Word) {
        self.counts.late.fetch_add(1, Ordering::Relaxed);
        let _ = self.exchange(slot, word, word.to(Phase::Idle));
    }

    /// Worker: completes the request that it claimed by calling `answer`. Returns false, and does not call it, if the request
    /// timed out first.
    #[inline]
    pub(crate) fn complete(&self, slot: SlotIndex, word: Word, answer: impl FnOnce()) -> bool {
        let won = self.exchange(slot, word, word.to(Phase::Idle));
        if won {
            answer();
        } else {
            self.counts.late.fetch_add(1, Ordering::Relaxed);
        }
        won
    }

    /// Completes every request in one of the phases `of` that was sent before `oldest_ns` with `status`.
    pub(crate) fn expire(&self, of: &[Phase], oldest_ns: u64, status: Status, answers: &SharedRing) {
        for slot in self.ring.geometry().iter() {
            let word = self.word(slot);
            let to = match word.phase() {
                phase if !of.contains(&phase) => continue,
                Phase::Sent => Phase::Expired,
                Phase::Taken => Phase::Idle,
                _ => continue,
            };
            if self.entry(slot).since_ns.load(Ordering::Relaxed) < oldest_ns
                && self.exchange(slot, word, word.to(to))
            {
                if status == Status::SHUTTING_DOWN {
                    self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
                self.write(slot, 0, Reply::Answer(status, &[]), answers);
            }
        }
    }

    /// Publishes a response for the consumer. Only the thread whose [`exchange`](Self::exchange) ended the entry calls this.
    #[inline]
    pub(crate) fn write(&self, slot: SlotIndex, request_id: u32, reply: Reply<'_>, answers: &SharedRing) {
        let (status, result, flag) = match reply {
            Reply::Answer(status, result) => (status, result, answers.geometry().response_address(slot)),
            Reply::Error(code) => (Status::LAUNCH_FAILED, &[][..], flag::error(code)),
        };
        let header = ResponseHeader {
            magic: RESPONSE_MAGIC,
            status: status.0,
            result_len: result.len() as u32, // no longer than the slot
            request_id,
            ptp_timestamp: 0,
        };
        answers.write_response(slot, header.to_words(), result);
        answers.publish_tx(slot, flag);
    }

    /// How many slots are in one of the phases `of`.
    pub(crate) fn count(&self, of: &[Phase]) -> u32 {
        self.ring.geometry().iter().filter(|&slot| of.contains(&self.word(slot).phase())).count() as u32
    }

    /// Whether a request was sent before `oldest_ns` and has no response.
    pub(crate) fn any_older(&self, oldest_ns: u64) -> bool {
        let old = |slot| {
            self.word(slot).phase() == Phase::Sent
                && self.entry(slot).since_ns.load(Ordering::Relaxed) < oldest_ns
        };
        self.ring.geometry().iter().any(old)
    }

    /// Whether a response can be claimed, or a claimed one is being processed.
    pub(crate) fn workers_have_work(&self) -> bool {
        let ring = self.ring.shared();
        self.ring.geometry().iter().any(|slot| match self.word(slot).phase() {
            Phase::Sent => !matches!(ring.tx(slot), flag::FREE | flag::IN_FLIGHT),
            Phase::Taken => true,
            _ => false,
        })
    }

    /// Frees every slot. Only after the dispatcher and all workers have ended, when nothing is outstanding.
    pub(crate) fn clear(&self) {
        let ring = self.ring.shared();
        for slot in self.ring.geometry().iter() {
            ring.clear_rx(slot);
            ring.publish_tx(slot, flag::FREE);
            let word = self.word(slot);
            let _ = self.exchange(slot, word, word.to(Phase::Idle));
        }
    }

    /// The counters of a dispatcher, as far as they are known here: requests handed to CPU stages, and late responses.
    pub(crate) fn counters(&self) -> Snapshot {
        let mut counts = [0; COUNT];
        let taken = self.counts.taken.load(Ordering::Relaxed);
        counts[Counter::Received as usize] = taken;
        counts[Counter::Dispatched as usize] = taken;
        counts[Counter::LateResults as usize] = self.counts.late.load(Ordering::Relaxed);
        Snapshot::from_counts(counts)
    }

    /// Every slot that is not idle, for a report.
    pub(crate) fn dump(&self) -> SlotDump {
        let now = clock::now_ns();
        let ring = self.ring.shared();
        let state = |slot: SlotIndex| {
            let (rx, tx, phase) = (ring.rx(slot), ring.tx(slot), self.word(slot).phase());
            let idle = phase == Phase::Idle;
            let since = self.entry(slot).since_ns.load(Ordering::Relaxed);
            (rx != 0 || tx != 0 || !idle).then(|| SlotState {
                slot: slot.get(),
                rx,
                tx,
                phase: (!idle).then(|| format!("{phase:?}")),
                function_id: 0,
                request_id: 0,
                worker: None,
                age_us: if idle { 0 } else { now.saturating_sub(since) / 1000 },
            })
        };
        let slots = self.ring.geometry().iter().filter_map(state).collect();
        SlotDump { slots, workers: Vec::new(), inline_function: None }
    }
}
