//! Sampling, shot files and decoding allocate nothing once warm, apart from what the engine's crate allocates itself.
#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use ringcall_qec::decode::{
    DecodeError, Decoder, Matched, MatchingDecoder, MatchingEngine, MatchingGraph, ParallelEdges,
    ShotDecoder, SliceDecoder,
};
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{ShotFormat, ShotReader, ShotWriter};

thread_local! {
    static ALLOCATIONS: Cell<u64> = const { Cell::new(0) };
}

/// Counts what this thread allocates; a test's harness has threads of its own.
struct Counting;

fn count() {
    // Fails only while the thread ends, when nobody counts any more.
    let _ = ALLOCATIONS.try_with(|count| count.set(count.get() + 1));
}

// SAFETY: every call is passed on unchanged to the system's allocator; counting neither allocates nor panics.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promises are those that the system's allocator needs.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        // SAFETY: the pointer came from the system's allocator, with this layout.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the pointer came from the system's allocator, with this layout; the rest is the caller's promise.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(work: impl FnOnce()) -> u64 {
    let before = ALLOCATIONS.get();
    work();
    ALLOCATIONS.get() - before
}

/// A square grid of detectors with errors between neighbours, a boundary on either side, and one observable there.
fn grid(side: u32, probability: f64) -> DetectorErrorModel {
    let mut mechanisms = Vec::new();
    let mut add = |detectors: Vec<u32>, observables: Vec<u32>| {
        // Distinct probabilities, so that weights are not whole and classes have unequal members.
        let probability = probability * (1.0 + mechanisms.len() as f64 / 1e4);
        mechanisms.push(Mechanism { probability, detectors, observables, components: Vec::new() });
    };
    for row in 0..side {
        add(vec![row * side], vec![0]);
        add(vec![row * side + side - 1], vec![]);
        for column in 0..side {
            let here = row * side + column;
            if column + 1 < side {
                add(vec![here, here + 1], vec![]);
            }
            if row + 1 < side {
                add(vec![here, here + side], vec![]);
            }
        }
    }
    DetectorErrorModel { num_detectors: side * side, num_observables: 1, mechanisms, coordinates: Vec::new() }
}

/// A decoder that does nothing, to see what the layers around one do.
struct Nothing(u32);

impl Decoder for Nothing {
    fn num_detectors(&self) -> u32 {
        self.0
    }

    fn num_observables(&self) -> u32 {
        1
    }

    fn decode(&mut self, defects: &[u32], _: &mut [u8]) -> Result<Matched, DecodeError> {
        Ok(Matched { weight: 0.0, corrections: defects.len() as u32, converged: true })
    }
}

#[test]
fn the_counter_counts() {
    assert_eq!(allocations(|| drop(std::hint::black_box(vec![1, 2, 3]))), 1);
}

#[test]
fn sampling_and_dense_decoding() {
    let model = grid(30, 0.01);
    let mut sampler = Sampler::new(&model, 1).unwrap();
    let mut shot = sampler.new_shot();
    let mut decoder = ShotDecoder::new(Nothing(model.num_detectors));
    let mut predicted = shot.observables.clone();
    let mut defects = 0;
    let counted = allocations(|| {
        for _ in 0..1000 {
            sampler.sample_into(&mut shot).unwrap();
            defects += decoder.decode(&shot.detectors, &mut predicted).unwrap().corrections;
        }
    });
    assert_eq!(counted, 0);
    assert!(defects > 10_000);
}

#[test]
fn shot_files() {
    let mut sampler = Sampler::new(&grid(30, 0.01), 1).unwrap();
    let mut shot = sampler.new_shot();
    for format in [ShotFormat::Text01, ShotFormat::B8, ShotFormat::Dets] {
        let mut output = vec![0; 1 << 21];
        let mut writer = ShotWriter::new(&mut output[..], format, sampler.layout()).unwrap();
        let mut write = || {
            sampler.sample_into(&mut shot).unwrap();
            writer.write(&shot).unwrap();
        };
        (0..100).for_each(|_| write()); // a `dets` line has no fixed length
        assert_eq!(allocations(|| (0..900).for_each(|_| write())), 0, "writing {format}");
        writer.finish().unwrap();
        let mut reader = ShotReader::new(&output[..], format, sampler.layout()).unwrap();
        let counted = allocations(|| {
            for _ in 0..1000 {
                assert!(reader.read(&mut shot).unwrap());
            }
        });
        assert_eq!(counted, 0, "reading {format}");
    }
}

#[test]
fn refusals() {
    let mut decoder = MatchingDecoder::from_dem(&grid(10, 0.01)).unwrap();
    let mut refused = 0;
    let counted = allocations(|| {
        for bad in [&[100][..], &[3, 4, 3], &[u32::MAX]] {
            refused += u32::from(decoder.decode(bad, &mut [0]).is_err());
        }
    });
    assert_eq!((counted, refused), (0, 3));
}

/// The crate driven by its own front, on the same graph with the same weights.
fn crate_alone(graph: &MatchingGraph) -> rmatching::Matching {
    let mut matching = rmatching::Matching::new();
    for edge in graph.edges() {
        let observables: Vec<usize> = edge.observables.iter().map(|&index| index as usize).collect();
        match edge.other {
            Some(other) => {
                matching.add_edge(edge.node as usize, other as usize, edge.weight, &observables, 0.5);
            }
            None => matching.add_boundary_edge(edge.node as usize, edge.weight, &observables, 0.5),
        }
    }
    matching.prepare();
    matching
}

#[test]
fn matching_allocates_no_more_than_its_crate() {
    let model = grid(30, 0.02);
    let graph = MatchingGraph::from_dem(&model, ParallelEdges::Independent).unwrap();
    let mut sampler = Sampler::new(&model, 4).unwrap();
    let mut decoder = ShotDecoder::new(MatchingDecoder::new(&graph, MatchingEngine::default()).unwrap());
    let mut alone = crate_alone(&graph);
    let mut shot = sampler.new_shot();
    let mut predicted = shot.observables.clone();
    let mut bytes = vec![0u8; model.num_detectors as usize];
    let mut answer = Vec::with_capacity(1);
    let (mut ours, mut theirs, mut different) = (0, 0, 0);
    for number in 0..2000 {
        sampler.sample_into(&mut shot).unwrap();
        bytes.fill(0);
        shot.detectors.iter_ones().for_each(|index| bytes[index as usize] = 1);
        let with_us = allocations(|| assert!(decoder.decode(&shot.detectors, &mut predicted).is_ok()));
        let without = allocations(|| alone.decode_into(&bytes, &mut answer));
        different += u32::from(predicted.get(0) != Some(answer[0] == 1));
        if number >= 1000 {
            ours += with_us;
            theirs += without;
        }
    }
    eprintln!("{} allocations per decode, the crate by itself {}", ours as f64 / 1e3, theirs as f64 / 1e3);
    assert!(ours <= theirs, "{ours} > {theirs}");
    assert_eq!(different, 0, "both must say the same");
}

#[test]
fn slices() {
    // Single defects need no blossom, so the crate allocates nothing either.
    let rows: Vec<[u32; 2]> = (0..40).map(|check| [check, check + 1]).collect();
    let mut decoder = SliceDecoder::new(&rows, 41, 20, MatchingEngine::default()).unwrap();
    let mut residual = vec![0; 800];
    (0..20).for_each(|slice| residual[slice * 40 + slice] = 1);
    let mut total = 0;
    let mut decode = || total += decoder.decode(&residual).unwrap().total_corrections;
    decode();
    assert_eq!(allocations(|| (0..50).for_each(|_| decode())), 0);
    assert_eq!(total, 51 * 210);
}
