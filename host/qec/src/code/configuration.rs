//! The named configurations of the decoding pipeline and the sizes that follow from distance and rounds.

use super::{Basis, MAX_DISTANCE};
use crate::QecError;

/// Bytes of request header, response header and answer (24 + 24 + 8), which share a slot with the measurements.
const SLOT_OVERHEAD: usize = 56;

/// Slots are whole pages, so that each can be mapped and registered by itself.
const SMALLEST_SLOT: usize = 4096;

/// One pipeline configuration; all other sizes follow from its distance and rounds.
///
/// ```
/// use ringcall_qec::code::Configuration;
/// let d13 = Configuration::named("d13")?;
/// assert_eq!(d13.input_shape(), [1, 252, 13]);
/// assert_eq!((d13.residual_detectors(), d13.z_stabilizers(), d13.spatial_slices()), (2184, 84, 26));
/// assert_eq!(d13.slot_size(), 16384);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Configuration {
    /// Its name, for example `d13_r104`.
    pub name: String,
    /// Code distance `d`, odd.
    pub distance: u32,
    /// Rounds `T` of syndrome extraction.
    pub rounds: u32,
    /// Basis of the memory experiment that the network was trained for.
    pub basis: Basis,
}

/// Name, distance, rounds and basis of every named configuration.
pub const CONFIGURATIONS: [(&str, u32, u32, Basis); 6] = [
    ("d7", 7, 7, Basis::Z),
    ("d13", 13, 13, Basis::Z),
    ("d21", 21, 21, Basis::X),
    ("d31", 31, 31, Basis::Z),
    ("d13_r104", 13, 104, Basis::X),
    ("d21_r42", 21, 42, Basis::X),
];

impl Configuration {
    /// Builds a configuration outside the named ones, with the name `d{distance}_r{rounds}`.
    ///
    /// # Errors
    /// [`QecError::Distance`] unless `distance` is odd and in `3..=MAX_DISTANCE`, [`QecError::Rounds`] unless
    /// `rounds` is in `1..=max_rounds(distance)`.
    pub fn new(distance: u32, rounds: u32, basis: Basis) -> Result<Self, QecError> {
        if distance.is_multiple_of(2) || !(3..=MAX_DISTANCE).contains(&distance) {
            return Err(QecError::Distance { distance });
        }
        crate::circuit::check_rounds(distance, rounds)?;
        Ok(Self { name: format!("d{distance}_r{rounds}"), distance, rounds, basis })
    }

    /// Finds a named configuration. `d13_T104` is taken for `d13_r104`.
    ///
    /// # Errors
    /// [`QecError::Configuration`] lists the known names.
    pub fn named(name: &str) -> Result<Self, QecError> {
        let wanted = name.replace("_T", "_r");
        CONFIGURATIONS
            .iter()
            .find(|(known, ..)| *known == wanted)
            .map(|&(name, distance, rounds, basis)| Self { name: name.to_owned(), distance, rounds, basis })
            .ok_or_else(|| QecError::Configuration {
                name: name.to_owned(),
                known: CONFIGURATIONS.map(|(known, ..)| known).join(", "),
            })
    }

    /// Every named configuration.
    pub fn all() -> impl Iterator<Item = Self> {
        CONFIGURATIONS.into_iter().map(|(name, distance, rounds, basis)| Self {
            name: name.to_owned(),
            distance,
            rounds,
            basis,
        })
    }

    /// Shape of the network's input: batch, rows, rounds: `[1, 3 (d * d - 1) / 2, T]`.
    pub fn input_shape(&self) -> [usize; 3] {
        [1, 3 * self.z_stabilizers(), self.rounds as usize]
    }

    /// Bytes of one input, a 4-byte integer per element.
    pub fn input_bytes(&self) -> usize {
        4 * self.input_shape().iter().product::<usize>()
    }

    /// Detectors that the network leaves to matching: `(d * d - 1) T`.
    pub fn residual_detectors(&self) -> usize {
        2 * self.z_stabilizers() * self.rounds as usize
    }

    /// Z checks of the code, which is also the detectors of one slice: `(d * d - 1) / 2`.
    pub fn z_stabilizers(&self) -> usize {
        let distance = self.distance as usize;
        (distance * distance - 1) / 2
    }

    /// Slices of [`z_stabilizers`](Self::z_stabilizers) detectors each that per-slice decoding matches: `2 T`.
    pub fn spatial_slices(&self) -> usize {
        2 * self.rounds as usize
    }

    /// Bytes of a ring slot: the smallest power of two, at least a page, that holds headers, input and answer.
    pub fn slot_size(&self) -> usize {
        (self.input_bytes() + SLOT_OVERHEAD).next_power_of_two().max(SMALLEST_SLOT)
    }
}
