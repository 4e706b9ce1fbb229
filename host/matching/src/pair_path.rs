//! The recorded path between the detectors of a matched pair.

/// Where the path of a matched pair is recorded: the owner of a table, and a position in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct PairPath {
    pub(crate) owner: u32,
    pub(crate) position: u64,
}
