//! CSS codes: X checks, Z checks and the pairs of logical operators that follow from them.

use super::Basis;
use super::gf2::{BitVector, RowSpace};
use crate::QecError;

/// The most data qubits of a [`CssCode`]: its algebra takes time in proportion to their cube.
pub const MAX_CSS_QUBITS: u32 = 4096;

/// A Calderbank-Shor-Steane code, given by its checks.
///
/// The logical operators are found by linear algebra over GF(2): those of basis X span the operators that commute with all Z
/// checks, modulo products of X checks, and likewise for Z. Logical X `i` anticommutes with logical Z `i` and commutes with every
/// other one, so index `i` names one logical qubit in both bases.
///
/// ```
/// use ringcall_qec::code::{Basis, CssCode};
/// // The Steane code: one logical qubit in seven.
/// let checks = [vec![0, 1, 2, 3], vec![1, 2, 4, 5], vec![2, 3, 5, 6]];
/// let code = CssCode::new(7, &checks, &checks)?;
/// assert_eq!((code.num_data(), code.num_logical()), (7, 1));
/// let overlap = code.logical(Basis::X)[0].iter().filter(|data| code.logical(Basis::Z)[0].contains(data)).count();
/// assert_eq!(overlap % 2, 1);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CssCode {
    num_data: u32,
    /// Checks of basis X, then of basis Z, as sorted data qubits.
    checks: [Vec<Vec<u32>>; 2],
    logical: [Vec<Vec<u32>>; 2],
}

fn index(basis: Basis) -> usize {
    match basis {
        Basis::X => 0,
        Basis::Z => 1,
    }
}

impl CssCode {
    /// The code of these checks, each a list of data qubits below `num_data`.
    ///
    /// # Errors
    /// [`QecError::Code`] for more than [`MAX_CSS_QUBITS`] data qubits, a check that names a qubit out of range or
    /// twice, and an X check that anticommutes with a Z check.
    pub fn new(
        num_data: u32,
        x_checks: &[impl AsRef<[u32]>],
        z_checks: &[impl AsRef<[u32]>],
    ) -> Result<Self, QecError> {
        let fail = |reason: String| Err(QecError::Code { reason });
        if num_data > MAX_CSS_QUBITS {
            return fail(format!("{num_data} data qubits: give at most {MAX_CSS_QUBITS}"));
        }
        let sorted = |check: &[u32]| {
            let mut check = check.to_vec();
            check.sort_unstable();
            check
        };
        let checks = [
            x_checks.iter().map(|check| sorted(check.as_ref())).collect::<Vec<_>>(),
            z_checks.iter().map(|check| sorted(check.as_ref())).collect::<Vec<_>>(),
        ];
        for basis in Basis::BOTH {
            for (number, check) in checks[index(basis)].iter().enumerate() {
                if let Some(data) = check.last().filter(|&&data| data >= num_data) {
                    return fail(format!("{basis} check {number} names data qubit {data} of {num_data}"));
                }
                if let Some(pair) = check.windows(2).find(|pair| pair[0] == pair[1]) {
                    return fail(format!("{basis} check {number} names data qubit {} twice", pair[0]));
                }
            }
        }
        let len = num_data as usize;
        let [x, z] = checks
            .each_ref()
            .map(|checks| checks.iter().map(|check| BitVector::of(len, check)).collect::<Vec<BitVector>>());
        for (number, x) in x.iter().enumerate() {
            if let Some(other) = z.iter().position(|z| z.dot(x)) {
                return fail(format!("X check {number} anticommutes with Z check {other}"));
            }
        }
        let [x, z] = [RowSpace::of(len, &x), RowSpace::of(len, &z)];
        let [mut logical_x, mut logical_z] = [quotient(&z, x.clone()), quotient(&x, z)];
        pair_up(&mut logical_x, &mut logical_z);
        let logical = [logical_x, logical_z].map(|all| all.iter().map(BitVector::ones).collect());
        Ok(Self { num_data, checks, logical })
    }

    /// Data qubits, `n`.
    pub fn num_data(&self) -> u32 {
        self.num_data
    }

    /// Logical qubits, `k`.
    pub fn num_logical(&self) -> u32 {
        self.logical[0].len() as u32
    }

    /// The checks of one basis, each a sorted list of data qubits.
    pub fn checks(&self, basis: Basis) -> &[Vec<u32>] {
        &self.checks[index(basis)]
    }

    /// The logical operators of one basis, one for each logical qubit, each a sorted list of data qubits.
    pub fn logical(&self, basis: Basis) -> &[Vec<u32>] {
        &self.logical[index(basis)]
    }
}

/// Vectors orthogonal to `others` that, together with `own`, span all such vectors.
fn quotient(others: &RowSpace, mut own: RowSpace) -> Vec<BitVector> {
    others.kernel().into_iter().filter(|vector| own.insert(vector)).collect()
}

/// Changes the basis `z` so that `x[i]` and `z[j]` have an odd overlap exactly if `i == j`. The matrix of overlaps of two bases
/// of logical operators is invertible, so a partner is always found.
fn pair_up(x: &mut [BitVector], z: &mut [BitVector]) {
    for (at, x) in x.iter().enumerate() {
        if let Some(partner) = (at..z.len()).find(|&other| z[other].dot(x)) {
            z.swap(at, partner);
        }
        let own = z[at].clone();
        let others = z.iter_mut().enumerate().filter(|&(other, _)| other != at);
        others.filter(|(_, z)| z.dot(x)).for_each(|(_, z)| z.add(&own));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_of_checks_are_named() {
        let reason = |x: &[Vec<u32>], z: &[Vec<u32>]| CssCode::new(3, x, z).unwrap_err().to_string();
        assert!(reason(&[vec![0, 3]], &[]).contains("X check 0 names data qubit 3 of 3"));
        assert!(reason(&[], &[vec![0], vec![2, 1, 2]]).contains("Z check 1 names data qubit 2 twice"));
        assert!(reason(&[vec![0, 1]], &[vec![1, 2]]).contains("X check 0 anticommutes with Z check 0"));
        let none: [Vec<u32>; 0] = [];
        assert!(CssCode::new(MAX_CSS_QUBITS + 1, &none, &none).is_err());
    }

    #[test]
    fn qubits_without_checks_are_logical_themselves() {
        let none: [Vec<u32>; 0] = [];
        let code = CssCode::new(2, &none, &none).unwrap();
        assert_eq!(code.logical(Basis::X), [[0], [1]]);
        assert_eq!(code.logical(Basis::Z), [[0], [1]]);
    }
}
