//! A sampler for many shots, without seeds of single shots.

use std::iter::successors;
use std::sync::Arc;

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::QecError;
use crate::dem::DetectorErrorModel;
use crate::shots::{Shot, ShotError, ShotLayout};

/// A larger mean makes no difference: at this mean an odd number has the probability 1/2 - 2e-18.
const MOST_HITS: f64 = 20.0;
/// The mean of one table of numbers of hits. For a larger mean, several numbers are drawn.
const TABLE_MEAN: f64 = 1024.0;
/// Terms of the Poisson distribution below this fraction of the largest term are left out.
const NEGLIGIBLE: f64 = 1e-22;

/// Draws shots as [`Sampler`](super::Sampler) does, in a fraction of its time, but other ones for a seed: they may be others in a later
/// version.
///
/// Each mechanism is *hit* a Poisson-distributed number of times with mean `-ln(1 - 2 p) / 2`, and fires if that number is odd,
/// which has the probability `p`. The hits of all mechanisms together are Poisson distributed as well, and the mechanism of each
/// hit is independent of the others. So a shot costs one draw for the number of hits, and one for each hit, by Walker's alias
/// method.
///
/// ```
/// use ringcall_qec::sample::BulkSampler;
///
/// let model = ringcall_qec::dem::text::parse("error(0.25) D0 D1 L0\nerror(0.25) D1")?;
/// let mut sampler = BulkSampler::new(&model, 7)?;
/// let mut shot = sampler.new_shot();
/// let mut errors = 0;
/// for _ in 0..1000 {
///     sampler.sample_into(&mut shot)?;
///     assert_eq!(shot.detectors.get(0), shot.observables.get(0));
///     errors += shot.observables.count_ones();
/// }
/// assert!((200..300).contains(&errors));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct BulkSampler {
    tables: Arc<Tables>,
    rng: Xoshiro256PlusPlus,
}

#[derive(Debug)]
struct Tables {
    layout: ShotLayout,
    /// Flips before any hit: those of mechanisms that are likelier to fire than not.
    start: Vec<Flips>,
    hits: Poisson,
    /// How often a number of hits is drawn for a shot.
    rounds: u32,
    cells: Vec<Cell>,
    /// The targets of all mechanisms, one after the other.
    targets: Vec<u32>,
}

/// A cell of the alias table: every cell is equally likely, and two mechanisms share it.
#[derive(Debug, Clone, Copy)]
struct Cell {
    /// The number of draws, of 2^64, that belong to the first mechanism.
    first: u64,
    flips: [Flips; 2],
}

/// The detectors `targets[detectors..observables]` and the observables `targets[observables..end]`.
#[derive(Debug, Clone, Copy)]
struct Flips {
    detectors: u32,
    observables: u32,
    end: u32,
}

impl BulkSampler {
    /// A sampler of a model.
    ///
    /// # Errors
    /// The error of [`DetectorErrorModel::validate`].
    pub fn new(model: &DetectorErrorModel, seed: u64) -> Result<Self, QecError> {
        model.validate()?;
        Ok(Self { tables: Arc::new(Tables::new(model)), rng: Xoshiro256PlusPlus::seed_from_u64(seed) })
    }

    /// The shape of the shots.
    pub fn layout(&self) -> ShotLayout {
        self.tables.layout
    }

    /// A shot of the right shape, to sample into.
    pub fn new_shot(&self) -> Shot {
        Shot::new(self.layout())
    }

    /// Draws the next shot: detectors, and the observables that truly flipped.
    ///
    /// # Errors
    /// [`ShotError::Layout`] when `shot` is of another shape; no random number is drawn then.
    pub fn sample_into(&mut self, shot: &mut Shot) -> Result<(), ShotError> {
        let Self { tables, rng } = self;
        let Tables { layout, start, hits, rounds, cells, .. } = &**tables;
        shot.check(*layout)?;
        shot.clear();
        for &flips in start {
            tables.flip(flips, shot);
        }
        for _ in 0..*rounds {
            for _ in 0..hits.draw(rng) {
                let product = u128::from(rng.next_u64()) * cells.len() as u128;
                let cell = &cells[(product >> 64) as usize];
                tables.flip(cell.flips[usize::from(product as u64 >= cell.first)], shot);
            }
        }
        Ok(())
    }
}

impl Tables {
    fn new(model: &DetectorErrorModel) -> Self {
        let layout = ShotLayout::with_observables(model.num_detectors, model.num_observables);
        let (mut start, mut flips, mut means, mut targets) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for mechanism in &model.mechanisms {
            let detectors = targets.len() as u32;
            targets.extend(&mechanism.detectors);
            let observables = targets.len() as u32;
            targets.extend(&mechanism.observables);
            let own = Flips { detectors, observables, end: targets.len() as u32 };
            if mechanism.probability > 0.5 {
                start.push(own);
            }
            let rarer = mechanism.probability.min(1.0 - mechanism.probability);
            if rarer > 0.0 {
                flips.push(own);
                means.push((libm::log1p(-2.0 * rarer) / -2.0).min(MOST_HITS));
            }
        }
        let mean: f64 = means.iter().sum();
        let rounds = (mean / TABLE_MEAN).ceil();
        let hits = Poisson::new(mean / rounds.max(1.0));
        Self { layout, start, hits, rounds: rounds as u32, cells: cells(&flips, &means), targets }
    }

    #[inline]
    fn flip(&self, flips: Flips, shot: &mut Shot) {
        let Flips { detectors, observables, end } = flips;
        for &detector in &self.targets[detectors as usize..observables as usize] {
            shot.detectors.toggle(detector);
        }
        for &observable in &self.targets[observables as usize..end as usize] {
            shot.observables.toggle(observable);
        }
    }
}

/// The alias table of mechanisms with these mean hits (Vose's construction).
fn cells(flips: &[Flips], means: &[f64]) -> Vec<Cell> {
    let unit = means.iter().sum::<f64>() / means.len() as f64;
    let mut rest: Vec<f64> = means.iter().map(|mean| mean / unit).collect();
    let mut cells: Vec<Cell> = flips.iter().map(|&own| Cell { first: u64::MAX, flips: [own, own] }).collect();
    let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..rest.len()).partition(|&at| rest[at] < 1.0);
    while let (Some(&less), Some(&more)) = (small.last(), large.last()) {
        small.pop();
        cells[less] = Cell { first: (rest[less] * 2f64.powi(64)) as u64, flips: [flips[less], flips[more]] };
        rest[more] -= 1.0 - rest[less];
        if rest[more] < 1.0 {
            large.pop();
            small.push(more);
        }
    }
    // The remaining cells are whole except for rounding.
    cells
}

/// A table of a Poisson distribution.
#[derive(Debug)]
struct Poisson {
    /// The number of draws, of 2^64, that give at most the entry's number; the remaining draws give the number after the last
    /// entry.
    up_to: Vec<u64>,
    /// For the first byte of a draw, the least number that it can give.
    least: Vec<u32>,
}

impl Poisson {
    fn new(mean: f64) -> Self {
        // From the likeliest number to both sides, in units of its probability.
        let mode = mean.floor();
        let counts = |&(_, term): &(f64, f64)| term > NEGLIGIBLE;
        let down = |&(k, term): &(f64, f64)| (k > 0.0).then(|| (k - 1.0, term * k / mean));
        let up = |&(k, term): &(f64, f64)| Some((k + 1.0, term * mean / (k + 1.0)));
        let below: Vec<_> = successors(Some((mode, 1.0)), down).take_while(counts).collect();
        let above = successors(Some((mode, 1.0)), up).take_while(counts).skip(1);
        let first = below.last().map_or(0.0, |&(k, _)| k) as usize;
        let all: Vec<f64> = below.iter().copied().rev().chain(above).map(|(_, term)| term).collect();
        let sum: f64 = all.iter().sum();
        let mut so_far = 0.0;
        let mut up_to = vec![0; first];
        up_to.extend(all.iter().map(|term| {
            so_far += term / sum;
            (so_far * 2f64.powi(64)) as u64
        }));
        up_to.pop();
        let least = (0..256u64).map(|byte| up_to.partition_point(|&end| end <= byte << 56) as u32).collect();
        Self { up_to, least }
    }

    #[inline]
    fn draw(&self, rng: &mut Xoshiro256PlusPlus) -> u32 {
        let draw = rng.next_u64();
        let least = self.least[(draw >> 56) as usize];
        least + self.up_to[least as usize..].iter().take_while(|&&up_to| draw >= up_to).count() as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_hits_are_poisson_distributed() {
        for mean in [0.0, 1e-9, 0.3, 1.0, 7.5, 60.0, 1000.0] {
            let table = Poisson::new(mean);
            let mut before = 0.0;
            let (mut average, mut square) = (0.0, 0.0);
            for (k, &up_to) in table.up_to.iter().chain([&u64::MAX]).enumerate() {
                let until = up_to as f64 / 2f64.powi(64);
                let probability = until - before;
                average += k as f64 * probability;
                square += (k as f64).powi(2) * probability;
                before = until;
            }
            assert!((average - mean).abs() < 1e-9 * mean.max(1.0), "{mean}: {average}");
            let variance = square - average * average;
            assert!((variance - mean).abs() < 1e-6 * mean.max(1.0), "{mean}: {variance}");
            let none = table.up_to.first().map_or(1.0, |&up_to| up_to as f64 / 2f64.powi(64));
            assert!((none - (-mean).exp()).abs() < 1e-12, "{mean}: {none}");
        }
    }

    #[test]
    fn aliases_add_up() {
        let means: Vec<f64> = (1..=97).map(|k| 1.0 / f64::from(k * k)).collect();
        let flips: Vec<Flips> = (0..97).map(|at| Flips { detectors: at, observables: at, end: at }).collect();
        let mut shares = vec![0.0; 97];
        let cells = cells(&flips, &means);
        for cell in &cells {
            let first = cell.first as f64 / 2f64.powi(64);
            shares[cell.flips[0].end as usize] += first / 97.0;
            shares[cell.flips[1].end as usize] += (1.0 - first) / 97.0;
        }
        let sum: f64 = means.iter().sum();
        for (share, mean) in shares.iter().zip(&means) {
            assert!((share - mean / sum).abs() < 1e-14, "{share} {mean}");
        }
    }
}
