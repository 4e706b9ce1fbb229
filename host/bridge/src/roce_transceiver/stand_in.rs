//! Simulated adapter for tests: two queue pairs joined in memory.

use super::adapter::Adapter;
use ringcall_rdma::verbs::{
    PairFault, RemoteQueuePair, SendError, SendOperation, VerbsError, WorkCompletion,
};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One end of the connection, shared by both queue pairs.
#[derive(Debug, Default)]
pub(super) struct End {
    slot_bytes: usize,
    window: Vec<u8>,
    pub(super) posted: VecDeque<u32>,
    pub(super) done: VecDeque<WorkCompletion>,
    /// A fault for the next poll to return.
    pub(super) fault: Option<PairFault>,
    /// Whether the next attempt to connect again is refused.
    pub(super) refuses_connections: bool,
    pub(super) connections: u32,
    /// SENDs that found no posted receive.
    pub(super) dropped: u32,
}

pub(super) type Shared = Arc<Mutex<End>>;

#[derive(Debug)]
pub(super) struct StandIn {
    here: Shared,
    there: Shared,
    slots: u32,
}

pub(super) fn lock(end: &Shared) -> MutexGuard<'_, End> {
    end.lock().unwrap_or_else(PoisonError::into_inner)
}

pub(super) fn joined(slots: u32, slot_bytes: u32) -> [(StandIn, Shared); 2] {
    let bytes = slots as usize * slot_bytes as usize;
    let end = || {
        let end = End { slot_bytes: slot_bytes as usize, window: vec![0; bytes], ..End::default() };
        Arc::new(Mutex::new(end))
    };
    let (one, other) = (end(), end());
    let stand_in = |here: &Shared, there: &Shared| {
        (StandIn { here: Arc::clone(here), there: Arc::clone(there), slots }, Arc::clone(here))
    };
    [stand_in(&one, &other), stand_in(&other, &one)]
}

impl Adapter for StandIn {
    fn number(&self) -> u32 {
        0x11
    }

    fn key(&self) -> u32 {
        0x22
    }

    fn connect(&mut self, _: RemoteQueuePair) -> Result<(), VerbsError> {
        let mut here = lock(&self.here);
        if here.refuses_connections {
            return Err(VerbsError::Library("not again".to_owned()));
        }
        here.connections += 1;
        here.posted = (0..self.slots).collect();
        here.done.clear();
        here.fault = None;
        Ok(())
    }

    fn poll(&mut self) -> Result<Option<WorkCompletion>, PairFault> {
        let mut here = lock(&self.here);
        match here.fault {
            Some(fault) => Err(fault),
            None => Ok(here.done.pop_front()),
        }
    }

    fn poll_events(&mut self) -> Result<(), PairFault> {
        lock(&self.here).fault.map_or(Ok(()), Err)
    }

    fn read(&self, slot: u32, out: &mut [u8]) {
        let here = lock(&self.here);
        let start = slot as usize * here.slot_bytes;
        out.copy_from_slice(&here.window[start..start + out.len()]);
    }

    fn release(&mut self, slot: u32) -> Result<(), VerbsError> {
        lock(&self.here).posted.push_back(slot);
        Ok(())
    }

    fn send(&mut self, operation: SendOperation, bytes: &[u8]) -> Result<(), SendError> {
        if lock(&self.here).fault.is_some() {
            return Err(SendError::NotConnected);
        }
        let mut there = lock(&self.there);
        let Some(receive) = there.posted.pop_front() else {
            there.dropped += 1;
            return Ok(());
        };
        let length = bytes.len() as u32;
        let start = match operation {
            SendOperation::Send => {
                there.done.push_back(WorkCompletion::Received { slot: receive, bytes: length });
                receive as usize * there.slot_bytes
            }
            SendOperation::WriteImmediate { address, key, immediate } => {
                assert_eq!(key, 0x22, "the peer's key");
                there.posted.push_back(receive);
                there.done.push_back(WorkCompletion::Written { immediate, bytes: length });
                address as usize
            }
        };
        there.window[start..start + bytes.len()].copy_from_slice(bytes);
        Ok(())
    }

    fn doze(&self, at_most: Duration) {
        std::thread::sleep(at_most);
    }

    fn drain(&mut self, _: Duration) {}
}
