//! Distances past 32 bits, and lists that end long before the partner.

use ringcall_matching::{DecoderConfig, GraphBuilder, MwpmDecoder};

#[test]
fn a_chain_longer_than_32_bits() {
    const N: u32 = 300;
    // Not whole, so that the grid is as fine as it gets: each step is 2^25 - 2.
    let mut b = GraphBuilder::new();
    for u in 1..N {
        b.edge(u - 1, u, 1.5, &[u]).unwrap();
    }
    b.boundary_edge(0, 1.5, &[0]).unwrap();
    let graph = b.build().unwrap();
    for near_entries in [256, 16] {
        let mut config = DecoderConfig::default();
        config.near_entries = near_entries;
        let mut decoder = MwpmDecoder::with_config(graph.clone(), &config);
        let s = decoder.decode(&[N - 1]).unwrap();
        assert_eq!(s.grid_weight(), i64::from(N) * ((1 << 25) - 2));
        assert!((0..N as usize).all(|o| s.flips(o)));
        // Cheaper together than both to the boundary, at a distance of 249 steps.
        let s = decoder.decode(&[50, N - 1]).unwrap();
        assert_eq!(s.grid_weight(), i64::from(N - 51) * ((1 << 25) - 2));
        assert!((0..N).all(|o| s.flips(o as usize) == (o > 50)));
        decoder.verify().unwrap();
        assert_eq!(decoder.correction(), (50..N - 1).collect::<Vec<_>>());
    }
}
