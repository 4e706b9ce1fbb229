//! The reader of Stim's circuits on any text: an error, or a circuit that is read back the same from what it is written as.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_qec::circuit::Circuit;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    match text.parse::<Circuit>() {
        Ok(circuit) => {
            let written = circuit.to_string();
            let again: Circuit = written.parse().expect("what was written can be read");
            assert_eq!(again, circuit, "{written}");
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
});
