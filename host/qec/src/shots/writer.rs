//! The writer of shot files.

use std::io::{BufWriter, Write};

use super::{Shot, ShotError, ShotFormat, ShotLayout, row_width};

/// Writes shots one by one. See the [module](super) for the formats.
///
/// Output is buffered: call [`finish`](Self::finish) at the end, or the last shots may be lost without a word when
/// the disk is full.
#[derive(Debug)]
#[must_use = "call `finish` to learn whether everything was written"]
pub struct ShotWriter<W: Write> {
    output: BufWriter<W>,
    format: ShotFormat,
    layout: ShotLayout,
    row: Vec<u8>,
    shots: u64,
}

impl<W: Write> ShotWriter<W> {
    /// Writes shots of `layout` to `output`, which needs no separate buffer.
    ///
    /// # Errors
    /// [`ShotError::ZeroWidth`] for `b8` and a layout without bits, [`ShotError::TooWide`] for one past `usize`.
    pub fn new(output: W, format: ShotFormat, layout: ShotLayout) -> Result<Self, ShotError> {
        let width = row_width(format, layout)?;
        let row = match format {
            ShotFormat::Text01 => width + 1,
            ShotFormat::B8 => width.div_ceil(8),
            ShotFormat::Dets => 0,
        };
        Ok(Self { output: BufWriter::new(output), format, layout, row: Vec::with_capacity(row), shots: 0 })
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
    /// [`ShotError::Io`] from the output: then the file is not complete.
    pub fn finish(mut self) -> Result<W, ShotError> {
        self.flush()?;
        self.output.into_inner().map_err(|error| error.into_error().into())
    }
}
