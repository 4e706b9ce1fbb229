//! Findings: the result of one check of the machine.

use serde::Serialize;
use serde_json::Value;

/// How well a thing serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// There, but Ringcall is slower or less even with it than it could be.
    Limited,
    /// Not there: what it is for does not work.
    Missing,
}

/// One thing looked at.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// Its name for programs; never changes.
    #[serde(skip)]
    pub(super) key: &'static str,
    /// Its name for people.
    #[serde(skip)]
    pub(super) name: &'static str,
    pub(super) state: State,
    /// What there is, in a line.
    pub(super) found: String,
    /// What it is for, in a line.
    pub(super) purpose: &'static str,
    /// What to do about it, in a line; there unless all is well.
    pub(super) remedy: Option<String>,
    /// The same as `found`, for programs.
    pub(super) details: Value,
}

impl Finding {
    /// A finding that needs no remedy.
    pub(super) fn ok(
        key: &'static str,
        name: &'static str,
        found: impl Into<String>,
        purpose: &'static str,
    ) -> Self {
        Self { key, name, state: State::Ok, found: found.into(), purpose, remedy: None, details: Value::Null }
    }

    /// The same in this state, with what to do about it.
    pub(super) fn but(self, state: State, remedy: impl Into<String>) -> Self {
        Self { state, remedy: Some(remedy.into()), ..self }
    }

    /// The same, limited for this reason unless it is worse already.
    pub(super) fn limited_if(self, limited: bool, remedy: impl Into<String>) -> Self {
        if limited && self.state == State::Ok { self.but(State::Limited, remedy) } else { self }
    }

    pub(super) fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }
}
