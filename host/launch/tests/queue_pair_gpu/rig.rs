//! A device with a unified dispatcher, an emulated NIC on its own thread, and the peer's end of the wire.

pub(crate) use crate::device::on_device;
use ringcall_cuda::driver::Context;
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_dispatcher::relay::CREDITS_PER_SLOT;
use ringcall_launch::queue_pair::{MappedQueues, Running, Shape, UnifiedDispatcher, UnifiedOptions, Wired};
use ringcall_launch::ring::{DeviceError, Functions, KernelKind, Modules};
use ringcall_mlx5::endpoint::{Config, ResponsePath, SLOT_BITS};
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
    pub(crate) consumer_records: bool,
    pub(crate) copying: Copying,
    pub(crate) record: RecordMode,
    pub(crate) kernel: KernelKind,
    /// Receive requests for each slot.
    pub(crate) credits: u32,
}

impl Pair {
    pub(crate) const fn of_depth(depth: u32) -> Self {
        Self {
            depth,
            stride: 64,
            completions: depth,
            consumer_records: false,
            copying: Copying::FirstWordLast,
            record: RecordMode::Written,
            kernel: KernelKind::regular(),
            credits: 1,
        }
    }

    /// For three kernels, which share its doorbell record or have one each.
    pub(crate) const fn for_relay(depth: u32, record: RecordMode) -> Self {
        let credits = CREDITS_PER_SLOT;
        Self { completions: depth * credits, record, credits, ..Self::of_depth(depth) }
    }

    fn config(&self) -> Config {
        Config {
            qpn: QPN,
            slots: self.depth,
            rx_stride: self.stride,
            tx_stride: self.stride,
            tx_lkey: TX_KEY,
            tx_base: TX_BASE,
            depth: self.depth * self.credits,
            buffers: Buffers::Credits,
            sequence: true,
            reply: ResponsePath::Send,
            record: self.record,
        }
    }
}

/// The peer: sends requests, and receives responses.
pub(crate) struct Peer {
    wire: Wire,
    /// Where responses come, if they have a queue pair of their own.
    answers: Option<Wire>,
    pair: Pair,
    sent: u64,
    payload: Vec<u8>,
}

impl Peer {
    pub(crate) fn frame(function: &str, arg_len: u32, id: u32, payload: &[u8]) -> Vec<u8> {
        let header = RequestHeader::new(FunctionId::of(function).0, arg_len, id, u64::from(id) << 20 | 5);
        [&header.to_bytes(), payload].concat()
    }

    /// A request for every status, in slots of `stride` bytes and with payloads of `len`; the status, and the bytes of the result.
    pub(crate) fn cases(stride: u32, len: u32) -> Vec<(Vec<u8>, Status, u32)> {
        let room = stride - HEADER_BYTES as u32;
        let good = |id| Peer::frame("rpc_increment", len, id, &vec![7; len as usize]);
        let mut bad_magic = good(2);
        bad_magic[1] ^= 4;
        vec![
            (good(1), Status::OK, len),
            (bad_magic, Status::BAD_MAGIC, 0),
            (Peer::frame("nobody", 4, 3, &[1; 4]), Status::UNKNOWN_FUNCTION, 0),
            (Peer::frame("rpc_increment", room + 1, 4, &[1; 4]), Status::ARG_TOO_LONG, 0),
            (Peer::frame("rpc_increment", 5, 5, &[1; 4]), Status::ARG_TOO_LONG, 0),
            (Peer::frame("rpc_mock_decode", 15, 6, &[1; 15]), Status::SCHEMA_MISMATCH, 0),
            (Peer::frame("rpc_overclaim", 0, 7, &[]), Status::RESULT_TOO_LONG, 0),
            (good(8)[..HEADER_BYTES - 1].to_vec(), Status::BAD_MAGIC, 0),
            (Peer::frame("rpc_increment_warp", len, 9, &vec![1; len as usize]), Status::OK, len),
            (good(10), Status::OK, len),
        ]
    }

    /// Writes a frame into the next slot, and says so.
    pub(crate) fn send(&mut self, frame: &[u8]) {
        self.send_to((self.sent % u64::from(self.pair.depth)) as u32, frame);
    }

    /// Writes a frame, and says that it is in this slot, which need not be.
    pub(crate) fn send_to(&mut self, slot: u32, frame: &[u8]) {
        // What no slot has lies in the first one.
        let at = if slot < self.pair.depth { slot } else { 0 };
        let message = Message::WriteImm {
            address: u64::from(at) * u64::from(self.pair.stride),
            rkey: RX_KEY,
            immediate: slot | (self.sent as u32) << SLOT_BITS,
        };
        assert!(self.wire.send(message, frame), "the wire is full");
        self.sent += 1;
    }

    /// The next response, if there is one.
    pub(crate) fn poll(&mut self) -> Option<(ResponseHeader, &[u8])> {
        self.answers.as_mut().unwrap_or(&mut self.wire).receive(&mut self.payload)?;
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
    pub(crate) fn mix(
        &mut self,
        n: u64,
        window: u64,
        len: usize,
        mut name_of: impl FnMut(u64) -> &'static str,
    ) {
        let (mut sent, mut last) = (0, Instant::now());
        let mut under_way = std::collections::HashSet::new();
        let mut payload = vec![0; len];
        while sent < n || !under_way.is_empty() {
            let mut idle = true;
            // A slot is written again once its request has its answer.
            let depth = u64::from(self.pair.depth);
            let taken = |sent: u64, under_way: &std::collections::HashSet<u32>| {
                sent >= depth && under_way.contains(&((sent - depth) as u32))
            };
            while sent < n && (under_way.len() as u64) < window && !taken(sent, &under_way) {
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
    /// The adapter of the queue pair that responses have of their own.
    pub(crate) sending: Option<thread::Running<Wire>>,
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
    let (queues, nic, wire) = adapter(context, pair);
    let peer = Peer { wire, answers: None, pair, sent: 0, payload: Vec::new() };
    (queues, Rig { peer, nic, sending: None })
}

/// A queue pair for requests and one for responses, and what is on the NIC's other side.
pub(crate) fn two_queues(context: &Arc<Context>, pair: Pair) -> ([MappedQueues; 2], Rig) {
    let (first, mut rig) = queues(context, pair);
    let (second, nic, wire) = adapter(context, pair);
    rig.sending = Some(nic);
    rig.peer.answers = Some(wire);
    ([first, second], rig)
}

/// A queue pair of this shape, its NIC, and the other end of the wire.
fn adapter(context: &Arc<Context>, pair: Pair) -> (MappedQueues, thread::Running<Wire>, Wire) {
    let shape = Shape {
        config: pair.config(),
        receive: (pair.depth * pair.credits).next_power_of_two(),
        send: pair.depth.next_power_of_two(),
        completions: pair.completions.next_power_of_two(),
        consumer_records: pair.consumer_records,
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
    (queues, thread::Running::start(nic).expect("a thread"), wire)
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
        for nic in [Some(self.nic), self.sending].into_iter().flatten() {
            let nic = nic.stop().expect("NIC");
            assert_eq!(nic.violations().broken().collect::<Vec<_>>(), []);
            assert_eq!((nic.stats().rx_no_credit, nic.stats().tx_lost), (0, 0));
        }
    }
}
