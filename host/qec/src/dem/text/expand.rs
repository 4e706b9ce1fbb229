//! Execution of statements: unrolls blocks, applies shifts, collects the model.

use super::error::{DemTextError, ParseErrorKind};
use super::statement::{Line, Statement, Target};
use super::{Limits, MAX_LINE_BYTES};
use crate::dem::{Component, DetectorErrorModel, Mechanism, cancel_pairs};

/// The deepest nesting of blocks: a block runs by recursion.
const MAX_DEPTH: usize = 64;

/// A statement or a block inside a block, kept until its block closes, with its line.
enum Item {
    Plain(Statement),
    Block { count: u64, body: Vec<(u64, Item)> },
}

/// A block that is still open.
struct OpenBlock {
    line: u64,
    count: u64,
    body: Vec<(u64, Item)>,
}

/// Takes a text line by line and builds its model.
pub(super) struct Expander {
    line: u64,
    open: Vec<OpenBlock>,
    state: State,
}

impl Expander {
    pub(super) fn new(limits: Limits) -> Self {
        let state = State {
            limits,
            model: DetectorErrorModel::default(),
            detector_offset: 0,
            coordinate_offset: Vec::new(),
            instructions: 0,
            targets: 0,
        };
        Self { line: 0, open: Vec::new(), state }
    }

    /// Takes one line, with or without its line feed.
    pub(super) fn line(&mut self, line: &[u8]) -> Result<(), DemTextError> {
        self.line += 1;
        let number = self.line;
        let fail = |kind| DemTextError { line: number, kind };
        if line.strip_suffix(b"\n").unwrap_or(line).len() > MAX_LINE_BYTES {
            return Err(fail(ParseErrorKind::LongLine { limit: MAX_LINE_BYTES }));
        }
        let text = std::str::from_utf8(line).map_err(|_| fail(ParseErrorKind::NotUtf8))?;
        let mut rest = Line::new(text);
        while let Some(statement) = rest.next().map_err(fail)? {
            self.statement(statement)?;
        }
        Ok(())
    }

    fn statement(&mut self, statement: Statement) -> Result<(), DemTextError> {
        let line = self.line;
        match statement {
            Statement::RepeatStart { count } => {
                if self.open.len() == MAX_DEPTH {
                    return Err(DemTextError { line, kind: ParseErrorKind::Depth { limit: MAX_DEPTH } });
                }
                self.open.push(OpenBlock { line, count, body: Vec::new() });
                Ok(())
            }
            Statement::BlockEnd => match self.open.pop() {
                Some(OpenBlock { line, count, body }) => self.item(line, Item::Block { count, body }),
                None => Err(DemTextError { line, kind: ParseErrorKind::Unopened }),
            },
            plain => self.item(line, Item::Plain(plain)),
        }
    }

    /// Runs an item, or keeps it if a block is open.
    fn item(&mut self, line: u64, item: Item) -> Result<(), DemTextError> {
        match self.open.last_mut() {
            Some(block) => {
                block.body.push((line, item));
                Ok(())
            }
            None => self.state.item(line, &item),
        }
    }

    pub(super) fn finish(self) -> Result<DetectorErrorModel, DemTextError> {
        if let Some(block) = self.open.last() {
            return Err(DemTextError { line: block.line, kind: ParseErrorKind::Unclosed });
        }
        let mut model = self.state.model;
        if !model.coordinates.is_empty() {
            model.coordinates.resize(model.num_detectors as usize, Vec::new());
        }
        Ok(model)
    }
}

struct State {
    limits: Limits,
    model: DetectorErrorModel,
    detector_offset: u64,
    coordinate_offset: Vec<f64>,
    instructions: u64,
    targets: u64,
}

impl State {
    fn item(&mut self, line: u64, item: &Item) -> Result<(), DemTextError> {
        match item {
            Item::Plain(statement) => {
                self.carry_out(statement).map_err(|kind| DemTextError { line, kind })?;
            }
            Item::Block { body, .. } if body.is_empty() => {}
            Item::Block { count, body } => {
                for _ in 0..*count {
                    self.count(0).map_err(|kind| DemTextError { line, kind })?;
                    body.iter().try_for_each(|(line, item)| self.item(*line, item))?;
                }
            }
        }
        Ok(())
    }

    fn count(&mut self, targets: usize) -> Result<(), ParseErrorKind> {
        self.instructions += 1;
        self.targets += targets as u64;
        if self.instructions > self.limits.instructions {
            return Err(ParseErrorKind::Limit { what: "instructions", limit: self.limits.instructions });
        }
        if self.targets > self.limits.targets {
            return Err(ParseErrorKind::Limit { what: "targets", limit: self.limits.targets });
        }
        Ok(())
    }

    fn carry_out(&mut self, statement: &Statement) -> Result<(), ParseErrorKind> {
        match statement {
            Statement::Error { probability, targets } => {
                self.count(targets.len())?;
                self.error(*probability, targets)?;
            }
            Statement::Detector { coordinates, detector } => {
                self.count(1 + coordinates.len())?;
                let detector = self.detector(*detector)?;
                self.coordinates(detector, coordinates)?;
            }
            Statement::LogicalObservable { observable } => {
                self.count(1)?;
                self.observable(*observable)?;
            }
            Statement::ShiftDetectors { coordinates, by } => {
                self.count(1 + coordinates.len())?;
                let sum = self.detector_offset.checked_add(*by);
                self.detector_offset = sum.ok_or_else(|| ParseErrorKind::TooLarge(by.to_string()))?;
                if coordinates.len() > self.coordinate_offset.len() {
                    self.coordinate_offset.resize(coordinates.len(), 0.0);
                }
                for (offset, shift) in self.coordinate_offset.iter_mut().zip(coordinates) {
                    *offset = finite(*offset + shift)?;
                }
            }
            // Blocks are items of their own.
            Statement::RepeatStart { .. } | Statement::BlockEnd => {}
        }
        Ok(())
    }

    fn error(&mut self, probability: f64, targets: &[Target]) -> Result<(), ParseErrorKind> {
        let parts = || targets.split(|&target| target == Target::Separator);
        let mut whole = Component { detectors: Vec::with_capacity(targets.len()), observables: Vec::new() };
        let mut components = Vec::with_capacity(parts().count());
        for part in parts() {
            let mut component =
                Component { detectors: Vec::with_capacity(part.len()), observables: Vec::new() };
            for &target in part {
                match target {
                    Target::Detector(id) => component.detectors.push(self.detector(id)?),
                    Target::Observable(id) => component.observables.push(self.observable(id)?),
                    Target::Separator => {}
                }
            }
            component.cancel();
            whole.detectors.extend_from_slice(&component.detectors);
            whole.observables.extend_from_slice(&component.observables);
            if component != Component::default() {
                components.push(component);
            }
        }
        if components.len() < 2 {
            components = Vec::new();
        }
        whole.cancel();
        let Component { detectors, observables } = whole;
        self.model.mechanisms.push(Mechanism { probability, detectors, observables, components });
        Ok(())
    }

    /// The number of a detector after shifting. The detector exists from then on.
    fn detector(&mut self, relative: u64) -> Result<u32, ParseErrorKind> {
        let limit = self.limits.detectors;
        let shifted = self.detector_offset.checked_add(relative).and_then(|id| u32::try_from(id).ok());
        let id = shifted.filter(|&id| id < limit);
        let id = id.ok_or(ParseErrorKind::Limit { what: "detectors", limit: limit.into() })?;
        self.model.num_detectors = self.model.num_detectors.max(id + 1);
        Ok(id)
    }

    fn observable(&mut self, id: u64) -> Result<u32, ParseErrorKind> {
        let limit = self.limits.observables;
        let id = u32::try_from(id).ok().filter(|&id| id < limit);
        let id = id.ok_or(ParseErrorKind::Limit { what: "observables", limit: limit.into() })?;
        self.model.num_observables = self.model.num_observables.max(id + 1);
        Ok(id)
    }

    fn coordinates(&mut self, detector: u32, coordinates: &[f64]) -> Result<(), ParseErrorKind> {
        if coordinates.is_empty() {
            return Ok(());
        }
        let all = &mut self.model.coordinates;
        let index = detector as usize;
        if all.len() <= index {
            all.resize(index + 1, Vec::new());
        }
        if all[index].is_empty() {
            let offsets = self.coordinate_offset.iter().copied().chain(std::iter::repeat(0.0));
            all[index] = coordinates
                .iter()
                .zip(offsets)
                .map(|(x, offset)| finite(x + offset))
                .collect::<Result<_, _>>()?;
        }
        Ok(())
    }
}

impl Component {
    fn cancel(&mut self) {
        cancel_pairs(&mut self.detectors);
        cancel_pairs(&mut self.observables);
    }
}

fn finite(value: f64) -> Result<f64, ParseErrorKind> {
    if value.is_finite() { Ok(value) } else { Err(ParseErrorKind::Coordinates) }
}
