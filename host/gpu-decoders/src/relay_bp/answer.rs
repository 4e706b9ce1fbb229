//! Answers of the kernel: observables, and what the decode came to.

/// Why a decode ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It found an error that explains the defects.
    Converged,
    /// All iterations were made. The answer is the best guess: the last iteration's.
    Exhausted,
    /// The deadline passed before it converged. The answer is the best guess.
    Late,
    /// The host raised the [flag](crate::relay_bp::CancelFlag) before it converged. The answer is the best guess.
    Cancelled,
    /// A check that fired has no column: nothing explains it, and the answer is no error.
    Inexplicable,
}

impl Ended {
    /// As the kernel numbers them.
    const ALL: [Self; 5] =
        [Self::Converged, Self::Exhausted, Self::Late, Self::Cancelled, Self::Inexplicable];

    /// What a report says.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Converged => "converged",
            Self::Exhausted => "out of iterations",
            Self::Late => "late",
            Self::Cancelled => "cancelled",
            Self::Inexplicable => "inexplicable",
        }
    }
}

/// The result of a decode.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Answer {
    /// Bit `i` is set if the error found flips observable `i`.
    pub observables: u32,
    /// Columns of the error found.
    pub corrections: u32,
    /// Iterations of the lane that won.
    pub iterations: u32,
    /// The sum of the priors of the error's columns.
    pub weight: u32,
    /// How many legs converged.
    pub solutions: u32,
    /// Why it ended.
    pub ended: Ended,
}

/// Where an answer's parts lie. All numbers have 32 bits, little-endian, at any alignment.
///
/// | bytes | what |
/// |---|---|
/// | `ceil(observables / 8)` | observables, eight a byte |
/// | 4 | columns of the error found |
/// | 4 | 1 if the decode converged, else 0 |
/// | 4 | iterations |
/// | 4 | weight |
/// | 4 | solutions |
/// | 4 | why it ended, in the order of [`Ended`] |
/// | 4 | clock cycles of the multiprocessor from the request to the answer |
///
/// The first three are a result of `decode_syndrome`, as [`ringcall_wire::qec`] has it.
///
/// ```
/// use ringcall_gpu_decoders::relay_bp::{AnswerLayout, Ended};
///
/// let layout = AnswerLayout::new(12);
/// assert_eq!((layout.bytes(), layout.result_bytes()), (30, 10));
/// let mut bytes = vec![0; layout.bytes()];
/// bytes[1] = 0b1000; // observable 11
/// bytes[6] = 1;
/// bytes[18] = 1; // a solution
/// let answer = layout.read(&bytes).expect("an answer");
/// assert_eq!((answer.observables, answer.ended), (1 << 11, Ended::Converged));
/// bytes[22] = 2;
/// assert_eq!(layout.read(&bytes), None); // converged and late
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AnswerLayout {
    observables: u32,
}

/// Numbers after the observables.
const WORDS: usize = 7;

impl AnswerLayout {
    /// For so many observables, 32 at most.
    #[must_use]
    pub const fn new(observables: u32) -> Self {
        Self { observables }
    }

    const fn packed(self) -> usize {
        self.observables.div_ceil(8) as usize
    }

    /// Bytes of an answer.
    #[must_use]
    pub const fn bytes(self) -> usize {
        self.packed() + 4 * WORDS
    }

    /// Bytes of an answer that are a result of `decode_syndrome`.
    #[must_use]
    pub const fn result_bytes(self) -> usize {
        self.packed() + 8
    }

    /// The clock cycles in the bytes of an answer, which are no part of what was decoded; `None` if there are too few bytes.
    #[must_use]
    pub fn cycles(self, bytes: &[u8]) -> Option<u32> {
        bytes
            .get(self.bytes() - 4..self.bytes())
            .and_then(|word| Some(u32::from_le_bytes(word.try_into().ok()?)))
    }

    /// The answer in these bytes; `None` if they are none of the kernel's.
    #[must_use]
    pub fn read(self, bytes: &[u8]) -> Option<Answer> {
        let (packed, rest) = bytes.split_at_checked(self.packed())?;
        let (words, []) = rest.as_chunks::<4>() else { return None };
        let words: [[u8; 4]; WORDS] = words.try_into().ok()?;
        let [corrections, converged, iterations, weight, solutions, ended, _] = words.map(u32::from_le_bytes);
        let observables = packed.iter().rev().fold(0, |bits: u32, &byte| bits << 8 | u32::from(byte));
        let ended = *Ended::ALL.get(ended as usize)?;
        let sound = converged == u32::from(ended == Ended::Converged)
            && (solutions > 0) == (ended == Ended::Converged)
            && u64::from(observables) >> self.observables == 0;
        sound.then_some(Answer { observables, corrections, iterations, weight, solutions, ended })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn an_answer_begins_with_a_result_of_decode_syndrome() {
        use ringcall_wire::qec::{decode_syndrome_schema, read_decode_result};
        let layout = AnswerLayout::new(9);
        let mut bytes = vec![0; layout.bytes()];
        bytes[..11].copy_from_slice(&[1, 1, 7, 0, 0, 0, 1, 0, 0, 0, 5]);
        bytes[18] = 1;
        let answer = layout.read(&bytes).expect("an answer");
        assert_eq!((answer.observables, answer.corrections, answer.iterations), (0x101, 7, 5));
        let schema = decode_syndrome_schema(3, 9);
        let (observables, outcome) =
            read_decode_result(&schema, &bytes[..layout.result_bytes()]).expect("a result");
        assert!(observables.ones().eq([0, 8]));
        assert_eq!((outcome.total_corrections, outcome.converged), (7, 1));
    }

    proptest! {
        #[test]
        fn bytes_that_are_no_answer_are_refused(observables in 0_u32..33, bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            if let Some(answer) = AnswerLayout::new(observables).read(&bytes) {
                prop_assert_eq!(bytes.len(), AnswerLayout::new(observables).bytes());
                prop_assert_eq!(answer.ended == Ended::Converged, answer.solutions > 0);
            }
        }
    }
}
