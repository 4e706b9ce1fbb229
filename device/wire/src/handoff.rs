//! What a host and the graphs of an AI service agree on: the hand-off queue, and what each instance's kernels know.
//!
//! An *instance* is one inference context with one graph. Where the CPU continues with what it infers, it has
//! a *queue*: so many records in mapped memory, each with the output of one inference and whose answer it is.
//! Who may write what when is said in `ringcall_protocol::handoff`. All words are little-endian `u64`s;
//! offsets are in words unless they say bytes.

/// Most records of one queue.
pub const MAX_DEPTH: u32 = 1024;
/// Most inputs that a request fills, and most outputs that are handed over, of one instance.
pub const MAX_TENSORS: usize = 8;
/// Each tensor begins at a multiple of so many bytes, in a request, a record and a response; device tensors have room up to
/// the next multiple.
pub const TENSOR_ALIGN: usize = 16;

/// The head of a queue: counts that the device alone writes. Records follow.
pub mod queue {
    /// Records that the device took so far, before the inference.
    pub const GRANTED: usize = 0;
    /// Jobs handed over so far.
    pub const PUBLISHED: usize = 1;
    /// Requests refused since no record became free in time.
    pub const REFUSED: usize = 2;
    /// Requests refused for their length.
    pub const BAD_LENGTH: usize = 3;
    /// Requests whose inference failed.
    pub const ENGINE_FAILED: usize = 4;
    /// Words of the head.
    pub const WORDS: usize = 16;
}

/// One record of a queue.
pub mod record {
    /// One of [`state`](super::state).
    pub const STATE: usize = 0;
    /// Which job this is, from 0.
    pub const SEQUENCE: usize = 1;
    /// The request's slot in its ring.
    pub const SLOT: usize = 2;
    /// The request's header, three words.
    pub const HEADER: usize = 3;
    /// 1 where an answer is owed.
    pub const ANSWERS: usize = 6;
    /// Bytes of output.
    pub const OUTPUT_BYTES: usize = 7;
    /// First word of the output.
    pub const OUTPUT: usize = 16;
    /// Records begin at multiples of so many bytes.
    pub const ALIGN: usize = 128;
}

/// Values of [`record::STATE`]. Each but [`FREE`](state::FREE) has the job's number in it, so that the same record of
/// another lap is never taken for this one.
pub mod state {
    /// The device may fill it.
    pub const FREE: u64 = 0;
    const READY: u64 = 1;
    const CLAIMED: u64 = 2;

    /// Job `sequence` is there. Set by the device.
    #[must_use]
    pub const fn ready(sequence: u64) -> u64 {
        sequence << 2 | READY
    }

    /// An agent works on job `sequence`. Set by the host.
    #[must_use]
    pub const fn claimed(sequence: u64) -> u64 {
        sequence << 2 | CLAIMED
    }
}

/// What the kernels of one instance know: device memory, written by the host once, but for [`TAIL`](instance::TAIL).
pub mod instance {
    /// The next job's number. The device's alone.
    pub const TAIL: usize = 0;
    /// Address of the queue; 0 where the graph answers by itself.
    pub const QUEUE: usize = 1;
    /// Records of the queue.
    pub const DEPTH: usize = 2;
    /// Bytes of output of one job, or of an answer.
    pub const OUTPUT_BYTES: usize = 3;
    /// Times that a free record is looked for, about a microsecond each.
    pub const POLL_LIMIT: usize = 4;
    /// Address of a word that is not 0 once the inference has failed; 0 where there is none.
    pub const FAILED: usize = 5;
    /// Bytes that a request has, no more and no less.
    pub const REQUEST_BYTES: usize = 6;
    /// [`COPIES_IN`] and [`COPIES_OUT`].
    pub const FLAGS: usize = 7;
    /// How many inputs a request fills.
    pub const INPUTS: usize = 8;
    /// How many outputs are handed over.
    pub const OUTPUTS: usize = 9;
    /// The inputs: address and bytes of each.
    pub const INPUT: usize = 16;
    /// The outputs: address and bytes of each.
    pub const OUTPUT: usize = INPUT + 2 * super::MAX_TENSORS;
    /// Words.
    pub const WORDS: usize = OUTPUT + 2 * super::MAX_TENSORS;

    /// Bit of [`FLAGS`]: the first kernel copies the inputs. Otherwise copy nodes do.
    pub const COPIES_IN: u64 = 1;
    /// Bit of [`FLAGS`]: the last kernel copies the outputs. Otherwise copy nodes do.
    pub const COPIES_OUT: u64 = 2;
}

const _: () = assert!(record::ALIGN == record::OUTPUT * 8 && queue::WORDS * 8 == record::ALIGN);
