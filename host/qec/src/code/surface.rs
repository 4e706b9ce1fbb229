//! The rotated surface code: checks, logical operators, coordinates and gate schedule.
//!
//! The layout is that of Stim's `surface_code:rotated_memory_*` circuits: data qubit `y * d + x` is at `(2x + 1, 2y + 1)`, checks
//! are at points with two even coordinates in `0..=2d`. Weight-2 X checks lie along the top and bottom, weight-2 Z checks along
//! the left and right. The logical X operator is the left column, the logical Z operator the top row.

use super::Basis;
use crate::QecError;
use crate::limits::MAX_DISTANCE;

/// Offset from a check to its data qubit in each of the four layers of two-qubit gates. The two orders differ so that an error of
/// the ancilla half way through (a hook) lies across the logical operator, not along it.
const X_SCHEDULE: [(i64, i64); 4] = [(1, 1), (-1, 1), (1, -1), (-1, -1)];
const Z_SCHEDULE: [(i64, i64); 4] = [(1, 1), (1, -1), (-1, 1), (-1, -1)];

/// One check: the product of one Pauli over its data qubits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stabilizer {
    /// X or Z.
    pub basis: Basis,
    /// Position `(x, y)`, both even.
    pub position: (u32, u32),
    /// Its data qubits, sorted: 2 at the edge, 4 inside.
    pub support: Vec<u32>,
    /// Its data qubit in each of the four layers of two-qubit gates, `None` where the lattice ends.
    pub schedule: [Option<u32>; 4],
}

/// The rotated surface code of one distance: `d * d` data qubits, `(d * d - 1) / 2` checks of each basis.
///
/// ```
/// use ringcall_qec::code::{Basis, SurfaceCode};
/// let code = SurfaceCode::new(3)?;
/// assert_eq!(code.num_data(), 9);
/// assert_eq!(code.check_matrix(Basis::Z), [&[0, 1, 3, 4][..], &[2, 5], &[3, 6], &[4, 5, 7, 8]]);
/// assert_eq!(code.logical(Basis::X), [0, 3, 6]);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SurfaceCode {
    distance: u32,
    x: Vec<Stabilizer>,
    z: Vec<Stabilizer>,
}

impl SurfaceCode {
    /// Builds the code of `distance`.
    ///
    /// # Errors
    /// [`QecError::Distance`] unless `distance` is odd and in `3..=MAX_DISTANCE`.
    pub fn new(distance: u32) -> Result<Self, QecError> {
        if distance.is_multiple_of(2) || !(3..=MAX_DISTANCE).contains(&distance) {
            return Err(QecError::Distance { distance });
        }
        let mut code = Self { distance, x: Vec::new(), z: Vec::new() };
        // Row by row, which is also the order of measurement in the memory circuit.
        for y in 0..=distance {
            for x in 0..=distance {
                let basis = if (x + y) % 2 == 1 { Basis::X } else { Basis::Z };
                let at_side = x == 0 || x == distance;
                let at_top_or_bottom = y == 0 || y == distance;
                if (at_side && basis == Basis::X) || (at_top_or_bottom && basis == Basis::Z) {
                    continue;
                }
                let stabilizer = Stabilizer::new(basis, (2 * x, 2 * y), distance);
                match basis {
                    Basis::X => code.x.push(stabilizer),
                    Basis::Z => code.z.push(stabilizer),
                }
            }
        }
        Ok(code)
    }

    /// The distance `d`.
    pub fn distance(&self) -> u32 {
        self.distance
    }

    /// Number of data qubits: `d * d`.
    pub fn num_data(&self) -> u32 {
        self.distance * self.distance
    }

    /// Number of checks of one basis: `(d * d - 1) / 2`.
    pub fn num_stabilizers(&self, basis: Basis) -> u32 {
        self.stabilizers(basis).len() as u32
    }

    /// The checks of one basis, row by row (`y`, then `x`).
    pub fn stabilizers(&self, basis: Basis) -> &[Stabilizer] {
        match basis {
            Basis::X => &self.x,
            Basis::Z => &self.z,
        }
    }

    /// The check matrix of one basis as sparse rows: row `i` lists the data qubits of check `i`, sorted.
    /// `H_x` (`Basis::X`) sees Z errors, `H_z` (`Basis::Z`) sees X errors.
    pub fn check_matrix(&self, basis: Basis) -> Vec<&[u32]> {
        self.stabilizers(basis).iter().map(|check| check.support.as_slice()).collect()
    }

    /// The check matrix of one basis as sparse columns: entry `q` lists the one or two checks on data qubit `q`, which are the
    /// ends of the edge (or boundary edge) of an error on `q` in a matching graph.
    pub fn checks_on_data(&self, basis: Basis) -> Vec<Vec<u32>> {
        let mut columns = vec![Vec::with_capacity(2); self.num_data() as usize];
        for (index, check) in (0..).zip(self.stabilizers(basis)) {
            for &data in &check.support {
                columns[data as usize].push(index);
            }
        }
        columns
    }

    /// The data qubits that only one check of `basis` sees, sorted: where the matching graph of that basis meets
    /// its boundary. Left and right columns for X checks, top and bottom rows for Z checks.
    pub fn boundary(&self, basis: Basis) -> Vec<u32> {
        let on_data = self.checks_on_data(basis);
        (0..).zip(on_data).filter(|(_, checks)| checks.len() == 1).map(|(data, _)| data).collect()
    }

    /// The data qubits of the logical operator of one basis, sorted: the left column for X, the top row for Z.
    pub fn logical(&self, basis: Basis) -> Vec<u32> {
        match basis {
            Basis::X => (0..self.distance).map(|y| y * self.distance).collect(),
            Basis::Z => (0..self.distance).collect(),
        }
    }

    /// Position `(x, y)` of a data qubit, both odd; `None` when there is no such qubit.
    pub fn data_position(&self, data: u32) -> Option<(u32, u32)> {
        (data < self.num_data()).then(|| (2 * (data % self.distance) + 1, 2 * (data / self.distance) + 1))
    }
}

impl Stabilizer {
    fn new(basis: Basis, position: (u32, u32), distance: u32) -> Self {
        let offsets = match basis {
            Basis::X => X_SCHEDULE,
            Basis::Z => Z_SCHEDULE,
        };
        let schedule = offsets.map(|(dx, dy)| {
            let (x, y) = (i64::from(position.0) + dx, i64::from(position.1) + dy);
            let inside = 0..2 * i64::from(distance);
            (inside.contains(&x) && inside.contains(&y)).then(|| (y / 2) as u32 * distance + (x / 2) as u32)
        });
        let mut support: Vec<u32> = schedule.iter().flatten().copied().collect();
        support.sort_unstable();
        Self { basis, position, support, schedule }
    }
}
