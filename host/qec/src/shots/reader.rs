//! The reader of shot files.

use std::io::{BufRead, BufReader, ErrorKind, Read};

use super::group::{Group, SHOTS};
use super::{BitRow, Shot, ShotError, ShotFormat, ShotLayout, row_width};

/// Reads shots one by one; memory use does not grow with the file. See the [module](super) for the formats.
#[derive(Debug)]
pub struct ShotReader<R> {
    input: BufReader<R>,
    format: ShotFormat,
    layout: ShotLayout,
    row: Vec<u8>,
    /// The current group of `ptb64`.
    group: Group,
    shots: u64,
    position: u64,
    line: u64,
    line_start: u64,
    failed: bool,
}

impl<R: Read> ShotReader<R> {
    /// Reads shots of `layout` from `input`, which needs no separate buffer.
    ///
    /// # Errors
    /// [`ShotError::ZeroWidth`] for `b8` or `ptb64` and a layout without bits, [`ShotError::TooWide`] for one past `usize`.
    pub fn new(input: R, format: ShotFormat, layout: ShotLayout) -> Result<Self, ShotError> {
        let width = row_width(format, layout)?;
        let row = match format {
            ShotFormat::Text01 => width,
            ShotFormat::B8 => width.div_ceil(8),
            ShotFormat::Ptb64 => width.checked_mul(8).ok_or(ShotError::TooWide { width: layout.width() })?,
            ShotFormat::R8 | ShotFormat::Hits | ShotFormat::Dets => 0,
        };
        let group = if format == ShotFormat::Ptb64 { Group::new(width) } else { Group::default() };
        Ok(Self {
            group,
            input: BufReader::new(input),
            format,
            layout,
            row: vec![0; row],
            shots: 0,
            position: 0,
            line: 1,
            line_start: 0,
            failed: false,
        })
    }

    /// The shape of each shot.
    pub fn layout(&self) -> ShotLayout {
        self.layout
    }

    /// The shots read so far.
    pub fn shots_read(&self) -> u64 {
        self.shots
    }

    /// Reads the next shot into `shot`. Returns false at the end of the input; `shot` is then unchanged.
    ///
    /// # Errors
    /// [`ShotError`] for input that fails, is cut off or malformed (`shot` then has unspecified bits, and every later call is
    /// refused), and for a `shot` of another layout.
    pub fn read(&mut self, shot: &mut Shot) -> Result<bool, ShotError> {
        if self.failed {
            return Err(ShotError::AfterError);
        }
        shot.check(self.layout)?;
        let result = match self.format {
            ShotFormat::Text01 => self.read_01(shot),
            ShotFormat::B8 => self.read_b8(shot),
            ShotFormat::R8 => self.read_r8(shot),
            ShotFormat::Ptb64 => self.read_ptb64(shot),
            ShotFormat::Hits => self.read_hits(shot),
            ShotFormat::Dets => self.read_dets(shot),
        };
        match result {
            Ok(read) => self.shots += u64::from(read),
            Err(_) => self.failed = true,
        }
        result
    }

    /// The remaining shots, each newly allocated. The iterator ends after the first error.
    pub fn into_shots(mut self) -> impl Iterator<Item = Result<Shot, ShotError>> {
        std::iter::from_fn(move || {
            if self.failed {
                return None;
            }
            let mut shot = Shot::new(self.layout);
            self.read(&mut shot).map(|read| read.then_some(shot)).transpose()
        })
    }

    fn read_b8(&mut self, shot: &mut Shot) -> Result<bool, ShotError> {
        let start = self.position;
        let found = self.fill_row()?;
        if found == 0 {
            return Ok(false);
        }
        let needed = self.row.len();
        if found < needed {
            return Err(self.truncated(format!("{needed} bytes per shot, and the last has {found}")));
        }
        let used = self.layout.width() % 8;
        if used != 0 && self.row[needed - 1] >> used != 0 {
            return Err(ShotError::Padding { shot: self.shots, byte: start + needed as u64 - 1 });
        }
        let mut offset = 0;
        for bits in [&mut shot.measurements, &mut shot.detectors, &mut shot.observables] {
            bits.load(&self.row, offset);
            offset += bits.len() as usize;
        }
        Ok(true)
    }

    fn read_01(&mut self, shot: &mut Shot) -> Result<bool, ShotError> {
        let found = self.fill_row()?;
        let width = self.row.len();
        if found == 0 && self.peek()?.is_none() {
            return Ok(false);
        }
        if let Some(at) = self.row[..found].iter().position(|byte| !matches!(byte, b'0' | b'1')) {
            let reason = match self.row[at] {
                b'\n' | b'\r' => format!("the line has {at} bits, {width} are expected"),
                other => format!("`{}` is neither 0 nor 1", other.escape_ascii()),
            };
            return Err(self.bad_line(self.line_start + at as u64, reason));
        }
        if found < width {
            return Err(self.truncated(format!("{width} bits per shot, and the last has {found}")));
        }
        let mut row = self.row.iter();
        for bits in [&mut shot.measurements, &mut shot.detectors, &mut shot.observables] {
            bits.clear();
            for (index, byte) in (0..bits.len()).zip(row.by_ref()) {
                if *byte == b'1' {
                    bits.toggle(index);
                }
            }
        }
        if !self.end_of_line()? {
            return Err(match self.peek()? {
                None => self.truncated("a newline after the last bit".to_owned()),
                Some(_) => self.bad_line(self.position, format!("more than {width} bits on this line")),
            });
        }
        Ok(true)
    }

    fn read_r8(&mut self, shot: &mut Shot) -> Result<bool, ShotError> {
        if self.peek()?.is_none() {
            return Ok(false);
        }
        shot.clear();
        let width = self.layout.width();
        let mut at = 0;
        loop {
            let Some(zeros) = self.peek()? else {
                return Err(self.truncated(format!("{width} bits per shot, and the last has {at}")));
            };
            at += u64::from(zeros);
            let ends_within = ShotError::Run { shot: self.shots, byte: self.position };
            self.take(1);
            if zeros == u8::MAX {
                if at > width {
                    return Err(ends_within);
                }
                continue;
            }
            match at.cmp(&width) {
                // The virtual 1 after the last bit.
                std::cmp::Ordering::Equal => return Ok(true),
                std::cmp::Ordering::Greater => return Err(ends_within),
                std::cmp::Ordering::Less => {}
            }
            set(shot, at);
            at += 1;
        }
    }

    fn read_ptb64(&mut self, shot: &mut Shot) -> Result<bool, ShotError> {
        if self.group.take(shot) {
            return Ok(true);
        }
        let found = self.fill_row()?;
        if found == 0 {
            return Ok(false);
        }
        let needed = self.row.len();
        if found < needed {
            return Err(
                self.truncated(format!("{needed} bytes for {SHOTS} shots, and the last have {found}"))
            );
        }
        self.group.load(&self.row);
        Ok(self.group.take(shot))
    }

    fn read_hits(&mut self, shot: &mut Shot) -> Result<bool, ShotError> {
        if self.peek()?.is_none() {
            return Ok(false);
        }
        shot.clear();
        let width = self.layout.width();
        let mut last = None;
        while !self.end_of_line()? {
            let mut start = self.position;
            match self.peek()? {
                Some(b',') if last.is_some() => {
                    self.take(1);
                    start = self.position;
                }
                Some(_) if last.is_none() => {}
                Some(byte) => {
                    let reason = format!("`{}` where a comma or a newline should be", byte.escape_ascii());
                    return Err(self.bad_line(start, reason));
                }
                None => return Err(self.truncated("a newline after the last shot".to_owned())),
            }
            let index = self.number("a comma or the beginning of a line")?;
            if index >= width {
                let reason = format!("{index} is out of range: the layout has {}", self.layout);
                return Err(self.bad_line(start, reason));
            }
            if last.is_some_and(|last| index <= last) {
                return Err(self.bad_line(start, format!("{index} does not come after the index before it")));
            }
            set(shot, index);
            last = Some(index);
        }
        Ok(true)
    }

    fn read_dets(&mut self, shot: &mut Shot) -> Result<bool, ShotError> {
        // Stim, too, allows blank lines and indentation between shots.
        while let Some(byte) = self.peek()?.filter(u8::is_ascii_whitespace) {
            self.take(1);
            if byte == b'\n' {
                self.next_line();
            }
        }
        if self.peek()?.is_none() {
            return Ok(false);
        }
        for letter in *b"shot" {
            match self.peek()? {
                Some(byte) if byte == letter => self.take(1),
                Some(_) => return Err(self.bad_line(self.position, "a line starts with `shot`".to_owned())),
                None => return Err(self.truncated("a line starts with `shot`".to_owned())),
            }
        }
        shot.clear();
        while !self.end_of_line()? {
            match self.peek()? {
                Some(b' ') => self.take(1),
                Some(byte) => {
                    let reason =
                        format!("`{}` follows, where a space or a newline should", byte.escape_ascii());
                    return Err(self.bad_line(self.position, reason));
                }
                None => return Err(self.truncated("a newline after the last shot".to_owned())),
            }
            let start = self.position;
            let (kind, bits) = match self.peek()? {
                Some(b'M') => ('M', &mut shot.measurements),
                Some(b'D') => ('D', &mut shot.detectors),
                Some(b'L') => ('L', &mut shot.observables),
                None => return Err(self.truncated("M, D or L after a space".to_owned())),
                Some(byte) => {
                    let reason = format!("`{}` where M, D or L should follow a space", byte.escape_ascii());
                    return Err(self.bad_line(start, reason));
                }
            };
            self.take(1);
            let index = self.number(kind.encode_utf8(&mut [0; 4]))?;
            self.mark(bits, kind, index, start)?;
        }
        Ok(true)
    }

    /// Sets the bit that a `dets` line names.
    fn mark(&self, bits: &mut BitRow, kind: char, index: u64, start: u64) -> Result<(), ShotError> {
        let reason = match u32::try_from(index).ok().and_then(|index| bits.set(index, true)) {
            Some(false) => return Ok(()),
            Some(true) => format!("{kind}{index} occurs twice"),
            None => format!("{kind}{index} is out of range: the layout has {}", self.layout),
        };
        Err(self.bad_line(start, reason))
    }

    /// The decimal number at this position; saturates, since no layout has that many bits.
    fn number(&mut self, after: &str) -> Result<u64, ShotError> {
        let mut number: Option<u64> = None;
        while let Some(digit) = self.peek()?.filter(u8::is_ascii_digit) {
            self.take(1);
            let sum = number.unwrap_or(0).saturating_mul(10).saturating_add(u64::from(digit - b'0'));
            number = Some(sum);
        }
        match (number, self.peek()?) {
            (Some(number), _) => Ok(number),
            (None, Some(_)) => Err(self.bad_line(self.position, format!("a number should follow {after}"))),
            (None, None) => Err(self.truncated(format!("a number after {after}"))),
        }
    }

    /// Takes `\n` or `\r\n` if it is next.
    fn end_of_line(&mut self) -> Result<bool, ShotError> {
        if self.peek()? == Some(b'\r') {
            self.take(1);
            if self.peek()? != Some(b'\n') {
                let reason = "a carriage return without a newline".to_owned();
                return Err(self.bad_line(self.position - 1, reason));
            }
        }
        let ends = self.peek()? == Some(b'\n');
        if ends {
            self.take(1);
            self.next_line();
        }
        Ok(ends)
    }

    /// Fills the row as far as the input goes. Returns the number of bytes.
    fn fill_row(&mut self) -> Result<usize, ShotError> {
        let mut filled = 0;
        while filled < self.row.len() {
            match self.input.read(&mut self.row[filled..]) {
                Ok(0) => break,
                Ok(count) => filled += count,
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
        self.position += filled as u64;
        Ok(filled)
    }

    fn peek(&mut self) -> Result<Option<u8>, ShotError> {
        loop {
            match self.input.fill_buf() {
                Ok(buffer) => return Ok(buffer.first().copied()),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn take(&mut self, count: usize) {
        self.input.consume(count);
        self.position += count as u64;
    }

    fn next_line(&mut self) {
        self.line += 1;
        self.line_start = self.position;
    }

    fn truncated(&self, expected: String) -> ShotError {
        ShotError::Truncated { format: self.format, shot: self.shots, byte: self.position, expected }
    }

    fn bad_line(&self, at: u64, reason: String) -> ShotError {
        let column = at - self.line_start + 1;
        ShotError::Line { format: self.format, line: self.line, column, reason }
    }
}

/// Sets a bit of the row that exists in the layout.
fn set(shot: &mut Shot, index: u64) {
    let mut index = index;
    for bits in [&mut shot.measurements, &mut shot.detectors, &mut shot.observables] {
        let len = u64::from(bits.len());
        if index < len {
            bits.set(index as u32, true);
            return;
        }
        index -= len;
    }
}
