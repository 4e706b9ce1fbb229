//! What the tests of the device dispatcher share: a device, wired dispatchers, producers.

pub(crate) use crate::device::on_device;
use ringcall::{Ring, RingConfig};
use ringcall_cuda::driver::Context;
use ringcall_handler::Handler;
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules, Running, Snapshot,
    Stopped, Wired,
};
use ringcall_protocol::ring::SlotIndex;
use ringcall_protocol::slot::{Response, Vacant};
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::function::FunctionId;
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;
use std::str::FromStr;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Against hanging; no test asserts that anything is fast.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);

/// The samples' committed PTX, by compute capability.
pub(crate) const SAMPLES: &[(u32, &str)] =
    &[(80, include_str!("../../../../device/kernels/ptx/samples.sm_80.ptx"))];

/// A number from the environment: how long a test runs.
pub(crate) fn setting<T: FromStr>(name: &str, default: T) -> T {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// The sample handlers of some kinds that fit slots of this size.
pub(crate) fn samples(slot_bytes: u32, kinds: &[HandlerKind]) -> Vec<Handler> {
    let fits = |h: &Handler| kinds.contains(&h.kind) && h.schema.fits_slot(slot_bytes as usize).is_ok();
    ringcall_kernels::samples::handlers::all().into_iter().filter(fits).collect()
}

/// Thread and warp handlers that fit.
pub(crate) fn calls(slot_bytes: u32) -> Functions {
    Functions::new().handlers(&samples(slot_bytes, &[HandlerKind::Thread, HandlerKind::Warp]))
}

pub(crate) fn modules(context: &Context) -> Modules {
    Modules::new().ptx_for("samples", SAMPLES, context).expect("PTX for this device")
}

pub(crate) fn ring(context: &Arc<Context>, slots: u32, slot_bytes: u32) -> MappedRing {
    MappedRing::allocate(context, RingConfig { slots, slot_bytes }).expect("a ring")
}

/// A dispatcher of the samples, wired.
pub(crate) fn wire(
    ring: &MappedRing,
    functions: Functions,
    options: DispatcherOptions,
) -> DeviceDispatcher<Wired> {
    DeviceDispatcher::wire(ring, functions, modules(ring.context()), options)
        .unwrap_or_else(|why| panic!("{:?}: {why}", options.kernel))
}

/// A running dispatcher of thread and warp handlers on its own ring.
pub(crate) fn start(
    context: &Arc<Context>,
    (slots, slot_bytes): (u32, u32),
    kernel: KernelKind,
) -> (MappedRing, DeviceDispatcher<Running>) {
    let ring = ring(context, slots, slot_bytes);
    let running = wire(&ring, calls(slot_bytes), DispatcherOptions::new(kernel)).start().expect("started");
    (ring, running)
}

/// Stops it, and checks that nothing was left over.
pub(crate) fn stop_clean(running: DeviceDispatcher<Running>) {
    let Stopped { report, dispatcher } = running.stop(TIMEOUT);
    assert!(report.is_clean() && dispatcher.is_some(), "{report:?}");
}

/// Waits until the counters agree: they are written every so often, and not all at one moment, so that what is said of
/// several of them together belongs into `agree`.
pub(crate) fn counted<S>(
    dispatcher: &DeviceDispatcher<S>,
    what: &str,
    agree: impl Fn(&Snapshot) -> bool,
) -> Snapshot {
    let begin = Instant::now();
    loop {
        let counters = dispatcher.counters();
        if agree(&counters) {
            return counters;
        }
        let named: Vec<_> = counters.named().collect();
        assert!(begin.elapsed() < Duration::from_secs(1), "not counted: {what}; counters: {named:?}");
        std::thread::yield_now();
    }
}

/// A response, copied out of its slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) status: Status,
    pub(crate) error: Option<u16>,
    pub(crate) request_id: u32,
    pub(crate) ptp_timestamp: u64,
    pub(crate) result: Vec<u8>,
}

impl Answer {
    pub(crate) fn of(response: &Response, ring: &SharedRing) -> Self {
        let header = response.header();
        let len = header.result_len.min(ring.geometry().result_capacity()) as usize;
        let mut result = vec![0; len];
        assert_eq!(response.read(ring, &mut result), header.result_len as usize, "a length past the slot");
        Self {
            status: Status(header.status),
            error: response.error(),
            request_id: header.request_id,
            ptp_timestamp: header.ptp_timestamp,
            result,
        }
    }
}

pub(crate) fn slot(ring: &Ring, index: u32) -> SlotIndex {
    ring.geometry().slot(index).expect("a slot of this ring")
}

pub(crate) fn slots(ring: &Ring) -> Vec<SlotIndex> {
    ring.geometry().iter().collect()
}

/// Waits until a slot may be written.
pub(crate) fn vacant(ring: &Ring, slot: SlotIndex) -> Vacant {
    let begin = Instant::now();
    loop {
        if let Some(vacant) = Vacant::probe(ring.shared(), slot) {
            return vacant;
        }
        assert!(begin.elapsed() < TIMEOUT, "slot {} does not become free", slot.get());
        std::hint::spin_loop();
    }
}

/// Sends one request to one slot.
pub(crate) fn send(ring: &Ring, slot: SlotIndex, function: &str, id: u32, payload: &[u8]) {
    vacant(ring, slot)
        .submit(ring.shared(), FunctionId::of(function).0, id, u64::from(id) << 20 | 5, payload)
        .expect("the payload fits");
}

/// Waits for the response of a slot, and takes it.
pub(crate) fn take(ring: &Ring, slot: SlotIndex) -> Answer {
    let begin = Instant::now();
    loop {
        if let Some(response) = Response::probe(ring.shared(), slot) {
            let answer = Answer::of(&response, ring.shared());
            response.release(ring.shared());
            return answer;
        }
        assert!(begin.elapsed() < TIMEOUT, "slot {} is not answered", slot.get());
        std::hint::spin_loop();
    }
}

/// Waits until a slot's response is there and its request flag is given back, and leaves the response where it is.
pub(crate) fn await_answer(ring: &Ring, slot: SlotIndex) {
    let begin = Instant::now();
    while Response::probe(ring.shared(), slot).is_none() || ring.shared().rx(slot) != 0 {
        assert!(begin.elapsed() < TIMEOUT, "slot {} is not answered", slot.get());
        std::hint::spin_loop();
    }
}

/// One call through one slot.
pub(crate) fn call(ring: &Ring, slot: SlotIndex, function: &str, payload: &[u8]) -> Answer {
    send(ring, slot, function, 77, payload);
    let answer = take(ring, slot);
    assert_eq!((answer.request_id, answer.ptp_timestamp), (77, 77 << 20 | 5), "{function}: echo");
    assert_eq!(answer.error, None, "{function}");
    answer
}

/// Keeps requests under way in all of `slots` until `n` have been answered: `fill` writes request `i` into a vacant slot,
/// `check` looks at its response.
pub(crate) fn drive(
    ring: &SharedRing,
    slots: &[SlotIndex],
    n: u64,
    mut fill: impl FnMut(u64, Vacant),
    mut check: impl FnMut(u64, &Response),
) {
    let mut open: Vec<Option<u64>> = vec![None; slots.len()];
    let (mut sent, mut taken) = (0, 0);
    let mut last = Instant::now();
    while taken < n {
        let before = taken + sent;
        for (&slot, open) in slots.iter().zip(&mut open) {
            if let Some(i) = *open
                && let Some(response) = Response::probe(ring, slot)
            {
                check(i, &response);
                response.release(ring);
                (*open, taken) = (None, taken + 1);
            }
            if open.is_none()
                && sent < n
                && let Some(vacant) = Vacant::probe(ring, slot)
            {
                fill(sent, vacant);
                (*open, sent) = (Some(sent), sent + 1);
            }
        }
        if before != taken + sent {
            last = Instant::now();
        } else if last.elapsed() > TIMEOUT {
            let stuck: Vec<_> = slots.iter().zip(&open).filter(|(_, open)| open.is_some()).collect();
            panic!("{taken} of {n} answered, then none for {TIMEOUT:?}; waiting: {stuck:?}");
        }
    }
}

/// `n` calls of a function that adds 1 to every byte, from one thread through all of `slots`, all of them checked.
pub(crate) fn flood(ring: &SharedRing, slots: &[SlotIndex], functions: &[&str], len: usize, n: u64) {
    let ids: Vec<_> = functions.iter().map(|name| FunctionId::of(name).0).collect();
    let mut result = vec![0; len];
    let mut payload = vec![0; len];
    drive(
        ring,
        slots,
        n,
        |i, vacant| {
            fill_pattern(&mut payload, i);
            let id = ids[i as usize % ids.len()];
            vacant.submit(ring, id, i as u32, i, &payload).expect("the payload fits");
        },
        |i, response| {
            let header = response.header();
            assert_eq!((header.status, header.request_id, header.ptp_timestamp), (0, i as u32, i));
            assert_eq!(header.result_len as usize, len, "request {i}");
            response.read(ring, &mut result);
            let wrong = result.iter().enumerate().find(|&(at, byte)| *byte != pattern(i, at).wrapping_add(1));
            assert_eq!(wrong, None, "request {i}: a wrong byte and its index");
        },
    );
}

/// Byte `at` of the payload of request `i`: neighbours differ, and so do successive requests.
pub(crate) const fn pattern(i: u64, at: usize) -> u8 {
    (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 ^ (at as u8).wrapping_mul(37)
}

pub(crate) fn fill_pattern(payload: &mut [u8], i: u64) {
    for (at, byte) in payload.iter_mut().enumerate() {
        *byte = pattern(i, at);
    }
}

/// Parts of a ring for several producers.
pub(crate) fn parts(ring: &Ring, producers: usize) -> Vec<Vec<SlotIndex>> {
    let all = slots(ring);
    all.chunks(all.len().div_ceil(producers)).map(<[_]>::to_vec).collect()
}
