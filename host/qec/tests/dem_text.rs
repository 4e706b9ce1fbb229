//! The text format: Stim's files are read, written models read back, and malformed text is refused.

use std::io::{self, BufReader, Read};
use std::path::Path;

use proptest::prelude::*;
use ringcall_qec::dem::text::{self, Limits, ParseErrorKind, ReadError};
use ringcall_qec::dem::{Component, DetectorErrorModel, Mechanism};

fn load(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/dem/text").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {error}"))
}

#[test]
fn folded_and_flat_files_of_stim_are_the_same_model() {
    for (name, detectors, edges) in
        [("repetition", 62, true), ("rotated", 320, true), ("unrotated", 80, true), ("color", 0, false)]
    {
        let folded = text::parse(&load(&format!("{name}.dem"))).unwrap();
        let flat = text::parse(&load(&format!("{name}.flat.dem"))).unwrap();
        assert_eq!(folded, flat, "{name}");
        folded.validate().unwrap();
        assert!(detectors == 0 || folded.num_detectors == detectors, "{name}: {}", folded.num_detectors);
        assert_eq!(folded.num_observables, 1, "{name}");
        assert!(folded.coordinates.iter().all(|list| !list.is_empty()), "{name}");
        assert_eq!(folded.mechanisms.iter().all(Mechanism::is_graphlike), edges, "{name}");
        assert_eq!(text::parse(&folded.to_string()).unwrap(), folded, "{name}");
    }
}

#[test]
fn everything_that_stim_takes_is_taken() {
    let same = [
        ("ERROR(0.1) d0 l1", "error(0.1) D0 L1"),
        ("error(0.1) D0 D0 D1", "error(0.1) D1"),
        ("error(0.1) D0 D1 ^ D1 L0 L0", "error(0.1) D0 D1 ^ D1\nlogical_observable L0"),
        ("error[a (b) \\C # {](0.1) D0 # hi", "error(0.1) D0"),
        ("\terror( 5e-1 )\tD01\r\n\r\n#\n", "error(.5) D1"),
        ("detector(1e-3,-2, +3) D0", "detector(0.001, -2, 3) D0"),
        ("repeat 2{ error(0.1) D0\n}error(0.2) D1", "error(0.1) D0\nerror(0.1) D0\nerror(0.2) D1"),
        ("repeat[x] 0 {\nerror(0.1) D7\n}", ""),
        ("repeat 1000000000000000000 {\n}", ""),
        ("shift_detectors(1, 2) 3\nshift_detectors 1\ndetector(5) D0", "detector(6) D4"),
        ("detector(1) D0\ndetector(2) D0\ndetector D0", "detector(1) D0"),
        ("error(0.1)", "error(1e-1)"),
    ];
    for (odd, plain) in same {
        assert_eq!(text::parse(odd).unwrap(), text::parse(plain).unwrap(), "{odd}");
    }
    let cancelled = text::parse("error(0.1) D0 D0 ^ D1 ^ D2").unwrap();
    let part = |id| Component { detectors: vec![id], observables: vec![] };
    assert_eq!(cancelled.mechanisms[0].components, [part(1), part(2)]);
    assert_eq!(cancelled.num_detectors, 3);
}

#[test]
fn nested_blocks_shift_detectors_and_coordinates() {
    let nested = "repeat 2 {\n repeat 3 {\n  error(0.5) D0 D1\n  detector(0, 1) D0\n  shift_detectors(1) 1\n }\n \
                  shift_detectors(0, 10) 2\n}";
    let model = text::parse(nested).unwrap();
    let firsts: Vec<u32> = model.mechanisms.iter().map(|mechanism| mechanism.detectors[0]).collect();
    assert_eq!(firsts, [0, 1, 2, 5, 6, 7]);
    assert_eq!((model.num_detectors, &model.coordinates[7][..]), (9, &[5.0, 11.0][..]));
    assert!(model.coordinates[3].is_empty() && model.coordinates[8].is_empty());
}

#[test]
fn broken_text_is_refused_with_its_line() {
    let cases = [
        ("error(0.1) D0\nbogus D0", 2, "unknown instruction `bogus`; there are"),
        ("error(1.5) D0", 1, "the probability 1.5 is not between 0 and 1"),
        ("error(-0.5) D0", 1, "the probability -0.5 is not between 0 and 1"),
        ("error(nan) D0", 1, "`nan` is not a finite number"),
        ("detector(inf) D0", 1, "`inf` is not a finite number"),
        ("detector(1e999) D0", 1, "`1e999` is not a finite number"),
        ("detector(1-2) D0", 1, "`1-2` is not a finite number"),
        ("detector(1,,2) D0", 1, "expected a number, found `,2)`"),
        ("detector() D0", 1, "expected a number, found `)`"),
        ("detector(1 2) D0", 1, "expected `,` or `)`, found `2)`"),
        ("error(0.1", 1, "expected `,` or `)`, found the end of the line"),
        ("error D0", 1, "`error` takes one argument, its probability, but 0 arguments are given"),
        ("error(0.1, 0.2) D0", 1, "`error` takes one argument, its probability, but 2 arguments are given"),
        ("logical_observable(1) L0", 1, "`logical_observable` takes no arguments, but 1 arguments are given"),
        ("error (0.1) D0", 1, "`error` takes one argument, its probability, but 0 arguments are given"),
        ("error(0.1)D0", 1, "expected a space, then a target such as D5, L0 or ^, found `D0`"),
        ("error(0.1) D0^D1", 1, "expected a space, then a target such as D5, L0 or ^, found `^D1`"),
        ("error(0.1) D-1", 1, "expected a space, then a target such as D5, L0 or ^, found `D-1`"),
        ("error(0.1) D", 1, "expected a space, then a target such as D5, L0 or ^, found `D`"),
        ("error(0.1) 5", 1, "expected a space, then a target such as D5, L0 or ^, found `5`"),
        ("error(0.1) ^ D0", 1, "`^` must stand between two parts"),
        ("error(0.1) D0 ^", 1, "`^` must stand between two parts"),
        ("error(0.1) D0 ^ ^ D1", 1, "`^` must stand between two parts"),
        ("detector D0 D1", 1, "`detector` takes one target, as in D5"),
        ("detector L0", 1, "`detector` takes one target, as in D5"),
        ("detector", 1, "`detector` takes one target, as in D5"),
        ("logical_observable D0", 1, "`logical_observable` takes one target, as in L0"),
        ("shift_detectors -1", 1, "expected the number of detectors to shift by, found `-1`"),
        ("shift_detectors 5 6", 1, "expected the end of the line, found `6`"),
        ("shift_detectors", 1, "expected the number of detectors to shift by, found the end of the line"),
        ("shift_detectors 99999999999999999999", 1, "the number `99999999999999999999` is too large"),
        ("\n\nrepeat 2 {\nerror(0.1) D0\n", 3, "the block opened here is never closed"),
        ("repeat 2 {\n}\n}", 3, "`}` closes no block"),
        ("repeat {\n}", 1, "expected how often to repeat, found `{`"),
        ("repeat 2\n{\n}", 1, "expected `{`, found the end of the line"),
        ("repeat 2 3 {\n}", 1, "expected `{`, found `3`"),
        ("repeat 2 { error(0.1) D0 }", 1, "expected a space, then a target such as D5, L0 or ^, found `}`"),
        ("error[tag(0.1) D0", 1, "expected `]` at the end of the tag, found the end of the line"),
        ("%", 1, "expected an instruction, found `%`"),
        ("error(0.1) D16777216", 1, "the expanded model has more than 16777216 detectors"),
        ("error(0.1) D99999999999", 1, "the expanded model has more than 16777216 detectors"),
        ("error(0.1) L4294967296", 1, "the expanded model has more than 65536 observables"),
        (
            "\nshift_detectors 16777216\nerror(0.1) D0",
            3,
            "the expanded model has more than 16777216 detectors",
        ),
        ("shift_detectors 18446744073709551615\nshift_detectors 1", 2, "the number `1` is too large"),
        (
            "repeat 1000000000000 {\nshift_detectors 0\n}",
            1,
            "the expanded model has more than 16777216 instructions",
        ),
        ("repeat 9 {\nrepeat 1000000000000 {\nrepeat 1 {\n}\n}\n}", 2, "more than 16777216 instructions"),
        ("shift_detectors(1e308) 0\nshift_detectors(1e308) 0", 2, "shifted coordinates are no longer finite"),
        ("shift_detectors(1e308) 0\ndetector(1e308) D0", 2, "shifted coordinates are no longer finite"),
    ];
    for (broken, line, message) in cases {
        let error = text::parse(broken).expect_err(broken);
        assert_eq!(error.line, line, "{broken:?}: {error}");
        assert!(error.to_string().contains(message), "{broken:?}: {error}");
    }
}

#[test]
fn bytes_that_are_not_text_and_deep_blocks_are_refused() {
    let error = text::parse_bytes(b"error(0.1) D0\n\xff\xfe\n").unwrap_err();
    assert_eq!((error.line, error.kind), (2, ParseErrorKind::NotUtf8));
    let nest =
        |depth: usize| format!("{}error(0.1) D0\n{}", "repeat 1 {\n".repeat(depth), "}\n".repeat(depth));
    assert_eq!(text::parse(&nest(64)).unwrap().mechanisms.len(), 1);
    let error = text::parse(&nest(100_000)).unwrap_err();
    assert_eq!((error.line, error.kind), (65, ParseErrorKind::Depth { limit: 64 }));
    let long = text::parse(&"%".repeat(1 << 20)).unwrap_err().to_string();
    assert!(long.len() < 200, "{long}");
}

#[test]
fn limits_count_detectors_instructions_and_targets() {
    let limits = Limits { detectors: 10, observables: 2, instructions: 6, targets: 8 };
    let parse = |text: &str| text::parse_with_limits(text.as_bytes(), limits).map_err(|error| error.kind);
    let limit = |what, limit| Err(ParseErrorKind::Limit { what, limit });
    assert_eq!(parse("error(0.1) D9 L1").unwrap().num_detectors, 10);
    assert_eq!(parse("error(0.1) D10"), limit("detectors", 10));
    assert_eq!(parse("error(0.1) L2"), limit("observables", 2));
    // Three turns of a block and three instructions.
    assert_eq!(parse("repeat 3 {\nshift_detectors 0\n}").map(|model| model.num_detectors), Ok(0));
    assert_eq!(parse("repeat 4 {\nshift_detectors 0\n}"), limit("instructions", 6));
    assert_eq!(parse("error(0.1) D0 D1 D2 D3 D4 D5 D6 D7").unwrap().mechanisms.len(), 1);
    assert_eq!(parse("error(0.1) D0 D1 D2 D3 D4 D5 D6 D7 D8"), limit("targets", 8));
    assert_eq!(parse("detector(1, 2, 3, 4, 5, 6, 7, 8) D0"), limit("targets", 8));
    let wide = Limits { detectors: u32::MAX, observables: u32::MAX, ..Limits::default() };
    let model = text::parse_with_limits(b"error(0.1) D4294967294 L4294967294", wide).unwrap();
    assert_eq!((model.num_detectors, model.num_observables), (u32::MAX, u32::MAX));
    assert!(text::parse_with_limits(b"error(0.1) D4294967295", wide).is_err());
}

#[test]
fn streams_are_read_line_by_line_and_their_failures_reported() {
    let text = load("rotated.dem");
    let reader = BufReader::with_capacity(7, text.as_bytes());
    assert_eq!(text::read(reader, Limits::default()).unwrap(), text::parse(&text).unwrap());
    let cut = &text.as_bytes()[..text.len() - 2000];
    assert!(matches!(text::read(cut, Limits::default()), Err(ReadError::Parse(_))), "cut off inside a line");

    struct Broken;
    impl Read for Broken {
        fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
            Err(io::Error::other("the disk is gone"))
        }
    }
    let error = text::read(BufReader::new("error(0.1) D0\n".as_bytes().chain(Broken)), Limits::default());
    assert!(error.unwrap_err().to_string().contains("the disk is gone"));
}

#[test]
fn models_that_contradict_themselves_do_not_validate() {
    let good = text::parse("error(0.1) D0 ^ D1 L0\ndetector(1) D0").unwrap();
    good.validate().unwrap();
    type Spoil = fn(&mut DetectorErrorModel);
    let spoils: [(&str, Spoil); 10] = [
        ("probability NaN", |model| model.mechanisms[0].probability = f64::NAN),
        ("probability 1.5", |model| model.mechanisms[0].probability = 1.5),
        ("not sorted and unique", |model| model.mechanisms[0].detectors = vec![1, 0]),
        ("not sorted and unique", |model| model.mechanisms[0].components[0].detectors = vec![0, 0]),
        ("detector 1 is out of range", |model| model.num_detectors = 1),
        ("observable 0 is out of range", |model| model.num_observables = 0),
        ("do not add up", |model| model.mechanisms[0].components[1].observables.clear()),
        ("do not add up", |model| model.mechanisms[0].detectors = vec![0]),
        ("given for 1 detectors", |model| model.coordinates.truncate(1)),
        ("detector 0 are not finite", |model| model.coordinates[0][0] = f64::INFINITY),
    ];
    for (message, spoil) in spoils {
        let mut model = good.clone();
        spoil(&mut model);
        let error = model.validate().expect_err(message).to_string();
        assert!(error.contains(message), "{message}: {error}");
    }
}

fn component() -> impl Strategy<Value = Component> {
    let ids = |most, count| prop::collection::btree_set(0_u32..most, 0..count);
    (ids(40, 4), ids(4, 2))
        .prop_filter("a part flips something", |(detectors, observables)| {
            detectors.len() + observables.len() > 0
        })
        .prop_map(|(detectors, observables)| Component {
            detectors: detectors.into_iter().collect(),
            observables: observables.into_iter().collect(),
        })
}

fn odd_ones(lists: impl Iterator<Item = Vec<u32>>) -> Vec<u32> {
    let mut counts = std::collections::BTreeMap::new();
    lists.flatten().for_each(|id| *counts.entry(id).or_insert(0) += 1);
    counts.into_iter().filter(|(_, count)| count % 2 == 1).map(|(id, _)| id).collect()
}

fn mechanism() -> impl Strategy<Value = Mechanism> {
    let probability = prop_oneof![0.0..=1.0, Just(0.0), Just(1.0), Just(5e-324), 1e-9..1e-3];
    (probability, prop::collection::vec(component(), 0..4)).prop_map(|(probability, mut components)| {
        let detectors = odd_ones(components.iter().map(|part| part.detectors.clone()));
        let observables = odd_ones(components.iter().map(|part| part.observables.clone()));
        if components.len() == 1 {
            components.clear();
        }
        Mechanism { probability, detectors, observables, components }
    })
}

fn model() -> impl Strategy<Value = DetectorErrorModel> {
    let coordinate = prop_oneof![-1e3..1e3, Just(0.0), Just(-0.0), Just(f64::MAX), Just(1e-300)];
    let coordinates = prop::collection::vec(prop::collection::vec(coordinate, 0..4), 40..60);
    (prop::collection::vec(mechanism(), 0..20), any::<bool>(), coordinates, 4_u32..8).prop_map(
        |(mechanisms, with_coordinates, mut coordinates, num_observables)| {
            let num_detectors = coordinates.len() as u32;
            if !with_coordinates || coordinates.iter().all(Vec::is_empty) {
                coordinates.clear();
            }
            DetectorErrorModel { num_detectors, num_observables, mechanisms, coordinates }
        },
    )
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(model in model()) {
        prop_assert_eq!(model.validate(), Ok(()));
        prop_assert_eq!(text::parse(&model.to_string()).unwrap(), model);
    }

    #[test]
    fn any_bytes_are_an_answer(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let _ = text::parse_bytes(&bytes);
    }

    /// Words of the language in any order; accepted text is a valid model and reads back.
    #[test]
    fn any_words_are_an_answer(words in prop::collection::vec(prop::sample::select(vec![
        "error", "(0.1)", "(1)", " D0", " D7", " L1", " ^", "\n", "\n", "detector", "(1,-2)", "repeat 2 {", "repeat 3 {",
        "}", "shift_detectors", " 1", " 2", "logical_observable", "[tag]", "#", " ", "(", "1e5", ",", "é",
    ]), 0..60)) {
        if let Ok(model) = text::parse(&words.concat()) {
            prop_assert_eq!(model.validate(), Ok(()));
            prop_assert_eq!(text::parse(&model.to_string()).unwrap(), model);
        }
    }

    /// A file with one byte changed or cut off is read or refused with a line that it has.
    #[test]
    fn damaged_files_are_an_answer(at in 0_usize..3500, byte in any::<u8>(), cut in any::<bool>()) {
        let mut bytes = load("unrotated.dem").into_bytes();
        if cut { bytes.truncate(at) } else { bytes[at] = byte };
        match text::parse_bytes(&bytes) {
            Ok(model) => prop_assert_eq!(model.validate(), Ok(())),
            Err(error) => prop_assert!(error.line as usize <= bytes.split(|&b| b == b'\n').count()),
        }
    }
}

/// A stream that continues without a line's end is refused after a line's worth of it.
#[test]
fn a_line_has_a_bound() {
    use ringcall_qec::dem::text::{DemTextError, MAX_LINE_BYTES, parse, read};
    use std::io::Read;
    let endless = BufReader::new(b"error(0.1) D0\n# ".chain(std::io::repeat(b'x')));
    let Err(ReadError::Parse(error)) = read(endless, Limits::default()) else { panic!("it has no end") };
    assert_eq!(error, DemTextError { line: 2, kind: ParseErrorKind::LongLine { limit: MAX_LINE_BYTES } });

    let mut longest = "error(0.1) D0 #".to_owned();
    longest += &"x".repeat(MAX_LINE_BYTES - longest.len());
    longest.push('\n');
    assert_eq!(parse(&longest).expect("as long as it may be").mechanisms.len(), 1);
    assert!(read(longest.as_bytes(), Limits::default()).is_ok());
    longest.insert(20, 'x');
    assert!(parse(&longest).is_err() && read(longest.as_bytes(), Limits::default()).is_err());
}
