//! Predecoder volume: a memory experiment as tensors of a convolutional network, and the effect of the network's decisions.
//!
//! The network is fully convolutional: one network serves every distance and number of rounds. Its input and output are tensors
//! `[4, layers, distance, distance]`, row-major, with `rounds + 1` layers of time, rows `y` and columns `x` of data qubits. The
//! check at position `(2i, 2j)` lies in the cell of row `j` and column `i`, moved inside by one cell where that is outside; no
//! two checks of one basis share a cell. Layers are those of [`DetectorInfo::layer`](crate::circuit::DetectorInfo::layer).
//!
//! | channel | in | out (logits) |
//! |---|---|---|
//! | 0 | detectors of X checks | Z error on this data qubit, in this layer |
//! | 1 | detectors of Z checks | X error |
//! | 2 | 1 where a detector of an X check is, 0.5 if its check has weight 2, else 0 | flip of the X check measured in this round |
//! | 3 | the same of Z checks | flip of the Z check |
//!
//! A decision is a logit above a threshold. An error flips the detectors of the checks around it in its layer; a flip of a check
//! flips that check's detectors in its own layer and the next. Errors on the logical operator flip the logical frame. The answer
//! to a syndrome is the frame plus the matching of the remaining detectors.

use crate::QecError;
use crate::circuit::{CircuitNoise, MemoryExperiment};
use crate::code::{Basis, SurfaceCode};

/// Channels of the network's input, and of its output.
pub const CHANNELS: usize = 4;

/// Marks the absence of a second detector.
const NONE: u32 = u32::MAX;

/// The positions of detectors in the network's input, and the detectors that each decision flips.
///
/// ```
/// use ringcall_qec::code::Basis;
/// use ringcall_qec::predecoder::PredecoderVolume;
/// let volume = PredecoderVolume::new(13, 13, Basis::Z)?;
/// assert_eq!((volume.shape(), volume.detectors()), ([4, 14, 13, 13], 2184));
///
/// // One detector of a check in the middle is set, and the network decides that the check was measured wrongly in that round.
/// let mut input = volume.maps().to_vec();
/// input[volume.place(1000)] = 1.0;
/// let mut logits = vec![-5.0; input.len()];
/// logits[volume.residual_cells(1000)[5] as usize] = 5.0;
/// let mut detectors = vec![0; 2184 / 8];
/// detectors[1000 / 8] |= 1 << (1000 % 8);
/// let frame = volume.apply(&logits, 0.0, &mut detectors);
/// let left: u32 = detectors.iter().map(|byte| byte.count_ones()).sum();
/// assert_eq!((frame, left), (false, 1)); // the same check's, a layer away
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct PredecoderVolume {
    layers: usize,
    distance: usize,
    maps: Vec<f32>,
    places: Vec<u32>,
    /// Cells of all detectors, one detector after another, and where each detector's cells begin.
    cells: Vec<u32>,
    begins: Vec<u32>,
    frame: Vec<u32>,
    /// For each output channel of each cell, the detectors that it flips.
    flips: Vec<[u32; 2]>,
    on_logical: Vec<bool>,
}

impl PredecoderVolume {
    /// The volume of a memory experiment.
    ///
    /// # Errors
    /// [`QecError::Distance`] or [`QecError::Rounds`] names the parameter out of range.
    pub fn new(distance: u32, rounds: u32, basis: Basis) -> Result<Self, QecError> {
        let experiment = MemoryExperiment { distance, rounds, basis, noise: CircuitNoise::default() };
        let layout = experiment.detector_layout()?;
        let code = SurfaceCode::new(distance)?;
        let (layers, d) = (rounds as usize + 1, distance as usize);
        let size = CHANNELS * layers * d * d;
        // Far below 2^32: detectors are at most 2^24.
        let cell = |channel: usize, layer: usize, row: usize, column: usize| {
            (((channel * layers + layer) * d + row) * d + column) as u32
        };
        let data_cell =
            |basis, layer, data: u32| cell(channel_of(basis), layer, data as usize / d, data as usize % d);
        let mut volume = Self {
            layers,
            distance: d,
            maps: vec![0.0; size],
            places: Vec::with_capacity(layout.detectors().len()),
            cells: Vec::with_capacity(6 * layout.detectors().len()),
            begins: vec![0],
            frame: Vec::with_capacity(layers * d),
            flips: vec![[NONE; 2]; size],
            on_logical: vec![false; size],
        };
        for (id, detector) in (0..).zip(layout.detectors()) {
            let check = &code.stabilizers(detector.basis)[detector.stabilizer as usize];
            let (channel, layer) = (channel_of(detector.basis), detector.layer as usize);
            let (x, y) = (detector.position.0 as usize / 2, detector.position.1 as usize / 2);
            let at = |channel, layer| cell(channel, layer, y.min(d - 1), x.min(d - 1));
            volume.places.push(at(channel, layer));
            volume.maps[at(channel + 2, layer) as usize] = if check.support.len() == 4 { 1.0 } else { 0.5 };
            let errors = check.support.iter().map(|&data| data_cell(detector.basis, layer, data));
            let before = layer.checked_sub(1).map(|round| at(channel + 2, round));
            let own = (layer < rounds as usize).then(|| at(channel + 2, layer));
            volume.cells.extend(errors.chain(before).chain(own));
            let begin = volume.begins.last().copied().unwrap_or(0) as usize;
            for &cell in &volume.cells[begin..] {
                let [first, second] = &mut volume.flips[cell as usize];
                *(if *first == NONE { first } else { second }) = id;
            }
            volume.begins.push(volume.cells.len() as u32);
        }
        for layer in 0..layers {
            volume.frame.extend(code.logical(basis).into_iter().map(|data| data_cell(basis, layer, data)));
        }
        for &cell in &volume.frame {
            volume.on_logical[cell as usize] = true;
        }
        Ok(volume)
    }

    /// `[channels, layers, rows, columns]` of the network's input and output.
    pub fn shape(&self) -> [usize; 4] {
        [CHANNELS, self.layers, self.distance, self.distance]
    }

    /// Number of detectors.
    pub fn detectors(&self) -> usize {
        self.places.len()
    }

    /// The network's input if no detector is set.
    pub fn maps(&self) -> &[f32] {
        &self.maps
    }

    /// The element of the input that is 1 if this detector is set.
    ///
    /// # Panics
    /// There is no such detector.
    pub fn place(&self, detector: usize) -> usize {
        self.places[detector] as usize
    }

    /// [`place`](Self::place) of every detector.
    pub fn places(&self) -> &[u32] {
        &self.places
    }

    /// The elements of the output whose decisions flip this detector: errors on its check's data qubits, then flips of its check
    /// in the round before and in this one, where those rounds exist.
    ///
    /// # Panics
    /// There is no such detector.
    pub fn residual_cells(&self, detector: usize) -> &[u32] {
        &self.cells[self.begins[detector] as usize..self.begins[detector + 1] as usize]
    }

    /// The elements of the output whose decisions flip the logical frame.
    pub fn frame_cells(&self) -> &[u32] {
        &self.frame
    }

    /// Applies every decision, a logit above the threshold, to bit-packed detectors (least significant bit first). Returns the
    /// logical frame. Allocates nothing.
    ///
    /// # Panics
    /// `logits` or `detectors` are too short for this volume.
    pub fn apply(&self, logits: &[f32], threshold: f32, detectors: &mut [u8]) -> bool {
        assert!(logits.len() >= self.flips.len(), "{} logits for {}", logits.len(), self.flips.len());
        let mut frame = false;
        for ((&logit, flips), &on_logical) in logits.iter().zip(&self.flips).zip(&self.on_logical) {
            if logit > threshold {
                for &detector in flips.iter().filter(|&&detector| detector != NONE) {
                    detectors[detector as usize / 8] ^= 1 << (detector % 8);
                }
                frame ^= on_logical;
            }
        }
        frame
    }
}

/// The channel of a basis' detectors, and of the errors that they see.
fn channel_of(basis: Basis) -> usize {
    match basis {
        Basis::X => 0,
        Basis::Z => 1,
    }
}

/// The best thresholds according to a model file, by distance and noise: the entries `predecoder.threshold.d<distance>.p<noise>`
/// of its metadata.
///
/// ```
/// use ringcall_qec::predecoder::Thresholds;
/// let entries = [("predecoder.threshold.d7.p0.003", "1.5"), ("predecoder.threshold.d13.p0.006", "2.0"), ("seed", "1")];
/// let thresholds = Thresholds::from_metadata(entries);
/// assert_eq!(thresholds.nearest(13, 0.005), Some(2.0));
/// assert_eq!(thresholds.nearest(9, 0.001), Some(1.5));
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Thresholds {
    known: Vec<(u32, f64, f32)>,
}

impl Thresholds {
    /// The thresholds among a model's metadata; other entries, and unreadable ones, are skipped.
    pub fn from_metadata<'a>(entries: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let read = |(key, value): (&str, &str)| {
            let (distance, p) = key.strip_prefix("predecoder.threshold.d")?.split_once(".p")?;
            let (p, threshold): (f64, f32) = (p.parse().ok()?, value.parse().ok()?);
            (p > 0.0 && p < 1.0 && threshold.is_finite()).then_some((distance.parse().ok()?, p, threshold))
        };
        Self { known: entries.into_iter().filter_map(read).collect() }
    }

    /// Each threshold, as distance, noise and threshold.
    pub fn known(&self) -> &[(u32, f64, f32)] {
        &self.known
    }

    /// The threshold of the nearest noise (by ratio), and among these of the nearest distance; `None` if none is known.
    pub fn nearest(&self, distance: u32, p: f64) -> Option<f32> {
        let p = p.clamp(1e-9, 1.0);
        let far = |&&(d, known, _): &&(u32, f64, f32)| (libm::log(known / p).abs(), d.abs_diff(distance));
        let order = |a: &(f64, u32), b: &(f64, u32)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1));
        self.known.iter().min_by(|a, b| order(&far(a), &far(b))).map(|&(_, _, threshold)| threshold)
    }
}
