//! Graph launches from a device: the budget of an execution, executables and their mailboxes.
//!
//! Every dispatcher that launches graphs uses this module. Each dispatcher decides by itself how a request ends that cannot be
//! launched.

use super::{BlockDispatcher, DeviceTable, Machine};
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::BlockU64;
use ringcall_gpu::shared::Words;
use ringcall_gpu::team::Warp;
use ringcall_protocol::ring::ResponseAddresses;
use ringcall_wire::header::RequestHeader;
use ringcall_wire::launch::{DeviceEntry, LAUNCHES_PER_EXECUTION, io};

/// Launches of one execution from which on a dispatcher relaunches itself when no child runs.
pub const RELAUNCH_FROM: u64 = LAUNCHES_PER_EXECUTION / 2;
/// Times that a launch is tried again.
const LAUNCH_TRIES: u32 = 200;

/// What the warps of a block share of launches. All zero: nothing was launched.
#[derive(Debug, Default)]
#[repr(C)]
pub struct LaunchState {
    /// Launches of this execution.
    used: BlockU64,
    /// Where the search for an idle executable begins.
    turn: BlockU64,
    /// CUDA code of the last failed launch.
    error: BlockU64,
    /// Launches whose end no child counts.
    uncounted: BlockU64,
    /// [`SPENT`] and [`TRIGGER`].
    flags: BlockU64,
}

/// The rest of the budget is given up.
const SPENT: u64 = 1;
/// A program's trigger graph is taken: by a running handler that may ask for it, or by the handler that has
/// asked.
const TRIGGER: u64 = 2;

impl LaunchState {
    /// How much of this execution's budget is gone.
    #[must_use]
    #[inline(always)]
    pub fn used(&self) -> u64 {
        if self.is_spent() { LAUNCHES_PER_EXECUTION } else { self.made() }
    }

    /// Launches of this execution.
    #[must_use]
    #[inline(always)]
    pub fn made(&self) -> u64 {
        self.used.load(Ordering::Relaxed)
    }

    /// Gives up the rest of the budget: this execution takes no further requests, and the next begins when
    /// all children have ended. By one lane.
    #[inline(always)]
    pub(super) fn spend(&self) {
        self.flags.fetch_or(SPENT, Ordering::Relaxed);
    }

    #[must_use]
    #[inline(always)]
    pub(super) fn is_spent(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & SPENT != 0
    }

    /// Takes the program's trigger graph, if no warp holds it.
    pub(super) fn take_trigger(&self, warp: Warp<'_>) -> bool {
        // Acquire: pairs with `release_trigger`; the holder of the graph counts its launches.
        warp.any(warp.lane() == 0 && self.flags.fetch_or(TRIGGER, Ordering::Acquire) & TRIGGER == 0)
    }

    pub(super) fn release_trigger(&self, warp: Warp<'_>) {
        if warp.lane() == 0 {
            // Release: observed by the next one in `take_trigger`.
            self.flags.fetch_and(!TRIGGER, Ordering::Release);
        }
        warp.sync();
    }

    pub(super) fn has_trigger_taken(&self) -> bool {
        self.flags.load(Ordering::Relaxed) & TRIGGER != 0
    }

    /// Launches of this execution whose end no child counts.
    #[must_use]
    #[inline(always)]
    pub(super) fn uncounted(&self) -> u64 {
        self.uncounted.load(Ordering::Relaxed)
    }

    /// CUDA code of the last failed launch; 0 while none failed.
    #[must_use]
    #[inline(always)]
    pub fn error(&self) -> u64 {
        self.error.load(Ordering::Relaxed)
    }

    /// Takes one launch of this execution's budget, if there is one left.
    pub fn take(&self, warp: Warp<'_>) -> bool {
        let mut taken = false;
        if warp.lane() == 0 && !self.is_spent() {
            taken = self.used.fetch_add(1, Ordering::Relaxed) < LAUNCHES_PER_EXECUTION;
            if !taken {
                self.used.fetch_add(u64::MAX, Ordering::Relaxed);
            }
        }
        warp.any(taken)
    }

    /// Releases a launch that was taken and not made.
    pub fn release(&self, warp: Warp<'_>) {
        if warp.lane() == 0 {
            self.used.fetch_add(u64::MAX, Ordering::Relaxed);
        }
        warp.sync();
    }
}

/// A mailbox that a warp claimed and filled.
#[derive(Debug)]
pub struct Prepared {
    /// The mailbox.
    pub mailbox: Words,
    /// Its address.
    pub address: u64,
    exec: u64,
}

/// Why a graph cannot be launched now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unprepared {
    /// The budget of this execution is used up, or every executable runs: it can be later.
    Later,
    /// No graph has the request's routing key.
    NoRoute,
}

/// A request, as a graph is given it.
#[derive(Debug, Clone, Copy)]
pub struct GraphRequest<'a> {
    /// Its header, checked.
    pub header: &'a RequestHeader,
    /// Its slot.
    pub slot: u32,
    /// Room for the result, bytes.
    pub capacity: u32,
}

/// What launches graphs, as every warp of the block has it.
#[derive(Debug, Clone, Copy)]
pub struct Launcher<'a, M> {
    /// The machine.
    pub machine: &'a M,
    /// The functions.
    pub table: DeviceTable<'a>,
    /// What the warps share.
    pub launches: &'a LaunchState,
}

impl<'a, M: Machine> Launcher<'a, M> {
    /// The launcher of a block.
    pub(super) fn of(block: &'a BlockDispatcher<'_, M>) -> Self {
        Self { machine: block.machine, table: block.table, launches: &block.block_state.launches }
    }

    /// Claims a launch of the budget and an idle executable, and fills its mailbox.
    ///
    /// `payload` has the payload's words. `usable` says whether an idle mailbox may be used again; it is asked again after
    /// the claim. `response` has the addresses to which the graph of the claimed mailbox answers: none for a follow-up.
    ///
    /// # Errors
    /// Not now, or no such graph.
    pub fn prepare(
        &self,
        warp: Warp<'_>,
        entry: &DeviceEntry,
        graph_request: GraphRequest<'_>,
        payload: impl Fn(usize) -> u64,
        usable: impl Fn(&Words) -> bool,
        response: impl FnOnce(&Words) -> Option<ResponseAddresses>,
    ) -> Result<Prepared, Unprepared> {
        let entry = self.route(entry, graph_request.header, &payload).ok_or(Unprepared::NoRoute)?;
        if !self.launches.take(warp) {
            return Err(Unprepared::Later);
        }
        self.fill(warp, entry, graph_request, payload, usable, response)
    }

    /// The same for a follow-up, after a launch that was [taken](LaunchState::take) of the budget. An error releases the
    /// launch.
    ///
    /// # Errors
    /// No executable is idle, or no such graph.
    pub fn prepare_reserved(
        &self,
        warp: Warp<'_>,
        entry: &DeviceEntry,
        graph_request: GraphRequest<'_>,
        payload: impl Fn(usize) -> u64,
        usable: impl Fn(&Words) -> bool,
    ) -> Result<Prepared, Unprepared> {
        match self.route(entry, graph_request.header, &payload) {
            Some(entry) => self.fill(warp, entry, graph_request, payload, usable, |_| None),
            None => {
                self.launches.release(warp);
                Err(Unprepared::NoRoute)
            }
        }
    }

    /// Claims an idle executable of just this graph, and fills its mailbox; or releases the launch.
    fn fill(
        &self,
        warp: Warp<'_>,
        entry: &DeviceEntry,
        graph_request: GraphRequest<'_>,
        payload: impl Fn(usize) -> u64,
        usable: impl Fn(&Words) -> bool,
        response: impl FnOnce(&Words) -> Option<ResponseAddresses>,
    ) -> Result<Prepared, Unprepared> {
        let GraphRequest { header, slot, capacity } = graph_request;
        let Some((mailbox, address)) = self.claim(warp, entry, usable) else {
            self.launches.release(warp);
            return Err(Unprepared::Later);
        };
        let store = |word, value| mailbox.store(word, value, Ordering::Relaxed);
        if warp.lane() == 0 {
            for (i, word) in header.to_words().into_iter().enumerate() {
                store(io::HEADER + i, word);
            }
            let response = response(&mailbox).unwrap_or_default();
            store(io::TX_SLOT, response.slot);
            store(io::TX_FLAG, response.flag);
            store(io::TX_VALUE, response.value);
            store(io::TX_CAPACITY, u64::from(capacity));
            store(io::ARG_LEN, u64::from(header.arg_len));
            store(io::SLOT, u64::from(slot));
        }
        for word in warp.stride(header.arg_len.div_ceil(8) as usize) {
            store(io::PAYLOAD / 8 + word, payload(word));
        }
        let exec = mailbox.load(io::EXEC, Ordering::Relaxed);
        warp.sync();
        Ok(Prepared { mailbox, address, exec })
    }

    /// The graph that the request names, of several graphs under one id.
    pub(super) fn route<'e>(
        &'e self,
        entry: &'e DeviceEntry,
        header: &RequestHeader,
        payload: impl Fn(usize) -> u64,
    ) -> Option<&'e DeviceEntry> {
        let routed = entry.next_route != DeviceEntry::NONE || entry.routing_key != 0;
        if !routed {
            return Some(entry);
        }
        // The routing key of a request is its first eight bytes: where the decoding calls have the decoder's id.
        let key = if header.arg_len >= 8 { payload(0) } else { 0 };
        // Of a program's own graphs one without a key takes what no other does.
        let any = || if entry.is_foreign() { self.table.route(entry, 0) } else { None };
        self.table.route(entry, key).or_else(any)
    }

    /// Launches a program's own graph, which counts its end nowhere. What lane 0 wrote before is visible to it.
    ///
    /// # Errors
    /// CUDA's code: the launch failed, and the budget is free again.
    pub(super) fn fire_foreign(&self, warp: Warp<'_>, exec: u64) -> Result<(), u32> {
        warp.sync();
        let mut failed = None;
        if warp.lane() == 0 {
            match self.launch_with_retries(exec) {
                Ok(()) => {
                    self.launches.uncounted.fetch_add(1, Ordering::Relaxed);
                }
                Err(code) => {
                    failed = Some(code as u32);
                    self.launches.error.store(u64::from(code as u32), Ordering::Relaxed);
                }
            }
        }
        if !warp.any(failed.is_some()) {
            return Ok(());
        }
        self.launches.release(warp);
        Err(warp.shuffle(failed.unwrap_or(0), 0))
    }

    /// Launches. What the warp wrote before is visible to the child. `false`: the launch failed, mailbox and budget are free
    /// again.
    pub fn fire(&self, warp: Warp<'_>, prepared: &Prepared) -> bool {
        warp.sync();
        let mut failed = false;
        if warp.lane() == 0
            && let Err(code) = self.launch_with_retries(prepared.exec)
        {
            failed = true;
            self.launches.error.store(u64::from(code as u32), Ordering::Relaxed);
            prepared.mailbox.store(io::STATE, io::IDLE, Ordering::Release);
        }
        if warp.any(failed) {
            // Nothing was launched, so no child will say that it has finished.
            self.launches.release(warp);
            return false;
        }
        true
    }

    /// Launches, again and again for a while: a child frees its mailbox a moment before its graph has ended, and until then
    /// the same executable cannot be launched.
    fn launch_with_retries(&self, exec: u64) -> Result<(), i32> {
        let mut tries = 0;
        loop {
            match self.machine.launch(exec) {
                Err(_) if tries < LAUNCH_TRIES => tries += 1,
                result => return result,
            }
            self.machine.sleep();
        }
    }

    /// Whether the graph of a mailbox that was just claimed may be launched: where it has a gate, that is 0. Only the graph
    /// itself closes its gate, so an open one stays open until the launch.
    fn is_open(&self, mailbox: &Words) -> bool {
        let gate = mailbox.load(io::GATE, Ordering::Relaxed);
        // Acquire: pairs with the release of the consumer that opened the gate.
        gate == 0 || self.machine.mailbox(gate, 1).is_some_and(|word| word.load(0, Ordering::Acquire) == 0)
    }

    /// Claims an idle mailbox of this graph with an open gate, searching round-robin; and its address.
    fn claim(
        &self,
        warp: Warp<'_>,
        entry: &DeviceEntry,
        usable: impl Fn(&Words) -> bool,
    ) -> Option<(Words, u64)> {
        let words = entry.io_stride as usize / 8;
        let address = |index: u32| entry.address + u64::from(index) * u64::from(entry.io_stride);
        let at = |index: u32| self.machine.mailbox(address(index), words);
        let mut start = 0;
        if warp.lane() == 0 {
            start = self.launches.turn.fetch_add(1, Ordering::Relaxed) as u32 % entry.execs.max(1);
        }
        let start = warp.shuffle(start, 0);
        let mut base = 0;
        while base < entry.execs {
            let rank = base + warp.lane();
            let index = (start + rank) % entry.execs.max(1);
            let idle = rank < entry.execs
                && at(index)
                    .is_some_and(|box_| box_.load(io::STATE, Ordering::Relaxed) == io::IDLE && usable(&box_));
            let mut candidates = warp.ballot(idle);
            while candidates != 0 {
                let lane = candidates.trailing_zeros();
                candidates &= candidates - 1;
                let index = (start + base + lane) % entry.execs.max(1);
                let mailbox = at(index)?;
                let mut mine = false;
                if warp.lane() == 0 {
                    // Acquire in `claim`: pairs with the child's release, after which it reads the mailbox no more.
                    mine = mailbox.get(io::STATE).is_some_and(|state| state.claim(io::IDLE, io::LAUNCHED));
                    if mine && !(usable(&mailbox) && self.is_open(&mailbox)) {
                        // What was seen before the claim may have been from before the last launch.
                        mailbox.store(io::STATE, io::IDLE, Ordering::Release);
                        mine = false;
                    }
                }
                if warp.any(mine) {
                    return Some((mailbox, address(index)));
                }
            }
            base += warp.lanes();
        }
        None
    }
}
