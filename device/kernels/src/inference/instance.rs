//! Parameters of an inference instance, read from its instance block.

use core::sync::atomic::Ordering;
use ringcall_gpu::shared::Words;
use ringcall_protocol::handoff::Shape;
use ringcall_wire::handoff::{MAX_TENSORS, TENSOR_ALIGN, instance};

/// Addresses become windows.
pub trait Memory {
    /// `words` words at an address that the host or the dispatcher wrote down.
    fn words(&self, address: u64, words: usize) -> Option<Words>;
}

/// A device tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tensor {
    address: u64,
    /// Pairs of words.
    pub pairs: usize,
}

impl Tensor {
    /// A window over it.
    pub fn window<M: Memory>(&self, memory: &M) -> Option<Words> {
        memory.words(self.address, self.pairs * 2)
    }
}

/// One instance.
#[derive(Debug)]
pub struct Instance<'a> {
    block: &'a Words,
}

impl<'a> Instance<'a> {
    /// The instance whose block this is: [`instance::WORDS`] words.
    #[must_use]
    pub fn new(block: &'a Words) -> Self {
        Self { block }
    }

    pub(crate) fn word(&self, word: usize) -> u64 {
        self.block.load(word, Ordering::Relaxed)
    }

    /// The next job's number.
    #[must_use]
    pub fn tail(&self) -> u64 {
        self.word(instance::TAIL)
    }

    pub(crate) fn set_tail(&self, tail: u64) {
        self.block.store(instance::TAIL, tail, Ordering::Relaxed);
    }

    /// Whether this kernel copies what `flag` stands for.
    pub(crate) fn copies(&self, flag: u64) -> bool {
        self.word(instance::FLAGS) & flag != 0
    }

    /// The queue's shape and window; `None` where the graph answers by itself.
    pub fn queue<M: Memory>(&self, memory: &M) -> Option<(Shape, Words)> {
        let address = self.word(instance::QUEUE);
        if address == 0 {
            return None;
        }
        let shape = Shape::new(self.word(instance::DEPTH) as u32, self.word(instance::OUTPUT_BYTES) as u32)?;
        Some((shape, memory.words(address, shape.bytes() / 8)?))
    }

    /// Whether the inference has said that it failed.
    pub fn has_failed<M: Memory>(&self, memory: &M) -> bool {
        let address = self.word(instance::FAILED);
        address != 0 && memory.words(address, 1).is_none_or(|word| word.load(0, Ordering::Relaxed) != 0)
    }

    /// The tensors that a request fills, in its order.
    pub fn inputs(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.tensors(instance::INPUTS, instance::INPUT)
    }

    /// The tensors that are handed over, in their order.
    pub fn outputs(&self) -> impl Iterator<Item = Tensor> + '_ {
        self.tensors(instance::OUTPUTS, instance::OUTPUT)
    }

    fn tensors(&self, count: usize, first: usize) -> impl Iterator<Item = Tensor> + '_ {
        let count = (self.word(count) as usize).min(MAX_TENSORS);
        (0..count).map(move |at| Tensor {
            address: self.word(first + 2 * at),
            pairs: (self.word(first + 2 * at + 1) as usize).div_ceil(TENSOR_ALIGN),
        })
    }
}
