//! Fault injection: loss, damage, duplicates and disorder of packets.

use crate::fpga::error::EmulatorError;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use serde::Serialize;
use std::collections::VecDeque;

/// How often what goes wrong: probabilities by packet, from 0 to 1, at most one fault a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Faults {
    /// A packet is not sent.
    pub loss: f64,
    /// A bit of a packet is flipped, after its iCRC was computed: a receiver that checks drops it.
    pub corruption: f64,
    /// A packet is sent twice.
    pub duplication: f64,
    /// A packet is sent after one to [`Self::reorder_depth`] later ones.
    pub reordering: f64,
    /// How far packets are held back; 0 is 1.
    pub reorder_depth: u32,
    /// An answer is dropped on arrival.
    pub answer_loss: f64,
    /// Seed of the random numbers: the same faults for the same packets.
    pub seed: u64,
}

/// What went wrong on purpose, in packets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct FaultStats {
    /// Not sent.
    pub lost: u64,
    /// Sent with a flipped bit.
    pub corrupted: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// Sent late.
    pub reordered: u64,
    /// Answers dropped.
    pub answers_lost: u64,
}

impl Faults {
    pub(crate) fn check(&self) -> Result<(), EmulatorError> {
        let rates = [
            ("loss", self.loss),
            ("corruption", self.corruption),
            ("duplication", self.duplication),
            ("reordering", self.reordering),
            ("answer_loss", self.answer_loss),
            ("the sum of all", self.loss + self.corruption + self.duplication + self.reordering),
        ];
        for (setting, value) in rates {
            if !(0.0..=1.0).contains(&value) {
                let value = value.to_string();
                return Err(EmulatorError::Setting {
                    setting,
                    value,
                    needed: "give a probability from 0 to 1",
                });
            }
        }
        Ok(())
    }
}

/// A packet that is held back.
#[derive(Debug)]
struct Held {
    datagram: Vec<u8>,
    /// Packets that go before it.
    before: u32,
}

/// Decides what happens to each packet.
///
/// ```
/// use ringcall_sim::fpga::{Faults, Injector};
///
/// let mut injector = Injector::new(Faults { duplication: 1.0, ..Faults::default() });
/// let mut sent = 0;
/// let arrives = injector.pass::<()>(&mut [1, 2, 3], |_| {
///     sent += 1;
///     Ok(())
/// });
/// assert_eq!((arrives, sent, injector.stats().duplicated), (Ok(true), 2, 1));
/// ```
#[derive(Debug)]
pub struct Injector {
    faults: Faults,
    random: Xoshiro256PlusPlus,
    held: VecDeque<Held>,
    spare: Vec<Vec<u8>>,
    counts: FaultStats,
}

impl Injector {
    /// Probabilities that [add up](Faults); nothing is held back yet.
    #[must_use]
    pub fn new(faults: Faults) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(faults.seed);
        Self { faults, random, held: VecDeque::new(), spare: Vec::new(), counts: FaultStats::default() }
    }

    /// What went wrong so far.
    #[must_use]
    pub const fn stats(&self) -> &FaultStats {
        &self.counts
    }

    /// Whether packets are held back.
    #[must_use]
    pub fn is_holding(&self) -> bool {
        !self.held.is_empty()
    }

    /// From 0 up to 1, without it.
    fn uniform(&mut self) -> f64 {
        (self.random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Sends a packet, or what becomes of it, and those whose time has come. Returns whether it will arrive unharmed.
    ///
    /// # Errors
    /// What `send` says.
    pub fn pass<E>(
        &mut self,
        datagram: &mut [u8],
        mut send: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<bool, E> {
        let Faults { loss, corruption, duplication, reordering, reorder_depth, .. } = self.faults;
        let roll = if loss + corruption + duplication + reordering > 0.0 { self.uniform() } else { 1.0 };
        let mut arrives = true;
        if roll < loss {
            self.counts.lost += 1;
            arrives = false;
        } else if roll < loss + corruption {
            self.counts.corrupted += 1;
            arrives = false;
            // Any bit but those of the congestion byte, which the iCRC leaves out.
            let byte = self.random.next_u64() as usize % datagram.len();
            let byte = if byte == CONGESTION_BYTE { 0 } else { byte };
            datagram[byte] ^= 1 << (self.random.next_u32() % 8);
            send(datagram)?;
        } else if roll < loss + corruption + duplication {
            self.counts.duplicated += 1;
            send(datagram)?;
            send(datagram)?;
        } else if roll < loss + corruption + duplication + reordering {
            self.counts.reordered += 1;
            let before = 1 + self.random.next_u32() % reorder_depth.max(1);
            let mut copy = self.spare.pop().unwrap_or_default();
            copy.clear();
            copy.extend_from_slice(datagram);
            // Not counted down by itself.
            self.held.push_back(Held { datagram: copy, before: before + 1 });
        } else {
            send(datagram)?;
        }
        for held in &mut self.held {
            held.before = held.before.saturating_sub(1);
        }
        self.release(false, send)?;
        Ok(arrives)
    }

    /// Sends held-back requests and due, or everything.
    ///
    /// # Errors
    /// What `send` says.
    pub fn release<E>(
        &mut self,
        everything: bool,
        mut send: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut index = 0;
        while let Some(held) = self.held.get(index) {
            if !everything && held.before > 0 {
                index += 1;
                continue;
            }
            if let Some(held) = self.held.remove(index) {
                send(&held.datagram)?;
                self.spare.push(held.datagram);
            }
        }
        Ok(())
    }

    /// Whether an answer that has come is dropped.
    pub(crate) fn drops_answer(&mut self) -> bool {
        let drops = self.faults.answer_loss > 0.0 && self.uniform() < self.faults.answer_loss;
        self.counts.answers_lost += u64::from(drops);
        drops
    }
}

/// Offset of the BTH's congestion byte.
const CONGESTION_BYTE: usize = 4;

#[cfg(test)]
mod tests {
    use super::*;

    fn run(faults: Faults, packets: u8) -> (Vec<u8>, FaultStats, usize) {
        let mut injector = Injector::new(faults);
        let mut out = Vec::new();
        let mut unharmed = 0;
        for number in 0..packets {
            let mut datagram = [number; 8];
            let send = |bytes: &[u8]| {
                out.push(if bytes == [bytes[0]; 8] { bytes[7] } else { u8::MAX });
                Ok::<(), ()>(())
            };
            unharmed += usize::from(injector.pass(&mut datagram, send).expect("it cannot fail"));
        }
        let send = |bytes: &[u8]| {
            out.push(bytes[0]);
            Ok::<(), ()>(())
        };
        injector.release(true, send).expect("it cannot fail");
        assert!(!injector.is_holding());
        (out, *injector.stats(), unharmed)
    }

    #[test]
    fn without_faults_nothing_changes() {
        assert_eq!(run(Faults::default(), 50), ((0..50).collect(), FaultStats::default(), 50));
    }

    #[test]
    fn each_fault_does_what_its_name_says() {
        let (out, counts, unharmed) = run(Faults { loss: 0.3, ..Faults::default() }, 100);
        assert_eq!((out.len(), counts.lost as usize, unharmed), (unharmed, 100 - unharmed, out.len()));
        assert!((10..60).contains(&counts.lost));

        let (out, counts, _) = run(Faults { duplication: 0.3, ..Faults::default() }, 100);
        assert_eq!(out.len() as u64, 100 + counts.duplicated);

        let (out, counts, unharmed) = run(Faults { corruption: 0.3, ..Faults::default() }, 100);
        assert_eq!(out.iter().filter(|byte| **byte == u8::MAX).count() as u64, counts.corrupted);
        assert_eq!(unharmed as u64, 100 - counts.corrupted);

        let (out, counts, unharmed) =
            run(Faults { reordering: 0.3, reorder_depth: 4, ..Faults::default() }, 100);
        let mut sorted = out.clone();
        sorted.sort_unstable();
        assert_eq!((sorted, unharmed), ((0..100).collect(), 100));
        assert!(counts.reordered > 0 && !out.is_sorted());
        for (index, number) in out.iter().enumerate() {
            assert!(index.abs_diff(usize::from(*number)) < 20, "{number} came at {index}");
        }
    }

    #[test]
    fn probabilities_are_checked() {
        assert!(Faults { loss: 0.5, duplication: 0.6, ..Faults::default() }.check().is_err());
        assert!(Faults { answer_loss: f64::NAN, ..Faults::default() }.check().is_err());
        assert!(Faults { loss: 0.5, reordering: 0.5, ..Faults::default() }.check().is_ok());
    }
}
