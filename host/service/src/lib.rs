//! The decoding service: the pipeline wired with a memory experiment, an engine and a matcher.
