//! Exact minimum-weight perfect matching for error-correction graphs, free of allocation per decode.
