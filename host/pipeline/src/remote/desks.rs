//! Whose turn it is with each slot: the user's answer and the device's are settled once each, whoever comes first.
//!
//! | phase | the device owes an answer | the user is owed one | left by |
//! |---|---|---|---|
//! | `Idle` | | | [`Desks::reserve`] (injector) |
//! | `Reserved` | | | [`Desks::announce`] (injector) |
//! | `Sent` | yes | yes | [`Desks::claim`] (worker): `Taken`; [`Desks::expire`]: `Expired` |
//! | `Taken` | | yes | [`Desks::settle`] (worker), [`Desks::expire`]: `Idle` |
//! | `Expired` | yes | | [`Desks::claim`] (worker): `Sweeping` |
//! | `Sweeping` | | | [`Desks::swept`] (worker): `Idle` |
//!
//! A slot whose device owes an answer is not written again: the device may still read it or write its response, however
//! long ago the user was told that its time was up. The words are this side's alone, so read-modify-write is allowed; each
//! has the slot's generation in it, which moves on with every request, so that whoever comes too late finds another word.

use ringcall::dispatcher::{SlotDump, SlotState, Snapshot};
use ringcall::wire::counter::{COUNT, Counter};
use ringcall::wire::flag;
use ringcall::wire::header::{RESPONSE_MAGIC, ResponseHeader};
use ringcall::{Ring, Status};
use ringcall_dispatch::slot::{Response, Vacant};
use ringcall_dispatch::{RingMemory, SharedRing, SlotIndex};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::clock;
use ringcall_gpu::pad::CachePadded;
use std::sync::atomic::Ordering;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u64)]
pub(crate) enum Phase {
    Idle = 0,
    Reserved = 1,
    Sent = 2,
    Taken = 3,
    Expired = 4,
    Sweeping = 5,
}

/// A user is owed an answer.
pub(crate) const UNDER_WAY: &[Phase] = &[Phase::Reserved, Phase::Sent, Phase::Taken];

/// A desk's word: generation << 8 | phase.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Word(u64);

impl Word {
    fn phase(self) -> Phase {
        match self.0 & 0xFF {
            1 => Phase::Reserved,
            2 => Phase::Sent,
            3 => Phase::Taken,
            4 => Phase::Expired,
            5 => Phase::Sweeping,
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
struct Desk {
    word: DeviceU64,
    since_ns: DeviceU64,
}

/// What a worker has found in a slot.
#[derive(Debug)]
pub(crate) enum Claim {
    /// The device's answer to a request: to be copied, released and [settled](Desks::settle).
    Answer(Word, Response),
    /// An answer that nobody waits for: to be released and [swept](Desks::swept).
    Late(Word, Response),
}

/// What is written for the user.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Verdict<'a> {
    Answer(Status, &'a [u8]),
    /// The device's error mark.
    Error(u16),
}

/// One desk a slot of the ring that a dispatcher elsewhere polls.
#[derive(Debug)]
pub(crate) struct Desks {
    ring: Ring,
    desks: Box<[CachePadded<Desk>]>,
    counts: Counts,
}

/// Each word counts over the pipeline's life.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub(crate) taken: CachePadded<DeviceU64>,
    pub(crate) late: DeviceU64,
    pub(crate) garbage: DeviceU64,
    pub(crate) dropped: DeviceU64,
}

impl Desks {
    pub(crate) fn new(ring: Ring) -> Self {
        let desks = (0..ring.geometry().slots()).map(|_| CachePadded::default()).collect();
        Self { ring, desks, counts: Counts::default() }
    }

    pub(crate) fn ring(&self) -> &Ring {
        &self.ring
    }

    pub(crate) fn counts(&self) -> &Counts {
        &self.counts
    }

    fn desk(&self, slot: SlotIndex) -> &Desk {
        &self.desks[slot.as_usize()].0
    }

    /// Acquire: pairs with [`exchange`](Self::exchange) of whoever set it.
    fn word(&self, slot: SlotIndex) -> Word {
        Word(self.desk(slot).word.load(Ordering::Acquire))
    }

    /// Acquire-release: what each owner of the slot did is seen by the next.
    fn exchange(&self, slot: SlotIndex, from: Word, to: Word) -> bool {
        self.desk(slot).word.compare_exchange(from.0, to.0, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Injector: the slot, if nobody owes anything for it and its last answer was harvested from `answers`.
    #[inline]
    pub(crate) fn reserve(&self, slot: SlotIndex, answers: &SharedRing) -> Option<Vacant> {
        let word = self.word(slot);
        if word.phase() != Phase::Idle || answers.tx(slot) != flag::FREE {
            return None;
        }
        let vacant = Vacant::probe(self.ring.shared(), slot)?;
        // Before anybody can answer: the mark says that the answer is to come.
        answers.publish_tx(slot, flag::IN_FLIGHT);
        if !self.exchange(slot, word, word.next(Phase::Reserved)) {
            answers.publish_tx(slot, flag::FREE); // a sweep came first
            return None;
        }
        Some(vacant)
    }

    /// Injector: the request is in the book, and is published next.
    #[inline]
    pub(crate) fn announce(&self, slot: SlotIndex) {
        let desk = self.desk(slot);
        desk.since_ns.store(clock::now_ns(), Ordering::Relaxed);
        let word = Word(desk.word.load(Ordering::Relaxed));
        // A reserved slot is the injector's alone. Release: pairs with `word`.
        desk.word.store(word.to(Phase::Sent).0, Ordering::Release);
    }

    /// Worker: takes what the device has written into a slot, if it has and nobody else did.
    ///
    /// The word is read before the flag: a flag that is set after a word `Sent` was seen is that request's, since its slot
    /// was free when the word was set.
    #[inline]
    pub(crate) fn claim(&self, slot: SlotIndex) -> Option<Claim> {
        let word = self.word(slot);
        let to = match word.phase() {
            Phase::Sent => Phase::Taken,
            // Idle: a device that answers what nobody asked.
            Phase::Expired | Phase::Idle => Phase::Sweeping,
            Phase::Reserved | Phase::Taken | Phase::Sweeping => return None,
        };
        let response = Response::probe(self.ring.shared(), slot)?;
        let next = word.to(to);
        if !self.exchange(slot, word, next) {
            return None;
        }
        Some(if to == Phase::Taken { Claim::Answer(next, response) } else { Claim::Late(next, response) })
    }

    /// Worker: a late answer was released.
    pub(crate) fn swept(&self, slot: SlotIndex, word: Word) {
        self.counts.late.fetch_add(1, Ordering::Relaxed);
        let _ = self.exchange(slot, word, word.to(Phase::Idle));
    }

    /// Worker: wins the right to answer the request that it took, or learns that its time was up. `answer` is then called.
    #[inline]
    pub(crate) fn settle(&self, slot: SlotIndex, word: Word, answer: impl FnOnce()) -> bool {
        let won = self.exchange(slot, word, word.to(Phase::Idle));
        if won {
            answer();
        } else {
            self.counts.late.fetch_add(1, Ordering::Relaxed);
        }
        won
    }

    /// Answers every request of the phases `of` that was sent before `oldest_ns` with `status`, in place of whoever owes it.
    pub(crate) fn expire(&self, of: &[Phase], oldest_ns: u64, status: Status, answers: &SharedRing) {
        for slot in self.ring.geometry().iter() {
            let word = self.word(slot);
            let to = match word.phase() {
                phase if !of.contains(&phase) => continue,
                Phase::Sent => Phase::Expired,
                Phase::Taken => Phase::Idle,
                _ => continue,
            };
            if self.desk(slot).since_ns.load(Ordering::Relaxed) < oldest_ns
                && self.exchange(slot, word, word.to(to))
            {
                if status == Status::SHUTTING_DOWN {
                    self.counts.dropped.fetch_add(1, Ordering::Relaxed);
                }
                self.write(slot, 0, Verdict::Answer(status, &[]), answers);
            }
        }
    }

    /// Publishes an answer for the consumer: by whoever won the right to.
    #[inline]
    pub(crate) fn write(&self, slot: SlotIndex, request_id: u32, verdict: Verdict<'_>, answers: &SharedRing) {
        let (status, result, flag) = match verdict {
            Verdict::Answer(status, result) => (status, result, answers.geometry().response_address(slot)),
            Verdict::Error(code) => (Status::LAUNCH_FAILED, &[][..], flag::error(code)),
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

    /// Slots whose request was sent before `oldest_ns`, and has no answer.
    pub(crate) fn any_older(&self, oldest_ns: u64) -> bool {
        let old = |slot| {
            self.word(slot).phase() == Phase::Sent
                && self.desk(slot).since_ns.load(Ordering::Relaxed) < oldest_ns
        };
        self.ring.geometry().iter().any(old)
    }

    /// Whether a worker has something to take or to finish.
    pub(crate) fn workers_have_work(&self) -> bool {
        let ring = self.ring.shared();
        self.ring.geometry().iter().any(|slot| match self.word(slot).phase() {
            Phase::Sent => !matches!(ring.tx(slot), flag::FREE | flag::IN_FLIGHT),
            Phase::Taken => true,
            _ => false,
        })
    }

    /// After the dispatcher has ended and all workers have: nobody owes anything, and every slot is free.
    pub(crate) fn clear(&self) {
        let ring = self.ring.shared();
        for slot in self.ring.geometry().iter() {
            ring.clear_rx(slot);
            ring.publish_tx(slot, flag::FREE);
            let word = self.word(slot);
            let _ = self.exchange(slot, word, word.to(Phase::Idle));
        }
    }

    /// As a dispatcher of this process counts: requests handed to CPU stages, and answers that came too late.
    pub(crate) fn counters(&self) -> Snapshot {
        let mut counts = [0; COUNT];
        let taken = self.counts.taken.load(Ordering::Relaxed);
        counts[Counter::Received as usize] = taken;
        counts[Counter::Dispatched as usize] = taken;
        counts[Counter::LateResults as usize] = self.counts.late.load(Ordering::Relaxed);
        Snapshot::from_counts(counts)
    }

    /// Every slot with something in it, for people.
    pub(crate) fn dump(&self) -> SlotDump {
        let now = clock::now_ns();
        let ring = self.ring.shared();
        let state = |slot: SlotIndex| {
            let (rx, tx, phase) = (ring.rx(slot), ring.tx(slot), self.word(slot).phase());
            let idle = phase == Phase::Idle;
            let since = self.desk(slot).since_ns.load(Ordering::Relaxed);
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
