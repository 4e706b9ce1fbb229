//! Conformance suite for engines (feature `testing`).
//!
//! [`check`] needs no expected values: it tests the contract of [`Model`] and [`Engine`] on inputs it makes up.
//! [`check_case`] compares one run with an oracle. Both say what broke instead of panicking.
//!
//! ```
//! use ringcall_infer::{ElementType, Passthrough, TensorSpec, conformance};
//! let model = Passthrough::new("echo", vec![TensorSpec::new("bits", ElementType::Bool, [1, 9])?])?;
//! conformance::check(&model).unwrap();
//! # Ok::<(), ringcall_infer::InferError>(())
//! ```

use std::collections::BTreeSet;

use crate::{Direction, ElementType, Engine, InferError, Model, TensorSpec};

/// How close an output must be to the expected one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Equal bytes.
    Exact,
    /// `|got - expected| <= absolute + relative * |expected|`, for `f32` and `f16`; NaN matches NaN, an infinity
    /// itself. Other types are compared exactly.
    Close {
        /// Allowed anywhere.
        absolute: f32,
        /// Allowed as a share of the expected value.
        relative: f32,
    },
}

type Outcome = Result<(), String>;
type Buffers = Vec<Vec<u8>>;

/// Tests the contract: specs, buffer checks, that outputs are written whole, that a run depends on its inputs
/// alone, that engines are independent and can move to another thread.
///
/// # Errors
/// What broke, in words.
pub fn check(model: &dyn Model) -> Outcome {
    specs(model)?;
    let mut engine = model.instantiate().map_err(|e| format!("instantiate: {e}"))?;
    if engine.inputs() != model.inputs() || engine.outputs() != model.outputs() {
        return Err("the engine's specs differ from the model's".into());
    }
    let first = made_up(model.inputs(), 1);
    let expected = run(&mut *engine, &first, 0xFF)?;
    counts(&mut *engine, &first)?;
    sizes(&mut *engine, &first)?;
    bools(&mut *engine, &first)?;

    let again = |engine: &mut dyn Engine, fill: u8, what: &str| {
        if run(engine, &first, fill)? == expected { Ok(()) } else { Err(what.to_owned()) }
    };
    again(&mut *engine, 0x00, "an output byte was not written, or a refused run left a trace")?;
    for seed in 2..6 {
        run(&mut *engine, &made_up(model.inputs(), seed), 0)?;
    }
    again(&mut *engine, 0x55, "the same inputs gave another output after other runs")?;
    unaligned(&mut *engine, &first, &expected)?;

    let other = model.instantiate().map_err(|e| format!("a second engine: {e}"))?;
    std::thread::scope(|scope| {
        let threads: Vec<_> = [engine, other]
            .into_iter()
            .map(|mut engine| {
                scope.spawn(move || {
                    (0..3).try_for_each(|_| again(&mut *engine, 0, "two engines at once disagree"))
                })
            })
            .collect();
        threads.into_iter().try_for_each(|t| t.join().map_err(|_| "an engine panicked".to_owned())?)
    })
}

/// Runs `inputs` and compares every output with `expected`.
///
/// # Errors
/// The run's error, or the first element that is off.
pub fn check_case(
    model: &dyn Model,
    inputs: &[Vec<u8>],
    expected: &[Vec<u8>],
    tolerance: Tolerance,
) -> Outcome {
    let mut engine = model.instantiate().map_err(|e| e.to_string())?;
    let got = run(&mut *engine, inputs, 0xA5)?;
    if got.len() != expected.len() {
        return Err(format!("{} outputs, {} expected", got.len(), expected.len()));
    }
    model
        .outputs()
        .iter()
        .zip(got.iter().zip(expected))
        .try_for_each(|(s, (g, e))| compare(s, g, e, tolerance))
}

fn compare(spec: &TensorSpec, got: &[u8], expected: &[u8], tolerance: Tolerance) -> Outcome {
    if got.len() != expected.len() {
        return Err(format!("{spec}: {} bytes, {} expected", got.len(), expected.len()));
    }
    let width = spec.element.size_bytes();
    for (i, (g, e)) in got.chunks_exact(width).zip(expected.chunks_exact(width)).enumerate() {
        let same = match (tolerance, float(spec.element, g), float(spec.element, e)) {
            (Tolerance::Close { absolute, relative }, Some(g), Some(e)) => {
                g == e || (g.is_nan() && e.is_nan()) || (g - e).abs() <= absolute + relative * e.abs()
            }
            _ => g == e,
        };
        if !same {
            let show =
                |bytes| float(spec.element, bytes).map_or_else(|| format!("{bytes:?}"), |v| v.to_string());
            return Err(format!("{spec}: element {i} is {}, expected {} ({tolerance:?})", show(g), show(e)));
        }
    }
    Ok(())
}

/// The value of a packed float; `None` for other types.
fn float(element: ElementType, bytes: &[u8]) -> Option<f32> {
    match (element, bytes) {
        (ElementType::F32, &[a, b, c, d]) => Some(f32::from_le_bytes([a, b, c, d])),
        (ElementType::F16, &[a, b]) => {
            let bits = u16::from_le_bytes([a, b]);
            let (exponent, fraction) = (i32::from(bits >> 10 & 0x1F), f32::from(bits & 0x3FF));
            let magnitude = match exponent {
                0 => fraction * 2f32.powi(-24),
                0x1F if fraction == 0.0 => f32::INFINITY,
                0x1F => f32::NAN,
                _ => (1.0 + fraction / 1024.0) * 2f32.powi(exponent - 15),
            };
            Some(if bits >> 15 == 1 { -magnitude } else { magnitude })
        }
        _ => None,
    }
}

/// Valid inputs, the same for the same seed: bits and small numbers, as measurements are.
#[must_use]
pub fn made_up(specs: &[TensorSpec], seed: u64) -> Vec<Vec<u8>> {
    // xorshift64*: no dependency for a handful of bits.
    let mut state = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
    let mut next = move || {
        state ^= state >> 12;
        state ^= state << 25;
        state ^= state >> 27;
        (state.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 60) as u8 // 0 to 15
    };
    let mut element = |element: ElementType| -> Vec<u8> {
        let n = next();
        match element {
            ElementType::Bool => vec![n & 1],
            ElementType::U8 => vec![n],
            ElementType::I32 => i32::from(n & 1).to_le_bytes().to_vec(),
            ElementType::I64 => i64::from(n & 1).to_le_bytes().to_vec(),
            ElementType::F32 => (f32::from(n) / 8.0 - 1.0).to_le_bytes().to_vec(),
            // 0, 0.5, 1 and 1.5 in binary16.
            ElementType::F16 => [0u16, 0x3800, 0x3C00, 0x3E00][usize::from(n & 3)].to_le_bytes().to_vec(),
        }
    };
    specs.iter().map(|s| (0..s.elements()).flat_map(|_| element(s.element)).collect()).collect()
}

fn specs(model: &dyn Model) -> Outcome {
    if model.name().is_empty() {
        return Err("the model has no name".into());
    }
    for (direction, side) in [(Direction::Input, model.inputs()), (Direction::Output, model.outputs())] {
        if side.is_empty() {
            return Err(format!("the model has no {direction}"));
        }
        side.iter().try_for_each(|s| s.validate().map_err(|e| e.to_string()))?;
        let names: BTreeSet<&str> = side.iter().map(|s| s.name.as_str()).collect();
        if names.len() != side.len() {
            return Err(format!("two {direction}s have one name"));
        }
    }
    Ok(())
}

fn filled(specs: &[TensorSpec], fill: u8) -> Buffers {
    specs.iter().map(|s| vec![fill; s.size_bytes()]).collect()
}

fn call(engine: &mut dyn Engine, inputs: &[Vec<u8>], outputs: &mut [Vec<u8>]) -> Result<(), InferError> {
    let inputs: Vec<&[u8]> = inputs.iter().map(Vec::as_slice).collect();
    let mut outputs: Vec<&mut [u8]> = outputs.iter_mut().map(Vec::as_mut_slice).collect();
    engine.run(&inputs, &mut outputs)
}

fn run(engine: &mut dyn Engine, inputs: &[Vec<u8>], fill: u8) -> Result<Buffers, String> {
    let mut outputs = filled(engine.outputs(), fill);
    call(engine, inputs, &mut outputs).map_err(|e| format!("run: {e}"))?;
    Ok(outputs)
}

fn counts(engine: &mut dyn Engine, good: &[Vec<u8>]) -> Outcome {
    let outputs = filled(engine.outputs(), 0);
    let (mut more_in, mut more_out) = (good.to_vec(), outputs.clone());
    more_in.push(vec![0]);
    more_out.push(vec![0]);
    let cases = [
        (good[1..].to_vec(), outputs.clone(), Direction::Input),
        (more_in, outputs.clone(), Direction::Input),
        (good.to_vec(), outputs[1..].to_vec(), Direction::Output),
        (good.to_vec(), more_out, Direction::Output),
    ];
    for (inputs, mut outputs, wrong) in cases {
        match call(engine, &inputs, &mut outputs) {
            Err(InferError::BufferCount { direction, .. }) if direction == wrong => {}
            other => return Err(format!("a wrong number of {wrong}s gave {other:?}")),
        }
    }
    Ok(())
}

fn sizes(engine: &mut dyn Engine, good: &[Vec<u8>]) -> Outcome {
    let outputs = filled(engine.outputs(), 0);
    let resized = |buffers: &[Vec<u8>], i: usize, longer: bool| {
        let mut buffers = buffers.to_vec();
        let length = buffers[i].len();
        buffers[i].resize(if longer { length + 1 } else { length - 1 }, 0);
        buffers
    };
    for longer in [false, true] {
        let mut cases: Vec<_> =
            (0..good.len()).map(|i| (Direction::Input, resized(good, i, longer), outputs.clone())).collect();
        cases.extend(
            (0..outputs.len()).map(|i| (Direction::Output, good.to_vec(), resized(&outputs, i, longer))),
        );
        for (wrong, inputs, mut outputs) in cases {
            match call(engine, &inputs, &mut outputs) {
                Err(InferError::BufferSize { direction, .. }) if direction == wrong => {}
                other => return Err(format!("an {wrong} of a wrong size (longer: {longer}) gave {other:?}")),
            }
        }
    }
    Ok(())
}

fn bools(engine: &mut dyn Engine, good: &[Vec<u8>]) -> Outcome {
    let Some(i) = engine.inputs().iter().position(|s| s.element == ElementType::Bool) else { return Ok(()) };
    let (mut inputs, mut outputs) = (good.to_vec(), filled(engine.outputs(), 0));
    if let Some(last) = inputs[i].last_mut() {
        *last = 2;
    }
    match call(engine, &inputs, &mut outputs) {
        Err(InferError::InvalidBool { value: 2, .. }) => Ok(()),
        other => Err(format!("a boolean of 2 gave {other:?}")),
    }
}

/// Buffers that start one byte past an allocation: a slot's payload lies after a header of any size.
fn unaligned(engine: &mut dyn Engine, inputs: &[Vec<u8>], expected: &[Vec<u8>]) -> Outcome {
    let shifted: Buffers = inputs.iter().map(|b| [&[0], b.as_slice()].concat()).collect();
    let inputs: Vec<&[u8]> = shifted.iter().map(|b| &b[1..]).collect();
    let mut outputs: Buffers = expected.iter().map(|b| vec![0xEE; b.len() + 1]).collect();
    let mut views: Vec<&mut [u8]> = outputs.iter_mut().map(|b| &mut b[1..]).collect();
    engine.run(&inputs, &mut views).map_err(|e| format!("unaligned buffers: {e}"))?;
    if outputs.iter().zip(expected).all(|(o, e)| o[1..] == **e && o[0] == 0xEE) {
        Ok(())
    } else {
        Err("unaligned buffers gave another output".into())
    }
}
