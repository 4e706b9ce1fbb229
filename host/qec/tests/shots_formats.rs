//! Shot files against Stim's own, and against anything at all.

use proptest::prelude::*;
use ringcall_qec::shots::{Shot, ShotError, ShotFormat, ShotLayout, ShotReader, ShotWriter};

const FORMATS: [ShotFormat; 6] = ShotFormat::ALL;

/// Of a format that has its shots by the 64, as many whole groups as these begin.
fn whole_groups(shots: &[Shot], format: ShotFormat) -> Vec<Shot> {
    let mut shots = shots.to_vec();
    if let (ShotFormat::Ptb64, Some(last)) = (format, shots.last().cloned()) {
        shots.resize(shots.len().next_multiple_of(64), last);
    }
    shots
}

fn read_all(bytes: &[u8], format: ShotFormat, layout: ShotLayout) -> Result<Vec<Shot>, ShotError> {
    ShotReader::new(bytes, format, layout)?.into_shots().collect()
}

fn write_all(shots: &[Shot], format: ShotFormat, layout: ShotLayout) -> Result<Vec<u8>, ShotError> {
    let mut writer = ShotWriter::new(Vec::new(), format, layout)?;
    for shot in shots {
        writer.write(shot)?;
    }
    assert_eq!(writer.shots_written(), shots.len() as u64);
    writer.finish()
}

/// The bits of a shot in the order of a row.
fn row(shot: &Shot) -> String {
    [&shot.measurements, &shot.detectors, &shot.observables]
        .iter()
        .flat_map(|bits| (0..bits.len()).map(|index| if bits.get(index) == Some(true) { '1' } else { '0' }))
        .collect()
}

#[test]
fn files_written_by_stim() {
    // The counts that tests/data/shots/make_shots.py printed.
    let sets = [
        ("detectors", ShotLayout::detectors(24)),
        ("appended", ShotLayout::with_observables(24, 1)),
        ("measurements", ShotLayout::measurements(33)),
    ];
    for (name, layout) in sets {
        let file = |format: ShotFormat| {
            let path = format!("{}/tests/data/shots/{name}.{format}", env!("CARGO_MANIFEST_DIR"));
            std::fs::read(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
        };
        let text = String::from_utf8(file(ShotFormat::Text01)).unwrap();
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 64);
        for format in FORMATS {
            let bytes = file(format);
            let shots = read_all(&bytes, format, layout).unwrap();
            assert_eq!(shots.iter().map(row).collect::<Vec<_>>(), rows, "{name}.{format}");
            assert_eq!(write_all(&shots, format, layout).unwrap(), bytes, "{name}.{format}");
        }
    }
}

#[test]
fn prefixes_name_their_kind() {
    let layout = ShotLayout { measurements: 3, detectors: 70, observables: 2 };
    let shots = read_all(b"shot L1 D69 M0\r\n\n  shot\n", ShotFormat::Dets, layout).unwrap();
    assert_eq!(shots.len(), 2);
    assert_eq!(shots[0].measurements.iter_ones().collect::<Vec<_>>(), [0]);
    assert_eq!(shots[0].detectors.iter_ones().collect::<Vec<_>>(), [69]);
    assert_eq!(shots[0].observables.iter_ones().collect::<Vec<_>>(), [1]);
    assert_eq!(shots[1], Shot::new(layout));
    assert_eq!(write_all(&shots, ShotFormat::Dets, layout).unwrap(), b"shot M0 D69 L1\nshot\n");
}

/// Reads and expects this error text.
fn refused(bytes: &[u8], format: ShotFormat, layout: ShotLayout, expected: &str) {
    let error =
        read_all(bytes, format, layout).expect_err(&format!("{:?}", bytes.escape_ascii().to_string()));
    let text = error.to_string();
    assert!(text.contains(expected), "`{text}` should contain `{expected}`");
}

#[test]
fn malformed_input_is_located() {
    let three = ShotLayout::with_observables(2, 1);
    let dets = |bytes: &[u8], expected| refused(bytes, ShotFormat::Dets, three, expected);
    dets(b"shot D0\nshot D2\n", "line 2, column 6: D2 is out of range");
    dets(b"shot D99999999999999999999999\n", "out of range");
    dets(b"shot M0\n", "M0 is out of range");
    dets(b"shot D0 D0\n", "line 1, column 9: D0 occurs twice");
    dets(b"shot D0  D1\n", "line 1, column 9: ` ` where M, D or L should");
    dets(b"shot D0 \n", "where M, D or L should");
    dets(b"shot D\n", "a number should follow D");
    dets(b"shot D-1\n", "a number should follow D");
    dets(b"shot D0x\n", "line 1, column 8: `x` follows");
    dets(b"shotD0\n", "column 5: `D` follows");
    dets(b"D0\n", "line 1, column 1: a line starts with `shot`");
    dets(b"shot\rshot\n", "column 5: a carriage return");
    dets(b"shot\nshot D1", "ends within shot 1 (counted from 0), at byte 12");
    dets(b"shot D", "ends within shot 0");
    dets(b"sh", "at byte 2");
    let text = |bytes: &[u8], expected| refused(bytes, ShotFormat::Text01, three, expected);
    text(b"010\n012\n", "line 2, column 3: `2` is neither 0 nor 1");
    text(b"010\n01\n", "line 2, column 3: the line has 2 bits, 3 are expected");
    text(b"0100\n", "column 4: more than 3 bits");
    text(b"010\n01", "ends within shot 1 (counted from 0), at byte 6: 3 bits per shot, and the last has 2");
    text(b"010", "at byte 3: a newline");
    let packed = ShotLayout::detectors(11);
    refused(b"\x01\x02\x03", ShotFormat::B8, packed, "ends within shot 1 (counted from 0), at byte 3");
    refused(b"\x01\x02\x03\x08", ShotFormat::B8, packed, "shot 1 (counted from 0), byte 3: padding");
    refused(b"", ShotFormat::B8, ShotLayout::default(), "a b8 file cannot hold shots of no bits");
    refused(b"", ShotFormat::Ptb64, ShotLayout::default(), "a ptb64 file cannot hold shots of no bits");
    let hits = |bytes: &[u8], expected| refused(bytes, ShotFormat::Hits, three, expected);
    hits(b"0,2\n3\n", "line 2, column 1: 3 is out of range");
    hits(b"1,0\n", "line 1, column 3: 0 does not come after");
    hits(b"1,1\n", "line 1, column 3: 1 does not come after");
    hits(b"1,\n", "line 1, column 3: a number should follow a comma");
    hits(b",1\n", "line 1, column 1: a number should follow");
    hits(b"1 2\n", "line 1, column 2: ` ` where a comma or a newline");
    hits(b"x\n", "a number should follow");
    hits(b"\n1", "ends within shot 1 (counted from 0), at byte 2");
    let runs = |bytes: &[u8], expected| refused(bytes, ShotFormat::R8, three, expected);
    runs(b"\x03\x04", "r8 input, shot 1 (counted from 0), byte 1: the shot ends within a run");
    runs(b"\xff", "shot 0 (counted from 0), byte 0: the shot ends within a run");
    runs(b"\x03\x01", "ends within shot 1 (counted from 0), at byte 2: 3 bits per shot, and the last has 2");
    refused(&[0; 25], ShotFormat::Ptb64, three, "at byte 25: 24 bytes for 64 shots, and the last have 1");
    let written = write_all(&vec![Shot::new(three); 65], ShotFormat::Ptb64, three);
    assert!(matches!(written, Err(ShotError::PartialGroup { shots: 65 })));
    assert!("b9".parse::<ShotFormat>().unwrap_err().to_string().contains("`b9`"));
    for format in FORMATS {
        assert_eq!(format.to_string().parse::<ShotFormat>().unwrap(), format);
    }
}

#[test]
fn nothing_is_read_after_an_error() {
    let layout = ShotLayout::detectors(2);
    let mut reader = ShotReader::new(&b"00\n0x\n11\n"[..], ShotFormat::Text01, layout).unwrap();
    let mut shot = Shot::new(layout);
    assert!(reader.read(&mut shot).unwrap());
    assert!(matches!(reader.read(&mut shot), Err(ShotError::Line { line: 2, .. })));
    assert!(matches!(reader.read(&mut shot), Err(ShotError::AfterError)));
    assert_eq!(reader.shots_read(), 1);
}

#[test]
fn shots_of_another_layout_are_refused() {
    let layout = ShotLayout::detectors(2);
    let mut other = Shot::new(ShotLayout::detectors(3));
    let mut reader = ShotReader::new(&b"00\n"[..], ShotFormat::Text01, layout).unwrap();
    assert!(matches!(reader.read(&mut other), Err(ShotError::Layout { .. })));
    assert!(reader.read(&mut Shot::new(layout)).unwrap(), "the reader is unaffected");
    let mut writer = ShotWriter::new(Vec::new(), ShotFormat::B8, layout).unwrap();
    assert!(matches!(writer.write(&other), Err(ShotError::Layout { .. })));
    assert_eq!(writer.finish().unwrap(), b"");
}

/// Takes a few bytes, then fails.
struct FullDisk(usize);

impl std::io::Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let taken = bytes.len().min(self.0);
        self.0 -= taken;
        if taken == 0 { Err(std::io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Gives one byte per call, then fails.
struct Unplugged(Vec<u8>);

impl std::io::Read for Unplugged {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        match (buffer.first_mut(), self.0.pop()) {
            (Some(first), Some(byte)) => {
                *first = byte;
                Ok(1)
            }
            _ => Err(std::io::ErrorKind::ConnectionReset.into()),
        }
    }
}

#[test]
fn failing_streams_are_reported() {
    let layout = ShotLayout::detectors(8);
    let mut writer = ShotWriter::new(FullDisk(5), ShotFormat::B8, layout).unwrap();
    for _ in 0..6 {
        writer.write(&Shot::new(layout)).unwrap(); // buffered
    }
    assert!(
        matches!(writer.finish(), Err(ShotError::Io(error)) if error.kind() == std::io::ErrorKind::StorageFull)
    );
    for format in FORMATS {
        let shots = whole_groups(&[Shot::new(layout)], format);
        let mut whole = write_all(&shots, format, layout).unwrap();
        whole.reverse();
        let mut reader = ShotReader::new(Unplugged(whole), format, layout).unwrap();
        let mut shot = Shot::new(layout);
        for _ in shots {
            assert!(reader.read(&mut shot).unwrap());
        }
        assert!(matches!(reader.read(&mut shot), Err(ShotError::Io(_))), "{format}");
    }
}

#[test]
fn shots_without_bits() {
    let layout = ShotLayout::default();
    let shots = vec![Shot::new(layout); 3];
    for (format, expected) in [
        (ShotFormat::Text01, &b"\n\n\n"[..]),
        (ShotFormat::Dets, b"shot\nshot\nshot\n"),
        (ShotFormat::Hits, b"\n\n\n"),
        (ShotFormat::R8, &[0; 3]),
    ] {
        let bytes = write_all(&shots, format, layout).unwrap();
        assert_eq!(bytes, expected);
        assert_eq!(read_all(&bytes, format, layout).unwrap(), shots);
    }
}

fn layouts() -> impl Strategy<Value = ShotLayout> {
    (0u32..80, 0u32..150, 0u32..20).prop_map(|(measurements, detectors, observables)| ShotLayout {
        measurements,
        detectors,
        observables,
    })
}

/// A layout and shots of it, from dense to empty.
fn shots() -> impl Strategy<Value = (ShotLayout, Vec<Shot>)> {
    layouts().prop_flat_map(|layout| {
        let bits = prop::collection::vec(prop::bool::weighted(0.3), layout.width() as usize);
        let shot = bits.prop_map(move |bits| {
            let mut shot = Shot::new(layout);
            let mut bits = bits.into_iter();
            for row in [&mut shot.measurements, &mut shot.detectors, &mut shot.observables] {
                for index in 0..row.len() {
                    row.set(index, bits.next().unwrap_or(false));
                }
            }
            shot
        });
        (Just(layout), prop::collection::vec(shot, 0..6))
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn round_trip((layout, shots) in shots()) {
        for format in FORMATS {
            if matches!(format, ShotFormat::B8 | ShotFormat::Ptb64) && layout.width() == 0 {
                continue;
            }
            let shots = whole_groups(&shots, format);
            let bytes = write_all(&shots, format, layout).unwrap();
            prop_assert_eq!(&read_all(&bytes, format, layout).unwrap(), &shots);
        }
    }

    /// A file cut anywhere gives the whole shots before the cut, then an error unless the cut is between shots.
    #[test]
    fn cut_files((layout, shots) in shots(), cut in any::<prop::sample::Index>()) {
        for format in FORMATS {
            if layout.width() == 0 || shots.is_empty() {
                continue;
            }
            let shots = whole_groups(&shots, format);
            let bytes = write_all(&shots, format, layout).unwrap();
            let cut = cut.index(bytes.len());
            let group = if format == ShotFormat::Ptb64 { 64 } else { 1 };
            let ends: Vec<usize> = (0..=shots.len() / group)
                .map(|n| write_all(&shots[..n * group], format, layout).unwrap().len())
                .collect();
            let results: Vec<_> = ShotReader::new(&bytes[..cut], format, layout).unwrap().into_shots().collect();
            let whole = group * (ends.iter().filter(|&&end| end <= cut).count() - 1);
            let good: Vec<Shot> = results.iter().filter_map(|shot| shot.as_ref().ok().cloned()).collect();
            prop_assert_eq!(&good[..], &shots[..whole]);
            prop_assert_eq!(results.last().is_some_and(Result::is_err), !ends.contains(&cut));
        }
    }

    /// Nothing panics, and accepted input survives a round trip.
    #[test]
    fn any_bytes(layout in layouts(), bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        accept_or_refuse(layout, &bytes)?;
    }

    #[test]
    fn nearly_hits(layout in layouts(), text in "([0-9]{0,3}(,[0-9]{1,3}){0,5}\r?\n?){0,5}") {
        accept_or_refuse(layout, text.as_bytes())?;
    }

    #[test]
    fn nearly_dets(layout in layouts(), text in "(shot( [MDL]?[0-9]{0,3}){0,5}[ \r]?\n?){0,5}") {
        accept_or_refuse(layout, text.as_bytes())?;
    }
}

fn accept_or_refuse(layout: ShotLayout, bytes: &[u8]) -> Result<(), TestCaseError> {
    for format in FORMATS {
        let Ok(shots) = read_all(bytes, format, layout) else { continue };
        let written = write_all(&shots, format, layout).unwrap();
        if matches!(format, ShotFormat::B8 | ShotFormat::R8 | ShotFormat::Ptb64) {
            prop_assert_eq!(&written[..], bytes);
        }
        prop_assert_eq!(read_all(&written, format, layout).unwrap(), shots);
    }
    Ok(())
}
