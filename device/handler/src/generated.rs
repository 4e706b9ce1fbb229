//! What the code that `#[handler]` generates calls. No part of the interface.

#[cfg(not(target_arch = "nvptx64"))]
use crate::{Grid, NativeTeam, Warp};
use crate::{HandlerSchema, OutBytes, Status, TypeDesc};
#[cfg(not(target_arch = "nvptx64"))]
use ringcall_gpu::team;

#[cfg(not(target_arch = "nvptx64"))]
pub use crate::client::{next, next_mut, round_trip};
#[cfg(target_arch = "nvptx64")]
pub use ringcall_gpu::{
    ptx::call::{payload, result_mut},
    team::result_out,
};

/// `schema` with results after its own.
#[must_use]
pub const fn with_results(mut schema: HandlerSchema, descs: &[TypeDesc]) -> HandlerSchema {
    let mut left = descs;
    while let Some((desc, rest)) = left.split_first() {
        schema = schema.result(*desc);
        left = rest;
    }
    schema
}

/// The lengths that a schema demands, as constants.
#[derive(Clone, Copy, Debug)]
pub struct Lengths {
    /// Bytes of the payload; `None` for any.
    args: Option<usize>,
    results: usize,
}

impl Lengths {
    /// Of a schema that is valid: an invalid one does not compile, by its own assertion.
    #[must_use]
    pub const fn of(schema: &HandlerSchema) -> Self {
        let (Ok(args), Ok(results)) = (schema.arg_len(), schema.results_bytes()) else {
            return Self { args: Some(0), results: 0 };
        };
        let args = match args {
            Some(bytes) => Some(bytes as usize),
            None => None,
        };
        Self { args, results: results as usize }
    }

    /// Bytes of the payload; 0 for any.
    #[cfg(not(target_arch = "nvptx64"))]
    #[must_use]
    pub const fn arguments(&self) -> usize {
        match self.args {
            Some(bytes) => bytes,
            None => 0,
        }
    }

    /// Bytes of the result.
    #[must_use]
    #[inline(always)]
    pub const fn results(&self) -> usize {
        self.results
    }

    /// Checks a payload's length and the room for the result, once for all values.
    ///
    /// # Errors
    /// [`Status::SCHEMA_MISMATCH`], [`Status::RESULT_TOO_LONG`].
    #[inline(always)]
    pub const fn check(&self, payload: usize, room: usize) -> Result<(), Status> {
        match self.args {
            Some(args) if args != payload => Err(Status::SCHEMA_MISMATCH),
            _ if room < self.results => Err(Status::RESULT_TOO_LONG),
            _ => Ok(()),
        }
    }
}

/// The bytes of the next argument.
///
/// # Errors
/// [`Status::SCHEMA_MISMATCH`] when there are not as many: never, after [`Lengths::check`].
#[inline(always)]
pub const fn next_argument<'a>(payload: &mut &'a [u8], desc: &TypeDesc) -> Result<&'a [u8], Status> {
    match payload.split_at_checked(desc.size_bytes as usize) {
        Some((bytes, rest)) => {
            *payload = rest;
            Ok(bytes)
        }
        None => Err(Status::SCHEMA_MISMATCH),
    }
}

/// The bytes of the next out-parameter of a thread handler.
///
/// # Errors
/// [`Status::RESULT_TOO_LONG`] when there are not as many: never, after [`Lengths::check`].
#[inline(always)]
pub fn next_out<'a>(result: &mut &'a mut [u8], desc: &TypeDesc) -> Result<&'a mut [u8], Status> {
    let size = desc.size_bytes as usize;
    let (bytes, rest) = core::mem::take(result).split_at_mut_checked(size).ok_or(Status::RESULT_TOO_LONG)?;
    *result = rest;
    Ok(bytes)
}

/// The bytes of the next out-parameter of a warp or grid handler.
///
/// # Errors
/// As [`next_out`].
#[inline(always)]
pub fn next_output<'a>(result: &mut OutBytes<'a>, desc: &TypeDesc) -> Result<OutBytes<'a>, Status> {
    let (bytes, rest) = result.split_at(desc.size_bytes as usize).ok_or(Status::RESULT_TOO_LONG)?;
    *result = rest;
    Ok(bytes)
}

/// What a device function returns and writes to `result_len`.
#[must_use]
#[inline(always)]
pub fn answer(outcome: Result<usize, Status>) -> (i32, u32) {
    match outcome {
        // Never more than the room there was, which is a `u32`.
        Ok(len) => (Status::OK.0, len as u32),
        Err(status) => (status.0, 0),
    }
}

/// Runs a warp handler with the team asked for.
///
/// # Errors
/// What lane 0 answers.
#[cfg(not(target_arch = "nvptx64"))]
pub fn native_warp(
    team: NativeTeam,
    result: &mut [u8],
    run: impl Fn(Warp<'_>, OutBytes<'_>) -> Result<usize, Status> + Sync,
) -> Result<usize, Status> {
    let result = OutBytes::new(result);
    let lanes = match team {
        NativeTeam::Inline => return run(Warp::single(), result),
        NativeTeam::Lanes(lanes) => lanes,
        NativeTeam::Blocks { threads, .. } => threads.min(team::WARP_LANES),
    };
    first(team::run_warp(lanes, |warp| run(warp, result)))
}

/// Runs a grid handler with the team asked for.
///
/// # Errors
/// What the thread of rank 0 answers.
#[cfg(not(target_arch = "nvptx64"))]
pub fn native_grid(
    team: NativeTeam,
    result: &mut [u8],
    run: impl Fn(Grid<'_>, OutBytes<'_>) -> Result<usize, Status> + Sync,
) -> Result<usize, Status> {
    let result = OutBytes::new(result);
    let (blocks, threads) = match team {
        NativeTeam::Inline => return run(Grid::single(), result),
        NativeTeam::Lanes(lanes) => (1, lanes),
        NativeTeam::Blocks { blocks, threads } => (blocks, threads),
    };
    first(team::run_grid(blocks, threads, |grid| run(grid, result)))
}

/// A team has at least one thread.
#[cfg(not(target_arch = "nvptx64"))]
fn first(outcomes: impl IntoIterator<Item = Result<usize, Status>>) -> Result<usize, Status> {
    outcomes.into_iter().next().unwrap_or(Err(Status::HANDLER_PANIC))
}
