//! Errors of a configuration file, with line and key.

use std::borrow::Cow;

/// A fault of a configuration, as one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub struct ConfigError {
    /// The line of the file, from 1.
    pub line: usize,
    /// The key with its parents (`decoders[0].H_sparse[3]`); empty if no key is at fault.
    pub key: String,
    /// The fault.
    pub reason: String,
}

impl std::fmt::Display for ConfigError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { line, key, reason } = self;
        match &**key {
            "" => write!(f, "line {line}: {reason}"),
            _ => write!(f, "line {line}: {key}: {reason}"),
        }
    }
}

impl ConfigError {
    pub(super) fn new<'a>(line: usize, key: impl Into<Cow<'a, str>>, reason: impl Into<String>) -> Self {
        // A line break in a key or a text of the file would split the line.
        let flat = |text: String| text.replace(|c: char| c.is_control(), " ");
        let key: Cow<'_, str> = key.into();
        Self { line: line.max(1), key: flat(key.into_owned()), reason: flat(reason.into()) }
    }
}
