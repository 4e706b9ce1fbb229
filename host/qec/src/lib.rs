//! Surface codes, detector error models, sampling, shot files and decoding for quantum error correction.
