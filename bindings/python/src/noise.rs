//! Random numbers, from one generator for the whole process, which `set_seed` seeds.

use std::hash::{BuildHasher, RandomState};
use std::sync::{Mutex, PoisonError};

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::graph::Graph;

static GENERATOR: Mutex<Option<Xoshiro256PlusPlus>> = Mutex::new(None);

fn with_generator<T>(draw: impl FnOnce(&mut Xoshiro256PlusPlus) -> T) -> T {
    let mut generator = GENERATOR.lock().unwrap_or_else(PoisonError::into_inner);
    draw(generator.get_or_insert_with(from_system))
}

fn from_system() -> Xoshiro256PlusPlus {
    Xoshiro256PlusPlus::seed_from_u64(seed_from_system())
}

/// A seed from the system's randomness.
pub(crate) fn seed_from_system() -> u64 {
    // The standard library seeds a hasher's keys from the system. A forked process has its parent's keys, so the process and the
    // time are hashed with them.
    RandomState::new().hash_one((std::process::id(), std::time::SystemTime::now()))
}

fn uniform(generator: &mut Xoshiro256PlusPlus) -> f64 {
    (generator.next_u64() >> 11) as f64 * (1.0 / (1u64 << 53) as f64)
}

pub(crate) fn set_seed(seed: u64) {
    *GENERATOR.lock().unwrap_or_else(PoisonError::into_inner) = Some(Xoshiro256PlusPlus::seed_from_u64(seed));
}

pub(crate) fn randomize() {
    *GENERATOR.lock().unwrap_or_else(PoisonError::into_inner) = Some(from_system());
}

pub(crate) fn rand_float(from: f64, to: f64) -> f64 {
    with_generator(|generator| from + (to - from) * uniform(generator))
}

/// Flips edges by their probabilities. Returns the flipped faults and the syndrome, or `None` if some edge has no probability.
pub(crate) fn sample(graph: &Graph) -> Option<(Vec<u8>, Vec<u8>)> {
    let mut faults = vec![0; graph.num_faults()];
    let mut syndrome = vec![0; graph.num_nodes()];
    with_generator(|generator| {
        for edge in graph.edges() {
            if uniform(generator) < edge.probability? {
                edge.faults.iter().for_each(|&fault| faults[fault as usize] ^= 1);
                syndrome[edge.u as usize] ^= 1;
                if let Some(v) = edge.v {
                    syndrome[v as usize] ^= 1;
                }
            }
        }
        Some(())
    })?;
    for &node in graph.boundary() {
        syndrome[node as usize] = 0;
    }
    Some((faults, syndrome))
}
