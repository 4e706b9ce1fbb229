//! The dispatch core: slot life cycle, validation, lookup, publication, counters. No CUDA, no allocation.
