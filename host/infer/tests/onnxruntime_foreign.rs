//! Another library. A separate process: the first attempt is the only one.

use ringcall_infer::onnxruntime::{Runtime, RuntimeError};
use std::path::Path;

#[test]
fn a_library_that_is_another_one_is_an_error() {
    // There on every Linux, and no ONNX Runtime.
    let error = Runtime::load(Some(Path::new("libc.so.6"))).unwrap_err();
    assert!(matches!(error, RuntimeError::Unusable { .. }), "{error}");
    assert!(error.to_string().contains("libc.so.6"), "{error}");
}
