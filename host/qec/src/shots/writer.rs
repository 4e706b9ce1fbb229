//! The writer of shot files.

use std::io::{BufWriter, Write};

use super::group::{Group, SHOTS};
use super::{Shot, ShotError, ShotFormat, ShotLayout, row_width};

/// Writes shots one by one. See the [module](super) for the formats.
///
/// Output is buffered: call [`finish`](Self::finish) at the end, or a full disk may lose the last shots silently.
#[derive(Debug)]
#[must_use = "call `finish` to learn whether everything was written"]
pub struct ShotWriter<W: Write> {
    output: BufWriter<W>,
    format: ShotFormat,
    layout: ShotLayout,
    row: Vec<u8>,
    /// The group of `ptb64` being gathered.
    group: Group,
    shots: u64,
}

impl<W: Write> ShotWriter<W> {
    /// Writes shots of `layout` to `output`, which needs no separate buffer.
    ///
    /// # Errors
    /// [`ShotError::ZeroWidth`] for `b8` or `ptb64` and a layout without bits, [`ShotError::TooWide`] for one past `usize`.
    pub fn new(output: W, format: ShotFormat, layout: ShotLayout) -> Result<Self, ShotError> {
        let width = row_width(format, layout)?;
        let row = match format {
            ShotFormat::Text01 => width + 1,
            ShotFormat::B8 => width.div_ceil(8),
            ShotFormat::Ptb64 => width.checked_mul(8).ok_or(ShotError::TooWide { width: layout.width() })?,
            // At most a byte for each bit, and one more.
            ShotFormat::R8 => width + 1,
            // Long enough for lines of most models; longer lines make it grow.
            ShotFormat::Hits | ShotFormat::Dets => 4096,
        };
        let mut group = if format == ShotFormat::Ptb64 { Group::new(width) } else { Group::default() };
        group.clear();
        let row = Vec::with_capacity(row);
        Ok(Self { output: BufWriter::new(output), format, layout, row, group, shots: 0 })
    }

    /// Writes one shot.
    ///
    /// # Errors
    /// [`ShotError::Layout`] for a shot of another layout (nothing is written), [`ShotError::Io`] from the output.
    pub fn write(&mut self, shot: &Shot) -> Result<(), ShotError> {
        shot.check(self.layout)?;
        let rows = [('M', &shot.measurements), ('D', &shot.detectors), ('L', &shot.observables)];
        self.row.clear();
        match self.format {
            ShotFormat::B8 => {
                self.row.resize((self.layout.width() as usize).div_ceil(8), 0);
                let mut offset = 0;
                for (_, bits) in rows {
                    bits.store(&mut self.row, offset);
                    offset += bits.len() as usize;
                }
            }
            ShotFormat::Text01 => {
                self.row.resize(self.layout.width() as usize, b'0');
                let mut offset = 0;
                for (_, bits) in rows {
                    for one in bits.iter_ones() {
                        self.row[offset + one as usize] = b'1';
                    }
                    offset += bits.len() as usize;
                }
                self.row.push(b'\n');
            }
            ShotFormat::R8 => {
                let (mut zeros_from, mut offset) = (0, 0);
                for (_, bits) in rows {
                    for one in bits.iter_ones() {
                        let at = offset + u64::from(one);
                        push_run(&mut self.row, at - zeros_from);
                        zeros_from = at + 1;
                    }
                    offset += u64::from(bits.len());
                }
                push_run(&mut self.row, offset - zeros_from);
            }
            ShotFormat::Ptb64 => {
                self.group.add(shot);
                if self.group.used == SHOTS {
                    self.group.store(&mut self.row);
                    self.group.clear();
                }
            }
            ShotFormat::Hits => {
                let (mut comma, mut offset) = ("", 0);
                for (_, bits) in rows {
                    for one in bits.iter_ones() {
                        write!(self.row, "{comma}{}", offset + u64::from(one))?;
                        comma = ",";
                    }
                    offset += u64::from(bits.len());
                }
                self.row.push(b'\n');
            }
            ShotFormat::Dets => {
                self.row.extend_from_slice(b"shot");
                for (kind, bits) in rows {
                    for one in bits.iter_ones() {
                        write!(self.row, " {kind}{one}")?;
                    }
                }
                self.row.push(b'\n');
            }
        }
        self.output.write_all(&self.row)?;
        self.shots += 1;
        Ok(())
    }

    /// The shots written so far, buffered ones included.
    pub fn shots_written(&self) -> u64 {
        self.shots
    }

    /// Passes everything on to the output and flushes that.
    ///
    /// # Errors
    /// [`ShotError::Io`] from the output.
    pub fn flush(&mut self) -> Result<(), ShotError> {
        Ok(self.output.flush()?)
    }

    /// Flushes and gives the output back.
    ///
    /// # Errors
    /// [`ShotError::Io`] from the output: the file is then incomplete. [`ShotError::PartialGroup`] for `ptb64` if the number of
    /// shots is not a multiple of 64: the last shots are not in the file.
    pub fn finish(mut self) -> Result<W, ShotError> {
        if self.format == ShotFormat::Ptb64 && self.group.used != 0 {
            return Err(ShotError::PartialGroup { shots: self.shots });
        }
        self.flush()?;
        self.output.into_inner().map_err(|error| error.into_error().into())
    }
}

/// A run of zeros before a 1, in `r8` form.
fn push_run(row: &mut Vec<u8>, zeros: u64) {
    row.extend(std::iter::repeat_n(u8::MAX, (zeros / 255) as usize));
    row.push((zeros % 255) as u8);
}
