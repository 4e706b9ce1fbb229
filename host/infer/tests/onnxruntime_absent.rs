//! Without a library. A separate process: the first attempt is the only one.

use ringcall_infer::onnxruntime::{Runtime, RuntimeError};
use std::path::Path;

#[test]
fn a_library_that_is_not_there_is_an_error_for_good() {
    let error = Runtime::load(Some(Path::new("/no/such/libonnxruntime.so"))).unwrap_err();
    assert!(matches!(error, RuntimeError::Absent { .. }), "{error}");
    let text = error.to_string();
    assert!(text.contains("/no/such/libonnxruntime.so") && text.contains("ORT_DYLIB_PATH"), "{text}");

    for _ in 0..2 {
        let again = Runtime::load(Some(Path::new("libc.so.6"))).unwrap_err();
        assert!(matches!(again, RuntimeError::Earlier(_)), "{again}");
        assert!(again.to_string().ends_with(&text), "{again}");
    }
}
