//! Findings: the result of one check of the machine.

use serde::Serialize;
use serde_json::Value;

/// State of a part of the machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    /// As it should be.
    Ok,
    /// Present, but Ringcall is slower with it, or can do less, than it could.
    Limited,
    /// Missing: the features that need it do not work.
    Missing,
}

#[derive(Debug, Clone, Serialize)]
pub(super) struct Finding {
    /// The stable name for programs.
    #[serde(skip)]
    pub(super) key: &'static str,
    #[serde(skip)]
    pub(super) name: &'static str,
    pub(super) state: State,
    /// The state in one line.
    pub(super) found: String,
    /// The purpose of the checked part, in one line.
    pub(super) purpose: &'static str,
    /// The remedy in one line; always present unless the state is `Ok`.
    pub(super) remedy: Option<String>,
    /// The contents of `found` for programs.
    pub(super) details: Value,
}

impl Finding {
    pub(super) fn ok(
        key: &'static str,
        name: &'static str,
        found: impl Into<String>,
        purpose: &'static str,
    ) -> Self {
        Self { key, name, state: State::Ok, found: found.into(), purpose, remedy: None, details: Value::Null }
    }

    /// This finding in another state with a remedy.
    pub(super) fn but(self, state: State, remedy: impl Into<String>) -> Self {
        Self { state, remedy: Some(remedy.into()), ..self }
    }

    /// This finding, limited for this reason unless its state is worse already.
    pub(super) fn limited_if(self, limited: bool, remedy: impl Into<String>) -> Self {
        if limited && self.state == State::Ok { self.but(State::Limited, remedy) } else { self }
    }

    pub(super) fn with(self, details: Value) -> Self {
        Self { details, ..self }
    }
}
