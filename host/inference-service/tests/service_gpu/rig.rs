//! What the tests of the services share: a device, dispatchers, a producer that checks every answer.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus;
use ringcall::{FunctionId, Ring, RingConfig, Status};
use ringcall_cuda::CudaError;
use ringcall_cuda::driver::{Context, Driver, devrt};
use ringcall_gpu_decoders::predecoder::{Layer, Network};
use ringcall_launch::ring::{
    DeviceDispatcher, DispatcherOptions, Functions, KernelKind, MappedRing, Modules, Running, Snapshot,
};
use ringcall_protocol::slot::{Response, Vacant};
use std::ops::Range;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Against hanging; no test asserts that anything is fast.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(10);

/// Runs `test` on the first device, or says why not.
pub(crate) fn on_device(name: &str, test: impl FnOnce(&Arc<Context>)) {
    try_on_device(name, |context| {
        test(context);
        Ok(())
    });
}

/// The same with a test that may find there why it cannot run.
pub(crate) fn try_on_device(name: &str, test: impl FnOnce(&Arc<Context>) -> Result<(), String>) {
    // In turn: where one's kernel runs, no test loads code, and what another drops is not freed.
    static TURN: std::sync::Mutex<()> = std::sync::Mutex::new(());
    if let Err(why) = devrt::find() {
        eprintln!("skipped: {name}: {}", why.to_string().lines().next().unwrap_or_default());
        return;
    }
    match Driver::load().and_then(|driver| driver.device(0)?.context()) {
        Err(why @ (CudaError::NoDriver | CudaError::NoDevice | CudaError::DriverUnusable(_))) => {
            eprintln!("skipped: {name}: {why}");
        }
        Err(why) => panic!("{name}: {why}"),
        Ok(context) => {
            let _turn = TURN.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            match test(&context) {
                Err(why) => eprintln!("skipped: {name}: {why}"),
                Ok(()) => eprintln!("ran: {name}"),
            }
        }
    }
}

/// Requests of the longer tests.
pub(crate) fn requests() -> u64 {
    match std::env::var("RINGCALL_SERVICE_REQUESTS") {
        Ok(text) => text.parse().expect("RINGCALL_SERVICE_REQUESTS is a number"),
        Err(_) => 10_000,
    }
}

pub(crate) fn ring(context: &Arc<Context>, slots: u32, slot_bytes: u32) -> MappedRing {
    MappedRing::allocate(context, RingConfig { slots, slot_bytes }).expect("a ring")
}

/// A running dispatcher that launches graphs.
pub(crate) fn dispatcher(ring: &MappedRing, functions: Functions) -> DeviceDispatcher<Running> {
    let options = DispatcherOptions::new(KernelKind::graph());
    DeviceDispatcher::wire(ring, functions, Modules::new(), options).expect("wired").start().expect("started")
}

/// Waits until the counters agree: they are written every so often.
pub(crate) fn counted(running: &DeviceDispatcher<Running>, what: &str, agree: impl Fn(&Snapshot) -> bool) {
    let begin = Instant::now();
    while !agree(&running.counters()) {
        let counters = running.counters();
        let named: Vec<_> = counters.named().collect();
        assert!(begin.elapsed() < Duration::from_secs(1), "not counted: {what}; counters: {named:?}");
        std::thread::yield_now();
    }
}

/// A request, and what its answer may be.
pub(crate) struct Sent<'a> {
    pub(crate) payload: Vec<u8>,
    /// The result that goes with [`Status::OK`].
    pub(crate) expected: Vec<u8>,
    pub(crate) allowed: &'a [Status],
    /// Bytes of the result that nobody set.
    pub(crate) ignored: &'a [Range<usize>],
}

impl Sent<'_> {
    pub(crate) fn of(payload: Vec<u8>, expected: impl Fn(&[u8]) -> Vec<u8>) -> Self {
        let expected = expected(&payload);
        Self { payload, expected, allowed: &[Status::OK], ignored: &[] }
    }

    fn check(&self, i: u64, status: Status, result: &[u8]) {
        assert!(self.allowed.contains(&status), "request {i}: {status}");
        if !status.is_ok() {
            assert!(result.is_empty(), "request {i}: {status} with {} bytes", result.len());
            return;
        }
        assert_eq!(result.len(), self.expected.len(), "request {i}");
        let wrong = (0..result.len()).find(|at| {
            result[*at] != self.expected[*at] && !self.ignored.iter().any(|range| range.contains(at))
        });
        assert_eq!(wrong, None, "request {i}: the index of a wrong byte");
    }
}

/// Keeps requests under way in all slots until `n` were answered, and checks each answer; how many were `OK`.
pub(crate) fn drive<'a>(ring: &Ring, function: &str, n: u64, make: impl Fn(u64) -> Sent<'a>) -> u64 {
    let (shared, id) = (ring.shared(), FunctionId::of(function).0);
    let slots: Vec<_> = ring.geometry().iter().collect();
    let mut open: Vec<Option<(u64, Sent<'a>)>> = slots.iter().map(|_| None).collect();
    let (mut sent, mut taken, mut ok) = (0, 0, 0);
    let mut result = vec![0; ring.geometry().result_capacity() as usize];
    let mut last = Instant::now();
    while taken < n {
        let before = taken + sent;
        for (&slot, open) in slots.iter().zip(&mut open) {
            if let Some((i, asked)) = open
                && let Some(response) = Response::probe(shared, slot)
            {
                let header = *response.header();
                assert_eq!(
                    (header.request_id, header.ptp_timestamp),
                    (*i as u32, *i),
                    "another request's answer"
                );
                let len = response.read(shared, &mut result);
                assert_eq!((response.error(), len), (None, header.result_len as usize), "request {i}");
                asked.check(*i, Status(header.status), &result[..len]);
                ok += u64::from(header.status == 0);
                response.release(shared);
                (*open, taken) = (None, taken + 1);
            }
            if open.is_none()
                && sent < n
                && let Some(vacant) = Vacant::probe(shared, slot)
            {
                let asked = make(sent);
                vacant.submit(shared, id, sent as u32, sent, &asked.payload).expect("the payload fits");
                (*open, sent) = (Some((sent, asked)), sent + 1);
            }
        }
        if before != taken + sent {
            last = Instant::now();
        }
        assert!(last.elapsed() < TIMEOUT, "{taken} of {n} answered, then none for {TIMEOUT:?}");
    }
    ok
}

/// Neighbours differ, and so do successive requests.
pub(crate) fn payload(len: usize, i: u64) -> Vec<u8> {
    let seed = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8;
    (0..len).map(|at| seed ^ (at as u8).wrapping_mul(37)).collect()
}

/// Made-up weights that spread activations over 0..255, with sums that stay exact.
pub(crate) fn network(seed: u64) -> Network {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    let mut layer = |inputs: usize, outputs: usize, largest: f32, factor: f32| {
        let mut number = || rng.random::<f32>() * 2.0 - 1.0;
        let weights = (0..inputs * outputs * 27).map(|_| (number() * largest).round() as i16).collect();
        let factors = (0..outputs).map(|_| factor * (1.0 + 0.5 * number())).collect();
        Layer { weights, factors, offsets: (0..outputs).map(|_| number() * 50.0).collect() }
    };
    let layers = [
        layer(4, 128, 511.0, 5e-2),
        layer(128, 128, 60.0, 5e-4),
        layer(128, 128, 60.0, 5e-4),
        layer(128, 4, 60.0, 5e-4),
    ];
    Network::new(layers).expect("a network")
}

/// Bits, as floats.
pub(crate) fn volume(seed: u64, values: usize) -> Vec<f32> {
    let mut rng = Xoshiro256PlusPlus::seed_from_u64(seed);
    (0..values).map(|_| f32::from(u8::from(rng.random::<f32>() < 0.1))).collect()
}
