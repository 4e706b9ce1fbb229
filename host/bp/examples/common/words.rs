//! The kernel's tables of a problem, its shots and their answers, as one file of 32-bit words.

use ringcall_bp::kernel::Tables;
use ringcall_bp::{BpConfig, BpDecoder, BpError, BpGraph};

/// The file's bytes, in the layout that `export.rs` documents. `answered` gets the number and the predicted observables of each
/// shot.
///
/// # Errors
/// A configuration or a shot that the decoder refuses.
pub fn file(
    graph: &BpGraph,
    tables: &Tables,
    config: &BpConfig,
    shots: &[Vec<u32>],
    mut answered: impl FnMut(usize, &[u8]),
) -> Result<Vec<u8>, BpError> {
    let mut decoder = BpDecoder::new(graph, config)?;
    let mut words = vec![u32::from_le_bytes(*b"RBP2")];
    let counts = [graph.num_checks(), graph.num_observables(), graph.num_columns(), shots.len()];
    words.extend(counts.map(|count| count as u32));
    words.extend(
        [config.first_memory, config.memory.0, config.memory.1, config.damping].map(|g| i32::from(g) as u32),
    );
    words.extend([config.first_iterations, config.leg_iterations, config.legs, config.solutions]);
    words.extend([config.max_iterations, config.seed, config.lanes, config.lane_delay]);
    let list = |words: &mut Vec<u32>, items: &[u32]| {
        words.push(items.len() as u32);
        words.extend_from_slice(items);
    };
    list(&mut words, tables.words());
    let mut observables = vec![0; graph.observable_bytes()];
    for (number, defects) in shots.iter().enumerate() {
        let outcome = decoder.decode(defects, &mut observables)?;
        answered(number, &observables);
        list(&mut words, defects);
        let bits = observables.iter().take(4).rev().fold(0, |bits, &byte| bits << 8 | u32::from(byte));
        words.extend([outcome.converged.into(), outcome.solutions, outcome.iterations, outcome.weight, bits]);
        list(&mut words, decoder.error());
    }
    Ok(words.iter().flat_map(|word| word.to_le_bytes()).collect())
}
