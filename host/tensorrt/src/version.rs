//! TensorRT versions, of a library and of headers.

use crate::ffi::sys;
use std::fmt;

/// NVIDIA's two lines of releases, each with its own versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Product {
    /// TensorRT: builds for the GPU that is there.
    Enterprise,
    /// TensorRT-RTX: builds for any RTX GPU, on any machine.
    Rtx,
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Enterprise => "TensorRT",
            Self::Rtx => "TensorRT-RTX",
        })
    }
}

/// A release, such as `TensorRT 11.4.0.106`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Version {
    /// Whose numbers the others are.
    pub product: Product,
    /// Major, minor, patch and build number.
    pub numbers: [u32; 4],
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [major, minor, patch, build] = self.numbers;
        write!(f, "{} {major}.{minor}.{patch}.{build}", self.product)
    }
}

/// The first major version of TensorRT's own that is supported; TensorRT-RTX counts from 1, and is far from it.
const OLDEST_MAJOR: u32 = 10;

impl Version {
    /// What a library says of itself; none for one that is too old.
    pub(crate) fn of_library(numbers: [u32; 4]) -> Option<Self> {
        let product = match numbers[0] {
            1 => Product::Rtx,
            major if major >= OLDEST_MAJOR => Product::Enterprise,
            _ => return None,
        };
        Some(Self { product, numbers })
    }

    /// What `NvInferVersion.h` says; none where it does not say it in a way known here.
    pub(crate) fn of_header(text: &str) -> Option<Self> {
        let number = |names: [&str; 3]| {
            names.iter().find_map(|name| {
                text.lines().find_map(|line| {
                    let mut words = line.split_whitespace();
                    (words.next() == Some("#define") && words.next() == Some(name))
                        .then(|| words.next())??
                        .parse()
                        .ok()
                })
            })
        };
        let rtx = text.contains("#define TRT_MAJOR_RTX");
        let mut numbers = [0; 4];
        for (slot, part) in numbers.iter_mut().zip(["MAJOR", "MINOR", "PATCH", "BUILD"]) {
            let own = format!("TRT_{part}_{}", if rtx { "RTX" } else { "ENTERPRISE" });
            let plain = format!("NV_TENSORRT_{part}");
            *slot = number([&own, &plain, &own])?;
        }
        Some(Self { product: if rtx { Product::Rtx } else { Product::Enterprise }, numbers })
    }

    /// Whether code compiled with headers of this version may call a library of version `library`.
    ///
    /// TensorRT keeps its interface within a major version, where methods are added alone; TensorRT-RTX changes numbers of
    /// flags from one minor version to the next.
    pub(crate) fn may_call(self, library: Self) -> bool {
        let [major, minor, ..] = self.numbers;
        self.product == library.product
            && major == library.numbers[0]
            && match self.product {
                Product::Enterprise => minor <= library.numbers[1],
                Product::Rtx => minor == library.numbers[1],
            }
    }

    pub(crate) fn of_shim(raw: sys::ringcall_trt_version) -> Self {
        let product =
            if raw.product == sys::RINGCALL_TRT_RTX as i32 { Product::Rtx } else { Product::Enterprise };
        let numbers = [raw.major, raw.minor, raw.patch, raw.build].map(|number| number.max(0).unsigned_abs());
        Self { product, numbers }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn version(product: Product, major: u32, minor: u32) -> Version {
        Version { product, numbers: [major, minor, 0, 0] }
    }

    #[test]
    fn headers_of_either_product_are_read() {
        let text = "#define TRT_MAJOR_RTX 1\n#define TRT_MINOR_RTX 7\n#define TRT_PATCH_RTX 1\n\
                    #define TRT_BUILD_RTX 116\n#define NV_TENSORRT_MAJOR TRT_MAJOR_RTX //!< words\n";
        assert_eq!(Version::of_header(text).expect("read").to_string(), "TensorRT-RTX 1.7.1.116");
        let text = "#define NV_TENSORRT_MAJOR 10 //!< TensorRT major version.\n#define NV_TENSORRT_MINOR 9\n\
                    #define NV_TENSORRT_PATCH 0\n#define NV_TENSORRT_BUILD 34\n";
        assert_eq!(Version::of_header(text).expect("read").to_string(), "TensorRT 10.9.0.34");
        assert_eq!(Version::of_header("#define NV_TENSORRT_MAJOR SOMETHING\n"), None);
    }

    #[test]
    fn a_library_says_which_product_it_is_by_its_number() {
        assert_eq!(Version::of_library([1, 7, 1, 116]).map(|v| v.product), Some(Product::Rtx));
        assert_eq!(Version::of_library([11, 4, 0, 106]).map(|v| v.product), Some(Product::Enterprise));
        assert_eq!(Version::of_library([8, 6, 1, 6]), None);
    }

    #[test]
    fn older_headers_of_a_major_version_do_for_tensorrt_and_only_the_same_ones_for_rtx() {
        use Product::{Enterprise, Rtx};
        assert!(version(Enterprise, 11, 2).may_call(version(Enterprise, 11, 4)));
        assert!(!version(Enterprise, 11, 5).may_call(version(Enterprise, 11, 4)));
        assert!(!version(Enterprise, 10, 4).may_call(version(Enterprise, 11, 4)));
        assert!(version(Rtx, 1, 7).may_call(version(Rtx, 1, 7)));
        assert!(!version(Rtx, 1, 6).may_call(version(Rtx, 1, 7)));
        assert!(!version(Rtx, 1, 4).may_call(version(Enterprise, 11, 4)));
    }
}
