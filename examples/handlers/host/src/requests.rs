//! Requests, and the check of their answers.

use anyhow::{Context, Result};
use ringcall::Client;
use ringcall::client::Reply;
use ringcall_handler::{Handler, Status};
use std::time::Duration;

/// An answer takes microseconds: later than this, the dispatcher is gone.
const TIMEOUT: Duration = Duration::from_secs(10);

/// Answers to the requests for one handler.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Answers {
    /// As the function itself answers.
    pub(crate) right: u32,
    /// Others.
    pub(crate) wrong: u32,
}

/// Sends requests, one after the other, and compares each answer with the plain function's.
///
/// The payloads are random bytes, the same in every run: every byte string of the right length is a syndrome or a
/// readout. Handlers that are more particular need payloads made for them.
pub(crate) fn ask(client: &mut Client, handler: &Handler, requests: u32) -> Result<Answers> {
    let mut payload = vec![0; handler.schema.args_bytes()? as usize];
    let mut random = fastrand::Rng::with_seed(1);
    let mut counts = Answers::default();
    for number in 0..requests {
        random.fill(&mut payload);
        let reply = client
            .call(handler.name, &payload, TIMEOUT)
            .with_context(|| format!("request {number} for `{}`", handler.name))?;
        if is_right(handler, &payload, &reply)? {
            counts.right += 1;
        } else {
            counts.wrong += 1;
        }
    }
    Ok(counts)
}

fn is_right(handler: &Handler, payload: &[u8], reply: &Reply) -> Result<bool> {
    let mut expected = vec![0; handler.schema.results_bytes()? as usize];
    Ok(match handler.call(payload, &mut expected) {
        Ok(len) => reply.status == Status::OK && expected.get(..len) == Some(reply.result.as_slice()),
        Err(status) => reply.status == status,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dispatcher::Dispatcher;
    use example_handlers::{decode_repetition, vote_checks};

    #[test]
    fn wrong_answers_are_seen() {
        // It has the name and the schema of the decoder, and answers once in four with no correction.
        let wrong = Handler {
            native: |_, checks, result| {
                let written = decode_repetition::HANDLER.call(checks, result);
                result[0] &= checks[0] & 1;
                written
            },
            ..decode_repetition::HANDLER
        };
        let dispatcher = Dispatcher::on_cpu(&[wrong, vote_checks::HANDLER], "a test").expect("started");
        let mut client = Client::new(dispatcher.ring());
        let counts = ask(&mut client, &decode_repetition::HANDLER, 100).expect("answered");
        assert!(counts.wrong > 0 && counts.right > 0, "{counts:?}");
        let counts = ask(&mut client, &vote_checks::HANDLER, 100).expect("answered");
        assert_eq!(counts, Answers { right: 100, wrong: 0 });
        assert!(dispatcher.stop().clean);
    }

    #[test]
    fn an_unexpected_status_is_wrong() {
        let refuses = Handler { native: |_, _, _| Err(Status(7)), ..decode_repetition::HANDLER };
        let dispatcher = Dispatcher::on_cpu(&[refuses], "a test").expect("started");
        let mut client = Client::new(dispatcher.ring());
        let counts = |handler, client: &mut Client| ask(client, handler, 10).expect("answered");
        assert_eq!(counts(&decode_repetition::HANDLER, &mut client), Answers { right: 0, wrong: 10 });
        assert_eq!(counts(&refuses, &mut client), Answers { right: 10, wrong: 0 });
        assert!(dispatcher.stop().clean);
    }
}
