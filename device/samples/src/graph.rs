//! A graph of three kernels that answers a request: fetch, compute, answer.
//!
//! Each executable of the graph has a mailbox of its own, whose address is each kernel's only parameter. The first kernel
//! waits a bounded time for its credit, where it has one; without it the request is answered `BACKPRESSURE`, and the other
//! kernels have nothing to do.

/// Names of the kernels, in the order in which they depend on each other, with the threads each wants.
pub const KERNELS: [(&str, u32); 3] =
    [("ringcall_sample_fetch", 32), ("ringcall_sample_compute", 128), ("ringcall_sample_answer", 32)];

/// The kernels.
#[cfg(target_arch = "nvptx64")]
#[allow(unsafe_code)] // raw parameters become windows here
pub mod kernels {
    use crate::handlers::increment_word;
    use core::sync::atomic::Ordering;
    use ringcall_dispatch::persistent::child::{Child, ResponsePlace};
    use ringcall_gpu::atomic::DeviceU64;
    use ringcall_gpu::ptx;
    use ringcall_gpu::shared::Words;
    use ringcall_gpu::team::Block;
    use ringcall_wire::counter::Counter;
    use ringcall_wire::header::HEADER_WORDS;
    use ringcall_wire::launch::io;
    use ringcall_wire::status::Status;

    /// Looks at the credit: each takes about a microsecond.
    const PATIENCE: u32 = 2_000;
    /// The whole mailbox, as far as the payload says.
    fn mailbox(address: *mut u64) -> Option<Words> {
        // SAFETY: the host gave every kernel of the graph its mailbox, which outlives it.
        let head = unsafe { Words::from_raw(address, io::PAYLOAD / 8) }.ok()?;
        let len = io::PAYLOAD / 8 + (head.load(io::ARG_LEN, Ordering::Relaxed) as usize).div_ceil(8);
        // SAFETY: as above; the dispatcher checked the length against the slot, for which there is room.
        unsafe { Words::from_raw(address, len) }.ok()
    }

    /// One word at an address from the mailbox.
    fn word(address: u64) -> Option<Words> {
        // SAFETY: addresses in a mailbox are the host's or the dispatcher's, of words that outlive the graph.
        unsafe { Words::from_raw(address as usize as *mut u64, 1) }.ok()
    }

    /// Waits for the credit and notes whether it came.
    ///
    /// # Safety
    /// `address` is that of the mailbox with which this graph was launched.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ringcall_sample_fetch(address: *mut u64) {
        let Some(mailbox) = mailbox(address) else { return };
        if ptx::thread_id() != 0 {
            return;
        }
        let credit = mailbox.load(io::CREDIT, Ordering::Relaxed);
        let mut refused = false;
        if credit != 0
            && let Some(credit) = word(credit)
        {
            let mut looks = 0;
            // Acquire: pairs with the release of whoever took the last output.
            while credit.load(0, Ordering::Acquire) != 0 && looks < PATIENCE {
                looks += 1;
            }
            refused = looks == PATIENCE;
        }
        mailbox.store(io::SCRATCH, u64::from(refused), Ordering::Relaxed);
    }

    /// Adds 1 to every byte of the payload, in place.
    ///
    /// # Safety
    /// As for [`ringcall_sample_fetch`].
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ringcall_sample_compute(address: *mut u64) {
        let Some(mailbox) = mailbox(address) else { return };
        if mailbox.load(io::SCRATCH, Ordering::Relaxed) != 0 {
            return;
        }
        let words = mailbox.len() - io::PAYLOAD / 8;
        let mut at = ptx::thread_id() as usize;
        while at < words {
            let value = mailbox.load(io::PAYLOAD / 8 + at, Ordering::Relaxed);
            mailbox.store(io::PAYLOAD / 8 + at, increment_word(value), Ordering::Relaxed);
            at += ptx::block_threads() as usize;
        }
    }

    /// Answers, and gives mailbox and executable back.
    ///
    /// # Safety
    /// As for [`ringcall_sample_fetch`].
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ringcall_sample_answer(address: *mut u64) {
        let Some(mailbox) = mailbox(address) else { return };
        let child = Child::new(&mailbox);
        let refused = mailbox.load(io::SCRATCH, Ordering::Relaxed) != 0;
        let block = Block::current();
        // SAFETY: the host wrote the address of the children's counters into the mailbox: device memory, atomics only.
        let counters = unsafe {
            core::slice::from_raw_parts(
                mailbox.load(io::COUNTERS, Ordering::Relaxed) as usize as *const DeviceU64,
                Counter::COUNT,
            )
        };
        // SAFETY: as for the counters.
        let finished =
            unsafe { &*(mailbox.load(io::FINISHED, Ordering::Relaxed) as usize as *const DeviceU64) };
        if let Some((slot, flag)) = child.response_addresses() {
            let words = HEADER_WORDS + child.capacity() as usize / 8;
            // SAFETY: the dispatcher wrote the address of the response slot, and how much fits behind its header.
            let slot = unsafe { Words::from_raw(slot as usize as *mut u64, words) };
            if let (Ok(slot), Some(flag)) = (slot, word(flag)) {
                let place = ResponsePlace { slot: &slot, flag: &flag };
                let (status, len) =
                    if refused { (Status::BACKPRESSURE, 0) } else { (Status::OK, child.arg_len()) };
                let mut at = block.thread() as usize;
                while at < (len as usize).div_ceil(8) {
                    child.set_result_word(&place, at, child.payload_word(at));
                    at += block.threads() as usize;
                }
                block.sync();
                if block.thread() == 0 {
                    child.answer(&place, Some(counters), status, len);
                }
            }
        }
        block.sync();
        if block.thread() == 0 {
            child.finish(finished);
        }
    }
}
