//! Inputs of the linker, checked before the driver sees them.

use crate::CudaError;
use cudarc::driver::sys::CUjitInputType;
use std::ffi::CString;

/// Kinds of modules.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Ptx,
    Cubin,
    Fatbin,
    Library,
}

impl Kind {
    pub(super) fn input_type(self) -> CUjitInputType {
        match self {
            Self::Ptx => CUjitInputType::CU_JIT_INPUT_PTX,
            Self::Cubin => CUjitInputType::CU_JIT_INPUT_CUBIN,
            Self::Fatbin => CUjitInputType::CU_JIT_INPUT_FATBINARY,
            Self::Library => CUjitInputType::CU_JIT_INPUT_LIBRARY,
        }
    }

    /// The first bytes of such data, and its name. PTX is text without fixed first bytes.
    fn magic(self) -> Option<(&'static [u8], &'static str)> {
        match self {
            Self::Ptx => None,
            Self::Cubin => Some((b"\x7FELF", "a cubin (an ELF file)")),
            Self::Fatbin => Some((b"\x50\xED\x55\xBA", "a fat binary")),
            Self::Library => Some((b"!<arch>\n", "a library of device code (an ar archive)")),
        }
    }
}

/// A module for the linker.
#[derive(Debug, Clone)]
pub(super) struct Input {
    pub(super) name: CString,
    pub(super) kind: Kind,
    pub(super) data: Vec<u8>,
}

impl Input {
    /// PTX text, checked against the device it is for.
    pub(super) fn ptx(name: &str, text: &str, capability: (u32, u32)) -> Result<Self, CudaError> {
        let refuse = |why: &str| refused(name, why);
        let c_name = c_name(name)?;
        let needs = target(text).ok_or_else(|| refuse("it is no PTX: there is no `.target sm_NN` in it"))?;
        if capability < needs {
            return Err(CudaError::TooOld { what: format!("module {name:?}"), needs, found: capability });
        }
        let data = CString::new(text).map_err(|_| refuse("the PTX has a NUL byte in it"))?;
        Ok(Self { name: c_name, kind: Kind::Ptx, data: data.into_bytes_with_nul() })
    }

    /// A binary, checked by its first bytes.
    pub(super) fn binary(name: &str, kind: Kind, data: &[u8]) -> Result<Self, CudaError> {
        let c_name = c_name(name)?;
        if let Some((magic, what)) = kind.magic()
            && !data.starts_with(magic)
        {
            return Err(refused(name, &format!("it is not {what}")));
        }
        Ok(Self { name: c_name, kind, data: data.to_vec() })
    }
}

fn refused(name: &str, why: &str) -> CudaError {
    CudaError::LinkInput { name: name.to_owned(), why: why.to_owned() }
}

fn c_name(name: &str) -> Result<CString, CudaError> {
    CString::new(name).map_err(|_| refused(name, "its name has a NUL character in it"))
}

/// The compute capability that PTX asks for: `.target sm_90a` is (9, 0).
fn target(text: &str) -> Option<(u32, u32)> {
    let line = text.lines().find_map(|line| line.trim_start().strip_prefix(".target"))?;
    let digits = line.trim_start().strip_prefix("sm_")?;
    let end = digits.find(|c: char| !c.is_ascii_digit()).unwrap_or(digits.len());
    let number: u32 = digits[..end].parse().ok()?;
    Some((number / 10, number % 10))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PTX: &str = "//\n.version 8.0\n.target sm_90a, debug\n.address_size 64\n";

    #[test]
    fn the_target_is_read_in_every_spelling() {
        assert_eq!(target(PTX), Some((9, 0)));
        assert_eq!(target("  .target  sm_75"), Some((7, 5)));
        assert_eq!(target(".target sm_103f\n"), Some((10, 3)));
        assert_eq!(target(".target compute_90"), None);
        assert_eq!(target(".target sm_"), None);
        assert_eq!(target("int main() {}"), None);
    }

    #[test]
    fn ptx_for_a_newer_device_is_refused() {
        assert!(Input::ptx("a", PTX, (9, 0)).is_ok());
        assert!(Input::ptx("a", PTX, (10, 0)).is_ok());
        let error = Input::ptx("a", PTX, (8, 9)).unwrap_err();
        assert_eq!(
            error,
            CudaError::TooOld { what: "module \"a\"".to_owned(), needs: (9, 0), found: (8, 9) }
        );
    }

    #[test]
    fn nul_characters_are_refused_and_a_terminator_is_added() {
        let error = Input::ptx("a\0b", PTX, (9, 0)).unwrap_err().to_string();
        assert!(error.contains("name has a NUL"), "{error}");
        let error = Input::ptx("a", &format!("{PTX}\0"), (9, 0)).unwrap_err().to_string();
        assert!(error.contains("NUL byte"), "{error}");
        let error = Input::binary("a\0b", Kind::Cubin, b"\x7FELF").unwrap_err().to_string();
        assert!(error.contains("name has a NUL"), "{error}");
        let input = Input::ptx("a", PTX, (9, 0)).expect("valid");
        assert_eq!(input.data.last(), Some(&0));
    }

    #[test]
    fn data_of_another_kind_is_refused() {
        assert!(Input::ptx("a", "hello", (9, 0)).is_err());
        assert!(Input::binary("a", Kind::Cubin, PTX.as_bytes()).is_err());
        assert!(Input::binary("a", Kind::Fatbin, b"\x7FELF").is_err());
        assert!(Input::binary("a", Kind::Library, b"").is_err());
        assert!(Input::binary("a", Kind::Library, b"!<arch>\nrest").is_ok());
        assert!(Input::binary("a", Kind::Fatbin, &[0x50, 0xED, 0x55, 0xBA, 1, 0]).is_ok());
    }
}
