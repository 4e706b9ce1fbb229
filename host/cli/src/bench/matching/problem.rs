//! Graphs and shots to decode.

use anyhow::{Result, ensure};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::{Basis, SurfaceCode};
use ringcall_qec::decode::{DecodingGraph, ParallelEdges};
use ringcall_qec::dem::{DetectorErrorModel, Mechanism};
use ringcall_qec::sample::Sampler;

/// A graph, and requests with a fixed number of shots on it.
pub(super) struct Problem {
    edges: DecodingGraph,
    /// The round of each detector; empty if the graph has no rounds.
    rounds: Vec<u32>,
    shots_per_request: usize,
    /// Where each shot's defects begin, followed by the end of the last ones.
    offsets: Vec<usize>,
    defects: Vec<u32>,
}

impl Problem {
    /// A memory experiment in basis Z under uniform circuit noise. The seed is 1000 times the distance plus the error rate in
    /// thousandths.
    pub(super) fn memory(distance: u32, rounds: u32, per_mille: u32, shots: usize) -> Result<Self> {
        let noise = CircuitNoise::uniform(f64::from(per_mille) / 1000.0);
        let experiment = MemoryExperiment { distance, rounds, basis: Basis::Z, noise };
        let model = experiment.detector_error_model()?;
        let edges = DecodingGraph::from_dem(&model, ParallelEdges::Independent)?;
        let seed = u64::from(1000 * distance + per_mille);
        let rounds =
            experiment.detector_layout()?.detectors().iter().map(|detector| detector.layer).collect();
        Ok(Self { rounds, ..Self::sample(edges, &model, seed, 1, shots)? })
    }

    /// Two slices for each round of the Z checks only, with independent detectors.
    pub(super) fn slices(distance: u32, percent: u32, requests: usize) -> Result<Self> {
        let code = SurfaceCode::new(distance)?;
        let rows = code.check_matrix(Basis::Z);
        let edges =
            DecodingGraph::from_check_matrix(&rows, code.num_data(), None, ParallelEdges::SmallestWeight)?;
        let slices = 2 * distance;
        let num_detectors = edges.num_detectors() * slices;
        let fires = |detector| Mechanism {
            probability: f64::from(percent) / 100.0,
            detectors: vec![detector],
            observables: Vec::new(),
            components: Vec::new(),
        };
        let model = DetectorErrorModel {
            num_detectors,
            num_observables: 0,
            mechanisms: (0..num_detectors).map(fires).collect(),
            coordinates: Vec::new(),
        };
        let seed = u64::from(1000 * distance + 100 * percent);
        Self::sample(edges, &model, seed, slices as usize, requests)
    }

    /// Samples `requests` syndromes and cuts each into shots of the graph's size.
    fn sample(
        edges: DecodingGraph,
        model: &DetectorErrorModel,
        seed: u64,
        shots_per_request: usize,
        requests: usize,
    ) -> Result<Self> {
        ensure!(edges.num_observables() <= 64, "observables are compared as masks of 64");
        let mut sampler = Sampler::new(model, seed)?;
        let mut shot = sampler.new_shot();
        let size = edges.num_detectors();
        let (mut offsets, mut defects, mut fired) = (vec![0], Vec::new(), Vec::new());
        for _ in 0..requests {
            sampler.sample_into(&mut shot)?;
            fired.clear();
            shot.detectors.ones_into(&mut fired);
            for slice in fired_by_slice(&fired, size, shots_per_request) {
                defects.extend(slice.iter().map(|detector| detector % size));
                offsets.push(defects.len());
            }
        }
        Ok(Self { edges, rounds: Vec::new(), shots_per_request, offsets, defects })
    }

    /// The round of each detector, for a memory experiment.
    pub(super) fn rounds(&self) -> &[u32] {
        &self.rounds
    }

    pub(super) fn detectors(&self) -> u32 {
        self.edges.num_detectors()
    }

    /// The number of defects in all requests.
    pub(super) fn defects(&self) -> usize {
        self.defects.len()
    }

    pub(super) fn all_defects(&self) -> &[u32] {
        &self.defects
    }

    /// Where the defects of each shot of this request begin, followed by the end of the last ones.
    pub(super) fn offsets(&self, request: usize) -> &[usize] {
        &self.offsets[request * self.shots_per_request..=(request + 1) * self.shots_per_request]
    }

    /// The graph for Ringcall's decoders.
    pub(super) fn graph(&self) -> Result<ringcall_matching::MatchingGraph> {
        engine_graph(&self.edges)
    }

    /// The graph for a reference decoder.
    pub(super) fn graph_frame(&self) -> Vec<u8> {
        let mut frame = Vec::new();
        frame.extend(self.edges.num_detectors().to_le_bytes());
        frame.extend(self.edges.num_observables().to_le_bytes());
        for edge in self.edges.edges() {
            let mask = edge.observables.iter().fold(0u64, |mask, &observable| mask | 1 << observable);
            frame.extend(edge.node.to_le_bytes());
            frame.extend(edge.other.unwrap_or(u32::MAX).to_le_bytes());
            frame.extend(edge.weight.to_le_bytes());
            frame.extend(mask.to_le_bytes());
        }
        frame
    }

    /// These requests for a reference decoder.
    pub(super) fn frame(&self, requests: impl Iterator<Item = usize>) -> Vec<u8> {
        let mut frame = Vec::new();
        for request in requests {
            frame.extend((self.shots_per_request as u32).to_le_bytes());
            for ends in self.offsets(request).windows(2) {
                let defects = &self.defects[ends[0]..ends[1]];
                frame.extend((defects.len() as u32).to_le_bytes());
                frame.extend(defects.iter().flat_map(|defect| defect.to_le_bytes()));
            }
        }
        frame
    }
}

/// The graph for Ringcall's decoders.
pub(super) fn engine_graph(edges: &DecodingGraph) -> Result<ringcall_matching::MatchingGraph> {
    let mut builder = ringcall_matching::GraphBuilder::new();
    builder
        .ensure_detectors(edges.num_detectors() as usize)
        .ensure_observables(edges.num_observables() as usize);
    for edge in edges.edges() {
        match edge.other {
            Some(other) => builder.edge(edge.node, other, edge.weight, &edge.observables)?,
            None => builder.boundary_edge(edge.node, edge.weight, &edge.observables)?,
        };
    }
    Ok(builder.build()?)
}

/// Cuts ascending detectors into those of each slice of `size`.
fn fired_by_slice(mut fired: &[u32], size: u32, slices: usize) -> impl Iterator<Item = &[u32]> {
    (1..=slices as u32).map(move |slice| {
        let (these, rest) = fired.split_at(fired.partition_point(|&detector| detector < slice * size));
        fired = rest;
        these
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defects_fall_into_their_slices() {
        let cut: Vec<&[u32]> = fired_by_slice(&[0, 3, 4, 11], 4, 4).collect();
        assert_eq!(cut, [&[0, 3][..], &[4], &[11], &[]]);
    }

    #[test]
    fn a_request_of_slices_is_framed_shot_by_shot() -> Result<()> {
        let problem = Problem::slices(3, 50, 2)?;
        assert_eq!(problem.detectors(), 4);
        let (first, second) = (problem.offsets(0), problem.offsets(1));
        assert_eq!((first.len(), second.len(), first[6]), (7, 7, second[0]));
        let frame: Vec<u32> = problem
            .frame([1].into_iter())
            .as_chunks()
            .0
            .iter()
            .map(|word| u32::from_le_bytes(*word))
            .collect();
        let mut rest = &frame[..];
        assert_eq!(rest.split_off_first(), Some(&6));
        for ends in second.windows(2) {
            let defects = &problem.all_defects()[ends[0]..ends[1]];
            assert!(defects.iter().all(|&defect| defect < 4));
            assert_eq!(rest.split_off_first(), Some(&(defects.len() as u32)));
            assert_eq!(rest.split_off(..defects.len()), Some(defects));
        }
        assert!(rest.is_empty());
        Ok(())
    }
}
