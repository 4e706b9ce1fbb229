//! Shots and their files: Stim's six result formats, `01`, `b8`, `r8`, `ptb64`, `hits` and `dets`, in and out.
//!
//! A [`Shot`] is the result of one run of an experiment: measurements, detectors and observables, each a row of [`BitRow`]; a
//! [`ShotLayout`] says how many of each, in this order. Files have no header, so the reader must know the layout. Stim's
//! `--append_observables` and PyMatching's `--in_includes_appended_observables` mean a layout with detectors *and* observables;
//! without the flag a file has no observables.
//!
//! | format | one shot | end of a shot |
//! |---|---|---|
//! | `01` | one character per bit | newline |
//! | `b8` | bits packed least significant first, padded with zeros to whole bytes | none: the length is fixed |
//! | `r8` | the number of zeros before each 1 as a byte, 255 standing for 255 zeros without a 1; a virtual 1 follows the last bit | the byte of the virtual 1 |
//! | `ptb64` | 64 shots together: for each bit an 8-byte word, little-endian, whose bit `i` is shot `i`'s | none: a file has a multiple of 64 shots |
//! | `hits` | the indices of the bits that are 1, with commas between them | newline |
//! | `dets` | `shot`, then a space and `M3`, `D5` or `L0` for each bit that is 1 | newline |
//!
//! The formats are described in Stim's documentation (`doc/result_formats.md`). This reader is stricter than Stim's
//! where leniency hides damage: padding bits must be 0, an index may not repeat within a line, indices of `hits` ascend, and the
//! last line of a `dets` or `hits` file must end with a newline (`shot D1` may be half of `shot D12`).
//!
//! ```
//! use ringcall_qec::shots::{Shot, ShotFormat, ShotLayout, ShotReader, ShotWriter};
//!
//! let layout = ShotLayout::with_observables(5, 1);
//! let mut reader = ShotReader::new(&b"shot D0 D4 L0\nshot\n"[..], ShotFormat::Dets, layout)?;
//! let mut writer = ShotWriter::new(Vec::new(), ShotFormat::Text01, layout)?;
//! let mut shot = Shot::new(layout);
//! while reader.read(&mut shot)? {
//!     writer.write(&shot)?;
//! }
//! assert_eq!(writer.finish()?, b"100011\n000000\n");
//! # Ok::<(), ringcall_qec::shots::ShotError>(())
//! ```

mod bits;
mod error;
mod group;
mod reader;
mod writer;

pub use bits::{BitRow, Ones};
pub use error::ShotError;
pub use reader::ShotReader;
pub use writer::ShotWriter;

/// The number of bits of each kind in a shot. A row has them in this order.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct ShotLayout {
    /// Raw measurement results, `M` in `dets`.
    pub measurements: u32,
    /// Detectors, `D` in `dets`.
    pub detectors: u32,
    /// Logical observables, `L` in `dets`.
    pub observables: u32,
}

impl ShotLayout {
    /// Detectors followed by their shot's true observables ("appended observables").
    pub fn with_observables(detectors: u32, observables: u32) -> Self {
        Self { measurements: 0, detectors, observables }
    }

    /// Detectors alone.
    pub fn detectors(detectors: u32) -> Self {
        Self { detectors, ..Self::default() }
    }

    /// Observables alone, as a decoder predicts them.
    pub fn observables(observables: u32) -> Self {
        Self { observables, ..Self::default() }
    }

    /// Raw measurement results alone.
    pub fn measurements(measurements: u32) -> Self {
        Self { measurements, ..Self::default() }
    }

    /// Bits per shot.
    pub fn width(&self) -> u64 {
        u64::from(self.measurements) + u64::from(self.detectors) + u64::from(self.observables)
    }
}

impl std::fmt::Display for ShotLayout {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { measurements, detectors, observables } = self;
        write!(f, "{measurements} measurements, {detectors} detectors, {observables} observables")
    }
}

/// The result of one run of an experiment.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Shot {
    /// The raw measurement results, if the layout has any.
    pub measurements: BitRow,
    /// The detectors: 1 where a parity check changed.
    pub detectors: BitRow,
    /// The logical observables: the truth in a sampled shot, the prediction in a decoded one.
    pub observables: BitRow,
}

impl Shot {
    /// A shot of zeros.
    pub fn new(layout: ShotLayout) -> Self {
        Self {
            measurements: BitRow::new(layout.measurements),
            detectors: BitRow::new(layout.detectors),
            observables: BitRow::new(layout.observables),
        }
    }

    /// The number of bits of each kind.
    pub fn layout(&self) -> ShotLayout {
        ShotLayout {
            measurements: self.measurements.len(),
            detectors: self.detectors.len(),
            observables: self.observables.len(),
        }
    }

    /// Sets every bit to 0.
    pub fn clear(&mut self) {
        self.measurements.clear();
        self.detectors.clear();
        self.observables.clear();
    }

    /// Refuses a shot of another layout.
    pub(crate) fn check(&self, layout: ShotLayout) -> Result<(), ShotError> {
        let found = self.layout();
        if found == layout { Ok(()) } else { Err(ShotError::Layout { expected: layout, found }) }
    }
}

/// A file format for shots.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ShotFormat {
    /// `01`: a line of `0` and `1` per shot.
    Text01,
    /// `b8`: packed bytes, least significant bit first.
    B8,
    /// `r8`: lengths of runs of zeros.
    R8,
    /// `ptb64`: 64 shots together, a word for each bit.
    Ptb64,
    /// `hits`: a line per shot with the indices of the bits that are 1.
    Hits,
    /// `dets`: a line per shot that names the bits that are 1.
    Dets,
}

impl ShotFormat {
    /// Every format.
    pub const ALL: [Self; 6] = [Self::Text01, Self::B8, Self::R8, Self::Ptb64, Self::Hits, Self::Dets];
}

impl std::fmt::Display for ShotFormat {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Text01 => "01",
            Self::B8 => "b8",
            Self::R8 => "r8",
            Self::Ptb64 => "ptb64",
            Self::Hits => "hits",
            Self::Dets => "dets",
        })
    }
}

impl std::str::FromStr for ShotFormat {
    type Err = ShotError;

    /// Reads Stim's name of the format.
    fn from_str(name: &str) -> Result<Self, ShotError> {
        Self::ALL
            .into_iter()
            .find(|format| format.to_string() == name)
            .ok_or_else(|| ShotError::UnknownFormat { name: name.to_owned() })
    }
}

/// The length of a packed or printed row. Refuses a layout for which a file could not tell its number of shots.
fn row_width(format: ShotFormat, layout: ShotLayout) -> Result<usize, ShotError> {
    let width = layout.width();
    if width == 0 && matches!(format, ShotFormat::B8 | ShotFormat::Ptb64) {
        return Err(ShotError::ZeroWidth { format });
    }
    usize::try_from(width).map_err(|_| ShotError::TooWide { width })
}
