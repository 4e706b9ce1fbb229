//! The calls that peers make, and what each has to be answered with.

use crate::random::Random;
use ringcall::table::TableBuilder;
use ringcall::{FunctionId, FunctionTable};
use ringcall_wire::names::RPC_INCREMENT;
use ringcall_wire::{RequestHeader, Status};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes that each correct payload begins with: the number of its peer, its request's id.
pub(crate) const TAG_BYTES: usize = 8;
const SAYS_NO: &str = "simulator_says_no";
const IS_SLOW: &str = "simulator_is_slow";
/// The function that workers serve.
pub(crate) const BY_WORKERS: &str = IS_SLOW;
/// What the function that says no answers.
const NO: Status = Status(42);

/// How often each request was run, by peer and id.
#[derive(Clone, Debug, Default)]
pub(crate) struct Runs(Arc<Mutex<BTreeMap<(u32, u32), u32>>>);

impl Runs {
    pub(crate) fn record(&self, payload: &[u8]) {
        let Some(&[tag @ .., a, b, c, d]) = payload.first_chunk::<TAG_BYTES>() else { return };
        let subject = (u32::from_le_bytes(tag), u32::from_le_bytes([a, b, c, d]));
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(subject).or_default() += 1;
    }

    pub(crate) fn of(&self, subject: (u32, u32)) -> u32 {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&subject).copied().unwrap_or_default()
    }
}

/// What increments every byte, as far as there is room.
pub(crate) fn increment(payload: &[u8], result: &mut [u8]) -> usize {
    result.iter_mut().zip(payload).for_each(|(out, byte)| *out = byte.wrapping_add(1));
    payload.len().min(result.len())
}

/// The functions of a service; with workers, one of them is theirs.
pub(crate) fn table(runs: &Runs, workers: bool) -> TableBuilder {
    let (increments, refusals) = (runs.clone(), runs.clone());
    let table = FunctionTable::builder()
        .host_call(RPC_INCREMENT, move |payload: &[u8], result: &mut [u8]| {
            increments.record(payload);
            Ok(increment(payload, result))
        })
        .host_call(SAYS_NO, move |payload: &[u8], _: &mut [u8]| {
            refusals.record(payload);
            Err(NO)
        });
    if workers { table.worker_call(IS_SLOW, ringcall::wire::HandlerSchema::new()) } else { table }
}

/// One request of a correct peer.
#[derive(Clone, Debug)]
pub(crate) struct Call {
    pub(crate) header: RequestHeader,
    pub(crate) payload: Vec<u8>,
    /// What a right answer has: the status, and whether the payload comes back, incremented.
    pub(crate) status: Status,
    pub(crate) by_worker: bool,
}

impl Call {
    /// The next call of a peer, of up to `capacity` bytes.
    pub(crate) fn new(
        random: &mut Random,
        (peer, id): (u32, u32),
        capacity: usize,
        workers: bool,
        now: u64,
    ) -> Self {
        let most = if random.chance(700) { capacity.min(TAG_BYTES + 64) } else { capacity };
        let len = random.between(TAG_BYTES as u64, most as u64) as usize;
        let mut payload = vec![0; len];
        payload[..4].copy_from_slice(&peer.to_le_bytes());
        payload[4..TAG_BYTES].copy_from_slice(&id.to_le_bytes());
        random.fill(&mut payload[TAG_BYTES..]);
        let (name, status) = match random.below(20) {
            0 => (SAYS_NO, NO),
            1 => ("simulator_knows_none_of_this_name", Status::UNKNOWN_FUNCTION),
            2..6 if workers => (IS_SLOW, Status::OK),
            _ => (RPC_INCREMENT, Status::OK),
        };
        let header = RequestHeader::new(FunctionId::of(name).0, len as u32, id, now);
        Self { header, payload, status, by_worker: name == IS_SLOW }
    }

    /// Header and payload.
    pub(crate) fn frame(&self) -> Vec<u8> {
        [&self.header.to_bytes()[..], &self.payload].concat()
    }

    /// Whether this is the answer: the right status, and what it should bring.
    pub(crate) fn is_answered_by(&self, status: Status, result: &[u8]) -> bool {
        status == self.status
            && if status.is_ok() {
                self.payload.iter().map(|byte| byte.wrapping_add(1)).eq(result.iter().copied())
            } else {
                result.is_empty()
            }
    }
}
