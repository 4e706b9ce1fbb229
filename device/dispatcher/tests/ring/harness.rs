//! The memory of a dispatcher, and threads for its warps.

use crate::device::Device;
use ringcall_dispatcher::ring::block_state::WarpCommand;
use ringcall_dispatcher::ring::{
    BlockDispatcher, BlockState, DeviceTable, Ended, Machine, Partition, RingOptions, staging_bytes,
};
use ringcall_gpu::atomic::{BlockU64, DeviceU64};
use ringcall_gpu::shared::{Region, Words};
use ringcall_gpu::staging::StagingBuffer;
use ringcall_gpu::team;
use ringcall_protocol::counters::Snapshot;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::table::{Cell, EMPTY, IdIndex};
use ringcall_protocol::{RingMemory, SharedRing, SlotIndex};
use ringcall_wire::Counter;
use ringcall_wire::flag;
use ringcall_wire::launch::{DeviceEntry, HandlerKind, control, saved};
use std::fmt::Write as _;
use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// No test waits longer for anything: far more than any needs, be it instrumented and on a busy machine.
pub(crate) const LIMIT: Duration = Duration::from_secs(300);

thread_local! {
    /// The turn of this thread's test, which ends with its thread.
    static TURN: Turn = Turn::take();
}

/// The turns, each 1 while a test has it. A quarter as many tests as the machine has cores run dispatchers at once: a dispatcher has
/// several threads, and a thread that plays a warp of one lane polls without a pause.
static TURNS: [DeviceU64; 16] = [const { DeviceU64::new(0) }; 16];

struct Turn(&'static DeviceU64);

impl Turn {
    /// Waits until another test ends, which [`LIMIT`] bounds.
    fn take() -> Self {
        let most = thread::available_parallelism().map_or(1, NonZero::get).div_ceil(4);
        loop {
            if let Some(word) = TURNS.iter().take(most).find(|word| word.swap(1, Acquire) == 0) {
                return Self(word);
            }
            thread::sleep(Duration::from_millis(1));
        }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        self.0.store(0, Release);
    }
}

/// Memory in which a window can be found by its address.
#[derive(Clone)]
pub(crate) struct Memory {
    region: Region,
    base: u64,
}

impl Memory {
    pub(crate) fn zeroed(bytes: usize) -> Self {
        let region = Region::zeroed(bytes).expect("memory");
        let base = region.words(0, 1).expect("inside").address();
        Self { region, base }
    }

    pub(crate) fn base(&self) -> u64 {
        self.base
    }

    pub(crate) fn words_at(&self, address: u64, count: usize) -> Option<Words> {
        self.region.words(address.checked_sub(self.base)? as usize, count).ok()
    }
}

/// A ring's shape: slots, bytes of a request slot, bytes of a response slot.
pub(crate) type Shape = [u32; 3];

/// A ring and the memory that it lies in.
#[derive(Clone)]
pub(crate) struct RingParts {
    pub(crate) ring: SharedRing,
    pub(crate) memory: Memory,
}

pub(crate) fn ring([slots, rx, tx]: Shape) -> RingParts {
    let n = slots as usize;
    let (rx_bytes, tx_bytes) = (n * rx as usize, n * tx as usize);
    // The flags' windows are longer than the ring, as a caller's arrays may be.
    let flags = (n + 5) * 8;
    let memory = Memory::zeroed(2 * flags + rx_bytes + tx_bytes);
    let region = &memory.region;
    let windows = RingWindows {
        rx_flags: region.words(0, n + 5).expect("inside"),
        tx_flags: region.words(flags, n + 5).expect("inside"),
        rx_data: region.bytes(2 * flags, rx_bytes).expect("inside"),
        tx_data: region.bytes(2 * flags + rx_bytes, tx_bytes).expect("inside"),
    };
    let ring = SharedRing::new(slots, rx, tx, windows, None).expect("a ring");
    RingParts { ring, memory }
}

/// The warps of a block.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Warps {
    /// Warps that serve.
    pub(crate) workers: u32,
    /// Lanes of each.
    pub(crate) lanes: u32,
    /// Whether a further warp does the maintenance; else the poller does.
    pub(crate) maintenance_warp: bool,
}

/// An entry for a handler of the machine: its address is its number there.
pub(crate) fn entry(id: u32, kind: HandlerKind, handler: u64) -> DeviceEntry {
    DeviceEntry {
        address: handler,
        id,
        kind: kind as u32,
        arg_bytes: DeviceEntry::NONE,
        follow_up: DeviceEntry::NONE,
        execs: 0,
        io_stride: 0,
        routing_key: 0,
        next_route: DeviceEntry::NONE,
        reserved: 0,
    }
}

/// A dispatcher's memory, apart from what each execution has anew.
pub(crate) struct Setup {
    pub(crate) parts: RingParts,
    pub(crate) control: Words,
    pub(crate) saved: Words,
    partition: Partition,
    entries: Vec<DeviceEntry>,
    cells: Vec<Cell>,
    index: IdIndex,
    warps: Warps,
    options: RingOptions,
    /// Slots that a warp's staging buffers have room for.
    batch: u32,
    /// The present execution, for dumps.
    now: Mutex<Option<Arc<Execution>>>,
}

/// What one execution has in its block's shared memory.
pub(crate) struct Execution {
    pub(crate) block_state: BlockState,
    pub(crate) serving: Vec<BlockU64>,
    staging: Vec<[Vec<BlockU64>; 2]>,
}

impl Execution {
    fn new(setup: &Setup) -> Self {
        let geometry = setup.parts.ring.geometry();
        let words = staging_bytes(geometry.rx_stride().max(geometry.tx_stride())) as usize / 8;
        let batch = words * setup.batch as usize;
        let zeroed = |count: usize| (0..count).map(|_| BlockU64::new(0)).collect::<Vec<_>>();
        Self {
            block_state: BlockState::default(),
            serving: zeroed(setup.partition.count as usize),
            staging: (0..setup.warps.workers).map(|_| [zeroed(batch), zeroed(batch)]).collect(),
        }
    }

    pub(crate) fn staging(&self, warp: u32) -> [StagingBuffer<'_>; 2] {
        self.staging[warp as usize].each_ref().map(|words| StagingBuffer::new(words))
    }
}

impl Setup {
    /// A dispatcher of the whole ring. Entries of one id come after all others, but for the first of them.
    pub(crate) fn new(
        parts: &RingParts,
        entries: Vec<DeviceEntry>,
        warps: Warps,
        options: RingOptions,
    ) -> Self {
        TURN.with(|_| ());
        let indexed = (0..entries.len())
            .find(|&i| entries[..i].iter().any(|earlier| earlier.id == entries[i].id))
            .unwrap_or(entries.len());
        let mut cells = vec![EMPTY; IdIndex::cells_for(indexed) * 2];
        let index = IdIndex::build(indexed, |i| entries[i].id, &mut cells).expect("distinct ids");
        let words = |count: usize| {
            Region::zeroed(count * 8).and_then(|region| region.words(0, count)).expect("memory")
        };
        Self {
            parts: parts.clone(),
            control: words(control::WORDS),
            saved: words(saved::WORDS),
            partition: Partition::of(parts.ring.geometry().slots(), 0, 1),
            entries,
            cells,
            index,
            warps,
            options,
            batch: warps.lanes,
            now: Mutex::new(None),
        }
    }

    /// The same, of a part of the ring.
    pub(crate) fn sharing(mut self, partition: Partition) -> Self {
        self.partition = partition;
        self
    }

    /// The same, whose warps serve one request at a time.
    pub(crate) fn without_batches(mut self) -> Self {
        self.batch = 1;
        self
    }

    pub(crate) fn ring(&self) -> &SharedRing {
        &self.parts.ring
    }

    pub(crate) fn block<'a, M: Machine>(
        &'a self,
        now: &'a Execution,
        machine: &'a M,
    ) -> BlockDispatcher<'a, M> {
        BlockDispatcher {
            ring: &self.parts.ring,
            partition: self.partition,
            table: DeviceTable::new(self.index, &self.cells, &self.entries),
            block_state: &now.block_state,
            serving: &now.serving,
            control: &self.control,
            saved: &self.saved,
            workers: self.warps.workers,
            poller_maintains: !self.warps.maintenance_warp,
            batch: self.batch,
            options: self.options,
            machine,
        }
    }

    /// What a fresh execution starts with.
    pub(crate) fn execution(&self) -> Arc<Execution> {
        let now = Arc::new(Execution::new(self));
        *self.now.lock().unwrap_or_else(PoisonError::into_inner) = Some(Arc::clone(&now));
        now
    }

    pub(crate) fn state(&self) -> u64 {
        self.control.load(control::STATE, Acquire)
    }

    /// The state of a slot, in the present execution.
    pub(crate) fn slot_state(&self, slot: u32) -> u64 {
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        now.map_or(0, |now| now.serving[(slot - self.partition.first) as usize].load(Acquire))
    }

    /// The counters as the control block has them.
    pub(crate) fn counters(&self) -> Snapshot {
        let at = |index| self.control.load(control::COUNTERS + index, Relaxed);
        Snapshot::from_counts(std::array::from_fn::<u64, { Counter::COUNT }, _>(at))
    }

    /// Everything that explains why a wait had no end.
    pub(crate) fn dump(&self) -> String {
        let mut text = format!(
            "state {}, stop {}, heartbeat {}, launches {}, relaunches {}\ncounters: {:?}\n",
            self.state(),
            self.control.load(control::STOP, Relaxed),
            self.control.load(control::HEARTBEAT, Relaxed),
            self.control.load(control::LAUNCHES, Relaxed),
            self.control.load(control::RELAUNCHES, Relaxed),
            self.counters().named().collect::<Vec<_>>(),
        );
        let now = self.now.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(now) = &now {
            let commands: Vec<WarpCommand> =
                (0..=self.warps.workers).map(|warp| now.block_state.read(warp)).collect();
            let _ = writeln!(text, "mailboxes: {commands:?}");
        }
        for slot in slots(self.ring()) {
            let state = now
                .as_ref()
                .and_then(|now| now.serving.get((slot.get().checked_sub(self.partition.first)?) as usize));
            let [rx, tx, state] =
                [self.ring().rx(slot), self.ring().tx(slot), state.map_or(0, |word| word.load(Relaxed))];
            if [rx, tx, state] != [0; 3] {
                let _ = writeln!(text, "slot {}: rx {rx:#x} tx {tx:#x} state {state:#x}", slot.get());
            }
        }
        text
    }

    /// Waits until `done`, or fails.
    #[track_caller]
    pub(crate) fn wait(&self, what: &str, mut done: impl FnMut() -> bool) {
        let limit = Instant::now() + LIMIT;
        while !done() {
            assert!(Instant::now() < limit, "waited {LIMIT:?} for: {what}\n{}", self.dump());
            thread::yield_now();
        }
    }

    /// Waits until maintenance has run `rounds` more times: what was written before is known to the block.
    #[track_caller]
    pub(crate) fn wait_rounds(&self, rounds: u64) {
        let beat = || self.control.load(control::HEARTBEAT, Relaxed);
        let first = beat();
        self.wait("a heartbeat", || beat() >= first + rounds);
    }
}

/// The slots of a ring.
pub(crate) fn slots(ring: &SharedRing) -> impl Iterator<Item = SlotIndex> + '_ {
    (0..ring.geometry().slots()).filter_map(|slot| ring.geometry().slot(slot))
}

/// Slot `slot` of a ring that has it.
pub(crate) fn slot_of(ring: &SharedRing, slot: u32) -> SlotIndex {
    ring.geometry().slot(slot).expect("in the ring")
}

/// Warps at work.
pub(crate) struct Running {
    pub(crate) setup: Arc<Setup>,
    ended: Receiver<Result<Report, String>>,
}

/// What an ended dispatcher left behind.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) state: u64,
    pub(crate) counters: Snapshot,
    /// The slot states of the last execution.
    pub(crate) slot_states: Vec<u64>,
    pub(crate) executions: u64,
}

/// Starts the warps, each on its own thread with one for each of its lanes, and again whenever the machine
/// was asked to launch the dispatcher again.
pub(crate) fn start<const G: bool>(setup: Setup, device: &Arc<Device<G>>) -> Running {
    let setup = Arc::new(setup);
    let (done, ended) = channel();
    let (here, device) = (Arc::clone(&setup), Arc::clone(device));
    thread::spawn(move || {
        let mut executions = 0;
        let outcome = loop {
            executions += 1;
            let now = here.execution();
            match execute(&here, &now, &device) {
                Err(panic) => break Err(panic),
                Ok(()) if device.launched_again() => device.wait_for_children(),
                Ok(()) => {
                    let slot_states = now.serving.iter().map(|state| state.load(Relaxed)).collect();
                    let (state, counters) = (here.state(), here.counters());
                    break Ok(Report { state, counters, slot_states, executions });
                }
            }
        };
        let _ = done.send(outcome);
    });
    Running { setup, ended }
}

/// One execution from its start until all warps have returned.
fn execute<const G: bool>(
    setup: &Arc<Setup>,
    now: &Arc<Execution>,
    device: &Arc<Device<G>>,
) -> Result<(), String> {
    let Warps { workers, lanes, maintenance_warp } = setup.warps;
    team::run_warp(lanes, |warp| setup.block(now, &**device).open(warp));
    let (done, ended) = channel();
    let warps = workers + u32::from(maintenance_warp);
    for me in 0..warps {
        let (setup, now, device, done) =
            (Arc::clone(setup), Arc::clone(now), Arc::clone(device), done.clone());
        thread::spawn(move || {
            let block = setup.block(&now, &*device);
            let outcome = catch_unwind(AssertUnwindSafe(|| {
                let ends = team::run_warp(lanes, |warp| {
                    if me == workers {
                        block.run_maintenance(warp, me);
                        return Ended::Dismissed;
                    }
                    let [input, output] = now.staging(me);
                    block.run(warp, me, input, output)
                });
                assert!(ends.iter().all(|&end| end == ends[0]), "lanes of warp {me} disagree: {ends:?}");
                ends[0]
            }));
            let _ = done.send((me, outcome));
        });
    }
    drop(done);
    let mut pollers = 0;
    for (me, outcome) in ended {
        match outcome {
            Ok(end) => pollers += u32::from(end == Ended::AsPoller),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
                return Err(format!("warp {me} panicked: {}", text.unwrap_or_default()));
            }
        }
    }
    if pollers == 1 { Ok(()) } else { Err(format!("{pollers} warps polled to the end")) }
}

impl Running {
    /// Requests a stop, one of `control::STOP_`.
    pub(crate) fn request_stop(&self, stop: u64) {
        self.setup.control.store(control::STOP, stop, Relaxed);
    }

    /// Waits for the end.
    #[track_caller]
    pub(crate) fn join(self) -> Report {
        match self.ended.recv_timeout(LIMIT) {
            Ok(Ok(report)) => report,
            Ok(Err(panic)) => panic!("{panic}\n{}", self.setup.dump()),
            Err(RecvTimeoutError::Timeout) => panic!("did not end in {LIMIT:?}\n{}", self.setup.dump()),
            Err(RecvTimeoutError::Disconnected) => panic!("the block's thread panicked"),
        }
    }

    /// Stops, and checks what every orderly end has in common.
    #[track_caller]
    pub(crate) fn stop(self, how: u64) -> Report {
        self.request_stop(how);
        let setup = Arc::clone(&self.setup);
        let report = self.join();
        assert_eq!(report.state, control::STATE_ENDED, "{}", setup.dump());
        assert!(
            report.slot_states.iter().all(|&state| state == 0),
            "a slot is still being served\n{}",
            setup.dump()
        );
        for warp in 0..setup.warps.workers as usize {
            let busy = setup.control.load(control::BUSY + warp * control::BUSY_WORDS, Relaxed);
            assert_eq!(busy, 0, "warp {warp} is said to be at work\n{}", setup.dump());
        }
        report
    }

    /// Stops after everything was answered and taken: nothing is left in the ring.
    #[track_caller]
    pub(crate) fn drain(self) -> Report {
        let setup = Arc::clone(&self.setup);
        let report = self.stop(control::STOP_DRAIN);
        for slot in slots(setup.ring()) {
            let flags = [setup.ring().rx(slot), setup.ring().tx(slot)];
            assert_eq!(flags, [flag::FREE; 2], "slot {}\n{}", slot.get(), setup.dump());
        }
        report
    }
}
