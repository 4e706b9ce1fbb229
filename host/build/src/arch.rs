//! GPU architectures, by compute capability.

use std::fmt;
use std::str::FromStr;

/// A GPU architecture that device code is compiled for: `sm_90` is compute capability 9.0.
///
/// PTX runs on its own architecture and on every later one.
///
/// ```
/// use ringcall_build::Arch;
///
/// let arch: Arch = "sm_90".parse()?;
/// assert_eq!(arch.capability(), 90);
/// assert_eq!(arch.to_string(), "sm_90");
/// assert!("sm_35".parse::<Arch>().is_err());
/// # Ok::<(), ringcall_build::UnknownArch>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Arch {
    capability: u32,
    ptx: u32,
}

/// Compute capability, and the first version of PTX that both knows it and has what device code here uses. The version
/// decides which drivers accept the text, so it is no newer than it must be.
const KNOWN: &[(u32, u32)] = &[
    (80, 80),
    (86, 80),
    (87, 80),
    (89, 80),
    (90, 86),
    (100, 86),
    (101, 86),
    (103, 88),
    (110, 90),
    (120, 87),
    (121, 88),
];

/// An architecture that is not in the table.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is no architecture known here; known are {known}")]
pub struct UnknownArch {
    given: String,
    known: String,
}

impl Arch {
    /// A100 and what came with it; the oldest that is supported.
    pub const SM_80: Self = Self { capability: 80, ptx: 80 };
    /// H100, H200.
    pub const SM_90: Self = Self { capability: 90, ptx: 86 };
    /// B200.
    pub const SM_100: Self = Self { capability: 100, ptx: 86 };
    /// The architectures that are built by default: a later device takes the text of the newest architecture
    /// before its own, and the text of `sm_100` would equal the text of `sm_90` but for register numbers.
    pub const DEFAULT: [Self; 2] = [Self::SM_80, Self::SM_90];

    /// Compute capability times ten: 90 is 9.0.
    #[must_use]
    pub fn capability(self) -> u32 {
        self.capability
    }

    /// The version of PTX that is written, times ten: 86 is 8.6.
    #[must_use]
    pub fn ptx_version(self) -> u32 {
        self.ptx
    }
}

impl fmt::Display for Arch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "sm_{}", self.capability)
    }
}

impl FromStr for Arch {
    type Err = UnknownArch;

    fn from_str(text: &str) -> Result<Self, UnknownArch> {
        text.strip_prefix("sm_")
            .and_then(|digits| digits.parse::<u32>().ok())
            .and_then(|capability| KNOWN.iter().find(|(known, _)| *known == capability))
            .map(|&(capability, ptx)| Self { capability, ptx })
            .ok_or_else(|| UnknownArch {
                given: text.to_owned(),
                known: KNOWN.iter().map(|(c, _)| format!("sm_{c}")).collect::<Vec<_>>().join(", "),
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_constants_are_what_their_names_parse_to() {
        for (name, arch) in [("sm_80", Arch::SM_80), ("sm_90", Arch::SM_90), ("sm_100", Arch::SM_100)] {
            assert_eq!(name.parse::<Arch>().expect(name), arch);
        }
    }

    #[test]
    fn what_is_no_architecture_is_refused_with_the_list() {
        for given in ["90", "sm_", "sm_99", "sm_90a", "compute_90", "SM_90"] {
            let error = given.parse::<Arch>().expect_err(given).to_string();
            assert!(error.contains(given) && error.contains("sm_100"), "{error}");
        }
    }
}
