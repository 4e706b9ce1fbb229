//! The `.dem` reader on any text: an error or a valid model within its limits, which is read back the same from what
//! it is written as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_qec::dem::text::{self, Limits};

fuzz_target!(|data: &[u8]| {
    let limits = Limits { detectors: 1 << 12, observables: 1 << 8, instructions: 1 << 12, targets: 1 << 14 };
    match text::parse_with_limits(data, limits) {
        Ok(model) => {
            model.validate().expect("what was read is a model");
            assert!(model.num_detectors <= limits.detectors && model.num_observables <= limits.observables);
            let written = model.to_string();
            let again = text::parse(&written).expect("what was written can be read");
            assert_eq!(again, model, "{written}");
            let streamed = text::read(data, limits).expect("as from bytes");
            assert_eq!(streamed, model);
        }
        Err(error) => {
            assert!(!error.to_string().is_empty());
            assert!(text::read(data, limits).is_err());
        }
    }
});
