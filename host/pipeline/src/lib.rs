//! The real-time pipeline: injector, inference stage, CPU stage, completion, statistics.
