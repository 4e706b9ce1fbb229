//! Arguments of a provider: `--key=value` and `--flag`.

use crate::Refused;
use core::fmt::Display;
use core::str::FromStr;

/// The arguments with which a provider is created. A provider takes the arguments that it knows and ignores the rest:
/// callers pass on their whole command line.
///
/// ```
/// use ringcall_bridge::provider::Args;
/// let args = Args::new(["program", "--port=4000", "--unified", "--port=5000"]);
/// assert_eq!(args.number("--port", 0_u16)?, 5000);
/// assert_eq!(args.number("--num-slots", 8_u32)?, 8);
/// assert!(args.flag("--unified") && !args.flag("--pinned-rings"));
/// assert!(Args::new(["--port=65536"]).number("--port", 0_u16).is_err());
/// # Ok::<(), ringcall_bridge::Refused>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Args(Vec<String>);

impl Args {
    /// A list of arguments.
    pub fn new<S: Into<String>>(args: impl IntoIterator<Item = S>) -> Self {
        Self(args.into_iter().map(Into::into).collect())
    }

    /// The value of `--key=value`; the last one if there are several.
    #[must_use]
    pub fn value(&self, key: &str) -> Option<&str> {
        self.0.iter().rev().find_map(|arg| arg.strip_prefix(key)?.strip_prefix('='))
    }

    /// Whether `--flag` is given.
    #[must_use]
    pub fn flag(&self, key: &str) -> bool {
        self.0.iter().any(|arg| arg == key)
    }

    /// The value of `--key=value`, parsed, or `default` if there is none.
    ///
    /// # Errors
    /// The value cannot be parsed.
    pub fn number<T: FromStr<Err: Display>>(&self, key: &str, default: T) -> Result<T, Refused> {
        match self.value(key) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|e| Refused::invalid(format!("{key}={text}: {e}"))),
        }
    }
}
