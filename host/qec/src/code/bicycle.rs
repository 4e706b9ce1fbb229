//! Bivariate bicycle codes: quantum low-density parity-check codes on a torus with checks of weight six.
//!
//! From *High-threshold and low-overhead fault-tolerant quantum memory* (Bravyi, Cross, Gambetta, Maslov, Rall and Yoder,
//! Nature 627, 778 (2024), arXiv:2308.07915). With `x` and `y` the cyclic shifts of an `l` by `m` torus, `x^l = y^m = 1`, and
//! two sums of three monomials `A = A1 + A2 + A3` and `B = B1 + B2 + B3`, the check matrices are `H_X = [A | B]` and
//! `H_Z = [B^T | A^T]`.

use super::{Basis, CssCode, MAX_CSS_QUBITS};
use crate::QecError;

/// A monomial `x^a y^b` as its exponents `(a, b)`.
pub type Monomial = (u32, u32);

/// A sum of three monomials.
pub type Polynomial = [Monomial; 3];

/// Name, `l`, `m`, `A` and `B` of the codes `[[72,12,6]]`, `[[144,12,12]]` (the gross code) and `[[288,12,18]]` of the paper.
pub const BICYCLE_CODES: [(&str, u32, u32, Polynomial, Polynomial); 3] = [
    ("bb72", 6, 6, [(3, 0), (0, 1), (0, 2)], [(0, 3), (1, 0), (2, 0)]),
    ("bb144", 12, 6, [(3, 0), (0, 1), (0, 2)], [(0, 3), (1, 0), (2, 0)]),
    ("bb288", 12, 12, [(3, 0), (0, 2), (0, 7)], [(0, 3), (1, 0), (2, 0)]),
];

/// A bivariate bicycle code: `2 l m` data qubits, `l m` checks of each basis.
///
/// Data qubits are numbered `u m + v` for place `(u, v)` of the left half and `l m + u m + v` of the right half; check
/// `u m + v` of either basis belongs to place `(u, v)`.
///
/// ```
/// use ringcall_qec::code::{Basis, BicycleCode};
/// let gross = BicycleCode::named("bb144")?;
/// assert_eq!((gross.css().num_data(), gross.css().num_logical()), (144, 12));
/// assert_eq!(gross.css().checks(Basis::X)[0], [1, 2, 18, 75, 78, 84]);
/// # Ok::<(), ringcall_qec::QecError>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BicycleCode {
    l: u32,
    m: u32,
    a: Polynomial,
    b: Polynomial,
    css: CssCode,
}

impl BicycleCode {
    /// The code of the torus `l` by `m` and the monomials of `A` and `B`, in the order in which the schedule of its
    /// syndrome circuit uses them.
    ///
    /// # Errors
    /// [`QecError::Code`] for a torus without places or with more than [`MAX_CSS_QUBITS`] / 2 places, and for a polynomial that
    /// names a monomial twice.
    pub fn new(l: u32, m: u32, a: Polynomial, b: Polynomial) -> Result<Self, QecError> {
        let fail = |reason: String| Err(QecError::Code { reason });
        let places = l.saturating_mul(m);
        if places == 0 || places > MAX_CSS_QUBITS / 2 {
            return fail(format!("a torus of {l} by {m}: give 1 to {} places", MAX_CSS_QUBITS / 2));
        }
        let [a, b] = [a, b].map(|polynomial| polynomial.map(|(x, y)| (x % l, y % m)));
        for (name, [one, two, three]) in [("A", a), ("B", b)] {
            if one == two || two == three || three == one {
                return fail(format!("{name} names a monomial twice on the torus of {l} by {m}"));
            }
        }
        let torus = Torus { l, m };
        let check = |basis: Basis, place: u32| {
            let left = torus.neighbours(place, basis, a, b);
            let right = torus.neighbours(place, basis, b, a);
            left.into_iter().chain(right.map(|data| places + data)).collect::<Vec<u32>>()
        };
        let [x, z] =
            Basis::BOTH.map(|basis| (0..places).map(|place| check(basis, place)).collect::<Vec<_>>());
        Ok(Self { l, m, a, b, css: CssCode::new(2 * places, &x, &z)? })
    }

    /// One of [`BICYCLE_CODES`].
    ///
    /// # Errors
    /// [`QecError::Configuration`] lists the known names.
    pub fn named(name: &str) -> Result<Self, QecError> {
        match BICYCLE_CODES.iter().find(|(known, ..)| *known == name) {
            Some(&(_, l, m, a, b)) => Self::new(l, m, a, b),
            None => Err(QecError::Configuration {
                name: name.to_owned(),
                known: BICYCLE_CODES.map(|(known, ..)| known).join(", "),
            }),
        }
    }

    /// Checks and logical operators.
    pub fn css(&self) -> &CssCode {
        &self.css
    }

    /// The sides of the torus, `(l, m)`.
    pub fn torus(&self) -> (u32, u32) {
        (self.l, self.m)
    }

    /// Places of the torus, `l m`: the checks of one basis, and half of the data qubits.
    pub fn places(&self) -> u32 {
        self.l * self.m
    }

    /// The data qubits of check `place` by the monomial that reaches each: `A1`, `A2`, `A3` (their transposes for a Z check),
    /// then `B1`, `B2`, `B3`. The left half belongs to `A` in X checks and to `B` in Z checks.
    pub fn by_monomial(&self, basis: Basis, place: u32) -> [[u32; 3]; 2] {
        let torus = Torus { l: self.l, m: self.m };
        let [a, b] = [self.a, self.b].map(|polynomial| torus.shifted(place, basis, polynomial));
        let right = |data: [u32; 3]| data.map(|data| self.places() + data);
        match basis {
            Basis::X => [a, right(b)],
            Basis::Z => [right(a), b],
        }
    }
}

#[derive(Clone, Copy)]
struct Torus {
    l: u32,
    m: u32,
}

impl Torus {
    /// The places that the monomials of a polynomial lead to: forwards from an X check, backwards from a Z check.
    fn shifted(self, place: u32, basis: Basis, polynomial: Polynomial) -> [u32; 3] {
        let Self { l, m } = self;
        let (u, v) = (place / m, place % m);
        polynomial.map(|(x, y)| match basis {
            Basis::X => (u + x) % l * m + (v + y) % m,
            Basis::Z => (u + l - x) % l * m + (v + m - y) % m,
        })
    }

    /// The neighbours of a place in a half: by polynomial `x` in X checks, `z` in Z checks.
    fn neighbours(self, place: u32, basis: Basis, x: Polynomial, z: Polynomial) -> [u32; 3] {
        self.shifted(place, basis, if basis == Basis::X { x } else { z })
    }
}
