//! A queue pair with its completion queues, in one piece of memory.

use super::api::{Mr, Uar, Umem, UmemIn};
use super::{Device, DevxError, Domain, Object, some};
use crate::command::{self, Completions, ConnectionService, Path, Queue, QueuePairSettings};
use ringcall_mlx5::layout::{RECEIVE_WQE_BYTES, RECORD_BYTES, cqe, wqe};
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::thread::sleep;
use std::time::Duration;

/// Offsets of the parts of a queue pair's memory, in bytes from its start.
///
/// ```
/// use ringcall_rdma::devx::QueuePairLayout;
///
/// let layout = QueuePairLayout::of(6, 6)?;
/// assert_eq!((layout.receive_completions, layout.send_completions), (0, 4096));
/// // Receive requests first, then send requests: one queue to the adapter.
/// assert_eq!((layout.receive, layout.send), (8192, 8192 + 64 * 16));
/// assert_eq!(layout.bytes % 4096, 0);
/// # Ok::<(), ringcall_rdma::devx::DevxError>(())
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueuePairLayout {
    /// Send requests, as a power of two.
    pub log_send: u8,
    /// Receive requests, as a power of two.
    pub log_receive: u8,
    /// Entries and offset of the receive completions: one entry for each request.
    pub receive_completions: usize,
    /// Entries and offset of the send completions: one entry for each request.
    pub send_completions: usize,
    /// Receive requests.
    pub receive: usize,
    /// Send requests.
    pub send: usize,
    /// The queue pair's doorbell record.
    pub record: usize,
    /// The doorbell record of the receive completions, and then of the send completions.
    pub completion_records: [usize; 2],
    /// Total bytes, in whole pages.
    pub bytes: usize,
}

const PAGE: usize = 4096;
/// The fewest receive requests that fill the space of a send request.
const LEAST_LOG_RECEIVE: u8 = (wqe::BYTES / RECEIVE_WQE_BYTES).ilog2() as u8;
/// Each record has a cache line to itself, since different agents write them.
const LINE: usize = 64;

impl QueuePairLayout {
    /// The layout for queues of these sizes, each a power of two: 0 to 15 for sends, 2 to 15 for receives.
    ///
    /// # Errors
    /// More requests than a 16-bit counter can tell apart, or fewer receive requests than fill the 64 bytes of a send
    /// request. The adapter assumes that the send requests begin where the receive requests end, and each send request
    /// has to begin at a multiple of its size.
    pub fn of(log_send: u8, log_receive: u8) -> Result<Self, DevxError> {
        for (log, least) in [(log_send, 0), (log_receive, LEAST_LOG_RECEIVE)] {
            if !(least..=15).contains(&log) {
                return Err(DevxError::Size(log));
            }
        }
        let (sends, receives) = (1_usize << log_send, 1_usize << log_receive);
        let mut end = 0;
        let mut reserve = |bytes: usize, align: usize| {
            let at = usize::next_multiple_of(end, align);
            end = at + bytes;
            at
        };
        let receive_completions = reserve(receives * cqe::BYTES, PAGE);
        let send_completions = reserve(sends * cqe::BYTES, PAGE);
        let receive = reserve(receives * RECEIVE_WQE_BYTES, PAGE);
        // No alignment is needed: this many receive requests end at a multiple of a send request's size.
        let send = reserve(sends * wqe::BYTES, 1);
        let record = reserve(RECORD_BYTES, PAGE);
        let completion_records = [reserve(RECORD_BYTES, LINE), reserve(RECORD_BYTES, LINE)];
        let bytes = usize::next_multiple_of(end, PAGE);
        Ok(Self {
            log_send,
            log_receive,
            receive_completions,
            send_completions,
            receive,
            send,
            record,
            completion_records,
            bytes,
        })
    }

    /// The commands that create the completion queues of receives and of sends in memory `umem`.
    #[must_use]
    pub fn completions(&self, umem: u32, uar_page: u32, event_queue: u32) -> [Completions; 2] {
        let cq = |log_entries, at, record| Completions {
            log_entries,
            uar_page,
            event_queue,
            queue: Queue { umem, offset: at as u64, record_umem: umem, record_offset: record as u64 },
            ignore_overrun: true,
            collapsed: false,
        };
        let [of_receives, of_sends] = self.completion_records;
        [
            cq(self.log_receive, self.receive_completions, of_receives),
            cq(self.log_send, self.send_completions, of_sends),
        ]
    }

    /// The command that creates the queue pair, given the numbers of its completion queues.
    #[must_use]
    pub fn pair(
        &self,
        service: ConnectionService,
        umem: u32,
        uar_page: u32,
        protection_domain: u32,
        [receive_cq, send_cq]: [u32; 2],
    ) -> QueuePairSettings {
        QueuePairSettings {
            service,
            protection_domain,
            uar_page,
            send_cq,
            receive_cq,
            log_send: self.log_send,
            log_receive: self.log_receive,
            queue: Queue {
                umem,
                offset: self.receive as u64,
                record_umem: umem,
                record_offset: self.record as u64,
            },
            send_record_mode: 0,
        }
    }
}

/// Memory that an adapter is given.
#[derive(Debug, Clone, Copy)]
pub enum Memory<'a> {
    /// Of this process, by its address.
    Host(*mut u8),
    /// Of a device, by the file that its driver exports: from this byte of the file on, which begins a page.
    Dmabuf(BorrowedFd<'a>, u64),
}

impl Memory<'_> {
    /// Where it begins, in the terms in which it is given.
    fn start(self) -> usize {
        match self {
            Self::Host(at) => at.addr(),
            Self::Dmabuf(_, offset) => usize::try_from(offset).unwrap_or(usize::MAX),
        }
    }

    /// Refuses memory that does not begin a page.
    fn check(self) -> Result<(), DevxError> {
        let null = matches!(self, Self::Host(at) if at.is_null());
        if null || !self.start().is_multiple_of(PAGE) {
            return Err(DevxError::Misaligned(self.start()));
        }
        Ok(())
    }
}

/// Registered slots.
#[derive(Debug)]
pub struct RegisteredSlots {
    /// The domain of the registration, which keeps it valid even after the queue pair is dropped.
    domain: Arc<Domain>,
    region: NonNull<Mr>,
}

impl RegisteredSlots {
    /// The key for requests of this side.
    #[must_use]
    pub fn lkey(&self) -> u32 {
        // SAFETY: registered until this is dropped.
        unsafe { self.region.as_ref() }.lkey
    }

    /// The key for requests of the peer.
    #[must_use]
    pub fn rkey(&self) -> u32 {
        // SAFETY: registered until this is dropped.
        unsafe { self.region.as_ref() }.rkey
    }
}

// SAFETY: rdma-core's memory regions may be used by any thread; the keys never change.
unsafe impl Send for RegisteredSlots {}
// SAFETY: as above.
unsafe impl Sync for RegisteredSlots {}

impl Drop for RegisteredSlots {
    fn drop(&mut self) {
        // SAFETY: registered, and not used any more.
        unsafe { (self.domain.device.api().dereg_mr)(self.region.as_ptr()) };
    }
}

#[derive(Debug)]
struct Registered {
    device: Arc<Device>,
    umem: NonNull<Umem>,
    id: u32,
}

impl Registered {
    /// # Safety
    /// The memory is there for `bytes`, and stays so until this is dropped.
    unsafe fn new(device: &Arc<Device>, memory: Memory<'_>, bytes: usize) -> Result<Self, DevxError> {
        memory.check()?;
        let (api, context) = (device.api(), device.context.as_ptr());
        let umem = match memory {
            Memory::Host(at) => {
                // SAFETY: the caller's promise.
                let umem = unsafe { (api.umem_reg)(context, at.cast(), bytes, ACCESS_LOCAL_WRITE) };
                some("mlx5dv_devx_umem_reg", umem)?
            }
            Memory::Dmabuf(file, _) => {
                let mut input = UmemIn {
                    // Of a file it is the offset.
                    addr: std::ptr::without_provenance_mut(memory.start()),
                    size: bytes,
                    access: ACCESS_LOCAL_WRITE,
                    pgsz_bitmap: !(PAGE as u64 - 1),
                    comp_mask: UMEM_DMABUF,
                    dmabuf_fd: file.as_raw_fd(),
                };
                // SAFETY: a struct of this layout, whose mask says that the file is given; the file is open.
                let umem = unsafe { (api.umem_reg_ex)(context, &raw mut input) };
                some("mlx5dv_devx_umem_reg_ex with a dmabuf", umem)?
            }
        };
        // SAFETY: registered, and of this layout.
        let Umem { umem_id } = unsafe { umem.read() };
        Ok(Self { device: Arc::clone(device), umem, id: umem_id })
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: the queues in it are gone.
        unsafe { (self.device.api().umem_dereg)(self.umem.as_ptr()) };
    }
}

#[derive(Debug)]
struct Page {
    device: Arc<Device>,
    uar: NonNull<Uar>,
    id: u32,
    register: NonNull<u8>,
}

impl Page {
    fn new(device: &Arc<Device>) -> Result<Self, DevxError> {
        let alloc = |kind| {
            // SAFETY: an open context.
            unsafe { (device.api().alloc_uar)(device.context.as_ptr(), kind) }
        };
        // An adapter may have no BlueFlame page left.
        let uar = [UAR_BLUE_FLAME, UAR_PLAIN].into_iter().map(alloc).find(|uar| !uar.is_null());
        let uar = some("mlx5dv_devx_alloc_uar", uar.unwrap_or(std::ptr::null_mut()))?;
        // SAFETY: allocated, and of this layout.
        let Uar { reg_addr, page_id, .. } = unsafe { uar.read() };
        let made = |register| Self { device: Arc::clone(device), uar, id: page_id, register };
        some("mlx5dv_devx_alloc_uar", reg_addr.cast()).map(made)
    }
}

impl Drop for Page {
    fn drop(&mut self) {
        // SAFETY: no queue rings it any more.
        unsafe { (self.device.api().free_uar)(self.uar.as_ptr()) };
    }
}

/// Of `mlx5dv_devx_umem_reg_ex`: the memory is a dmabuf's.
const UMEM_DMABUF: u64 = 1;
const UAR_BLUE_FLAME: u32 = 0;
const UAR_PLAIN: u32 = 1;
/// Access to memory: the adapter may write.
const ACCESS_LOCAL_WRITE: u32 = 1;
/// Access to memory: the peer may write.
const ACCESS_REMOTE_WRITE: u32 = 2;
/// Attempts at a state change, which may time out while the peer's address is being resolved.
const TRIES: u32 = 5;
const BETWEEN_TRIES: Duration = Duration::from_millis(200);
const TIMED_OUT: i32 = 110;

/// A queue pair. Its fields are dropped in the order of declaration: queues before their memory.
#[derive(Debug)]
pub struct QueuePair {
    pair: Object,
    _completions: [Object; 2],
    _memory: Registered,
    page: Page,
    domain: Arc<Domain>,
    service: ConnectionService,
}

// SAFETY: rdma-core's objects may be used by any thread, and its calls lock.
unsafe impl Send for QueuePair {}
// SAFETY: as above.
unsafe impl Sync for QueuePair {}

impl QueuePair {
    /// Creates a queue pair with its completion queues, in the reset state. The memory of the completion queues must
    /// have been [prepared](ringcall_mlx5::CompletionQueue::prepare).
    ///
    /// # Safety
    /// `memory` is valid for [`QueuePairLayout::bytes`] until the queue pair is dropped: the adapter writes there.
    /// All access of this process is through atomic words.
    ///
    /// # Errors
    /// The error of rdma-core or of the adapter; for a dmabuf also of a kernel that registers none, or none of this
    /// device.
    pub unsafe fn create(
        device: &Arc<Device>,
        service: ConnectionService,
        layout: QueuePairLayout,
        memory: Memory<'_>,
    ) -> Result<Self, DevxError> {
        memory.check()?;
        let domain = Arc::new(Domain::new(device)?);
        let page = Page::new(device)?;
        let events = device.event_queue()?;
        // SAFETY: the caller's promise.
        let registered = unsafe { Registered::new(device, memory, layout.bytes) }?;
        let [of_receives, of_sends] = layout.completions(registered.id, page.id, events);
        let receives = device.create(&command::create_cq(&of_receives)?)?;
        let sends = device.create(&command::create_cq(&of_sends)?)?;
        let numbers = [receives.number, sends.number];
        let pair = layout.pair(service, registered.id, page.id, domain.number, numbers);
        let pair = device.create(&command::create_qp(&pair)?)?;
        Ok(Self { pair, _completions: [receives, sends], _memory: registered, page, domain, service })
    }

    /// The queue pair's number.
    #[must_use]
    pub fn number(&self) -> u32 {
        self.pair.number
    }

    /// The doorbell register in I/O memory: 8 bytes, or a BlueFlame buffer of 64.
    #[must_use]
    pub fn register(&self) -> NonNull<u8> {
        self.page.register
    }

    /// Registers slots, with addresses from 0, that the peer may write and responses are sent from.
    ///
    /// # Safety
    /// `slots` are valid for `bytes` until the returned value is dropped: the adapter reads and writes there.
    ///
    /// # Errors
    /// rdma-core's error.
    pub unsafe fn register_slots(
        &self,
        slots: Memory<'_>,
        bytes: usize,
    ) -> Result<RegisteredSlots, DevxError> {
        let access = ACCESS_LOCAL_WRITE | ACCESS_REMOTE_WRITE;
        let (api, domain) = (self.domain.device.api(), self.domain.domain.as_ptr());
        let region = match slots {
            Memory::Host(at) => {
                // SAFETY: the caller's promise.
                let region = unsafe { (api.reg_mr_iova2)(domain, at.cast(), bytes, 0, access) };
                some("ibv_reg_mr_iova2", region)?
            }
            Memory::Dmabuf(file, offset) => {
                // SAFETY: an open file; the rest is the kernel's to check.
                let region =
                    unsafe { (api.reg_dmabuf_mr)(domain, offset, bytes, 0, file.as_raw_fd(), access) };
                some("ibv_reg_dmabuf_mr", region)?
            }
        };
        Ok(RegisteredSlots { domain: Arc::clone(&self.domain), region })
    }

    /// Connects the queue pair to the peer of `path` and makes it ready to send, with `psn` as the first sequence
    /// number.
    ///
    /// # Errors
    /// The adapter's error. A state change that times out is tried again, for a second at most.
    pub fn connect(&self, path: &Path, psn: u32) -> Result<(), DevxError> {
        let (number, service) = (self.number(), self.service);
        self.pair.modify(&command::to_init(number, service, path.port, 0)?)?;
        let receive = command::to_receive(number, service, path)?;
        for left in (0..TRIES).rev() {
            match self.pair.modify(&receive) {
                Err(DevxError::Call { source, .. }) if left > 0 && timed_out(&source) => sleep(BETWEEN_TRIES),
                other => {
                    other?;
                    break;
                }
            }
        }
        self.pair.modify(&command::to_send(number, service, psn)?)
    }
}

fn timed_out(error: &io::Error) -> bool {
    error.raw_os_error() == Some(TIMED_OUT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_overlaps_and_everything_is_aligned() {
        for log_send in 0..16 {
            for log_receive in 2..16 {
                let layout = QueuePairLayout::of(log_send, log_receive).expect("a size");
                let (sends, receives) = (1 << log_send, 1 << log_receive);
                let parts = [
                    (layout.receive_completions, receives * 64),
                    (layout.send_completions, sends * 64),
                    (layout.receive, receives * 16),
                    (layout.send, sends * 64),
                    (layout.record, 8),
                    (layout.completion_records[0], 8),
                    (layout.completion_records[1], 8),
                ];
                for pair in parts.windows(2) {
                    assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{layout:?}");
                }
                assert!(parts[6].0 + 8 <= layout.bytes && layout.bytes.is_multiple_of(4096));
                assert!(layout.send.is_multiple_of(64) && layout.receive.is_multiple_of(4096));
                // The adapter is told only where the receive requests begin.
                assert_eq!(layout.send, layout.receive + receives * 16, "{layout:?}");
            }
        }
        for (log_send, log_receive, wrong) in [(16, 6, 16), (6, 16, 16), (6, 1, 1), (6, 0, 0)] {
            let layout = QueuePairLayout::of(log_send, log_receive);
            assert!(matches!(layout, Err(DevxError::Size(log)) if log == wrong), "{layout:?}");
        }
    }

    #[test]
    fn commands_name_the_layout_s_offsets() {
        let layout = QueuePairLayout::of(5, 7).expect("a size");
        let [receives, sends] = layout.completions(9, 3, 1);
        assert_eq!((receives.log_entries, sends.log_entries), (7, 5));
        assert_eq!((receives.queue.offset, sends.queue.offset), (0, 8192));
        assert_ne!(receives.queue.record_offset, sends.queue.record_offset);
        let pair = layout.pair(ConnectionService::Unreliable, 9, 3, 4, [10, 11]);
        assert_eq!((pair.receive_cq, pair.send_cq, pair.queue.umem), (10, 11, 9));
        assert_eq!(
            (pair.queue.offset, pair.queue.record_offset),
            (layout.receive as u64, layout.record as u64)
        );
        command::create_qp(&pair).expect("it fits");
        assert!(timed_out(&io::Error::from_raw_os_error(110)));
    }
}
