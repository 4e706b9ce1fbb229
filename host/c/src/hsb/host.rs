//! The unified loop on a CPU thread, over the queues of an emulated adapter.

use super::Asked;
use super::adapter::Adapter;
use super::hold::{QueuePosition, Turn};
use crate::device::{Beside, Watcher};
use crate::entries::read_host;
use crate::host_call::CallCounter;
use crate::host_loop::{Shutdown, host_function};
use crate::layout::{HostRpcFn, cudaq_function_table_t};
use crate::status::Fault;
use ringcall::Wait;
use ringcall_dispatcher::queue_pair::single::{Extent, Returned, Scratch, Unified};
use ringcall_gpu::shared::Words;
use ringcall_mlx5::endpoint::Endpoint;
use ringcall_mlx5::{BlueFlame, Bound, WaitEnd};
use ringcall_protocol::counters::Bank;
use ringcall_protocol::table::{Callable, Table};
use ringcall_rdma::unified::UnifiedQueues;
use ringcall_wire::FunctionId;
use ringcall_wire::header::{HEADER_BYTES, RESPONSE_MAGIC, RequestHeader};
use ringcall_wire::status::{DispatchMode, Status};
use std::collections::HashMap;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};
use zerocopy::{FromBytes, IntoBytes};

/// Threads that are taken to poll: loop, adapter, peer.
const POLLERS: usize = 3;
/// Looks between two looks at the shutdown flag.
const ARRIVAL_BOUND: Bound = Bound { between: 64, turns: 1 };

/// A C function by its id.
#[derive(Debug, Clone, Copy)]
struct Call {
    function: HostRpcFn,
    arg_bytes: Option<u32>,
}

impl Callable for Call {
    fn mode(&self) -> DispatchMode {
        DispatchMode::HostCall
    }

    fn arg_bytes(&self) -> Option<u32> {
        self.arg_bytes
    }
}

#[derive(Debug)]
struct Calls(HashMap<u32, Call>);

impl Table for Calls {
    type Entry = Call;

    fn lookup(&self, id: FunctionId) -> Option<&Call> {
        self.0.get(&id.0)
    }
}

/// All that the loop has.
struct Work {
    turn: Turn,
    endpoint: Box<Endpoint<BlueFlame>>,
    calls: Calls,
    counter: CallCounter,
    shutdown: Shutdown,
    /// The endpoint's own word, which ends a wait for room.
    halt: Words,
    stop: Duration,
}

/// Starts the loop on a thread of its own.
///
/// # Safety
/// The header's contract of the launch functions, on the host path.
pub(super) unsafe fn launch(
    mut turn: Turn,
    adapter: &Adapter,
    queues: &UnifiedQueues,
    asked: &Asked,
    beside: &Beside,
) -> Result<Watcher, Fault> {
    // SAFETY: the caller's promise.
    let shutdown = unsafe { Shutdown::new(asked.shutdown) }?;
    // SAFETY: the caller's promise.
    let counter = unsafe { CallCounter::new(asked.stats) }?;
    let count = u32::try_from(asked.count).unwrap_or(u32::MAX);
    let table = cudaq_function_table_t { entries: asked.table, count };
    // SAFETY: the caller's promise.
    let entries = unsafe { read_host(&table, beside.layout, beside.schemas) }?;
    let mut calls = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        if entry.mode() != Ok(DispatchMode::HostCall) {
            return Err(Fault::unsupported(format!(
                "entry {index} is no HOST_CALL: a loop on the host calls functions of the host"
            )));
        }
        let arg_bytes =
            entry.schema.arg_len().map_err(|error| Fault::invalid(format!("entry {index}: {error}")))?;
        calls.insert(entry.id().0, Call { function: host_function(entry.handler)?, arg_bytes });
    }
    let (halt, stop) = (adapter.windows.shutdown.clone(), beside.stop);
    let thread = std::thread::Builder::new().name("ringcall-unified".to_owned());
    // Until there is a thread, the turn keeps its place in the queues.
    let launch = move || {
        let endpoint = match turn.position() {
            Some(QueuePosition::Host(endpoint)) => endpoint,
            _ => {
                let made = queues.emulated(&adapter.windows, &adapter.uar);
                Box::new(made.map_err(|error| Fault::invalid(error.to_string()))?)
            }
        };
        turn.opened(queues);
        halt.store(0, 0, Ordering::Relaxed);
        let calls = Calls(calls);
        Ok(Work { turn, endpoint, calls, counter, shutdown, halt, stop })
    };
    Watcher::launch(thread, launch, Work::run)
}

impl Work {
    /// Serves until the caller's flag is set, answers what has arrived by then, and waits for the adapter; within the time of a stop.
    fn run(self) -> Result<(), Fault> {
        let Self { turn, mut endpoint, calls, counter, shutdown, halt, stop } = self;
        let ended = serve(&mut endpoint, &calls, &counter, shutdown, &halt, stop);
        if ended == Err(WaitEnd::Dead) {
            let why = "the queue pair is in the error state";
            turn.end(Err(why.to_owned()));
            return Err(Fault::internal(why));
        }
        let unsent = endpoint.send_queue().under_way();
        turn.end(Ok(QueuePosition::Host(endpoint)));
        match (ended, unsent) {
            (Err(_), _) => Err(Fault::internal(
                "the send queue stayed full: a request was dropped, since there was no room for its answer",
            )),
            (Ok(()), 0) => Ok(()),
            (Ok(()), unsent) => Err(Fault::internal(format!(
                "{unsent} answers that the adapter has not sent within the stop"
            ))),
        }
    }
}

/// The loop itself. What it was told to end, and cannot answer within four fifths of `stop`, stays in the queues.
///
/// # Errors
/// Dead; or stopped while there was no room for an answer.
fn serve(
    endpoint: &mut Endpoint<BlueFlame>,
    calls: &Calls,
    counter: &CallCounter,
    shutdown: Shutdown,
    halt: &Words,
    stop: Duration,
) -> Result<(), WaitEnd> {
    let limit = stop / 5 * 4;
    let bank = Bank::default();
    let config = *endpoint.config();
    let [rx, tx] = [config.rx_stride, config.tx_stride].map(|stride| stride as usize);
    let (mut request, mut response) = (vec![0; rx], vec![0; tx]);
    // The C function's own: whole slots, of whole words.
    let (mut input, mut output) = (vec![0_u64; rx / 8], vec![0_u64; tx / 8]);
    let mut unified = Unified {
        table: calls,
        bank: &bank,
        extent: Extent::Received,
        runs: |mode| mode == DispatchMode::HostCall,
        call: |call: &Call, header: &RequestHeader, payload: &[u8], result: &mut [u8]| {
            counter.add();
            in_slots(call.function, header, payload, result, &mut input, &mut output)
        },
    };
    let mut scratch = Scratch { request: &mut request, response: &mut response };
    let mut waiter = Wait::Auto.resolve(POLLERS).waiter();
    let mut stopped_at = None;
    let mut is_over = || {
        if !shutdown.is_set() {
            return None;
        }
        Some(stopped_at.get_or_insert_with(Instant::now).elapsed() >= limit)
    };
    loop {
        let over = is_over();
        if over == Some(true) {
            break;
        }
        let arrived = match endpoint.wait_arrival(ARRIVAL_BOUND, || ()) {
            Ok(arrived) => arrived,
            Err(WaitEnd::Dead) => return Err(WaitEnd::Dead),
            Err(_) if over.is_some() => break,
            Err(_) => {
                let _ = waiter.idle();
                continue;
            }
        };
        waiter.reset();
        let room = endpoint.reserve(Bound { between: 64, turns: u64::MAX }, || {
            if is_over() == Some(true) {
                halt.store(0, 1, Ordering::Relaxed);
            }
            std::thread::yield_now();
        });
        match room {
            Ok(slot) => {
                let _ = unified.serve(endpoint, arrived, slot, &mut scratch);
            }
            Err(ended) => {
                endpoint.release(arrived);
                halt.store(0, 0, Ordering::Relaxed);
                return Err(ended);
            }
        }
    }
    halt.store(0, 0, Ordering::Relaxed);
    let begin = Instant::now();
    let left = stop.saturating_sub(limit);
    let ended = endpoint.drain(&endpoint.shutdown().clone(), Bound { between: 1, turns: u64::MAX }, || {
        if begin.elapsed() >= left {
            halt.store(0, 1, Ordering::Relaxed);
        }
        std::thread::yield_now();
    });
    halt.store(0, 0, Ordering::Relaxed);
    if ended == Err(WaitEnd::Dead) { ended } else { Ok(()) }
}

/// Calls a C function with private copies of both slots.
fn in_slots(
    function: HostRpcFn,
    header: &RequestHeader,
    payload: &[u8],
    result: &mut [u8],
    input: &mut [u64],
    output: &mut [u64],
) -> Returned {
    const ABANDONED: Returned = Returned { status: Status::ABANDONED.0, len: 0 };
    let slot_bytes = size_of_val(input).min(size_of_val(output));
    let request = input.as_mut_bytes();
    let (Some(head), true) = (request.get_mut(..HEADER_BYTES), slot_bytes >= 2 * HEADER_BYTES) else {
        return ABANDONED;
    };
    head.copy_from_slice(&header.to_bytes());
    let Some(body) = request.get_mut(HEADER_BYTES..HEADER_BYTES + payload.len()) else { return ABANDONED };
    body.copy_from_slice(payload);
    // What is read below.
    output[..2].fill(0);
    // SAFETY: what an entry of mode HOST_CALL says; both slots are private, apart, alive and of `slot_bytes` at least.
    unsafe { function(input.as_ptr().cast(), output.as_mut_ptr().cast(), slot_bytes) };
    let fields = <[u32]>::ref_from_bytes(output.as_bytes()).unwrap_or_default();
    let [magic, status, len, ..] = *fields else { return ABANDONED };
    if magic != RESPONSE_MAGIC {
        return ABANDONED;
    }
    // A length beyond the room is cut by the loop, which says so.
    let room = result.len().min(len as usize).min(slot_bytes - HEADER_BYTES);
    if let Some(from) = output.as_bytes().get(HEADER_BYTES..HEADER_BYTES + room) {
        result[..room].copy_from_slice(from);
    }
    Returned { status: status.cast_signed(), len }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hsb::adapter::{For, Given};
    use ringcall_mlx5::Event;
    use ringcall_sim::nic::{self, Memory, Message, Nic, Port, Region, Wire};
    use ringcall_wire::header::ResponseHeader;
    use std::ffi::{c_int, c_void};

    unsafe extern "C" fn empty(request: *const c_void, response: *mut c_void, _: usize) {
        // SAFETY: a slot, aligned to words.
        let request = RequestHeader::from_words(unsafe { request.cast::<[u64; 3]>().read() });
        let reply = ResponseHeader::reply(&request, 0, 0).to_words();
        // SAFETY: likewise.
        unsafe { response.cast::<[u64; 3]>().write(reply) };
    }

    /// Answers that the adapter does not send fill the send queue: a stop ends the wait for room, and says so.
    #[test]
    fn a_send_queue_that_stays_full_is_reported_at_the_stop() {
        const KEY: u32 = 1;
        let adapter = Adapter::still(128, 2, None, For::Unified).expect("memory");
        let queues = adapter.queues(&Given::Own(adapter.context())).expect("its own context");
        let (port, mut peer) = Wire::pair(8);
        let window = adapter.windows.rx_data.clone();
        let memory = Memory::new(vec![Region { key: KEY, base: 0, window, remote_write: true }]);
        let config = nic::Config { qpn: queues.config.qpn, record: queues.config.record, burst: 8 };
        let mut nic = Nic::new(config, &adapter.windows, adapter.uar.clone(), memory, port).expect("a NIC");
        let (mut flag, mut stats): (c_int, u64) = (0, 0);
        // SAFETY: both outlive the loop, which is joined below.
        let shutdown = unsafe { Shutdown::new(&raw mut flag) }.expect("an int");
        // SAFETY: as above.
        let counter = unsafe { CallCounter::new(&raw mut stats) }.expect("a word");
        let call = Call { function: empty, arg_bytes: None };
        let work = Work {
            turn: adapter.hold.begin(&queues).expect("idle"),
            endpoint: Box::new(queues.emulated(&adapter.windows, &adapter.uar).expect("its queues")),
            calls: Calls(HashMap::from([(7, call)])),
            counter: counter.clone(),
            shutdown,
            halt: adapter.windows.shutdown.clone(),
            stop: Duration::from_millis(500),
        };
        let ended = std::thread::scope(|scope| {
            let running = scope.spawn(move || work.run());
            let mut ask = |id: u32| {
                let message =
                    Message::WriteImm { address: u64::from(id % 2 * 128), rkey: KEY, immediate: id % 2 };
                assert!(peer.send(message, &RequestHeader::new(7, 0, id, 0).to_bytes()));
                let begin = Instant::now();
                while nic.stats().rx_delivered <= u64::from(id) {
                    assert!(begin.elapsed() < Duration::from_secs(60), "request {id} is not taken");
                    nic.step_receive();
                    std::thread::yield_now();
                }
            };
            (0..2).for_each(&mut ask);
            let begin = Instant::now();
            while counter.get() < 2 {
                assert!(begin.elapsed() < Duration::from_secs(60), "they are not served");
                std::thread::yield_now();
            }
            // A credit for it is there: what is missing is room for its answer.
            ask(2);
            while adapter.windows.counters.load(Event::TxFull as usize, Ordering::Relaxed) == 0 {
                assert!(begin.elapsed() < Duration::from_secs(60), "it does not wait for room");
                std::thread::yield_now();
            }
            shutdown.set();
            running.join().expect("no panic")
        });
        let why = ended.expect_err("a request was dropped").why;
        assert!(why.contains("the send queue stayed full"), "{why}");
    }
}
