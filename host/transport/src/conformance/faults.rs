//! Network faults for the suite: loss, duplicates and reordering, reproducible from a seed.

use super::FrameClient;
use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use std::time::Duration;

/// Probabilities of faults, each from 0 to 1.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Faults {
    /// A frame is lost.
    pub loss: f64,
    /// A frame comes twice.
    pub duplicate: f64,
    /// A frame comes after the next one.
    pub reorder: f64,
}

impl Faults {
    /// A bad network: of 100 frames 10 are lost, 10 come twice, and 20 come late.
    pub const BAD: Self = Self { loss: 0.1, duplicate: 0.1, reorder: 0.2 };
}

/// The faults of one direction.
#[derive(Debug)]
pub struct Passed {
    faults: Faults,
    rng: Xoshiro256PlusPlus,
    held: Option<Vec<u8>>,
}

impl Passed {
    /// A direction with these faults.
    #[must_use]
    pub fn new(faults: Faults, seed: u64) -> Self {
        Self { faults, rng: Xoshiro256PlusPlus::seed_from_u64(seed), held: None }
    }

    /// Takes a frame in, and returns the frames that come out.
    pub fn pass(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let [lost, twice, late] = [self.faults.loss, self.faults.duplicate, self.faults.reorder]
            .map(|probability| self.rng.random_bool(probability));
        let mut out = Vec::new();
        if !lost {
            if late && self.held.is_none() {
                self.held = Some(frame.to_vec());
                return out;
            }
            out.resize(1 + usize::from(twice), frame.to_vec());
        }
        out.extend(self.held.take());
        out
    }

    /// The frame still held back, if any.
    pub fn rest(&mut self) -> Option<Vec<u8>> {
        self.held.take()
    }
}

/// A client behind a bad network, which affects its requests.
pub struct Faulty<'a> {
    client: &'a mut dyn FrameClient,
    way: Passed,
}

impl<'a> Faulty<'a> {
    /// `client` with faults between it and the service.
    pub fn new(client: &'a mut dyn FrameClient, faults: Faults, seed: u64) -> Self {
        Self { client, way: Passed::new(faults, seed) }
    }

    /// Sends a frame, and returns the frames that got through.
    pub fn send(&mut self, frame: &[u8]) -> Vec<Vec<u8>> {
        let passed = self.way.pass(frame);
        passed.iter().for_each(|frame| self.client.send(frame));
        passed
    }

    /// Sends the requests still held back, and returns them.
    pub fn rest(&mut self) -> Vec<Vec<u8>> {
        let rest: Vec<_> = self.way.rest().into_iter().collect();
        rest.iter().for_each(|frame| self.client.send(frame));
        rest
    }
}

impl FrameClient for Faulty<'_> {
    fn send(&mut self, frame: &[u8]) {
        Faulty::send(self, frame);
    }

    fn send_raw(&mut self, bytes: &[u8]) {
        self.client.send_raw(bytes);
    }

    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>> {
        self.client.receive(timeout)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_fault_happens_and_the_seed_decides() {
        let run = |seed| {
            let mut way = Passed::new(Faults::BAD, seed);
            let mut out: Vec<u32> = Vec::new();
            for n in 0..1000_u32 {
                out.extend(
                    way.pass(&n.to_le_bytes()).iter().map(|f| u32::from_le_bytes(f[..].try_into().unwrap())),
                );
            }
            out
        };
        let out = run(3);
        assert_eq!(out, run(3));
        assert_ne!(out, run(4));
        let mut kinds = out.clone();
        kinds.sort_unstable();
        let sorted = kinds.clone();
        kinds.dedup();
        assert!(kinds.len() < 950, "some are lost");
        assert!(sorted.len() > kinds.len(), "some come twice");
        assert_ne!(out, sorted, "some come late");
    }
}
