//! A queue between a graph and the CPU, as the CPU sees it.

use crate::{QueueStats, ServiceError};
use core::sync::atomic::Ordering;
use ringcall_gpu::atomic::DeviceU64;
use ringcall_gpu::pad::CachePadded;
use ringcall_gpu::shared::{Bytes, Region, Words};
use ringcall_protocol::handoff::{Claim, ConsumerState, DeviceEnd, HostEnd, NotClaimed, PolledJob, Shape};
use ringcall_wire::handoff::queue;

/// A queue. Any number of threads poll it and release what they took.
///
/// ```
/// use ringcall_inference_service::Queue;
/// use ringcall_protocol::handoff::{PolledJob, Shape, Whose};
/// use ringcall_wire::header::RequestHeader;
///
/// let queue = Queue::allocate(Shape::new(2, 16).expect("a shape"))?;
/// // What a graph's kernels do:
/// let device = queue.device_end();
/// let grant = device.grant(0, 1).expect("a free record");
/// device.set_output_pair(grant, 0, [5, 6]);
/// device.publish(grant, &Whose { header: RequestHeader::new(1, 0, 0, 0), slot: 0, answers: true });
/// // What a worker does:
/// let PolledJob::Job(job) = queue.poll() else { panic!("published") };
/// let mut output = [0; 16];
/// assert_eq!((queue.read_output(&job, &mut output), output[0]), (16, 5));
/// queue.release(&job)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Queue {
    words: Words,
    bytes: Bytes,
    shape: Shape,
    next: CachePadded<DeviceU64>,
    claims: Box<[DeviceU64]>,
}

impl Queue {
    /// A queue in memory that is zero to begin with, [`Shape::bytes`] long, as words and as bytes.
    ///
    /// # Errors
    /// Memory that is too small.
    pub fn over(words: Words, bytes: Bytes, shape: Shape) -> Result<Self, ServiceError> {
        if words.len() * 8 < shape.bytes() || bytes.len() < shape.bytes() {
            return Err(ServiceError::Shape(format!(
                "a queue of {} records takes {} bytes, the memory has {}",
                shape.depth(),
                shape.bytes(),
                bytes.len().min(words.len() * 8)
            )));
        }
        let claims = (0..shape.depth()).map(|_| DeviceU64::new(0)).collect();
        Ok(Self { words, bytes, shape, next: CachePadded::default(), claims })
    }

    /// A queue in memory of this process, for a "device" that is a thread.
    ///
    /// # Errors
    /// No memory.
    pub fn allocate(shape: Shape) -> Result<Self, ServiceError> {
        let shared = |error: ringcall_gpu::shared::SharedError| ServiceError::Shape(error.to_string());
        let region = Region::zeroed(shape.bytes()).map_err(shared)?;
        let words = region.words(0, shape.bytes() / 8).map_err(shared)?;
        Self::over(words, region.bytes(0, shape.bytes()).map_err(shared)?, shape)
    }

    /// Its shape.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// The device's end, for a thread that simulates it. A queue has one device.
    #[must_use]
    pub fn device_end(&self) -> DeviceEnd<'_> {
        DeviceEnd::new(&self.words, self.shape)
    }

    fn host(&self) -> Option<HostEnd<'_>> {
        HostEnd::new(&self.words, self.shape, ConsumerState { next: &self.next.0, claims: &self.claims })
    }

    /// Takes the next job, if there is one. No job is handed out twice.
    #[inline]
    #[must_use]
    pub fn poll(&self) -> PolledJob {
        self.host().map_or(PolledJob::Empty, |host| host.poll())
    }

    /// Copies a job's output, as far as `out` goes; the bytes copied.
    #[must_use]
    pub fn read_output(&self, job: &Claim, out: &mut [u8]) -> usize {
        let len = out.len().min(job.output_bytes() as usize);
        let inside =
            out.get_mut(..len).is_some_and(|out| self.bytes.read(self.shape.output_at(job.index()), out));
        if inside { len } else { 0 }
    }

    /// Gives a job's record back, once; in any order.
    ///
    /// # Errors
    /// [`NotClaimed`] the second time.
    pub fn release(&self, job: &Claim) -> Result<(), NotClaimed> {
        self.release_record(job.index(), job.sequence())
    }

    /// The same by record and job number, for those who keep no claims.
    ///
    /// # Errors
    /// [`NotClaimed`] where no worker has this job; nothing was changed.
    pub fn release_record(&self, index: u32, sequence: u64) -> Result<(), NotClaimed> {
        self.host().ok_or(NotClaimed { index, sequence })?.release(index, sequence)
    }

    /// Whether the next inference would find a record. A snapshot.
    #[must_use]
    pub fn has_room(&self) -> bool {
        self.host().is_some_and(|host| host.has_room())
    }

    /// Whether a job waits to be polled. A snapshot.
    #[must_use]
    pub fn has_job(&self) -> bool {
        self.host().is_some_and(|host| host.has_job())
    }

    /// The counts so far.
    #[must_use]
    pub fn stats(&self) -> QueueStats {
        let load = |word| self.words.load(word, Ordering::Relaxed);
        QueueStats {
            granted: load(queue::GRANTED),
            published: load(queue::PUBLISHED),
            refused: load(queue::REFUSED),
            bad_length: load(queue::BAD_LENGTH),
            engine_failed: load(queue::ENGINE_FAILED),
            claimed: self.host().map_or(0, |host| host.claimed()),
        }
    }
}
