//! Options of the plug-in, as JSON.

use crate::Refusal;

/// How syndromes are matched.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Matching {
    /// In one pass.
    #[default]
    Plain,
    /// In two passes, the second with lower weights for edges that share an error with those found first. A request that sets
    /// probabilities, or has losses, is decoded in one pass.
    Correlated,
}

/// What becomes of errors that flip more than two detectors.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Hyperedges {
    /// They are split into edges that other errors have, and make those likelier. An error that cannot be split is left out.
    #[default]
    Split,
    /// They are left out, as deq's own matching has it.
    Ignore,
}

/// The options. As JSON: an object of these names, all optional, or `null`, or nothing.
///
/// ```
/// # use ringcall_deq::{Config, Matching};
/// let config = Config::from_json(br#"{"matching": "correlated", "loss_weight_fraction": 0.7}"#)?;
/// assert_eq!((config.matching, config.loss_weight_fraction), (Matching::Correlated, 0.7));
/// assert!(Config::from_json(br#"{"matchin": "plain"}"#).is_err());
/// # Ok::<(), ringcall_deq::Refusal>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, serde::Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// `"plain"` or `"correlated"`.
    pub matching: Matching,
    /// `"split"` or `"ignore"`.
    pub hyperedges: Hyperedges,
    /// The weight of an error that an observed loss may have caused, as a fraction of the weight of "the error, or the loss":
    /// above 0, at most 1. 0.5 is deq's default where it maps losses itself.
    pub loss_weight_fraction: f64,
}

impl Default for Config {
    fn default() -> Self {
        Self { matching: Matching::default(), hyperedges: Hyperedges::default(), loss_weight_fraction: 0.5 }
    }
}

impl Config {
    /// The options in a JSON text.
    ///
    /// # Errors
    /// The text is no JSON, names an option that there is not, or has a value out of range.
    pub fn from_json(text: &[u8]) -> Result<Self, Refusal> {
        if text.trim_ascii().is_empty() {
            return Ok(Self::default());
        }
        let config: Option<Self> = serde_json::from_slice(text).map_err(|error| {
            Refusal::Argument(format!(
                "decoder_config: {error}; options are matching, hyperedges and loss_weight_fraction"
            ))
        })?;
        let config = config.unwrap_or_default();
        config.check().map(|()| config)
    }

    /// Checks the ranges.
    pub(crate) fn check(&self) -> Result<(), Refusal> {
        let fraction = self.loss_weight_fraction;
        if fraction > 0.0 && fraction <= 1.0 {
            return Ok(());
        }
        Err(Refusal::Argument(format!(
            "decoder_config: loss_weight_fraction is {fraction}: it must be above 0 and at most 1"
        )))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_and_null_are_the_defaults() {
        for text in ["", " \n", "null", "{}"] {
            assert_eq!(Config::from_json(text.as_bytes()), Ok(Config::default()), "{text:?}");
        }
    }

    #[test]
    fn bad_options_are_named() {
        for (text, name) in [
            (r#"{"loss_weight_fraction": 0}"#, "loss_weight_fraction is 0"),
            (r#"{"loss_weight_fraction": 1.5}"#, "1.5"),
            (r#"{"matching": "fast"}"#, "fast"),
            (r#"{"threads": 3}"#, "threads"),
            ("[1]", "decoder_config"),
            ("{", "decoder_config"),
            ("\u{ff}", "decoder_config"),
        ] {
            let error = Config::from_json(text.as_bytes()).unwrap_err().to_string();
            assert!(error.contains(name), "{text}: {error}");
        }
        assert!(Config::from_json(&[0xff]).is_err());
    }
}
