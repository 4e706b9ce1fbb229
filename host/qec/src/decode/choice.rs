//! The choice of a model's decoder: matching of either kind, or belief propagation if matching cannot decode the model.

use ringcall_bp::BpConfig;
use std::sync::Arc;

use super::{
    DecodeError, Decoder, DecoderFactory, DecodingGraph, MatchingEngine, MatchingFactory, ParallelEdges,
    RelayFactory, SliceFactory, WeightedMatching,
};
use crate::dem::DetectorErrorModel;

/// A family of decoders.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum DecoderFamily {
    /// Minimum-weight perfect matching, for errors whose parts flip at most two detectors each.
    Matching,
    /// Relay-BP, for errors that flip any number of detectors.
    Relay,
    /// A decoder from a shared library.
    Plugin,
    /// Matching of each basis and layer of time separately: [`SliceFactory`].
    Slices,
}

/// Options for the decoder of a model.
///
/// ```
/// use ringcall_qec::decode::{DecoderOptions, ModelDecoders};
/// # let name = |text: &str| -> Result<&'static str, Box<dyn std::error::Error>> {
/// #     let model = ringcall_qec::dem::text::parse(text)?;
/// let decoders = ModelDecoders::new(&model, &DecoderOptions::default())?;
/// # Ok(
/// decoders.name()
/// # )};
/// # assert_eq!(name("error(0.1) D0 D1")?, "plain");
/// # assert_eq!(name("error(0.1) D0 ^ D1\nerror(0.2) D0")?, "correlated");
/// # assert_eq!(name("error(0.1) D0 D1 D2")?, "relay");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq)]
pub struct DecoderOptions {
    /// The family. `None`: matching if [`matching`](Self::matching) names a kind or if the model is a matching problem, else
    /// Relay-BP.
    pub family: Option<DecoderFamily>,
    /// The kind of matching. `None`: correlated if the model has correlations to use, else plain.
    pub matching: Option<MatchingEngine>,
    /// The settings of Relay-BP.
    pub relay: BpConfig,
}

/// Makes decoders of one model, all of one kind. Matching decoders are for the observables alone
/// ([`MatchingFactory::for_observables`]).
#[derive(Clone)]
pub enum ModelDecoders {
    /// Matching.
    Matching(Box<MatchingFactory>),
    /// Belief propagation.
    Relay(Box<RelayFactory>),
    /// Decoders of another factory, such as a shared library's.
    Plugin(Arc<dyn DecoderFactory>),
    /// Matching by slices.
    Slices(Box<SliceFactory>),
}

impl ModelDecoders {
    /// Makes the decoders that `options` ask for. Correlated matching of a model without correlations becomes plain matching, as
    /// [`matching`](Self::matching) then reports.
    ///
    /// # Errors
    /// The errors of [`DecodingGraph::from_dem`], [`MatchingFactory::new`] and [`RelayFactory::new`]; [`DecodeError::Hyperedge`]
    /// if the options ask for matching of a model that matching cannot decode; [`DecodeError::Plugin`] for plug-ins and slices,
    /// which have their own factories.
    pub fn new(model: &DetectorErrorModel, options: &DecoderOptions) -> Result<Self, DecodeError> {
        let relay = || RelayFactory::new(model, &options.relay).map(|factory| Self::Relay(Box::new(factory)));
        match options.family {
            Some(DecoderFamily::Relay) => return relay(),
            Some(DecoderFamily::Plugin) => {
                let reason = "a decoder out of a shared library is given by its factory".to_owned();
                return Err(DecodeError::Plugin { reason });
            }
            Some(DecoderFamily::Slices) => {
                let reason =
                    "slices are those of a memory experiment, which their factory is given".to_owned();
                return Err(DecodeError::Plugin { reason });
            }
            Some(DecoderFamily::Matching) | None => {}
        }
        let graph = match DecodingGraph::from_dem(model, ParallelEdges::Independent) {
            Err(DecodeError::Hyperedge { .. }) if options.family.or(options.matching_family()).is_none() => {
                return relay();
            }
            graph => graph?,
        };
        let factory = MatchingFactory::for_observables(&graph, options.matching)?;
        Ok(Self::Matching(Box::new(factory)))
    }

    /// The same decoders; matching decoders in one pass.
    #[must_use]
    pub fn single_pass(&self) -> Self {
        match self {
            Self::Matching(factory) => Self::Matching(Box::new(factory.single_pass())),
            Self::Relay(_) | Self::Plugin(_) | Self::Slices(_) => self.clone(),
        }
    }

    /// The kind of matching; `None` for other decoders.
    pub fn matching(&self) -> Option<MatchingEngine> {
        match self {
            Self::Matching(factory) => Some(factory.kind()),
            Self::Relay(_) | Self::Plugin(_) | Self::Slices(_) => None,
        }
    }

    /// The family of the decoders.
    pub fn family(&self) -> DecoderFamily {
        match self {
            Self::Matching(_) => DecoderFamily::Matching,
            Self::Relay(_) => DecoderFamily::Relay,
            Self::Plugin(_) => DecoderFamily::Plugin,
            Self::Slices(_) => DecoderFamily::Slices,
        }
    }

    /// The belief propagation decoders; `None` for other decoders.
    pub fn relay(&self) -> Option<&RelayFactory> {
        match self {
            Self::Matching(_) | Self::Plugin(_) | Self::Slices(_) => None,
            Self::Relay(factory) => Some(factory),
        }
    }

    /// A decoder that takes weights with each shot; `None` unless the decoders are matching decoders.
    pub fn weighted(&self) -> Option<WeightedMatching> {
        match self {
            Self::Matching(factory) => Some(factory.weighted()),
            Self::Relay(_) | Self::Plugin(_) | Self::Slices(_) => None,
        }
    }

    /// The decoders' name in reports: `plain`, `correlated`, `relay`, `plugin` or `slices`.
    pub fn name(&self) -> &'static str {
        self.matching().map_or(self.family().name(), MatchingEngine::name)
    }
}

impl DecoderFamily {
    /// The family's name in options and reports: `matching`, `relay`, `plugin` or `slices`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Matching => "matching",
            Self::Relay => "relay",
            Self::Plugin => "plugin",
            Self::Slices => "slices",
        }
    }
}

impl DecoderOptions {
    /// Matching if a kind of matching is given.
    fn matching_family(&self) -> Option<DecoderFamily> {
        self.matching.map(|_| DecoderFamily::Matching)
    }
}

impl DecoderFactory for ModelDecoders {
    fn build(&self) -> Result<Box<dyn Decoder>, DecodeError> {
        match self {
            Self::Matching(factory) => factory.build(),
            Self::Relay(factory) => factory.build(),
            Self::Plugin(factory) => factory.build(),
            Self::Slices(factory) => factory.build(),
        }
    }
}
