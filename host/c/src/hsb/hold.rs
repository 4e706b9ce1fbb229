//! Queues from one launch to the next: who works them, and where in them the last one was.

use crate::handles::lock;
use crate::status::Fault;
use ringcall_launch::queue_pair::{UnifiedDispatcher, Wired};
use ringcall_launch::relay::{RelayDispatcher, Wired as RelayWired};
use ringcall_mlx5::endpoint::Endpoint;
use ringcall_mlx5::{BlueFlame, endpoint};
use ringcall_rdma::unified::UnifiedQueues;
use std::sync::{Arc, Mutex};

/// What is kept of a launch for the next: its position in the queues.
#[derive(Debug)]
pub(super) enum QueuePosition {
    Host(Box<Endpoint<BlueFlame>>),
    Device(Box<UnifiedDispatcher<Wired>>),
    Three(Box<RelayDispatcher<RelayWired>>),
}

#[derive(Debug, Default)]
enum Now {
    #[default]
    Idle,
    Worked,
    /// Nothing works them any more, and nothing can.
    Over(String),
    /// The adapter is gone.
    Closed,
}

#[derive(Debug, Default)]
struct State {
    now: Now,
    first: Option<UnifiedQueues>,
    position: Option<QueuePosition>,
}

/// Queues that one loop or kernel at a time works.
#[derive(Debug, Default)]
pub(super) struct Hold(Mutex<State>);

/// A turn at the queues, which ends when this is dropped: by itself as if there had been none.
#[derive(Debug)]
pub(super) struct Turn {
    hold: Arc<Hold>,
    position: Option<QueuePosition>,
    next: Now,
}

/// The first part in which two descriptions of queues differ.
fn differs(a: &UnifiedQueues, b: &UnifiedQueues) -> Option<&'static str> {
    let parts = |queues: &UnifiedQueues| {
        let (at, endpoint::Config { qpn, slots, rx_stride, tx_stride, tx_lkey, .. }) =
            (queues.addresses, queues.config);
        [
            ("the queue pair's number", [u64::from(qpn), 0]),
            ("the receive completions", [at.rx_completions, at.rx_completion_entries.into()]),
            ("the receive queue", [at.receive, at.receive_entries.into()]),
            ("the send completions", [at.tx_completions, at.tx_completion_entries.into()]),
            ("the send queue", [at.send, at.send_entries.into()]),
            ("the doorbell record", [at.record, 0]),
            ("the doorbell register", [at.uar, 0]),
            ("request slot 0", [at.rx_data, 0]),
            ("the request slots", [slots.into(), rx_stride.into()]),
            ("response slot 0", [at.tx_data, 0]),
            ("the response slots", [tx_stride.into(), tx_lkey.into()]),
        ]
    };
    let pairs = parts(a).into_iter().zip(parts(b));
    pairs.into_iter().find(|((_, a), (_, b))| a != b).map(|((what, _), _)| what)
}

impl Hold {
    /// Begins a turn.
    ///
    /// # Errors
    /// They are worked, they cannot be worked any more, or an earlier turn was at other queues.
    pub(super) fn begin(self: &Arc<Self>, queues: &UnifiedQueues) -> Result<Turn, Fault> {
        let mut state = lock(&self.0);
        match &state.now {
            Now::Idle => (),
            Now::Worked => {
                return Err(Fault::invalid("the queues are worked already: stop that dispatcher first"));
            }
            Now::Over(why) => {
                return Err(Fault::invalid(format!("the queues cannot be worked any more: {why}")));
            }
            Now::Closed => return Err(Fault::invalid("the adapter was destroyed")),
        }
        if let Some(what) = state.first.as_ref().and_then(|first| differs(first, queues)) {
            return Err(Fault::invalid(format!(
                "{what} of the transport context differs from what the queues were worked with before"
            )));
        }
        state.now = Now::Worked;
        let position = state.position.take();
        Ok(Turn { hold: Arc::clone(self), position, next: Now::Idle })
    }

    /// # Errors
    /// What worked the queues has ended by itself.
    pub(super) fn check(&self) -> Result<(), Fault> {
        match &lock(&self.0).now {
            Now::Over(why) => Err(Fault::internal(why.clone())),
            _ => Ok(()),
        }
    }

    /// Never gives a turn again.
    ///
    /// # Errors
    /// They are worked.
    pub(super) fn close(&self) -> Result<(), Fault> {
        let mut state = lock(&self.0);
        if matches!(state.now, Now::Worked) {
            return Err(Fault::invalid("the adapter's queues are worked: stop the dispatcher first"));
        }
        state.now = Now::Closed;
        state.position = None;
        Ok(())
    }
}

impl Turn {
    /// Where the last turn was in the queues.
    pub(super) fn position(&mut self) -> Option<QueuePosition> {
        self.position.take()
    }

    /// From here on the queues are known by these addresses.
    pub(super) fn opened(&self, queues: &UnifiedQueues) {
        lock(&self.hold.0).first.get_or_insert(*queues);
    }

    /// Ends the turn: the next continues at `position`, or there is none, and why.
    pub(super) fn end(mut self, position: Result<QueuePosition, String>) {
        match position {
            Ok(position) => self.position = Some(position),
            Err(why) => self.next = Now::Over(why),
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let mut state = lock(&self.hold.0);
        state.now = std::mem::take(&mut self.next);
        state.position = self.position.take();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hsb::adapter::{Adapter, For, Given};

    fn queues(adapter: &Adapter) -> UnifiedQueues {
        adapter.queues(&Given::Own(adapter.context())).expect("its own context")
    }

    fn endpoint(adapter: &Adapter) -> QueuePosition {
        let made = queues(adapter).emulated(&adapter.windows, &adapter.uar);
        QueuePosition::Host(Box::new(made.expect("its own queues")))
    }

    fn why<T>(outcome: Result<T, Fault>) -> String {
        outcome.err().map(|fault| fault.why).unwrap_or_default()
    }

    #[test]
    fn a_turn_that_comes_to_nothing_leaves_its_position() {
        let adapter = Adapter::still(128, 4, None, For::Unified).expect("memory");
        let (hold, queues) = (&adapter.hold, queues(&adapter));
        hold.begin(&queues).expect("idle").end(Ok(endpoint(&adapter)));
        // As a launch that finds no thread does.
        drop(hold.begin(&queues).expect("idle again"));
        let mut turn = hold.begin(&queues).expect("idle again");
        assert!(matches!(turn.position(), Some(QueuePosition::Host(_))), "where the first one was");
        assert!(why(hold.begin(&queues)).contains("worked already"));
        assert!(why(hold.close()).contains("stop the dispatcher"));
    }

    #[test]
    fn what_cannot_be_worked_any_more_says_so() {
        let adapter = Adapter::still(128, 4, None, For::Unified).expect("memory");
        let (hold, queues) = (&adapter.hold, queues(&adapter));
        hold.check().expect("nothing has ended");
        hold.begin(&queues).expect("idle").end(Err("its kernel has failed".to_owned()));
        assert_eq!(why(hold.check()), "its kernel has failed");
        assert!(why(hold.begin(&queues)).contains("its kernel has failed"));
        hold.close().expect("it does not keep the adapter");
    }

    #[test]
    fn a_later_turn_is_at_the_same_queues() {
        let (adapter, other) = (
            Adapter::still(128, 4, None, For::Unified).expect("memory"),
            Adapter::still(128, 4, None, For::Unified).expect("memory"),
        );
        let first = queues(&adapter);
        let turn = adapter.hold.begin(&first).expect("idle");
        turn.opened(&first);
        drop(turn);
        assert!(why(adapter.hold.begin(&queues(&other))).contains("the receive completions"));
        let mut moved = first;
        moved.addresses.uar += 64;
        assert!(why(adapter.hold.begin(&moved)).contains("the doorbell register"));
        adapter.hold.begin(&first).expect("the same");
    }
}
