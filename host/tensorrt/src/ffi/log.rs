//! Log messages of the library, kept for errors.

use super::text;
use std::collections::VecDeque;
use std::ffi::{c_char, c_void};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// The library found itself in a state that it does not know.
    InternalError,
    /// The operation failed.
    Error,
    /// The operation succeeded, with a warning.
    Warning,
}

/// One message of the library's.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// How bad it is.
    pub severity: Severity,
    /// Its words.
    pub text: String,
}

impl fmt::Display for Message {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The last messages of one library, from all threads.
#[derive(Debug, Default)]
pub(crate) struct Log(Mutex<Lines>);

#[derive(Debug, Default)]
struct Lines {
    /// How many there ever were.
    count: u64,
    last: VecDeque<(u64, ThreadId, Message)>,
}

/// How many are kept.
const KEPT: usize = 256;
/// One message is cut to so many bytes: the library quotes names out of files.
const MOST_BYTES: usize = 2048;

impl Log {
    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, severity: i32, text: &str) {
        let severity = match severity {
            0 => Severity::InternalError,
            1 => Severity::Error,
            2 => Severity::Warning,
            _ => return,
        };
        let text = text[..text.floor_char_boundary(MOST_BYTES)].trim().to_owned();
        let mut lines = self.lines();
        let number = lines.count;
        lines.count += 1;
        if lines.last.len() == KEPT {
            lines.last.pop_front();
        }
        lines.last.push_back((number, std::thread::current().id(), Message { severity, text }));
    }

    /// Where messages stand now, for [`errors_since`](Self::errors_since).
    pub(super) fn mark(&self) -> u64 {
        self.lines().count
    }

    /// The errors since `mark`: this thread's, or, should they come from threads of the library's own, all.
    pub(super) fn errors_since(&self, mark: u64) -> Vec<String> {
        let lines = self.lines();
        let me = std::thread::current().id();
        let errors = |whose: Option<ThreadId>| -> Vec<String> {
            lines
                .last
                .iter()
                .filter(|(number, thread, message)| {
                    *number >= mark
                        && message.severity <= Severity::Error
                        && whose.is_none_or(|whose| whose == *thread)
                })
                .map(|(_, _, message)| message.text.clone())
                .collect()
        };
        match errors(Some(me)) {
            own if !own.is_empty() => own,
            _ => errors(None),
        }
    }

    /// All that are kept, oldest first.
    pub(crate) fn messages(&self) -> Vec<Message> {
        self.lines().last.iter().map(|(_, _, message)| message.clone()).collect()
    }

    /// What the shim calls; `user` is a `Log`.
    ///
    /// # Safety
    /// `user` is a live `Log`, `words` null or terminated.
    pub(super) unsafe extern "C" fn callback(user: *mut c_void, severity: i32, words: *const c_char) {
        // SAFETY: the caller's promise; a log is shared by all threads.
        let log = unsafe { &*user.cast::<Self>() };
        // SAFETY: the caller's promise.
        if let Some(words) = unsafe { text(words) } {
            log.add(severity, &words);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_errors_after_the_mark_are_repeated_and_own_ones_first() {
        let log = Log::default();
        log.add(1, "before");
        let mark = log.mark();
        log.add(2, "a warning");
        log.add(3, "news");
        assert!(log.errors_since(mark).is_empty());
        std::thread::scope(|scope| {
            scope.spawn(|| log.add(0, "elsewhere"));
        });
        assert_eq!(log.errors_since(mark), ["elsewhere"]);
        log.add(1, " mine \n");
        assert_eq!(log.errors_since(mark), ["mine"]);
        assert_eq!(log.messages().len(), 4, "news is not kept");
    }

    #[test]
    fn it_does_not_grow_without_end() {
        let log = Log::default();
        let long = "é".repeat(MOST_BYTES);
        for _ in 0..2 * KEPT {
            log.add(1, &long);
        }
        let messages = log.messages();
        assert_eq!(messages.len(), KEPT);
        assert!(messages.iter().all(|message| message.text.len() <= MOST_BYTES));
    }
}
