//! Machine primitives: scoped atomics, shared memory, barriers and clocks, over std or loom.
