//! Graphs that answer a request: one of three kernels (fetch, compute, answer), one of a single kernel that does it all.
//!
//! Each executable of a graph has a separate mailbox, whose address is each kernel's only parameter. The
//! first of the three waits a bounded time for its credit, where it has one; without it the request is
//! answered `BACKPRESSURE`, and the other kernels have nothing to do. The single kernel knows no credit.

/// Names of the three kernels, in the order in which they depend on each other, with the threads each wants: one warp, since
/// warps that read one sector of host memory wait for each other.
pub const KERNELS: [(&str, u32); 3] =
    [("ringcall_sample_fetch", 32), ("ringcall_sample_compute", 32), ("ringcall_sample_answer", 32)];

/// The single kernel.
pub const SINGLE: [(&str, u32); 1] = [("ringcall_sample_single", 32)];

/// The kernels.
#[cfg(target_arch = "nvptx64")]
pub mod kernels {
    use crate::samples::handlers::increment_word;
    use crate::samples::mailbox::{BESIDE, BURST, Burst, HEAD};
    use core::sync::atomic::Ordering;
    use ringcall_dispatcher::ring::graph_end::{Child, ResponseWindows};
    use ringcall_gpu::atomic::DeviceU64;
    use ringcall_gpu::shared::Words;
    use ringcall_gpu::team::Block;
    use ringcall_wire::counter::Counter;
    use ringcall_wire::header::HEADER_WORDS;
    use ringcall_wire::launch::io;
    use ringcall_wire::status::Status;

    /// Looks at the credit, at most: each takes about a microsecond.
    const POLL_LIMIT: u32 = 2_000;

    /// So many words of a mailbox.
    fn mailbox(address: *mut u64, words: usize) -> Option<Words> {
        // SAFETY: the host gave every kernel of the graph its mailbox, which outlives it and has a burst's words at least; the
        // dispatcher checked the payload's length, by which more are asked for, against the slot, for which there is room.
        unsafe { Words::from_raw(address, words) }.ok()
    }

    /// One word at an address from the mailbox.
    fn word(address: u64) -> Option<Words> {
        // SAFETY: addresses in a mailbox are the host's or the dispatcher's, of words that outlive the graph.
        unsafe { Words::from_raw(address as usize as *mut u64, 1) }.ok()
    }

    /// Waits for the credit and notes whether it came.
    ///
    /// # Safety
    /// `address` is the address of the mailbox with which this graph was launched; the launch has the threads
    /// that are listed.
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ringcall_sample_fetch(address: *mut u64) {
        let Some(mailbox) = mailbox(address, BURST) else { return };
        let block = Block::current();
        let credit = Burst::read(block.warp(), &mailbox).word(io::CREDIT);
        if block.thread() != 0 {
            return;
        }
        let mut refused = false;
        if credit != 0
            && let Some(credit) = word(credit)
        {
            let mut polls = 0;
            // Acquire: pairs with the release of the worker that took the last output.
            while credit.load(0, Ordering::Acquire) != 0 && polls < POLL_LIMIT {
                polls += 1;
            }
            refused = polls == POLL_LIMIT;
        }
        mailbox.store(io::SCRATCH, u64::from(refused), Ordering::Relaxed);
    }

    /// Adds 1 to every byte of the payload, in place.
    ///
    /// # Safety
    /// As for [`ringcall_sample_fetch`].
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ringcall_sample_compute(address: *mut u64) {
        let Some(first) = mailbox(address, BURST) else { return };
        let block = Block::current();
        let burst = Burst::read(block.warp(), &first);
        let words = (burst.arg_len() as usize).div_ceil(8);
        if burst.word(io::SCRATCH) != 0 {
            return;
        }
        let Some(mailbox) = mailbox(address, HEAD + words) else { return };
        if let Some((at, value)) = burst.payload()
            && at < words
        {
            mailbox.store(HEAD + at, increment_word(value), Ordering::Relaxed);
        }
        let mut at = BESIDE + block.thread() as usize;
        while at < words {
            let value = mailbox.load(HEAD + at, Ordering::Relaxed);
            mailbox.store(HEAD + at, increment_word(value), Ordering::Relaxed);
            at += block.threads() as usize;
        }
    }

    /// Answers, and gives mailbox and executable back.
    ///
    /// # Safety
    /// As for [`ringcall_sample_fetch`].
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ringcall_sample_answer(address: *mut u64) {
        let Some(first) = mailbox(address, BURST) else { return };
        let burst = Burst::read(Block::current().warp(), &first);
        let outcome = match burst.word(io::SCRATCH) {
            0 => (Status::OK, burst.arg_len()),
            _ => (Status::BACKPRESSURE, 0),
        };
        // SAFETY: the caller's promise.
        unsafe { finish(address, &first, &burst, outcome, |word| word) };
    }

    /// Adds 1 to every byte of the payload, answers, and gives mailbox and executable back.
    ///
    /// # Safety
    /// As for [`ringcall_sample_fetch`].
    #[unsafe(no_mangle)]
    pub unsafe extern "ptx-kernel" fn ringcall_sample_single(address: *mut u64) {
        let Some(first) = mailbox(address, BURST) else { return };
        let burst = Burst::read(Block::current().warp(), &first);
        let outcome = (Status::OK, burst.arg_len());
        // SAFETY: the caller's promise.
        unsafe { finish(address, &first, &burst, outcome, increment_word) };
    }

    /// Answers where an answer is owed, and frees the mailbox: by a block of one warp.
    ///
    /// # Safety
    /// As for [`ringcall_sample_fetch`]; `burst` is of the mailbox at `address`.
    #[inline(always)]
    unsafe fn finish(
        address: *mut u64,
        first: &Words,
        burst: &Burst<'_>,
        outcome: (Status, u32),
        result: impl Fn(u64) -> u64,
    ) {
        // SAFETY: the host wrote the address of the children's counters into the mailbox: device memory, atomics only.
        let counters = unsafe {
            core::slice::from_raw_parts(burst.word(io::COUNTERS) as usize as *const DeviceU64, Counter::COUNT)
        };
        // SAFETY: as for the counters.
        let finished = unsafe { &*(burst.word(io::FINISHED) as usize as *const DeviceU64) };
        let (slot, flag) = (burst.word(io::TX_SLOT), burst.word(io::TX_FLAG));
        let words = HEADER_WORDS + burst.word(io::TX_CAPACITY) as usize / 8;
        // A follow-up owes no answer.
        if slot != 0 {
            // SAFETY: the dispatcher wrote the address of the response slot, and how much fits after its header.
            let slot = unsafe { Words::from_raw(slot as usize as *mut u64, words) };
            let payload = mailbox(address, HEAD + (outcome.1 as usize).div_ceil(8));
            if let (Ok(slot), Some(flag), Some(payload)) = (slot, word(flag), payload) {
                let response = ResponseWindows { slot: &slot, flag: &flag };
                burst.answer(&payload, &response, Some(counters), outcome, result);
            }
        }
        let block = Block::current();
        block.sync();
        if block.thread() == 0 {
            Child::new(first).finish(finished);
        }
    }
}
