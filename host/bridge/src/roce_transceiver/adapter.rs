//! Queue pairs of the RoCE transceiver's pump: an adapter's, or a simulated one in tests.

use ringcall_rdma::verbs::{
    PairFault, RemoteQueuePair, SendError, SendOperation, VerbsError, VerbsQueuePair, WorkCompletion,
};
use std::time::Duration;

/// A queue pair with the methods of [`VerbsQueuePair`].
pub(super) trait Adapter: Send {
    fn number(&self) -> u32;
    fn key(&self) -> u32;
    fn connect(&mut self, peer: RemoteQueuePair) -> Result<(), VerbsError>;
    fn poll(&mut self) -> Result<Option<WorkCompletion>, PairFault>;
    fn poll_events(&mut self) -> Result<(), PairFault>;
    fn read(&self, slot: u32, out: &mut [u8]);
    fn release(&mut self, slot: u32) -> Result<(), VerbsError>;
    fn send(&mut self, operation: SendOperation, bytes: &[u8]) -> Result<(), SendError>;
    /// Blocks until something completes, or until `at_most`.
    fn doze(&self, at_most: Duration);
    fn drain(&mut self, at_most: Duration);
}

impl Adapter for VerbsQueuePair {
    fn number(&self) -> u32 {
        Self::number(self)
    }

    fn key(&self) -> u32 {
        Self::key(self)
    }

    fn connect(&mut self, peer: RemoteQueuePair) -> Result<(), VerbsError> {
        Self::connect(self, peer)
    }

    fn poll(&mut self) -> Result<Option<WorkCompletion>, PairFault> {
        Self::poll(self)
    }

    fn poll_events(&mut self) -> Result<(), PairFault> {
        Self::poll_events(self)
    }

    fn read(&self, slot: u32, out: &mut [u8]) {
        Self::read(self, slot, out);
    }

    fn release(&mut self, slot: u32) -> Result<(), VerbsError> {
        Self::release(self, slot)
    }

    fn send(&mut self, operation: SendOperation, bytes: &[u8]) -> Result<(), SendError> {
        Self::send(self, operation, bytes)
    }

    fn doze(&self, at_most: Duration) {
        if self.wait(at_most).is_err() {
            std::thread::sleep(at_most);
        }
    }

    fn drain(&mut self, at_most: Duration) {
        Self::drain(self, at_most);
    }
}
