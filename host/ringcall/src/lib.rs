//! Rings, function tables, dispatchers and counters: real-time RPC over polled ring buffers.
