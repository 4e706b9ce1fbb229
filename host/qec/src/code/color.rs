//! The triangular colour code on hexagons (6.6.6) of any odd distance, with the layout of Stim's `color_code:memory_xyz`.
//!
//! Qubits lie on a triangle of the triangular lattice, `w = (3 d - 1) / 2` of them along each side: place `x` of row `y`, counted
//! from 0, has position `(x + y / 2, y)`. A place with `x + 2 y = 2` modulo 3 is the centre of a face, a hexagon or, at the
//! border, a part of one; all other places are data qubits. Each face is a check of X, of Z and so of Y as well. The logical
//! operators are the bottom row in any basis.

use crate::QecError;
use crate::limits::MAX_DISTANCE;

/// Offset from a face to its data qubit in each of six layers of two-qubit gates, in steps of half a place along `x`.
const SCHEDULE: [(i64, i64); 6] = [(2, 0), (1, 1), (1, -1), (-2, 0), (-1, 1), (-1, -1)];

/// A face: its data qubits are an X check, a Y check and a Z check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Face {
    /// The place of the face's centre.
    pub place: u32,
    /// Its data qubits, sorted: 4 at the border, 6 inside.
    pub support: Vec<u32>,
    /// The place of its data qubit in each of the six layers of two-qubit gates, `None` where the lattice ends.
    pub schedule: [Option<u32>; 6],
}

/// The triangular colour code of one distance: `(3 d^2 + 1) / 4` data qubits, half as many faces (less one half), one logical
/// qubit.
///
/// Places are numbered row by row over data qubits and faces; data qubits and faces are each numbered in the order of their
/// places.
///
/// ```
/// use ringcall_qec::code::{ColorCode, CssCode};
/// let code = ColorCode::new(3)?;
/// assert_eq!((code.num_data(), code.faces().len()), (7, 3));
/// assert_eq!(code.logical(), [0, 1, 2]);
/// let checks: Vec<_> = code.faces().iter().map(|face| face.support.clone()).collect();
/// assert_eq!(CssCode::new(7, &checks, &checks)?.num_logical(), 1);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ColorCode {
    distance: u32,
    /// Twice `x`, and `y`, of each place.
    positions: Vec<(i64, i64)>,
    /// The place of each data qubit.
    data: Vec<u32>,
    faces: Vec<Face>,
}

impl ColorCode {
    /// Builds the code of `distance`.
    ///
    /// # Errors
    /// [`QecError::Distance`] unless `distance` is odd and in `3..=MAX_DISTANCE`.
    pub fn new(distance: u32) -> Result<Self, QecError> {
        if distance.is_multiple_of(2) || !(3..=MAX_DISTANCE).contains(&distance) {
            return Err(QecError::Distance { distance });
        }
        let side = i64::from(distance + (distance - 1) / 2);
        // A row of places ends at the triangle's border; rows below have one more place each.
        let place_at = |(twice_x, y): (i64, i64)| {
            let x = (twice_x - y) / 2;
            let inside = (0..side).contains(&y) && twice_x >= y && x < side - y;
            inside.then(|| (y * side - y * (y - 1) / 2 + x) as u32)
        };
        let (mut positions, mut data, mut centres) = (Vec::new(), Vec::new(), Vec::new());
        for y in 0..side {
            for x in 0..side - y {
                let list = if (x + 2 * y) % 3 == 2 { &mut centres } else { &mut data };
                list.push(positions.len() as u32);
                positions.push((2 * x + y, y));
            }
        }
        let face = |place: u32| {
            let (twice_x, y) = positions[place as usize];
            let schedule = SCHEDULE.map(|(dx, dy)| place_at((twice_x + dx, y + dy)));
            // Every neighbour of a centre is a data qubit.
            let index = |place: &u32| data.partition_point(|other| other < place) as u32;
            let mut support: Vec<u32> = schedule.iter().flatten().map(index).collect();
            support.sort_unstable();
            Face { place, support, schedule }
        };
        let faces = centres.into_iter().map(face).collect();
        Ok(Self { distance, positions, data, faces })
    }

    /// The distance `d`.
    pub fn distance(&self) -> u32 {
        self.distance
    }

    /// Number of data qubits: `(3 d^2 + 1) / 4`.
    pub fn num_data(&self) -> u32 {
        self.data.len() as u32
    }

    /// The faces, row by row.
    pub fn faces(&self) -> &[Face] {
        &self.faces
    }

    /// The place of each data qubit.
    pub fn data_places(&self) -> &[u32] {
        &self.data
    }

    /// The data qubits of the logical operator of any basis, sorted: the bottom row.
    pub fn logical(&self) -> Vec<u32> {
        (0..self.distance).collect()
    }

    /// Position `(x, y)` of each place.
    pub fn positions(&self) -> impl Iterator<Item = (f64, f64)> {
        self.positions.iter().map(|&(twice_x, y)| (twice_x as f64 / 2.0, y as f64))
    }
}
