//! Parsing of lines into statements.

use super::error::ParseErrorKind;

/// One target of an `error`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Target {
    Detector(u64),
    Observable(u64),
    Separator,
}

/// One instruction, or the start or end of a block.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Statement {
    Error { probability: f64, targets: Vec<Target> },
    Detector { coordinates: Vec<f64>, detector: u64 },
    LogicalObservable { observable: u64 },
    ShiftDetectors { coordinates: Vec<f64>, by: u64 },
    RepeatStart { count: u64 },
    BlockEnd,
}

/// The part of a line that is not read yet.
pub(super) struct Line<'a> {
    rest: &'a str,
}

impl<'a> Line<'a> {
    pub(super) fn new(line: &'a str) -> Self {
        Self { rest: line }
    }

    /// The next statement; `None` at the end of the line or a comment.
    pub(super) fn next(&mut self) -> Result<Option<Statement>, ParseErrorKind> {
        self.skip_space();
        if self.at_end() {
            return Ok(None);
        }
        if self.take(b'}') {
            return Ok(Some(Statement::BlockEnd));
        }
        let name = self.take_while(|c| c.is_ascii_alphanumeric() || c == b'_');
        if name.is_empty() {
            return Err(self.expected("an instruction"));
        }
        let is = |instruction: &str| name.eq_ignore_ascii_case(instruction);
        let statement = if is("error") {
            self.error()?
        } else if is("detector") {
            self.detector()?
        } else if is("logical_observable") {
            self.logical_observable()?
        } else if is("shift_detectors") {
            self.shift_detectors()?
        } else if is("repeat") {
            return self.repeat().map(Some);
        } else {
            return Err(ParseErrorKind::UnknownInstruction(name.to_owned()));
        };
        self.skip_space();
        if self.at_end() { Ok(Some(statement)) } else { Err(self.expected("the end of the line")) }
    }

    fn error(&mut self) -> Result<Statement, ParseErrorKind> {
        self.tag()?;
        let arguments = self.arguments()?;
        let [probability] = arguments[..] else {
            let takes = "one argument, its probability";
            return Err(ParseErrorKind::Arguments { instruction: "error", takes, given: arguments.len() });
        };
        if !(0.0..=1.0).contains(&probability) {
            return Err(ParseErrorKind::Probability(probability));
        }
        let mut targets = Vec::with_capacity(8);
        while let Some(target) = self.target()? {
            let after_separator = matches!(targets.last(), None | Some(Target::Separator));
            if target == Target::Separator && after_separator {
                return Err(ParseErrorKind::Separator);
            }
            targets.push(target);
        }
        if targets.last() == Some(&Target::Separator) {
            return Err(ParseErrorKind::Separator);
        }
        Ok(Statement::Error { probability, targets })
    }

    fn detector(&mut self) -> Result<Statement, ParseErrorKind> {
        self.tag()?;
        let coordinates = self.arguments()?;
        match (self.target()?, self.target()?) {
            (Some(Target::Detector(detector)), None) => Ok(Statement::Detector { coordinates, detector }),
            _ => Err(ParseErrorKind::Targets { instruction: "detector", takes: "one target, as in D5" }),
        }
    }

    fn logical_observable(&mut self) -> Result<Statement, ParseErrorKind> {
        let instruction = "logical_observable";
        self.tag()?;
        let given = self.arguments()?.len();
        if given > 0 {
            return Err(ParseErrorKind::Arguments { instruction, takes: "no arguments", given });
        }
        match (self.target()?, self.target()?) {
            (Some(Target::Observable(observable)), None) => Ok(Statement::LogicalObservable { observable }),
            _ => Err(ParseErrorKind::Targets { instruction, takes: "one target, as in L0" }),
        }
    }

    fn shift_detectors(&mut self) -> Result<Statement, ParseErrorKind> {
        self.tag()?;
        let coordinates = self.arguments()?;
        self.skip_space();
        let by = self.integer("the number of detectors to shift by")?;
        Ok(Statement::ShiftDetectors { coordinates, by })
    }

    fn repeat(&mut self) -> Result<Statement, ParseErrorKind> {
        self.tag()?;
        self.skip_space();
        let count = self.integer("how often to repeat")?;
        self.skip_space();
        if self.take(b'{') { Ok(Statement::RepeatStart { count }) } else { Err(self.expected("`{`")) }
    }

    /// Skips `[...]`.
    fn tag(&mut self) -> Result<(), ParseErrorKind> {
        if self.take(b'[') {
            self.take_while(|c| c != b']');
            if !self.take(b']') {
                return Err(self.expected("`]` at the end of the tag"));
            }
        }
        Ok(())
    }

    /// Reads `(1, 2.5)`; without parentheses there are no arguments.
    fn arguments(&mut self) -> Result<Vec<f64>, ParseErrorKind> {
        let mut arguments = Vec::new();
        if !self.take(b'(') {
            return Ok(arguments);
        }
        loop {
            self.skip_space();
            let number = self.take_while(|c| c.is_ascii_alphanumeric() || matches!(c, b'+' | b'-' | b'.'));
            if number.is_empty() {
                return Err(self.expected("a number"));
            }
            let value = number.parse().ok().filter(|value: &f64| value.is_finite());
            arguments.push(value.ok_or_else(|| ParseErrorKind::Number(number.to_owned()))?);
            self.skip_space();
            if self.take(b')') {
                return Ok(arguments);
            }
            if !self.take(b',') {
                return Err(self.expected("`,` or `)`"));
            }
        }
    }

    /// The next target, which must follow a space; `None` at the end of the line.
    fn target(&mut self) -> Result<Option<Target>, ParseErrorKind> {
        let before = self.rest;
        self.skip_space();
        if self.at_end() {
            return Ok(None);
        }
        let expected = "a space, then a target such as D5, L0 or ^";
        if before.len() == self.rest.len() {
            return Err(self.expected(expected));
        }
        if self.take(b'^') {
            return Ok(Some(Target::Separator));
        }
        let here = self.rest;
        let target = if self.take(b'D') || self.take(b'd') {
            Target::Detector
        } else if self.take(b'L') || self.take(b'l') {
            Target::Observable
        } else {
            return Err(self.expected(expected));
        };
        if !self.rest.as_bytes().first().is_some_and(u8::is_ascii_digit) {
            self.rest = here;
            return Err(self.expected(expected));
        }
        Ok(Some(target(self.integer("an id")?)))
    }

    fn integer(&mut self, expected: &'static str) -> Result<u64, ParseErrorKind> {
        let digits = self.take_while(|c| c.is_ascii_digit());
        if digits.is_empty() {
            return Err(self.expected(expected));
        }
        digits.parse().map_err(|_| ParseErrorKind::TooLarge(digits.to_owned()))
    }

    fn expected(&self, expected: &'static str) -> ParseErrorKind {
        let word = self.rest.split_whitespace().next();
        let found = match word {
            // A word of a corrupt file may be megabytes of garbage.
            Some(word) if word.chars().count() > 40 => {
                format!("`{}...`", word.chars().take(40).collect::<String>())
            }
            Some(word) => format!("`{word}`"),
            None => "the end of the line".to_owned(),
        };
        ParseErrorKind::Expected { expected, found }
    }

    fn at_end(&self) -> bool {
        matches!(self.rest.as_bytes().first(), None | Some(b'#'))
    }

    fn skip_space(&mut self) {
        self.take_while(|c| matches!(c, b' ' | b'\t' | b'\r' | b'\n'));
    }

    /// Takes an ASCII character, if it is next.
    fn take(&mut self, token: u8) -> bool {
        let taken = self.rest.as_bytes().first() == Some(&token);
        if taken {
            self.rest = &self.rest[1..];
        }
        taken
    }

    /// Takes the bytes that are `wanted`. The caller wants all bytes outside ASCII or none, so the cut is always at a character's
    /// boundary.
    fn take_while(&mut self, wanted: impl Fn(u8) -> bool) -> &'a str {
        let end = self.rest.bytes().position(|c| !wanted(c)).unwrap_or(self.rest.len());
        let (taken, rest) = self.rest.split_at(end);
        self.rest = rest;
        taken
    }
}
