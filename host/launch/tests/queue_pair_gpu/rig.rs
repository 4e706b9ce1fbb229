//! A device with a unified dispatcher, an emulated NIC on its own thread, and the peer's end of the wire.

pub(crate) use crate::device::on_device;
use ringcall_cuda::driver::Context;
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_launch::queue_pair::{MappedQueues, Running, Shape, UnifiedDispatcher, UnifiedOptions, Wired};
use ringcall_launch::ring::{DeviceError, Functions, KernelKind, Modules};
use ringcall_mlx5::endpoint::{Config, Reply, SLOT_BITS};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_sim::nic::{Config as NicConfig, Memory, Message, Nic, Port, Region, Wire, thread};
use ringcall_wire::function::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::launch::HandlerKind;
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Against hanging; no test asserts that anything is fast.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
const QPN: u32 = 0x12_3456;
const RX_KEY: u32 = 0x1234;
const TX_KEY: u32 = 0x77;
const TX_BASE: u64 = 0x10_0000;

/// A number from the environment: how long a test runs.
pub(crate) fn setting(name: &str, default: u64) -> u64 {
    match std::env::var(name) {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("{name}={text} is no number")),
        Err(_) => default,
    }
}

/// A queue pair of one depth.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pair {
    pub(crate) depth: u32,
    pub(crate) stride: u32,
    pub(crate) completions: u32,
    pub(crate) told: bool,
    pub(crate) copying: Copying,
    pub(crate) record: RecordMode,
    pub(crate) kernel: KernelKind,
}

impl Pair {
    pub(crate) const fn of_depth(depth: u32) -> Self {
        Self {
            depth,
            stride: 64,
            completions: depth,
            told: false,
            copying: Copying::Staged,
            record: RecordMode::Written,
            kernel: KernelKind::regular(),
        }
    }

    fn config(&self) -> Config {
        Config {
            qpn: QPN,
            slots: self.depth,
            rx_stride: self.stride,
            tx_stride: self.stride,
            tx_lkey: TX_KEY,
            tx_base: TX_BASE,
            depth: self.depth,
            buffers: Buffers::Credits,
            sequence: true,
            reply: Reply::Send,
            record: self.record,
        }
    }
}

/// The peer: sends requests, and receives responses.
pub(crate) struct Peer {
    wire: Wire,
    pair: Pair,
    sent: u64,
    payload: Vec<u8>,
}

impl Peer {
    pub(crate) fn frame(function: &str, arg_len: u32, id: u32, payload: &[u8]) -> Vec<u8> {
        let header = RequestHeader::new(FunctionId::of(function).0, arg_len, id, u64::from(id) << 20 | 5);
        [&header.to_bytes(), payload].concat()
    }

    /// Writes a frame into the next slot, and says so.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        let slot = (self.sent % u64::from(self.pair.depth)) as u32;
        let message = Message::WriteImm {
            address: u64::from(slot) * u64::from(self.pair.stride),
            rkey: RX_KEY,
            immediate: slot | (self.sent as u32) << SLOT_BITS,
        };
        assert!(self.wire.send(message, frame), "the wire is full");
        self.sent += 1;
    }

    /// The next response, if there is one.
    pub(crate) fn poll(&mut self) -> Option<(ResponseHeader, &[u8])> {
        self.wire.receive(&mut self.payload)?;
        let header = ResponseHeader::from_bytes(&self.payload).expect("a header");
        assert!(header.has_magic());
        assert_eq!(self.payload.len(), HEADER_BYTES + header.result_len as usize, "exactly as long as it is");
        Some((header, &self.payload[HEADER_BYTES..]))
    }

    /// The next response.
    pub(crate) fn receive(&mut self) -> (ResponseHeader, Vec<u8>) {
        let begin = Instant::now();
        loop {
            if let Some((header, result)) = self.poll() {
                return (header, result.to_vec());
            }
            assert!(begin.elapsed() < TIMEOUT, "request {} is not answered", self.sent);
            std::hint::spin_loop();
        }
    }

    /// `n` calls of the functions that `name_of` names, each of which adds 1 to every byte of `len`, with `window` under way, at
    /// most half of the slots. The answers may come in any order; all are checked.
    pub(crate) fn mix(&mut self, n: u64, window: u64, len: usize, name_of: impl Fn(u64) -> &'static str) {
        let (mut sent, mut last) = (0, Instant::now());
        let mut under_way = std::collections::HashSet::new();
        let mut payload = vec![0; len];
        while sent < n || !under_way.is_empty() {
            let mut idle = true;
            while sent < n && (under_way.len() as u64) < window {
                fill(&mut payload, sent);
                self.send(&Self::frame(name_of(sent), len as u32, sent as u32, &payload));
                under_way.insert(sent as u32);
                sent += 1;
                idle = false;
            }
            while let Some((header, result)) = self.poll() {
                let id = header.request_id;
                assert!(under_way.remove(&id), "request {id} was answered twice");
                assert_eq!(header.status(), Status::OK, "request {id}");
                fill(&mut payload, id.into());
                payload.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                assert_eq!(result, payload, "request {id}");
                idle = false;
            }
            if idle {
                assert!(last.elapsed() < TIMEOUT, "{under_way:?} are not answered for {TIMEOUT:?}");
            } else {
                last = Instant::now();
            }
        }
    }

    /// `n` calls that add 1 to every byte of `len`, with `window` under way, all of them checked; `between` is called before
    /// each.
    pub(crate) fn flood(&mut self, n: u64, window: u64, len: usize, mut between: impl FnMut(u64)) {
        let (mut sent, mut taken) = (0, 0);
        let mut last = Instant::now();
        let mut payload = vec![0; len];
        while taken < n {
            let before = sent + taken;
            while sent < n && sent < taken + window {
                between(sent);
                fill(&mut payload, sent);
                let function = if sent.is_multiple_of(2) { "rpc_increment" } else { "rpc_increment_warp" };
                self.send(&Self::frame(function, len as u32, sent as u32, &payload));
                sent += 1;
            }
            while let Some((header, result)) = self.poll() {
                assert_eq!(
                    (header.status(), header.request_id),
                    (Status::OK, taken as u32),
                    "request {taken}"
                );
                fill(&mut payload, taken);
                payload.iter_mut().for_each(|byte| *byte = byte.wrapping_add(1));
                assert_eq!(result, payload, "request {taken}");
                taken += 1;
            }
            if before != sent + taken {
                last = Instant::now();
            } else {
                assert!(last.elapsed() < TIMEOUT, "{taken} of {n} answered, then none for {TIMEOUT:?}");
            }
        }
    }
}

/// The payload of request `i`: neighbours differ, and so do successive requests.
fn fill(payload: &mut [u8], i: u64) {
    for (at, byte) in payload.iter_mut().enumerate() {
        *byte = (i.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40) as u8 ^ (at as u8).wrapping_mul(37);
    }
}

/// All of it.
pub(crate) struct Rig {
    pub(crate) peer: Peer,
    pub(crate) nic: thread::Running<Wire>,
}

/// The samples' handlers of these kinds that take slots of `stride` bytes.
pub(crate) fn samples(kinds: &[HandlerKind], stride: u32) -> Vec<ringcall_handler::Handler> {
    let fits = |h: &ringcall_handler::Handler| {
        kinds.contains(&h.kind) && h.schema.fits_slot(stride as usize).is_ok()
    };
    ringcall_kernels::samples::handlers::all().into_iter().filter(fits).collect()
}

/// A queue pair of this shape, and what is on the NIC's other side.
pub(crate) fn queues(context: &Arc<Context>, pair: Pair) -> (MappedQueues, Rig) {
    let shape = Shape {
        config: pair.config(),
        receive: pair.depth,
        send: pair.depth,
        completions: pair.completions,
        told: pair.told,
        copying: pair.copying,
    };
    let queues = MappedQueues::allocate(context, shape).expect("queues");
    let windows = queues.windows();
    let region = |key, base, window: &ringcall_gpu::shared::Bytes, remote_write| Region {
        key,
        base,
        window: window.clone(),
        remote_write,
    };
    let memory = Memory::new(vec![
        region(RX_KEY, 0, &windows.rx_data, true),
        region(TX_KEY, TX_BASE, &windows.tx_data, false),
    ]);
    let (port, wire) = Wire::pair(4096);
    let config = NicConfig { qpn: QPN, record: pair.record, burst: 16 };
    let nic = Nic::new(config, windows, queues.uar().clone(), memory, port).expect("a NIC");
    let nic = thread::Running::start(nic).expect("a thread");
    (queues, Rig { peer: Peer { wire, pair, sent: 0, payload: Vec::new() }, nic })
}

/// A dispatcher of the samples' thread and warp handlers on a queue pair of this shape, wired, and what is on the NIC's other
/// side.
pub(crate) fn wire(context: &Arc<Context>, pair: Pair) -> (UnifiedDispatcher<Wired>, Rig) {
    wire_with(context, pair, calls(pair.stride))
}

/// The samples' thread and warp handlers that take slots of `stride` bytes.
pub(crate) fn calls(stride: u32) -> Functions {
    Functions::new().handlers(&samples(&[HandlerKind::Thread, HandlerKind::Warp], stride))
}

/// The same with these functions.
pub(crate) fn wire_with(
    context: &Arc<Context>,
    pair: Pair,
    functions: Functions,
) -> (UnifiedDispatcher<Wired>, Rig) {
    let (queues, rig) = queues(context, pair);
    let dispatcher =
        try_wire(context, &queues, pair, functions).unwrap_or_else(|why| panic!("{pair:?}: {why}"));
    (dispatcher, rig)
}

/// A dispatcher on these queues, or why there is none.
pub(crate) fn try_wire(
    context: &Arc<Context>,
    queues: &MappedQueues,
    pair: Pair,
    functions: Functions,
) -> Result<UnifiedDispatcher<Wired>, DeviceError> {
    let modules = Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, context).expect("PTX");
    let options = UnifiedOptions { kernel: pair.kernel, ..UnifiedOptions::default() };
    UnifiedDispatcher::wire(queues.pair(), functions, modules, options)
}

/// Stops it, and checks that nothing was left over.
pub(crate) fn stop_clean(running: UnifiedDispatcher<Running>) -> UnifiedDispatcher<Wired> {
    let stopped = running.stop(TIMEOUT);
    assert!(stopped.report.is_clean(), "{:?}", stopped.report);
    stopped.dispatcher.expect("it is given back")
}

impl Rig {
    /// Ends the NIC: no rule was broken, and nothing was dropped for want of credit.
    pub(crate) fn end(self) {
        let nic = self.nic.stop().expect("NIC");
        assert_eq!(nic.violations().broken().collect::<Vec<_>>(), []);
        assert_eq!((nic.stats().rx_no_credit, nic.stats().tx_lost), (0, 0));
    }
}
