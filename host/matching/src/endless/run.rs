//! A run of any length, whichever decoder has it.

use super::{EndlessDecoder, SharedEndlessDecoder};
use crate::error::SlidingError;

/// A decoder for runs of any length on one core or on several, for callers that let a configuration choose.
///
/// ```
/// use ringcall_matching::{EndlessConfig, EndlessDecoder, EndlessRun, GraphBuilder, SharedEndlessConfig, SharedEndlessDecoder};
///
/// let mut b = GraphBuilder::new();
/// for t in 0..6 {
///     b.boundary_edge(t, 3.0, &[0])?;
///     if t < 5 {
///         b.edge(t, t + 1, 2.0, &[])?;
///     }
/// }
/// let (graph, rounds) = (b.build()?, [0, 1, 2, 3, 4, 5]);
/// let two = SharedEndlessConfig::new(2.try_into()?);
/// for mut run in [
///     EndlessRun::from(EndlessDecoder::new(&graph, &rounds, &EndlessConfig::default())?),
///     EndlessRun::from(SharedEndlessDecoder::new(&graph, &rounds, &two, |_| {})?),
/// ] {
///     for t in 0..1000 {
///         run.push_round(if t == 500 { &[0] } else { &[] })?;
///     }
///     let last: Vec<&[u32]> = vec![&[]; run.tail_rounds()];
///     assert_eq!(run.finish(&last)?, [1]);
///     assert_eq!(run.forced(), 0);
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub enum EndlessRun {
    /// On the caller's core.
    Alone(EndlessDecoder),
    /// On several cores.
    Shared(Box<SharedEndlessDecoder>),
}

impl From<EndlessDecoder> for EndlessRun {
    fn from(decoder: EndlessDecoder) -> Self {
        Self::Alone(decoder)
    }
}

impl From<SharedEndlessDecoder> for EndlessRun {
    fn from(decoder: SharedEndlessDecoder) -> Self {
        Self::Shared(Box::new(decoder))
    }
}

/// Makes the same call on either kind of decoder.
macro_rules! on_decoder {
    ($run:expr, $name:ident => $call:expr) => {
        match $run {
            EndlessRun::Alone($name) => $call,
            EndlessRun::Shared($name) => $call,
        }
    };
}

impl EndlessRun {
    /// See [`EndlessDecoder::tail_rounds`].
    pub fn tail_rounds(&self) -> usize {
        on_decoder!(self, decoder => decoder.tail_rounds())
    }

    /// See [`EndlessDecoder::least_rounds`].
    pub fn least_rounds(&self) -> usize {
        on_decoder!(self, decoder => decoder.least_rounds())
    }

    /// See [`EndlessDecoder::weight`] and [`SharedEndlessDecoder::weight`].
    pub fn weight(&self) -> f64 {
        on_decoder!(self, decoder => decoder.weight())
    }

    /// See [`EndlessDecoder::forced`] and [`SharedEndlessDecoder::forced`].
    pub fn forced(&self) -> u64 {
        on_decoder!(self, decoder => decoder.forced())
    }

    /// See [`SharedEndlessDecoder::lost`]. One core has no helper to lose.
    pub fn lost(&self) -> usize {
        match self {
            Self::Alone(_) => 0,
            Self::Shared(decoder) => decoder.lost(),
        }
    }

    /// See [`EndlessDecoder::push_round`].
    ///
    /// # Errors
    /// [`SlidingError::Defect`]; the decoder has then not taken the round.
    pub fn push_round(&mut self, defects: &[u32]) -> Result<bool, SlidingError> {
        on_decoder!(self, decoder => decoder.push_round(defects))
    }

    /// See [`EndlessDecoder::rehearse`]. Several cores have nothing to rehearse.
    pub fn rehearse(&mut self) {
        if let Self::Alone(decoder) = self {
            decoder.rehearse();
        }
    }

    /// See [`EndlessDecoder::finish`].
    ///
    /// # Errors
    /// [`SlidingError`], as there. The decoder has then taken nothing.
    pub fn finish(&mut self, tail: &[&[u32]]) -> Result<&[u64], SlidingError> {
        on_decoder!(self, decoder => decoder.finish(tail))
    }

    /// See [`EndlessDecoder::restart`].
    pub fn restart(&mut self) {
        on_decoder!(self, decoder => decoder.restart());
    }
}
