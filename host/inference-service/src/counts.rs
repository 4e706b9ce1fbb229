//! Counters on both sides of a queue.

/// One queue's counters and position, kept by the device. Read while it works, so not all of one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct QueueStats {
    /// Records that the device took before an inference.
    pub granted: u64,
    /// Jobs handed over.
    pub published: u64,
    /// Requests that were answered `BACKPRESSURE` since no record became free in time.
    pub refused: u64,
    /// Requests that were answered `SCHEMA_MISMATCH` for their length.
    pub bad_length: u64,
    /// Requests that were answered `ENGINE_FAILED`.
    pub engine_failed: u64,
    /// Jobs that a worker has now.
    pub claimed: u32,
}

macro_rules! worker_counts {
    ($($name:ident, $meaning:literal;)*) => {
        /// What the workers of a service counted.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct WorkerStats {
            $(#[doc = concat!($meaning, ".")] pub $name: u64,)*
        }

        /// The same while it counts: by any worker.
        #[derive(Debug, Default)]
        pub(crate) struct LiveCounts {
            $(pub(crate) $name: ringcall_gpu::atomic::DeviceU64,)*
        }

        impl LiveCounts {
            pub(crate) fn snapshot(&self) -> WorkerStats {
                WorkerStats { $($name: self.$name.load(core::sync::atomic::Ordering::Relaxed),)* }
            }
        }

        impl WorkerStats {
            /// Each with its name, in order.
            pub fn named(&self) -> impl Iterator<Item = (&'static str, u64)> {
                [$((stringify!($name), self.$name),)*].into_iter()
            }
        }
    };
}

worker_counts! {
    jobs, "Jobs taken from queues";
    answered, "Answers given, whatever their status";
    failed, "Answers with a status other than OK: the stage's, or for what follows";
    panicked, "Stages that panicked; answered `HANDLER_PANIC`";
    damaged, "Jobs whose record was overwritten; answered `ENGINE_FAILED`";
    unowed, "Jobs that owed no answer";
    late, "Answers not given, since the slot was no longer in flight";
    dropped, "Answers not given, since the job named no slot of the ring";
    garbage, "Records found in a state that nobody writes, and made free";
    unreleased, "Records that could not be given back";
}

impl LiveCounts {
    pub(crate) fn count(word: &ringcall_gpu::atomic::DeviceU64) {
        word.fetch_add(1, core::sync::atomic::Ordering::Relaxed);
    }
}
