//! The shot readers on any bytes: an error, or shots that are read back the same from what they are written as, in
//! every format.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_qec::shots::{Shot, ShotFormat, ShotLayout, ShotReader, ShotWriter};

const FORMATS: [ShotFormat; 6] = ShotFormat::ALL;

fuzz_target!(|data: &[u8]| {
    let Some(([format, measurements, detectors, observables], file)) = data.split_first_chunk() else {
        return;
    };
    let layout = ShotLayout {
        measurements: u32::from(*measurements) % 20,
        detectors: u32::from(*detectors),
        observables: u32::from(*observables) % 9,
    };
    let Ok(mut reader) = ShotReader::new(file, FORMATS[usize::from(*format) % FORMATS.len()], layout) else {
        assert_eq!(layout.width(), 0);
        return;
    };
    let (mut shots, mut shot) = (Vec::new(), Shot::new(layout));
    let complete = loop {
        match reader.read(&mut shot) {
            Ok(true) => shots.push(shot.clone()),
            Ok(false) => break true,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                assert!(reader.read(&mut shot).is_err(), "it went on after an error");
                break false;
            }
        }
    };
    assert_eq!(reader.shots_read(), shots.len() as u64);
    for format in FORMATS {
        let Ok(mut writer) = ShotWriter::new(Vec::new(), format, layout) else {
            assert_eq!(layout.width(), 0);
            continue;
        };
        for shot in &shots {
            writer.write(shot).expect("of this layout");
        }
        let written = match writer.finish() {
            Ok(written) => written,
            Err(error) => {
                assert!(format == ShotFormat::Ptb64 && !shots.len().is_multiple_of(64), "{error}");
                continue;
            }
        };
        let again: Result<Vec<Shot>, _> =
            ShotReader::new(&written[..], format, layout).expect("as for the writer").into_shots().collect();
        assert_eq!(again.expect("what was written can be read"), shots);
        if complete && format == ShotFormat::B8 && *format_of(data) == format {
            assert_eq!(written, file, "packed files are what they are");
        }
    }
});

fn format_of(data: &[u8]) -> &'static ShotFormat {
    &FORMATS[usize::from(data[0]) % FORMATS.len()]
}
