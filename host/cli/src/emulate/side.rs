//! Requests with side information: random weights of edges, and read-outs with errors as frequent as their confidences
//! say.

use anyhow::Result;
use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};
use ringcall_qec::decode::{DecodingGraph, ParallelEdges};
use ringcall_qec::dem::{Component, DetectorErrorModel};
use ringcall_qec::shots::Shot;
use ringcall_wire::codec::PayloadEncoder;
use ringcall_wire::readout::{Level, Readout};
use ringcall_wire::schema::HandlerSchema;
use ringcall_wire::weighted::{log_likelihood_of_4_bits, log_likelihood_of_8_bits, write_weighted_request};

/// One of this many measurements is doubtful.
const DOUBTED: u64 = 8;
/// The confidence of a measurement without doubt.
const CERTAIN: f32 = 1e6;

/// A random number from 0 to 1, without 1.
fn uniform(random: &mut Xoshiro256PlusPlus) -> f64 {
    (random.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
}

fn append(schema: &HandlerSchema, out: &mut Vec<u8>, write: impl FnOnce(&mut [u8]) -> bool) -> bool {
    let begin = out.len();
    out.resize(begin + schema.args_bytes().map_or(0, |bytes| bytes as usize), 0);
    write(&mut out[begin..])
}

/// Random weights of edges, drawn for each shot, up to twice those of the model.
pub(super) struct Weights {
    schema: HandlerSchema,
    /// Edges with their weights in the model, in an order that changes.
    edges: Vec<(u32, f64)>,
    most: usize,
    given: Vec<(u32, f32)>,
    bytes: Vec<u8>,
    random: Xoshiro256PlusPlus,
}

impl Weights {
    pub(super) fn new(
        model: &DetectorErrorModel,
        schema: HandlerSchema,
        most: u32,
        seed: u64,
    ) -> Result<Self> {
        let graph = DecodingGraph::from_dem(model, ParallelEdges::Independent)?;
        let edges = (0..).zip(graph.edges()).map(|(index, edge)| (index, edge.weight));
        let edges = edges.filter(|&(_, weight)| weight >= 0.0).collect::<Vec<_>>();
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        let most = edges.len().min(most as usize);
        Ok(Self { schema, edges, most, given: Vec::new(), bytes: Vec::new(), random })
    }

    pub(super) fn append(&mut self, shot: &Shot, out: &mut Vec<u8>) -> bool {
        let Self { schema, edges, most, given, bytes, random } = self;
        given.clear();
        let count = (uniform(random) * (*most as f64 + 1.0)) as usize;
        for at in 0..count.min(*most) {
            let other = at + (uniform(random) * (edges.len() - at) as f64) as usize;
            edges.swap(at, other);
            let (edge, weight) = edges[at];
            given.push((edge, (weight * 2.0 * uniform(random)) as f32));
        }
        bytes.clear();
        bytes.extend(shot.detectors.iter_bytes());
        append(schema, out, |request| write_weighted_request(schema, request, bytes, given).is_ok())
    }
}

/// Random read-outs, drawn for each shot. A doubtful one is wrong with the probability that it states.
pub(super) struct Doubts {
    schema: HandlerSchema,
    flips: Vec<Component>,
    readout: Readout,
    small: Vec<u8>,
    floats: Vec<f32>,
    wide: Vec<i32>,
    random: Xoshiro256PlusPlus,
}

impl Doubts {
    pub(super) fn new(flips: Vec<Component>, readout: Readout, schema: HandlerSchema, seed: u64) -> Self {
        let random = Xoshiro256PlusPlus::seed_from_u64(seed);
        Self { schema, flips, readout, small: Vec::new(), floats: Vec::new(), wide: Vec::new(), random }
    }

    pub(super) fn append(&mut self, shot: &mut Shot, out: &mut Vec<u8>) -> bool {
        let Self { schema, flips, readout, small, floats, wide, random } = self;
        let count = flips.len();
        small.clear();
        floats.clear();
        wide.clear();
        let sure = match readout {
            Readout::Soft4 => 15,
            Readout::Soft8 => u8::MAX,
            _ => Level::Ground.raw(),
        };
        small.resize(count, sure);
        floats.resize(count, CERTAIN);
        wide.resize(count, Level::Ground.raw().into());
        for (measurement, flips) in flips.iter().enumerate() {
            if random.next_u64() % DOUBTED != 0 {
                continue;
            }
            let drawn = uniform(random);
            let ratio = match readout {
                Readout::Soft4 => {
                    small[measurement] = (drawn * 15.0) as u8;
                    log_likelihood_of_4_bits(small[measurement])
                }
                Readout::Soft8 => {
                    small[measurement] = (drawn * 255.0) as u8;
                    log_likelihood_of_8_bits(small[measurement])
                }
                Readout::SoftF32 => {
                    floats[measurement] = (drawn * 8.0) as f32;
                    floats[measurement]
                }
                Readout::Leakage8 | Readout::Leakage32 => {
                    small[measurement] = Level::Leaked.raw();
                    wide[measurement] = Level::Leaked.raw().into();
                    0.0
                }
            };
            if uniform(random) < 1.0 / (1.0 + f64::from(ratio).exp()) {
                for &detector in &flips.detectors {
                    shot.detectors.flip(detector);
                }
            }
        }
        let detectors = shot.detectors.iter_bytes().collect::<Vec<_>>();
        append(schema, out, |request| {
            let mut written = || {
                let mut encoder = PayloadEncoder::args(schema, request)?;
                encoder.packed_bits(&detectors)?;
                match readout {
                    Readout::Soft4 => encoder.readout4(small)?,
                    Readout::Soft8 | Readout::Leakage8 => encoder.bytes(small)?,
                    Readout::SoftF32 => encoder.array_f32(floats)?,
                    Readout::Leakage32 => encoder.array_i32(wide)?,
                };
                encoder.finish()
            };
            written().is_ok()
        })
    }
}
