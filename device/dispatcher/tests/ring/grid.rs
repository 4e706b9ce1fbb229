//! Calls that all threads of a grid take part in.

use crate::client::{Ask, Client};
use crate::device::{Door, increment, payload_word};
use crate::harness::{LIMIT, Setup, Warps, entry, ring};
use ringcall_dispatcher::ring::grid::{
    CachedCall, CallTickets, GridCall, GridChannel, GridPort, Participant,
};
use ringcall_dispatcher::ring::{Call, Ended, Machine, Returned, RingOptions};
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::team::{self, Grid, Warp};
use ringcall_wire::Counter;
use ringcall_wire::launch::{HandlerKind, control};
use ringcall_wire::status::Status;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;
use std::sync::mpsc::{Receiver, channel};
use std::thread;

const GRID: u32 = 1;
const INCREMENT: u32 = 2;
/// What the handler's address stands for.
const HANDLER: u64 = 0xC0DE;

/// What the polling warp calls with.
struct GridPoller<'a> {
    port: GridPort<'a>,
    others: u64,
    work: &'a dyn Fn(GridCall) -> Returned,
}

impl Machine for GridPoller<'_> {
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        increment(Warp::single(), call)
    }

    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned {
        increment(warp, call)
    }

    fn call_grid(&self, warp: Warp<'_>, call: &Call<'_>, meanwhile: impl FnOnce()) -> Option<Returned> {
        let (arg_len, capacity) = (call.arg_len, call.capacity);
        let what = GridCall { handler: call.address, arg_len, capacity, staging: 0 };
        Some(self.port.call_grid(warp, self.others, what, meanwhile, self.work))
    }

    fn sleep(&self) {
        thread::yield_now();
    }

    fn sleep_until_next_round(&self) {
        thread::yield_now();
    }
}

/// Which threads poll.
#[derive(Clone, Copy)]
enum PollingThreads {
    /// The first one, as a warp of one lane.
    First,
    /// The last warp of the first block.
    LastWarp,
}

/// A grid at work.
struct Running {
    setup: Arc<Setup>,
    /// How often each thread took part in a call.
    turns: Arc<Vec<DeviceU64>>,
    ended: Receiver<Vec<Ended>>,
    pollers: usize,
}

/// Starts a grid. Each thread answers its share of the words with the sum of what is there and the grid's size; its last
/// thread does so when it has passed the door.
fn start(blocks: u32, threads: u32, polling: PollingThreads, door: &Arc<Door>) -> Running {
    let parts = ring([8, 1024, 1024]);
    let lanes = match polling {
        PollingThreads::First => 1,
        PollingThreads::LastWarp => (threads - 1) % 32 + 1,
    };
    let warps = Warps { workers: 1, lanes, maintenance_warp: false };
    let entries = vec![entry(GRID, HandlerKind::Grid, HANDLER), entry(INCREMENT, HandlerKind::Warp, 0)];
    let setup = Arc::new(Setup::new(&parts, entries, warps, RingOptions::default()));
    let turns: Arc<Vec<DeviceU64>> = Arc::new((0..blocks * threads).map(|_| DeviceU64::new(0)).collect());
    let (done, ended) = channel();
    {
        let (setup, turns, door) = (Arc::clone(&setup), Arc::clone(&turns), Arc::clone(door));
        thread::spawn(move || {
            let (now, channel) = (setup.execution(), GridChannel::default());
            let cached: Vec<CachedCall> = (0..blocks).map(|_| CachedCall::default()).collect();
            team::run_warp(1, |warp| setup.block(&now, &Dummy).open(warp));
            let ends = team::run_grid(blocks, threads, |grid| {
                let port = channel.port(grid.as_block(), &cached[grid.block() as usize]);
                life(grid, &setup, &now, port, polling, &turns, &door)
            });
            let _ = done.send(ends);
        });
    }
    Running { setup, turns, ended, pollers: lanes as usize }
}

impl Running {
    /// Drains, and checks that each thread ran each of `calls` calls once.
    fn drain(self, calls: u64) {
        let Self { setup, turns, ended, pollers } = self;
        setup.control.store(control::STOP, control::STOP_DRAIN, Relaxed);
        let ends = ended.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{error}\n{}", setup.dump()));
        let polled = ends.iter().filter(|&&end| end == Ended::AsPoller).count();
        assert_eq!((polled, ends.len()), (pollers, turns.len()));
        assert_eq!(setup.state(), control::STATE_ENDED);
        assert_eq!(setup.control.load(control::BUSY, Relaxed), 0);
        let turns: Vec<u64> = turns.iter().map(|turns| turns.load(Relaxed)).collect();
        assert_eq!(turns, vec![calls; turns.len()], "each thread runs each call once");
    }
}

/// `calls` grid calls among as many others: the results are all there when the poller answers.
fn all_take_part(blocks: u32, threads: u32, polling: PollingThreads, calls: u64) {
    let door = Arc::new(Door::default());
    door.open();
    let running = start(blocks, threads, polling, &door);
    let setup = Arc::clone(&running.setup);
    let mut client = Client::new(&setup);
    let size = u64::from(blocks * threads);
    client.drive((0..2 * calls).map(|i| {
        let payload: Vec<u8> = (0..(i * 11) % 120).flat_map(|word| (word * i).to_le_bytes()).collect();
        if i % 2 == 1 {
            return Ask::increment(INCREMENT, payload);
        }
        let result = (0..(i * 11) % 120).flat_map(|word| (word * i + size).to_le_bytes()).collect();
        Ask { function: GRID, payload, status: Status::OK, result }
    }));
    running.drain(calls);
    assert_eq!(setup.counters().get(Counter::Dispatched), 2 * calls);
    assert_eq!(setup.counters().get(Counter::Completed), 2 * calls);
}

/// The life of one thread of the grid.
fn life(
    grid: Grid<'_>,
    setup: &Setup,
    now: &crate::harness::Execution,
    port: GridPort<'_>,
    polling: PollingThreads,
    turns: &[DeviceU64],
    door: &Door,
) -> Ended {
    let block = grid.as_block();
    let [input, output] = now.staging(0);
    let work = |call: GridCall| {
        assert_eq!(call.handler, HANDLER);
        if grid.rank() + 1 == grid.size() {
            door.pass();
        }
        let rank = grid.rank() as usize;
        turns[rank].fetch_add(1, Relaxed);
        for word in grid.stride(call.arg_len as usize / 8) {
            output.set_word(3 + word, payload_word(input, word).wrapping_add(u64::from(grid.size())));
        }
        Returned { status: 0, len: call.arg_len }
    };
    let first_of_pollers = match polling {
        PollingThreads::First => 0,
        PollingThreads::LastWarp => (grid.threads() - 1) / 32 * 32,
    };
    let is_pollers_block = grid.block() == 0;
    let polls = match polling {
        PollingThreads::First => is_pollers_block && block.thread() == 0,
        PollingThreads::LastWarp => is_pollers_block && block.thread() >= first_of_pollers,
    };
    if !polls {
        port.participate(if is_pollers_block { Participant::PollersBlock } else { Participant::Other }, work);
        return Ended::Dismissed;
    }
    let warp = match polling {
        PollingThreads::First => Warp::single(),
        PollingThreads::LastWarp => block.warp(),
    };
    let machine = GridPoller { port, others: u64::from(grid.blocks() - 1), work: &work };
    let end = setup.block(now, &machine).run(warp, 0, input, output);
    port.dismiss(warp);
    end
}

/// A machine for what needs none.
struct Dummy;

impl Machine for Dummy {
    fn call_thread(&self, _: &Call<'_>) -> Returned {
        Returned::default()
    }

    fn call_warp(&self, _: Warp<'_>, _: &Call<'_>) -> Returned {
        Returned::default()
    }

    fn sleep(&self) {}
    fn sleep_until_next_round(&self) {}
}

#[test]
fn one_thread_is_a_grid() {
    all_take_part(1, 1, PollingThreads::First, 200);
}

#[test]
fn a_block_of_threads() {
    all_take_part(1, 5, PollingThreads::First, 200);
}

#[test]
fn blocks_of_one_thread() {
    all_take_part(3, 1, PollingThreads::First, 100);
}

#[test]
fn blocks_of_threads() {
    all_take_part(3, 3, PollingThreads::First, 60);
}

/// As on a device: a whole warp polls, the block's other warps wait at the block's barrier.
#[test]
fn a_warp_of_several_leads() {
    all_take_part(2, 34, PollingThreads::LastWarp, 10);
}

/// The host sees a call while it runs, also of one that does not end: in the poller's block or in another.
#[test]
fn a_call_that_hangs_is_seen() {
    for [blocks, threads] in [[1, 3], [2, 1]] {
        let door = Arc::new(Door::default());
        let running = start(blocks, threads, PollingThreads::First, &door);
        let setup = Arc::clone(&running.setup);
        let mut client = Client::new(&setup);
        let result = u64::from(blocks * threads).to_le_bytes().to_vec();
        client.send(5, &Ask { function: GRID, payload: vec![0; 8], status: Status::OK, result });
        let busy = || setup.control.load(control::BUSY, Relaxed);
        setup.wait("the call to be seen", || door.reached() == 1 && busy() != 0);
        assert_eq!(busy(), u64::from(GRID) << 32 | 6);
        assert!(!client.is_answered(5));
        door.open();
        client.take(5);
        running.drain(1);
    }
}

/// What a warp of a block that serves, and takes no part, calls with.
struct Caller<'a> {
    port: GridPort<'a>,
    queue: &'a CallTickets,
    blocks: u64,
    staging: u32,
}

impl Machine for Caller<'_> {
    fn call_thread(&self, call: &Call<'_>) -> Returned {
        increment(Warp::single(), call)
    }

    fn call_warp(&self, warp: Warp<'_>, call: &Call<'_>) -> Returned {
        increment(warp, call)
    }

    fn call_grid(&self, warp: Warp<'_>, call: &Call<'_>, meanwhile: impl FnOnce()) -> Option<Returned> {
        if warp.lane() == 0 {
            meanwhile();
        }
        let (arg_len, capacity) = (call.arg_len, call.capacity);
        let what = GridCall { handler: call.address, arg_len, capacity, staging: self.staging };
        Some(self.port.call(warp, self.queue, self.blocks, what))
    }

    fn sleep(&self) {
        thread::yield_now();
    }

    fn sleep_until_next_round(&self) {
        thread::yield_now();
    }
}

/// A grid of blocks of one thread, and a block that serves: `workers` warps of two lanes, and one that does the maintenance. Each thread
/// answers its share of the words with the sum of what is there and the number of the staging buffers; its last thread does so when it has
/// passed the door.
fn start_ahead(blocks: u32, workers: u32, door: &Arc<Door>) -> (Arc<Setup>, Receiver<Vec<Ended>>) {
    let parts = ring([8, 1024, 1024]);
    let entries = vec![entry(GRID, HandlerKind::Grid, HANDLER), entry(INCREMENT, HandlerKind::Warp, 0)];
    let warps = Warps { workers, lanes: 2, maintenance_warp: true };
    let setup = Arc::new(Setup::new(&parts, entries, warps, RingOptions::default()));
    let (done, ended) = channel();
    let (here, door) = (Arc::clone(&setup), Arc::clone(door));
    thread::spawn(move || {
        let (setup, now, channel, queue) =
            (&*here, &*here.execution(), &GridChannel::default(), &CallTickets::default());
        let cached: &Vec<CachedCall> = &(0..=blocks).map(|_| CachedCall::default()).collect();
        team::run_warp(1, |warp| setup.block(now, &Dummy).open(warp));
        let ends = thread::scope(|scope| {
            for block in 0..blocks {
                let door = &door;
                scope.spawn(move || {
                    let participant = if block == 0 { Participant::Reporter } else { Participant::Other };
                    channel.port(team::Block::single(), &cached[block as usize]).participate(
                        participant,
                        |call| {
                            assert_eq!(call.handler, HANDLER);
                            if block + 1 == blocks {
                                door.pass();
                            }
                            let [input, output] = now.staging(call.staging);
                            for word in (block..call.arg_len / 8).step_by(blocks as usize) {
                                let word = word as usize;
                                output.set_word(
                                    3 + word,
                                    payload_word(input, word).wrapping_add(u64::from(blocks)),
                                );
                            }
                            Returned { status: 0, len: call.arg_len }
                        },
                    );
                });
            }
            let warps: Vec<_> = (0..=workers)
                .map(|me| {
                    scope.spawn(move || {
                        let ends = team::run_warp(2, |warp| {
                            let port = channel.port(team::Block::single(), &cached[blocks as usize]);
                            let caller = Caller { port, queue, blocks: u64::from(blocks), staging: me };
                            let block = setup.block(now, &caller);
                            if me == workers {
                                block.run_maintenance(warp, me);
                                return Ended::Dismissed;
                            }
                            let [input, output] = now.staging(me);
                            let end = block.run(warp, me, input, output);
                            if end == Ended::AsPoller && warp.lane() == 0 {
                                port.end();
                            }
                            end
                        });
                        ends[0]
                    })
                })
                .collect();
            warps.into_iter().map(|warp| warp.join().expect("a warp")).collect()
        });
        let _ = done.send(ends);
    });
    (setup, ended)
}

fn drain_ahead(setup: &Setup, ended: &Receiver<Vec<Ended>>) {
    setup.control.store(control::STOP, control::STOP_DRAIN, Relaxed);
    let ends = ended.recv_timeout(LIMIT).unwrap_or_else(|error| panic!("{error}\n{}", setup.dump()));
    assert_eq!(ends.iter().filter(|&&end| end == Ended::AsPoller).count(), 1);
    assert_eq!(setup.state(), control::STATE_ENDED);
}

/// Calls of the grid among others, several at once: each has its own request and result.
#[test]
fn a_block_that_serves_alone_gives_each_request_its_result() {
    let door = Arc::new(Door::default());
    door.open();
    for (blocks, workers, calls) in [(1, 1, 20_u64), (2, 3, 50), (3, 4, 50)] {
        let (setup, ended) = start_ahead(blocks, workers, &door);
        let mut client = Client::new(&setup);
        client.drive((0..calls).map(|i| {
            let payload: Vec<u8> = (0..(i * 11) % 120).flat_map(|word| (word * i).to_le_bytes()).collect();
            if i % 3 == 1 {
                return Ask::increment(INCREMENT, payload);
            }
            let result =
                (0..(i * 11) % 120).flat_map(|word| (word * i + u64::from(blocks)).to_le_bytes()).collect();
            Ask { function: GRID, payload, status: Status::OK, result }
        }));
        drain_ahead(&setup, &ended);
        assert_eq!(setup.counters().get(Counter::Completed), calls);
    }
}

/// While the grid is at work requests for other functions are answered, and one for the grid waits its turn; a drain answers it.
#[test]
fn a_block_that_serves_alone_goes_on_while_the_grid_is_at_work() {
    let door = Arc::new(Door::default());
    let (setup, ended) = start_ahead(2, 4, &door);
    let mut client = Client::new(&setup);
    let grid = || Ask {
        function: GRID,
        payload: vec![0; 8],
        status: Status::OK,
        result: 2_u64.to_le_bytes().to_vec(),
    };
    client.send(0, &grid());
    setup.wait("the grid's call", || door.reached() == 1);
    client.send(1, &grid());
    client.send(2, &Ask::increment(INCREMENT, vec![0; 16]));
    client.take(2);
    assert!(!client.is_answered(0) && !client.is_answered(1));
    setup.control.store(control::STOP, control::STOP_DRAIN, Relaxed);
    door.open();
    client.take(0);
    client.take(1);
    drain_ahead(&setup, &ended);
    assert_eq!(setup.counters().get(Counter::Completed), 3);
}
