//! Calls through the unified kernel and through three kernels, over a NIC that is simulated on a thread of its own,
//! with the peer at the other end of its port.
//!
//! The peer runs on the NIC's thread: a message's time begins when the peer passes it to the NIC, and ends when the NIC
//! passes the response on. Queues, doorbells and payloads are in pinned memory, as a ring would be.

use super::super::measure::{Bench, Row, histogram};
use super::{TIMEOUT_NS, context};
use crate::pinning;
use anyhow::{Result, bail};
use hdrhistogram::Histogram;
use ringcall::FunctionId;
use ringcall_dispatcher::queue_pair::Copying;
use ringcall_dispatcher::relay::CREDITS_PER_SLOT;
use ringcall_gpu::clock;
use ringcall_handler::Handler;
use ringcall_launch::queue_pair::{MappedQueues, Running, Shape, UnifiedDispatcher, UnifiedOptions};
use ringcall_launch::relay::{RelayDispatcher, RelayOptions, Running as RelayRunning};
use ringcall_launch::ring::{Functions, Modules};
use ringcall_mlx5::endpoint::{Config, ResponsePath, SLOT_BITS};
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_sim::nic::{Config as NicConfig, Memory, Message, Nic, Port, Region};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use std::time::Duration;

const QPN: u32 = 0x12;
const RX_KEY: u32 = 1;
const TX_KEY: u32 = 2;
/// Requests in flight in the throughput measurement.
const WINDOW: u32 = 64;

/// The peer: it keeps `window` requests in flight until `requests` were answered.
struct Peer {
    function: FunctionId,
    payload: Vec<u8>,
    stride: u32,
    slots: u32,
    window: u64,
    requests: u64,
    warm_up: u64,
    sent: u64,
    answered: u64,
    wrong: u64,
    /// Start time and number of each request in flight, by its slot.
    begun: Vec<Option<(u64, u64)>>,
    last: u64,
    times: Histogram<u64>,
}

impl Peer {
    fn place(&self, id: u64) -> usize {
        (id % u64::from(self.slots)) as usize
    }

    /// Ends warm-up or requests that take longer than `limit_ns`.
    fn cut_short(&mut self, took_ns: u64, limit_ns: u64) {
        if took_ns >= limit_ns / 10 {
            self.warm_up = self.warm_up.min(self.answered);
        }
        if took_ns >= limit_ns {
            self.requests = self.sent;
        }
    }

    /// The start time of the request that `response` answers, if it answers one.
    fn take_answer(&mut self, response: &[u8]) -> Option<u64> {
        let header = ResponseHeader::from_bytes(response).ok()?;
        let place = self.place(header.request_id.into());
        let open = self.begun.get_mut(place)?;
        let (begun, _) = open.take_if(|(_, id)| *id as u32 == header.request_id)?;
        let right = header.status == 0
            && response.len() == HEADER_BYTES + self.payload.len()
            && response[HEADER_BYTES..]
                .iter()
                .zip(&self.payload)
                .all(|(got, sent)| *got == sent.wrapping_add(1));
        right.then_some(begun)
    }
}

impl Port for Peer {
    fn receive(&mut self, payload: &mut Vec<u8>) -> Option<Message> {
        let slot = self.place(self.sent);
        if self.sent == self.requests
            || self.sent >= self.answered + self.window
            || self.begun[slot].is_some()
        {
            return None;
        }
        let now = clock::now_ns();
        let len = self.payload.len() as u32;
        let header = RequestHeader::new(self.function.0, len, self.sent as u32, now);
        payload.clear();
        payload.extend_from_slice(&header.to_bytes());
        payload.extend_from_slice(&self.payload);
        self.begun[slot] = Some((now, self.sent));
        self.sent += 1;
        let address = slot as u64 * u64::from(self.stride);
        Some(Message::WriteImm { address, rkey: RX_KEY, immediate: slot as u32 & ((1 << SLOT_BITS) - 1) })
    }

    fn send(&mut self, _: Message, response: &[u8]) -> bool {
        let now = clock::now_ns();
        match self.take_answer(response) {
            Some(begun) if self.answered >= self.warm_up => {
                self.times.saturating_record((now - begun).max(1));
            }
            Some(_) => (),
            None => self.wrong += 1,
        }
        self.answered += 1;
        self.last = now;
        true
    }
}

/// The kernels that serve.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) enum Kernels {
    /// The unified kernel.
    Unified,
    /// Three kernels: a receiver, a dispatcher of a ring, and a sender.
    Three,
}

impl Kernels {
    /// How the NIC learns how many requests are posted. Two of the three kernels work on the queue pair, but its
    /// doorbell record has one writer.
    const fn record(self) -> RecordMode {
        match self {
            Self::Unified => RecordMode::Written,
            Self::Three => RecordMode::NotWritten,
        }
    }

    /// The number of slots: of queues alone twice the window, so that credit returns before it runs out; of a ring as many as its
    /// dispatcher looks at in one poll.
    const fn slots(self) -> u32 {
        match self {
            Self::Unified => 2 * WINDOW,
            Self::Three => WINDOW,
        }
    }

    /// The number of receive requests.
    const fn receives(self) -> u32 {
        match self {
            Self::Unified => self.slots(),
            Self::Three => self.slots() * CREDITS_PER_SLOT,
        }
    }
}

/// One request at a time, then as many as fit.
pub(in super::super) fn run(
    bench: &Bench,
    kernels: Kernels,
    handler: Handler,
    payload_bytes: usize,
) -> Result<Row> {
    let exchange = |part: &Part| exchange(bench, kernels, handler, payload_bytes, part);
    let (warm_up, limit_ns) = (bench.trips / 10, bench.limits.trips_ns);
    let (row, _) = exchange(&Part { window: 1, trips: bench.trips, warm_up, limit_ns })?;
    let limit_ns = bench.limits.requests_ns;
    let (flood, per_s) =
        exchange(&Part { window: WINDOW.into(), trips: bench.requests, warm_up: 0, limit_ns })?;
    Ok(Row { per_s: Some(per_s), lost: row.lost + flood.lost, wrong: row.wrong + flood.wrong, ..row })
}

/// One part of a row: the number of requests, how many are in flight, and how long they may take, a tenth of it for the
/// warm-up.
struct Part {
    window: u64,
    trips: u64,
    warm_up: u64,
    limit_ns: u64,
}

/// The running kernels.
enum Dispatcher {
    Unified(UnifiedDispatcher<Running>),
    Three(RelayDispatcher<RelayRunning>),
}

impl Dispatcher {
    fn start(
        kernels: Kernels,
        queues: &MappedQueues,
        functions: Functions,
        modules: Modules,
    ) -> Result<Self> {
        let pair = queues.pair();
        Ok(match kernels {
            Kernels::Unified => {
                let options = UnifiedOptions::default();
                Self::Unified(UnifiedDispatcher::wire(pair, functions, modules, options)?.start()?)
            }
            Kernels::Three => {
                let options = RelayOptions::default();
                Self::Three(RelayDispatcher::wire(pair, None, functions, modules, options)?.start()?)
            }
        })
    }

    fn stop(self, deadline: Duration) -> Result<()> {
        let (clean, report) = match self {
            Self::Unified(running) => {
                let report = running.stop(deadline).report;
                (report.is_clean(), format!("{report:?}"))
            }
            Self::Three(running) => {
                let report = running.stop(deadline).report;
                (report.is_clean(), format!("{report:?}"))
            }
        };
        if !clean {
            bail!("the dispatcher did not stop cleanly: {report}");
        }
        Ok(())
    }
}

fn exchange(
    bench: &Bench,
    kernels: Kernels,
    handler: Handler,
    payload_bytes: usize,
    part: &Part,
) -> Result<(Row, f64)> {
    let &Part { window, trips, warm_up, limit_ns } = part;
    let context = context()?;
    let stride = (HEADER_BYTES + payload_bytes).next_multiple_of(64) as u32;
    let (slots, receives) = (kernels.slots(), kernels.receives());
    let config = Config {
        qpn: QPN,
        slots,
        rx_stride: stride,
        tx_stride: stride,
        tx_lkey: TX_KEY,
        tx_base: 0,
        depth: receives,
        buffers: Buffers::Credits,
        sequence: false,
        reply: ResponsePath::Send,
        record: kernels.record(),
    };
    let shape = Shape {
        config,
        receive: receives,
        send: slots,
        completions: receives,
        consumer_records: false,
        copying: Copying::FirstWordLast,
    };
    let queues = MappedQueues::allocate(&context, shape)?;
    let (rx, tx) = (queues.windows().rx_data.clone(), queues.windows().tx_data.clone());
    let memory = Memory::new(vec![
        Region { key: RX_KEY, base: 0, window: rx, remote_write: true },
        Region { key: TX_KEY, base: 0, window: tx, remote_write: false },
    ]);
    let peer = Peer {
        function: handler.id(),
        payload: vec![7; payload_bytes],
        stride,
        slots,
        window,
        requests: warm_up + trips,
        warm_up,
        sent: 0,
        answered: 0,
        wrong: 0,
        begun: vec![None; slots as usize],
        last: 0,
        times: histogram()?,
    };
    let nic_config = NicConfig { qpn: QPN, record: kernels.record(), burst: WINDOW as usize };
    let mut nic = Nic::new(nic_config, queues.windows(), queues.uar().clone(), memory, peer)?;
    let functions = Functions::new().handlers(&[handler]);
    let modules = Modules::new().ptx_for("samples", ringcall_kernels::samples::PTX, &context)?;
    let dispatcher = Dispatcher::start(kernels, &queues, functions, modules)?;

    let core = bench.cores.client();
    let measured = std::thread::scope(|scope| {
        let nic = &mut nic;
        let running = scope.spawn(move || {
            pinning::pin("nic", core);
            let begin = clock::now_ns();
            nic.port().last = begin;
            let mut turns = 0_u64;
            loop {
                nic.step();
                let peer = nic.port();
                if peer.answered == peer.requests {
                    break;
                }
                turns += 1;
                // Reading the clock takes as long as a step.
                if turns.is_multiple_of(1024) {
                    let now = clock::now_ns();
                    if now.saturating_sub(peer.last) > TIMEOUT_NS {
                        break;
                    }
                    peer.cut_short(now.saturating_sub(begin), limit_ns);
                }
            }
            clock::now_ns() - begin
        });
        running.join()
    });
    let Ok(nanoseconds) = measured else { bail!("the NIC's thread panicked") };
    // The NIC has to write the last responses' completions while the dispatcher drains.
    let quit = ringcall_gpu::atomic::DeviceU64::new(0);
    let stopped = std::thread::scope(|scope| {
        scope.spawn(|| {
            while quit.load(std::sync::atomic::Ordering::Relaxed) == 0 {
                nic.step();
            }
        });
        let stopped = dispatcher.stop(Duration::from_secs(5));
        quit.store(1, std::sync::atomic::Ordering::Relaxed);
        stopped
    });
    stopped?;
    let broken: Vec<_> = nic.violations().broken().collect();
    if !broken.is_empty() {
        bail!("rules of the NIC were broken: {broken:?}");
    }
    let peer = nic.port();
    let per_s = peer.answered as f64 * 1e9 / nanoseconds as f64;
    let cut_from = (peer.requests < warm_up + trips).then_some(trips);
    let lost = peer.requests - peer.answered;
    let row = Row { lost, wrong: peer.wrong, cut_from, ..Row::new(&peer.times) };
    Ok((row, per_s))
}
