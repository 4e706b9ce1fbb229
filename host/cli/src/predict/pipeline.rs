//! Decoding of shots by several threads, with output in the order of input.
//!
//! The calling thread reads batches and distributes them in turn. One thread per decoder decodes; one more thread
//! collects the batches in the same turn, so that they need no sorting, and writes them. Batches are reused: after the
//! first few nothing is allocated, and a slow output delays the input.

use ringcall_qec::decode::{DecodeError, Decoder, ShotDecoder};
use ringcall_qec::shots::{BitRow, Shot, ShotError, ShotLayout, ShotReader, ShotWriter};
use ringcall_qec::stats::LogicalErrorRate;
use std::io::{Read, Write};
use std::sync::mpsc::{Receiver, Sender, SyncSender, TryRecvError, channel, sync_channel};
use std::thread::{Scope, ScopedJoinHandle};

pub(super) type Worker = ShotDecoder<Box<dyn Decoder>>;

/// Shots in a batch: enough that passing a batch on takes little time compared with decoding it.
const BATCH: usize = 256;
/// Batches that wait before and after each decoder.
const WAITING: usize = 2;

#[derive(Debug)]
pub(super) enum Failure {
    Input(ShotError),
    /// The true observables could not be read.
    Truth(ShotError),
    /// The numbers of shots and of true observables differ.
    Unpaired {
        /// Whether there are more shots.
        shots: bool,
    },
    Output(ShotError),
    Confidence(std::io::Error),
    Decode {
        /// The shot's number, from 0.
        shot: u64,
        error: DecodeError,
    },
}

#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Counts {
    pub(super) shots: u64,
    /// Wrong predictions of shots with known observables.
    pub(super) rate: LogicalErrorRate,
    /// Shots whose correction does not explain their detectors.
    pub(super) unconverged: u64,
}

/// Consecutive shots and their predictions.
struct Batch {
    shots: Vec<Shot>,
    /// Observables of the shots, if they come from a separate input.
    truth: Option<Vec<Shot>>,
    predicted: Vec<Shot>,
    /// Confidence of each prediction, if the decoder reports it.
    confidence: Vec<Option<f64>>,
    /// The number of shots in use.
    used: usize,
    /// The number of shots that did not converge.
    unconverged: u64,
    /// The shot at which decoding stopped.
    failed: Option<(usize, DecodeError)>,
}

impl Batch {
    fn new(layout: ShotLayout, predictions: ShotLayout, truth: bool) -> Self {
        Self {
            shots: vec![Shot::new(layout); BATCH],
            truth: truth.then(|| vec![Shot::new(predictions); BATCH]),
            predicted: vec![Shot::new(predictions); BATCH],
            confidence: vec![None; BATCH],
            used: 0,
            unconverged: 0,
            failed: None,
        }
    }

    /// Reads shots until the batch is full or the input ends.
    fn fill<R: Read, T: Read>(
        &mut self,
        reader: &mut ShotReader<R>,
        mut truth: Option<&mut ShotReader<T>>,
    ) -> Result<(), Failure> {
        self.used = 0;
        while self.used < BATCH {
            let more = reader.read(&mut self.shots[self.used]).map_err(Failure::Input)?;
            if let (Some(truth), Some(shots)) = (truth.as_deref_mut(), &mut self.truth) {
                let paired = truth.read(&mut shots[self.used]).map_err(Failure::Truth)?;
                if paired != more {
                    return Err(Failure::Unpaired { shots: more });
                }
            }
            if !more {
                break;
            }
            self.used += 1;
        }
        Ok(())
    }

    fn right(&self, index: usize) -> &BitRow {
        &self.truth.as_ref().unwrap_or(&self.shots)[index].observables
    }

    fn decode(&mut self, worker: &mut Worker) {
        (self.failed, self.unconverged) = (None, 0);
        let pairs = self.shots.iter().zip(&mut self.predicted).take(self.used).enumerate();
        for (index, (shot, predicted)) in pairs {
            match worker.decode(&shot.detectors, &mut predicted.observables) {
                Ok(matched) => {
                    self.unconverged += u64::from(!matched.converged);
                    self.confidence[index] = matched.confidence;
                }
                Err(error) => {
                    self.failed = Some((index, error));
                    return;
                }
            }
        }
    }
}

/// Decodes all shots of `reader` with `workers` (at least one) and writes the predictions to `writer`. Returns the
/// flushed output and the counts.
///
/// Before a fault in the input or in decoding is reported, all earlier predictions have been written.
///
/// The true observables are part of the shots, or the rows of `truth`; without either nothing is compared. Confidences
/// go to `confidences`, a line for each shot.
pub(super) fn run<R: Read, T: Read, W: Write + Send>(
    mut reader: ShotReader<R>,
    mut truth: Option<ShotReader<T>>,
    writer: ShotWriter<W>,
    confidences: Option<&mut (dyn Write + Send)>,
    workers: Vec<Worker>,
) -> Result<(W, Counts), Failure> {
    let layout = reader.layout();
    let predictions = ShotLayout::observables(workers[0].num_observables());
    std::thread::scope(|scope| {
        let (spent, recycled) = channel();
        let (inboxes, outboxes): (Vec<_>, Vec<_>) =
            workers.into_iter().map(|worker| spawn_worker(scope, worker)).unzip();
        let apart = truth.is_some();
        let compared = apart || layout.observables > 0;
        let collector = scope.spawn(move || collect(writer, confidences, &outboxes, &spent, compared));
        let new = || Batch::new(layout, predictions, apart);
        let read = deal(&mut reader, truth.as_mut(), &inboxes, &recycled, new);
        drop(inboxes); // so that the workers end, and then the collector
        let written = join(collector)?;
        read?;
        Ok(written)
    })
}

fn spawn_worker<'scope>(
    scope: &'scope Scope<'scope, '_>,
    mut worker: Worker,
) -> (SyncSender<Batch>, Receiver<Batch>) {
    let (inbox, batches) = sync_channel::<Batch>(WAITING);
    let (done, outbox) = sync_channel(WAITING);
    scope.spawn(move || {
        for mut batch in batches {
            batch.decode(&mut worker);
            if done.send(batch).is_err() {
                break; // the collector has stopped
            }
        }
    });
    (inbox, outbox)
}

/// Reads batches and distributes them to the workers in turn, until the input ends or the collector has stopped.
fn deal<R: Read, T: Read>(
    reader: &mut ShotReader<R>,
    mut truth: Option<&mut ShotReader<T>>,
    inboxes: &[SyncSender<Batch>],
    recycled: &Receiver<Batch>,
    new: impl Fn() -> Batch,
) -> Result<(), Failure> {
    for inbox in inboxes.iter().cycle() {
        let mut batch = match recycled.try_recv() {
            Ok(batch) => batch,
            Err(TryRecvError::Empty) => new(),
            Err(TryRecvError::Disconnected) => return Ok(()),
        };
        let read = batch.fill(reader, truth.as_deref_mut());
        let last = batch.used < BATCH;
        if inbox.send(batch).is_err() {
            return Ok(());
        }
        read?;
        if last {
            break;
        }
    }
    Ok(())
}

/// Takes batches from the workers in turn and writes their predictions.
fn collect<W: Write>(
    mut writer: ShotWriter<W>,
    mut confidences: Option<&mut (dyn Write + Send)>,
    outboxes: &[Receiver<Batch>],
    spent: &Sender<Batch>,
    truth: bool,
) -> Result<(W, Counts), Failure> {
    let mut counts = Counts::default();
    for outbox in outboxes.iter().cycle() {
        // Batches are distributed in turn, so if one worker has no more, there are no more.
        let Ok(mut batch) = outbox.recv() else { break };
        let failed = batch.failed.take();
        let good = failed.as_ref().map_or(batch.used, |&(index, _)| index);
        for (index, predicted) in batch.predicted.iter().enumerate().take(good) {
            writer.write(predicted).map_err(Failure::Output)?;
            if let Some(lines) = &mut confidences {
                let confidence = batch.confidence[index].unwrap_or(f64::NAN);
                writeln!(lines, "{confidence:.4}").map_err(Failure::Confidence)?;
            }
            if truth {
                counts.rate.record(predicted.observables != *batch.right(index));
            }
        }
        if let Some((index, error)) = failed {
            writer.flush().map_err(Failure::Output)?;
            return Err(Failure::Decode { shot: counts.shots + index as u64, error });
        }
        counts.shots += batch.used as u64;
        counts.unconverged += batch.unconverged;
        let _ = spent.send(batch); // the reader may have finished
    }
    Ok((writer.finish().map_err(Failure::Output)?, counts))
}

fn join<T>(thread: ScopedJoinHandle<'_, T>) -> T {
    thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_qec::decode::{DecoderFactory, MatchingFactory};
    use ringcall_qec::shots::ShotFormat;

    /// One detector per observable, without a boundary between the last two detectors.
    const MODEL: &str = "error(0.1) D0 L0\nerror(0.1) D1 L1\nerror(0.1) D2 L2\nerror(0.1) D3 D4";
    const SHOTS: usize = 5 * BATCH + 17;
    const NO_TRUTH: Option<ShotReader<&[u8]>> = None;

    fn workers(count: usize) -> Vec<Worker> {
        let model = ringcall_qec::dem::text::parse(MODEL).unwrap();
        let factory = MatchingFactory::from_dem(&model).unwrap();
        (0..count).map(|_| ShotDecoder::new(factory.build().unwrap())).collect()
    }

    /// Shot `i` fires the detectors of the low bits of `i`, which are the predicted observables.
    fn row(index: usize) -> String {
        (0..3).map(|bit| if index >> bit & 1 == 1 { '1' } else { '0' }).collect()
    }

    fn input(fault: Option<usize>) -> Vec<u8> {
        let tail = |index| if Some(index) == fault { "10" } else { "00" };
        (0..SHOTS).flat_map(|index| format!("{}{}\n", row(index), tail(index)).into_bytes()).collect()
    }

    fn expected(shots: usize) -> Vec<u8> {
        (0..shots).flat_map(|index| format!("{}\n", row(index)).into_bytes()).collect()
    }

    fn through<W: Write + Send>(input: &[u8], output: W, threads: usize) -> Result<(W, Counts), Failure> {
        let reader = ShotReader::new(input, ShotFormat::Text01, ShotLayout::detectors(5)).unwrap();
        let writer = ShotWriter::new(output, ShotFormat::Text01, ShotLayout::observables(3)).unwrap();
        run(reader, NO_TRUTH, writer, None, workers(threads))
    }

    #[test]
    fn order_is_kept_with_any_number_of_threads() {
        for threads in [1, 2, 3, 7, 16] {
            let (output, counts) = through(&input(None), Vec::new(), threads).unwrap();
            assert_eq!(output, expected(SHOTS), "{threads} threads");
            assert_eq!((counts.shots, counts.unconverged), (SHOTS as u64, 0));
            assert_eq!(counts.rate.shots, 0, "nothing to compare with");
        }
        assert!(through(b"", Vec::new(), 3).unwrap().0.is_empty());
    }

    #[test]
    fn what_precedes_a_fault_is_written() {
        for fault in [0, 1, BATCH - 1, BATCH, 3 * BATCH + 5, SHOTS - 1] {
            let mut output = Vec::new();
            let failure = through(&input(Some(fault)), &mut output, 3).unwrap_err();
            assert!(
                matches!(failure, Failure::Decode { shot, error: DecodeError::OddParity { detector: 3 } }
                    if shot == fault as u64),
                "{failure:?}"
            );
            assert_eq!(output, expected(fault));

            let mut output = Vec::new();
            let cut = &input(None)[..fault * 6 + 3];
            let failure = through(cut, &mut output, 3).unwrap_err();
            assert!(
                matches!(failure, Failure::Input(ShotError::Truncated { shot, .. }) if shot == fault as u64),
                "{failure:?}"
            );
            assert_eq!(output, expected(fault));
        }
    }

    #[test]
    fn observables_of_a_file_of_their_own_are_compared_shot_by_shot() {
        let counted = |truth: &[u8]| {
            let shots = input(None);
            let reader = ShotReader::new(&shots[..], ShotFormat::Text01, ShotLayout::detectors(5)).unwrap();
            let observables = ShotLayout::observables(3);
            let truth = ShotReader::new(truth, ShotFormat::Text01, observables).unwrap();
            let writer = ShotWriter::new(std::io::sink(), ShotFormat::Text01, observables).unwrap();
            run(reader, Some(truth), writer, None, workers(3)).map(|(_, counts)| counts.rate)
        };
        let mut truth = expected(SHOTS);
        let rate = counted(&truth).unwrap();
        assert_eq!((rate.shots, rate.errors), (SHOTS as u64, 0));
        for index in [0, BATCH, SHOTS - 1] {
            truth[index * 4] ^= 1;
        }
        assert_eq!(counted(&truth).unwrap().errors, 3);
        let failure = counted(&truth[..truth.len() - 4]).unwrap_err();
        assert!(matches!(failure, Failure::Unpaired { shots: true }), "{failure:?}");
        truth.extend(b"000\n");
        let failure = counted(&truth).unwrap_err();
        assert!(matches!(failure, Failure::Unpaired { shots: false }), "{failure:?}");
    }

    #[test]
    fn a_full_output_ends_an_endless_input() {
        struct Full(usize);
        impl Write for Full {
            fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
                self.0 = self.0.checked_sub(bytes.len()).ok_or(std::io::ErrorKind::StorageFull)?;
                Ok(bytes.len())
            }
            fn flush(&mut self) -> std::io::Result<()> {
                Ok(())
            }
        }
        let endless = std::io::repeat(0);
        let reader = ShotReader::new(endless, ShotFormat::B8, ShotLayout::detectors(5)).unwrap();
        let writer = ShotWriter::new(Full(1 << 20), ShotFormat::B8, ShotLayout::observables(3)).unwrap();
        let failure = run(reader, NO_TRUTH, writer, None, workers(2)).map(|_| ()).unwrap_err();
        let full = |error: &std::io::Error| error.kind() == std::io::ErrorKind::StorageFull;
        assert!(matches!(&failure, Failure::Output(ShotError::Io(error)) if full(error)), "{failure:?}");
    }
}
