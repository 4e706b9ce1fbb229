//! A queue pair with its library, its device and its memory.

use super::error::{PairFault, SendError, VerbsError};
use super::memory::Memory;
use super::ports;
use super::sys::*;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use std::ffi::CStr;
use std::io;
use std::mem::zeroed;
use std::net::Ipv4Addr;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::ptr::{NonNull, null_mut};
use std::time::Duration;

/// Options of a queue pair.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PairOptions {
    /// The device's name, as `rdma link` and `ibv_devinfo` show it.
    pub device: String,
    /// The address of the device to use, if it has several.
    pub ip: Option<Ipv4Addr>,
    /// Whether to use the reliable connected service instead of the unreliable one.
    pub reliable: bool,
    /// Slots of the window, and of the memory to send from, at most 4096. Each slot of the window has a receive posted.
    pub slots: u32,
    /// Bytes of a slot.
    pub slot_bytes: u32,
    /// The path MTU, which the peer must share: 256, 512, 1024, 2048 or 4096 bytes.
    pub mtu: u16,
    /// The first packet sequence number of both directions, 24 bits.
    pub first_psn: u32,
}

/// The peer's queue pair.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RemoteQueuePair {
    /// The queue pair's number.
    pub qp: u32,
    /// The peer's address.
    pub ip: Ipv4Addr,
}

/// A message's operation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendOperation {
    /// SEND.
    Send,
    /// RDMA WRITE with immediate.
    WriteImmediate {
        /// The address in the peer's window.
        address: u64,
        /// The key of the peer's window.
        key: u32,
        /// A number for the receiving program.
        immediate: u32,
    },
}

/// A completion.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkCompletion {
    /// The peer wrote into the window.
    Written {
        /// The immediate of the write.
        immediate: u32,
        /// Bytes of the last message.
        bytes: u32,
    },
    /// The peer's SEND is in a slot of the window until [`VerbsQueuePair::release`].
    Received {
        /// The slot.
        slot: u32,
        /// Its length.
        bytes: u32,
    },
}

const BATCH: usize = 16;
/// Bit of a request's number that marks a message, not a receive; the bits above it number the connection.
const SEND: u64 = 1 << 31;
const SLOT: u64 = SEND - 1;
/// Acknowledgement timeout: 4.096 us × 2¹⁴, 67 ms.
const TIMEOUT: u8 = 14;
/// Not 7, which Linux's software adapter takes for endless retries.
const RETRIES: u8 = 6;
/// Endless, by the specification: a peer without a posted receive delays only its own answers.
const NOT_READY_RETRIES: u8 = 7;
/// 0.64 ms.
const NOT_READY_TIMER: u8 = 12;

/// The library's objects, in the order in which they are released.
struct Made {
    library: Ibverbs,
    context: *mut ibv_context,
    domain: *mut ibv_pd,
    window: *mut ibv_mr,
    out: *mut ibv_mr,
    channel: *mut ibv_comp_channel,
    queue: *mut ibv_cq,
    pair: *mut ibv_qp,
}

// SAFETY: rdma-core's objects may be used from any thread, by one at a time here.
unsafe impl Send for Made {}

impl Drop for Made {
    fn drop(&mut self) {
        let library = &self.library;
        macro_rules! give_back {
            ($($object:ident $function:ident;)*) => {
                $(if !self.$object.is_null() {
                    // SAFETY: made by this library, and given back once, after what was made from it.
                    let _ = unsafe { library.$function(self.$object) };
                })*
            };
        }
        give_back! {
            pair ibv_destroy_qp;
            queue ibv_destroy_cq;
            channel ibv_destroy_comp_channel;
            out ibv_dereg_mr;
            window ibv_dereg_mr;
            domain ibv_dealloc_pd;
            context ibv_close_device;
        }
    }
}

/// A queue pair with its window and its memory to send from. Nothing is allocated after [`Self::open`].
pub struct VerbsQueuePair {
    // The first field, so that it is released before the memory that the adapter writes.
    made: Made,
    window: Memory,
    out: Memory,
    options: PairOptions,
    /// The folder of the device's verbs interface, if the kernel listed it.
    interface: Option<PathBuf>,
    gid_index: u8,
    ip: Ipv4Addr,
    connected: bool,
    fault: Option<PairFault>,
    /// Connections so far, by which completions of an earlier connection are recognised and skipped.
    number: u32,
    /// The next slot to send from; the slots are used in turn.
    next: u32,
    under_way: u32,
    batch: [ibv_wc; BATCH],
    taken: usize,
    here: usize,
}

impl std::fmt::Debug for VerbsQueuePair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { options, connected, fault, number, .. } = self;
        f.debug_struct("Pair")
            .field("options", options)
            .field("connected", connected)
            .field("fault", fault)
            .field("number", number)
            .finish_non_exhaustive()
    }
}

fn driver(what: &'static str, code: i32) -> Result<(), VerbsError> {
    if code == 0 {
        Ok(())
    } else {
        Err(VerbsError::Driver { what, why: io::Error::from_raw_os_error(code.abs()) })
    }
}

fn made<T>(what: &'static str, pointer: *mut T) -> Result<*mut T, VerbsError> {
    if pointer.is_null() {
        Err(VerbsError::Driver { what, why: io::Error::last_os_error() })
    } else {
        Ok(pointer)
    }
}

fn open_device(library: &Ibverbs, name: &str) -> Result<*mut ibv_context, VerbsError> {
    let mut count = 0;
    // SAFETY: the count is ours to write.
    let list = unsafe { library.ibv_get_device_list(&raw mut count) };
    let none = |devices| VerbsError::NoDevice { name: name.to_owned(), devices };
    if list.is_null() {
        return Err(none(Vec::new()));
    }
    let mut names = Vec::new();
    let mut found = None;
    for index in 0..usize::try_from(count).unwrap_or(0) {
        // SAFETY: the list has so many entries.
        let entry = unsafe { list.add(index) };
        // SAFETY: as above.
        let device = unsafe { *entry };
        // SAFETY: the device is the list's.
        let text = unsafe { library.ibv_get_device_name(device) };
        // SAFETY: a device's name ends with a zero byte.
        let known = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
        if known == name {
            found = Some(device);
        }
        names.push(known);
    }
    let opened = match found {
        // SAFETY: the device is the list's, which is given back afterwards.
        Some(device) => made("opening the RDMA device", unsafe { library.ibv_open_device(device) }),
        None => Err(none(names)),
    };
    // SAFETY: the list was given by the library.
    unsafe { library.ibv_free_device_list(list) };
    opened
}

impl VerbsQueuePair {
    /// Opens a device, registers memory, and creates an unconnected queue pair.
    ///
    /// # Errors
    /// See [`VerbsError`].
    pub fn open(options: PairOptions) -> Result<Self, VerbsError> {
        check(&options)?;
        // SAFETY: rdma-core's library does nothing on loading but register itself.
        let library = unsafe { Ibverbs::new("libibverbs.so.1") };
        let library = library.map_err(|why| VerbsError::Library(why.to_string()))?;
        let context = open_device(&library, &options.device)?;
        let mut made_so_far = Made {
            library,
            context,
            domain: null_mut(),
            window: null_mut(),
            out: null_mut(),
            channel: null_mut(),
            queue: null_mut(),
            pair: null_mut(),
        };
        let interface = ports::interface(Path::new("/sys/class/infiniband_verbs"), &options.device);
        let (gid_index, ip) = ports::address(&options.device, options.ip)?;
        let bytes = options.slots as usize * options.slot_bytes as usize;
        let memory = || {
            let (setting, value) = ("the window's size", bytes as u64);
            Memory::new(bytes).ok_or(VerbsError::Setting {
                setting,
                value,
                needed: "give fewer or smaller slots",
            })
        };
        let (window, out) = (memory()?, memory()?);
        let made_ref = &mut made_so_far;
        // SAFETY: the context is open.
        let domain = unsafe { made_ref.library.ibv_alloc_pd(made_ref.context) };
        made_ref.domain = made("a protection domain", domain)?;
        let access = IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE;
        made_ref.window = register(made_ref, &window, access)?;
        made_ref.out = register(made_ref, &out, IBV_ACCESS_LOCAL_WRITE)?;
        // SAFETY: the context is open.
        let channel = unsafe { made_ref.library.ibv_create_comp_channel(made_ref.context) };
        made_ref.channel = made("a completion channel", channel)?;
        // Every request that can be in flight, twice: a reset flushes as many again.
        let entries = 4 * options.slots as i32;
        // SAFETY: context and channel are live.
        let queue = unsafe {
            made_ref.library.ibv_create_cq(made_ref.context, entries, null_mut(), made_ref.channel, 0)
        };
        made_ref.queue = made("a completion queue", queue)?;
        made_ref.pair = create_pair(made_ref, &options)?;
        Ok(Self {
            made: made_so_far,
            window,
            out,
            options,
            interface,
            gid_index,
            ip,
            connected: false,
            fault: None,
            number: 0,
            next: 0,
            under_way: 0,
            // SAFETY: an entry is plain numbers, for which zeros are valid.
            batch: unsafe { zeroed() },
            taken: 0,
            here: 0,
        })
    }

    /// The queue pair's options.
    #[must_use]
    pub const fn options(&self) -> &PairOptions {
        &self.options
    }

    /// The queue pair's number, which peers address.
    #[must_use]
    pub fn number(&self) -> u32 {
        // SAFETY: the queue pair is live.
        unsafe { (*self.made.pair).qp_num }
    }

    /// The key to the window, whose first address is 0.
    #[must_use]
    pub fn key(&self) -> u32 {
        // SAFETY: the registration is live.
        unsafe { (*self.made.window).rkey }
    }

    /// The device's address.
    #[must_use]
    pub const fn ip(&self) -> Ipv4Addr {
        self.ip
    }

    /// Why the connection has ended, if it has.
    #[must_use]
    pub const fn fault(&self) -> Option<PairFault> {
        self.fault
    }

    fn modify(
        &mut self,
        what: &'static str,
        attributes: &mut ibv_qp_attr,
        mask: u32,
    ) -> Result<(), VerbsError> {
        // SAFETY: the queue pair is live, and the attributes are read alone.
        let code = unsafe { self.made.library.ibv_modify_qp(self.made.pair, attributes, mask as i32) };
        driver(what, code)
    }

    /// Connects to a peer's queue pair, from any state: sequence numbers start again, every slot has a receive posted,
    /// and the window is zeroed.
    ///
    /// # Errors
    /// The driver's error.
    pub fn connect(&mut self, remote: RemoteQueuePair) -> Result<(), VerbsError> {
        (self.connected, self.fault) = (false, None);
        (self.under_way, self.next) = (0, 0);
        self.number = self.number.wrapping_add(1);
        // SAFETY: attributes are plain numbers, for which zeros are valid.
        let mut reset: ibv_qp_attr = unsafe { zeroed() };
        reset.qp_state = IBV_QPS_RESET;
        self.modify("resetting the queue pair", &mut reset, IBV_QP_STATE)?;
        self.window.clear();
        // SAFETY: as above.
        let mut init: ibv_qp_attr = unsafe { zeroed() };
        (init.qp_state, init.port_num, init.qp_access_flags) = (IBV_QPS_INIT, 1, IBV_ACCESS_REMOTE_WRITE);
        let mask = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS;
        self.modify("initialising the queue pair", &mut init, mask)?;
        for slot in 0..self.options.slots {
            self.release(slot)?;
        }
        // SAFETY: as above.
        let mut receive: ibv_qp_attr = unsafe { zeroed() };
        receive.qp_state = IBV_QPS_RTR;
        receive.path_mtu = mtu(self.options.mtu);
        receive.dest_qp_num = remote.qp;
        receive.rq_psn = self.options.first_psn;
        receive.ah_attr.is_global = 1;
        receive.ah_attr.port_num = 1;
        receive.ah_attr.grh.sgid_index = self.gid_index;
        receive.ah_attr.grh.hop_limit = 64;
        receive.ah_attr.grh.dgid = ibv_gid { raw: remote.ip.to_ipv6_mapped().octets() };
        let mut mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
        if self.options.reliable {
            (receive.max_dest_rd_atomic, receive.min_rnr_timer) = (1, NOT_READY_TIMER);
            mask |= IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER;
        }
        self.modify("connecting the queue pair", &mut receive, mask)?;
        // SAFETY: as above.
        let mut send: ibv_qp_attr = unsafe { zeroed() };
        (send.qp_state, send.sq_psn) = (IBV_QPS_RTS, self.options.first_psn);
        let mut mask = IBV_QP_STATE | IBV_QP_SQ_PSN;
        if self.options.reliable {
            (send.timeout, send.retry_cnt, send.rnr_retry, send.max_rd_atomic) =
                (TIMEOUT, RETRIES, NOT_READY_RETRIES, 1);
            mask |= IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
        }
        self.modify("readying the queue pair", &mut send, mask)?;
        self.connected = true;
        Ok(())
    }

    /// Posts the receive of a slot again.
    ///
    /// # Errors
    /// The driver's error.
    pub fn release(&mut self, slot: u32) -> Result<(), VerbsError> {
        let offset = slot as usize * self.options.slot_bytes as usize;
        // SAFETY: the registration is live.
        let lkey = unsafe { (*self.made.window).lkey };
        // The window's first address is 0.
        let mut piece = ibv_sge { addr: offset as u64, length: self.options.slot_bytes, lkey };
        let mut request = ibv_recv_wr {
            wr_id: u64::from(self.number) << 32 | u64::from(slot),
            next: null_mut(),
            sg_list: &raw mut piece,
            num_sge: 1,
        };
        let mut bad = null_mut();
        let post = operations(self.made.context).post_recv;
        let Some(post) = post else { return driver("posting a receive", libc_enosys()) };
        // SAFETY: the queue pair is live, and the request with its piece outlives the call, which copies them.
        driver("posting a receive", unsafe { post(self.made.pair, &raw mut request, &raw mut bad) })
    }

    /// Sends a message.
    ///
    /// # Errors
    /// See [`SendError`].
    pub fn send(&mut self, operation: SendOperation, bytes: &[u8]) -> Result<(), SendError> {
        if !self.connected || self.fault.is_some() {
            return Err(SendError::NotConnected);
        }
        let most = self.options.slot_bytes as usize;
        if bytes.len() > most {
            return Err(SendError::TooLong { bytes: bytes.len(), most });
        }
        if self.under_way == self.options.slots {
            return Err(SendError::Full);
        }
        let slot = self.next;
        let offset = slot as usize * most;
        self.out.write(offset, bytes);
        // SAFETY: the registration is live.
        let lkey = unsafe { (*self.made.out).lkey };
        let mut piece = ibv_sge { addr: offset as u64, length: bytes.len() as u32, lkey };
        // SAFETY: a request is plain numbers and pointers, for which zeros are valid.
        let mut request: ibv_send_wr = unsafe { zeroed() };
        request.wr_id = u64::from(self.number) << 32 | SEND | u64::from(slot);
        request.sg_list = &raw mut piece;
        request.num_sge = i32::from(!bytes.is_empty());
        request.send_flags = IBV_SEND_SIGNALED;
        request.opcode = IBV_WR_SEND;
        if let SendOperation::WriteImmediate { address, key, immediate } = operation {
            request.opcode = IBV_WR_RDMA_WRITE_WITH_IMM;
            request.__bindgen_anon_1.imm_data = immediate.to_be();
            request.wr.rdma.remote_addr = address;
            request.wr.rdma.rkey = key;
        }
        let mut bad = null_mut();
        let Some(post) = operations(self.made.context).post_send else {
            return Err(SendError::Driver(libc_enosys()));
        };
        // SAFETY: the queue pair is live, and the request with its piece outlives the call, which copies them.
        match unsafe { post(self.made.pair, &raw mut request, &raw mut bad) } {
            0 => {
                self.under_way += 1;
                self.next = if slot + 1 < self.options.slots { slot + 1 } else { 0 };
                Ok(())
            }
            code => Err(SendError::Driver(code)),
        }
    }

    /// Copies out the beginning of a slot of the window.
    ///
    /// # Panics
    /// There is no such slot, or `out` is longer than a slot: a defect of the caller.
    pub fn read(&self, slot: u32, out: &mut [u8]) {
        assert!(slot < self.options.slots && out.len() <= self.options.slot_bytes as usize, "no such slot");
        self.window.read(slot as usize * self.options.slot_bytes as usize, out);
    }

    /// The next completion of this connection. A write's receive is posted again at once.
    ///
    /// # Errors
    /// The connection has ended; [`fault`](Self::fault) returns why from now on.
    pub fn poll(&mut self) -> Result<Option<WorkCompletion>, PairFault> {
        if !self.connected {
            return Ok(None);
        }
        if let Some(fault) = self.fault {
            return Err(fault);
        }
        // Bounded by the most entries that the adapter's queue can have.
        for _ in 0..=4 * self.options.slots as usize + BATCH {
            if self.taken == self.here && !self.refill()? {
                return Ok(None);
            }
            let done = self.batch[self.taken];
            self.taken += 1;
            if (done.wr_id >> 32) as u32 != self.number {
                continue;
            }
            if done.status != IBV_WC_SUCCESS {
                return Err(self.broken(done.status));
            }
            if done.wr_id & SEND != 0 {
                self.under_way -= 1;
                continue;
            }
            // Below the number of slots, as it was posted.
            let slot = (done.wr_id & SLOT) as u32;
            let bytes = done.byte_len;
            if done.opcode != IBV_WC_RECV_RDMA_WITH_IMM {
                return Ok(Some(WorkCompletion::Received { slot, bytes }));
            }
            if self.release(slot).is_err() {
                return Err(self.fail(PairFault::Error("a receive could not be posted again")));
            }
            // SAFETY: completions of this kind have an immediate.
            let immediate = u32::from_be(unsafe { done.__bindgen_anon_1.imm_data });
            return Ok(Some(WorkCompletion::Written { immediate, bytes }));
        }
        Ok(None)
    }

    /// Waits until every message has been sent, and with the reliable service has arrived, but no longer than
    /// `at_most`. For the end of a connection: other completions are discarded.
    pub fn drain(&mut self, at_most: Duration) {
        let begin = std::time::Instant::now();
        while self.under_way > 0 && begin.elapsed() < at_most {
            if self.poll().is_err() {
                return;
            }
            std::thread::yield_now();
        }
    }

    fn refill(&mut self) -> Result<bool, PairFault> {
        (self.taken, self.here) = (0, 0);
        let Some(poll) = operations(self.made.context).poll_cq else {
            return Err(self.fail(PairFault::Error("the driver cannot poll")));
        };
        // SAFETY: the queue is live, and the batch has so many entries.
        let count = unsafe { poll(self.made.queue, BATCH as i32, self.batch.as_mut_ptr()) };
        match usize::try_from(count) {
            Ok(count) => {
                self.here = count.min(BATCH);
                Ok(self.here > 0)
            }
            Err(_) => Err(self.fail(PairFault::Error("polling the completion queue failed"))),
        }
    }

    fn fail(&mut self, fault: PairFault) -> PairFault {
        *self.fault.insert(fault)
    }

    /// Ends the connection because of a completion's status, or because the device is gone.
    fn broken(&mut self, status: ibv_wc_status) -> PairFault {
        if self.is_device_gone() {
            return self.fail(PairFault::DeviceRemoved);
        }
        self.fail(match status {
            IBV_WC_RETRY_EXC_ERR => PairFault::RetriesExceeded,
            IBV_WC_RNR_RETRY_EXC_ERR => PairFault::NotReadyRetriesExceeded,
            IBV_WC_REM_ACCESS_ERR => PairFault::Refused("remote access error"),
            IBV_WC_REM_INV_REQ_ERR => PairFault::Refused("remote invalid request"),
            IBV_WC_REM_OP_ERR => PairFault::Refused("remote operation error"),
            IBV_WC_WR_FLUSH_ERR => PairFault::Error("requests were flushed: the peer's packet broke it"),
            IBV_WC_LOC_PROT_ERR => PairFault::Error("local protection error"),
            IBV_WC_LOC_LEN_ERR => PairFault::Error("a message is longer than a slot"),
            _ => PairFault::Error("a request failed"),
        })
    }

    /// Polls the driver's events other than completions, which say whether the queue pair and the device still work.
    ///
    /// # Errors
    /// The connection has ended; [`fault`](Self::fault) returns why from now on.
    pub fn poll_events(&mut self) -> Result<(), PairFault> {
        // Bounded by a little more than the events that a driver may hold.
        for _ in 0..64 {
            let Some(kind) = self.next_event() else { break };
            let fault = match kind {
                IBV_EVENT_DEVICE_FATAL => PairFault::DeviceRemoved,
                IBV_EVENT_QP_FATAL | IBV_EVENT_QP_REQ_ERR | IBV_EVENT_QP_ACCESS_ERR if self.connected => {
                    PairFault::Error("the adapter says that its queue pair failed")
                }
                _ => continue,
            };
            self.fail(fault);
        }
        match self.fault {
            None if self.is_device_gone() => Err(self.fail(PairFault::DeviceRemoved)),
            None => Ok(()),
            Some(fault) => Err(fault),
        }
    }

    /// Whether the kernel removes the device, no longer lists it, or no longer with its address.
    fn is_device_gone(&self) -> bool {
        self.interface.as_deref().is_some_and(|folder| !ports::has_interface(folder))
            || !ports::has_address(&self.options.device, self.gid_index, self.ip)
    }

    /// The kind of the next event other than completions, if there is one.
    fn next_event(&mut self) -> Option<ibv_event_type> {
        // SAFETY: the context is open.
        let descriptor = unsafe { (*self.made.context).async_fd };
        if !readable(descriptor, Duration::ZERO) {
            return None;
        }
        // SAFETY: an event is plain numbers and a pointer, for which zeros are valid.
        let mut event: ibv_async_event = unsafe { zeroed() };
        // SAFETY: the context is open, and an event waits.
        if unsafe { self.made.library.ibv_get_async_event(self.made.context, &raw mut event) } != 0 {
            return None;
        }
        // SAFETY: the event was got a moment ago.
        unsafe { self.made.library.ibv_ack_async_event(&raw mut event) };
        Some(event.event_type)
    }

    /// Sleeps until something completes, or until `timeout`. A completion at the very moment at which the sleep begins
    /// may be noticed only at its end.
    ///
    /// # Errors
    /// The driver's error.
    pub fn wait(&self, timeout: Duration) -> io::Result<()> {
        if self.taken < self.here {
            return Ok(());
        }
        let Some(arm) = operations(self.made.context).req_notify_cq else {
            return Err(io::ErrorKind::Unsupported.into());
        };
        // SAFETY: the queue is live.
        let code = unsafe { arm(self.made.queue, 0) };
        if code != 0 {
            return Err(io::Error::from_raw_os_error(code.abs()));
        }
        // SAFETY: the channel is live.
        let descriptor = unsafe { (*self.made.channel).fd };
        if readable(descriptor, timeout) {
            let (mut queue, mut context) = (null_mut(), null_mut());
            // SAFETY: the channel is live, and an event waits.
            if unsafe {
                self.made.library.ibv_get_cq_event(self.made.channel, &raw mut queue, &raw mut context)
            } == 0
            {
                // SAFETY: one event was got a moment ago.
                unsafe { self.made.library.ibv_ack_cq_events(self.made.queue, 1) };
            }
        }
        Ok(())
    }
}

fn readable(descriptor: i32, timeout: Duration) -> bool {
    if descriptor < 0 {
        return false;
    }
    // SAFETY: the library keeps it open as long as the object that has it.
    let borrowed = unsafe { BorrowedFd::borrow_raw(descriptor) };
    let timeout = Timespec { tv_sec: timeout.as_secs() as i64, tv_nsec: timeout.subsec_nanos().into() };
    poll(&mut [PollFd::new(&borrowed, PollFlags::IN)], Some(&timeout)).is_ok_and(|ready| ready > 0)
}

/// The driver's functions, which C's inline functions call.
const fn operations(context: *mut ibv_context) -> ibv_context_ops {
    // SAFETY: the context is open.
    unsafe { (*context).ops }
}

const fn libc_enosys() -> i32 {
    38
}

const fn mtu(bytes: u16) -> ibv_mtu {
    match bytes {
        256 => IBV_MTU_256,
        512 => IBV_MTU_512,
        1024 => IBV_MTU_1024,
        2048 => IBV_MTU_2048,
        _ => IBV_MTU_4096,
    }
}

fn check(options: &PairOptions) -> Result<(), VerbsError> {
    let wrong = |setting, value: u64, needed| Err(VerbsError::Setting { setting, value, needed });
    let PairOptions { slots, slot_bytes, mtu, first_psn, .. } = *options;
    if slots == 0 || slots > 4096 {
        return wrong("the number of slots", slots.into(), "give 1 to 4096");
    }
    if slot_bytes == 0 || slot_bytes > 1 << 30 {
        return wrong("the size of a slot", slot_bytes.into(), "give 1 to 2^30 bytes");
    }
    if ![256, 512, 1024, 2048, 4096].contains(&mtu) {
        return wrong("the path MTU", mtu.into(), "give 256, 512, 1024, 2048 or 4096");
    }
    if first_psn >> 24 != 0 {
        return wrong("the first packet sequence number", first_psn.into(), "it has 24 bits");
    }
    Ok(())
}

/// Registers memory with the adapter, with 0 as its first address.
fn register(made_so_far: &Made, memory: &Memory, access: u32) -> Result<*mut ibv_mr, VerbsError> {
    let start = NonNull::new(memory.address()).map_or(null_mut(), |start| start.as_ptr().cast());
    // SAFETY: the domain is live, and the memory outlives its registration: `VerbsQueuePair` gives the registration back first.
    let region =
        unsafe { made_so_far.library.ibv_reg_mr_iova2(made_so_far.domain, start, memory.bytes(), 0, access) };
    made("registering memory (ulimit -l bounds it)", region)
}

fn create_pair(made_so_far: &Made, options: &PairOptions) -> Result<*mut ibv_qp, VerbsError> {
    // SAFETY: attributes are plain numbers and pointers, for which zeros are valid.
    let mut create: ibv_qp_init_attr = unsafe { zeroed() };
    (create.send_cq, create.recv_cq) = (made_so_far.queue, made_so_far.queue);
    create.qp_type = if options.reliable { IBV_QPT_RC } else { IBV_QPT_UC };
    let depth = options.slots;
    create.cap = ibv_qp_cap {
        max_send_wr: depth,
        max_recv_wr: depth,
        max_send_sge: 1,
        max_recv_sge: 1,
        max_inline_data: 0,
    };
    // SAFETY: the domain and the queue are live.
    made("a queue pair", unsafe { made_so_far.library.ibv_create_qp(made_so_far.domain, &raw mut create) })
}
