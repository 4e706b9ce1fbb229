//! Libraries loaded as decoders: this package's own, and ones that cannot be used.

mod common;

use proptest::prelude::*;
use ringcall_deq::host::{Library, PluginError, PluginFactory};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{DecodeError, Decoder, DecoderFactory, MatchingDecoder};
use ringcall_qec::dem::{DetectorErrorModel, text};
use ringcall_qec::sample::Sampler;
use std::path::Path;
use std::process::Command;

fn memory(distance: u32) -> DetectorErrorModel {
    let noise = CircuitNoise::uniform(0.004);
    MemoryExperiment { distance, rounds: distance, basis: Basis::Z, noise }.detector_error_model().unwrap()
}

fn own() -> Library {
    Library::open(common::library()).unwrap()
}

/// A library out of C.
fn compiled(folder: &Path, source: &str) -> std::path::PathBuf {
    let (text, library) = (folder.join("plugin.c"), folder.join("libplugin.so"));
    let begin = "#include <stddef.h>\n#include <stdint.h>\n";
    std::fs::write(&text, format!("{begin}{source}")).unwrap();
    let built =
        Command::new("cc").args(["-shared", "-fPIC", "-o"]).arg(&library).arg(&text).status().unwrap();
    assert!(built.success());
    library
}

const VERSION: &str = "uint32_t deq_decoder_abi_version(void) { return 1; }\n";
const CREATE: &str = "int32_t deq_decoder_create(uint64_t v, uint64_t e, const double *p, const uint64_t *o, const uint64_t *m,
    size_t n, const char *c, void **out) { static int it; *out = &it; return c[0] == '{' ? 0 : -7; }\n";
const DESTROY: &str = "void deq_decoder_destroy(void *handle) {}
const char *deq_decoder_last_error(void) { return NULL; }\n";

/// A decoder whose answers have these errors and this count.
fn answering(body: &str) -> String {
    format!(
        "{VERSION}{CREATE}{DESTROY}int32_t deq_decoder_decode(void *h, uint64_t s, const uint8_t *d, size_t n, uint64_t *out, size_t room, \
         size_t *count) {{ {body} }}\n"
    )
}

#[test]
fn our_library_decodes_as_matching_does() {
    let model = memory(3);
    let factory = PluginFactory::new(own(), &model, "").unwrap();
    let mut plugin = factory.build().unwrap();
    let mut matching = MatchingDecoder::from_dem(&model).unwrap();
    assert_eq!(
        (plugin.num_detectors(), plugin.num_observables()),
        (model.num_detectors, model.num_observables)
    );
    let mut sampler = Sampler::new(&model, 11).unwrap();
    let mut shot = sampler.new_shot();
    let (mut defects, mut ours, mut theirs) = (Vec::new(), [0u8], [0u8]);
    let (mut wrong, mut differ) = ([0, 0], 0);
    for _ in 0..5000 {
        sampler.sample_into(&mut shot).unwrap();
        shot.detectors.ones_into(&mut defects);
        let found = plugin.decode(&defects, &mut ours).unwrap();
        assert!(found.converged);
        matching.decode(&defects, &mut theirs).unwrap();
        let truth = u8::from(shot.observables.get(0).unwrap());
        wrong[0] += u32::from(ours[0] != truth);
        wrong[1] += u32::from(theirs[0] != truth);
        differ += u32::from(ours != theirs);
    }
    // Errors of several parts are split by other rules than the model's, which moves weights a little.
    assert!(wrong[0] > 10 && wrong[0].abs_diff(wrong[1]) < 15 && differ < 40, "{wrong:?}, {differ}");
}

#[test]
fn options_and_bad_syndromes_reach_the_library_and_its_words_come_back() {
    let model = memory(3);
    let refused = |config: &str| PluginFactory::new(own(), &model, config).unwrap_err().to_string();
    assert!(refused(r#"{"speed": 1}"#).contains("speed"));
    assert!(refused("\0").contains("NUL"));
    assert!(PluginFactory::new(own(), &model, r#"{"matching": "correlated"}"#).is_ok());

    let ring = text::parse("error(0.1) D0 D1\nerror(0.1) D1 D2\nerror(0.1) D2 D0 L0").unwrap();
    let mut decoder = PluginFactory::new(own(), &ring, "").unwrap().build().unwrap();
    let mut out = [0u8];
    let odd = decoder.decode(&[1], &mut out).unwrap_err();
    assert!(matches!(&odd, DecodeError::Plugin { reason } if reason.contains("no set of edges")), "{odd}");
    assert_eq!(decoder.decode(&[3], &mut out), Err(DecodeError::Detector { detector: 3, count: 3 }));
    assert_eq!(decoder.decode(&[1, 1], &mut out), Err(DecodeError::Duplicate { detector: 1 }));
    assert!(matches!(decoder.decode(&[], &mut []), Err(DecodeError::Length { expected: 1, found: 0, .. })));
    assert_eq!(decoder.decode(&[2, 0], &mut out).map(|found| found.corrections), Ok(1));
    assert_eq!(out, [1]);

    let certain = text::parse("error(1) D0").unwrap();
    let error = PluginFactory::new(own(), &certain, "").unwrap_err();
    assert!(
        matches!(error, PluginError::Model { .. }) && error.to_string().contains("mechanism 0"),
        "{error}"
    );
}

#[test]
fn libraries_that_cannot_be_used_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("nowhere.so");
    assert!(
        matches!(Library::open(&missing), Err(PluginError::Load { library, .. }) if library.ends_with("nowhere.so"))
    );
    assert!(
        matches!(Library::open(folder.path()), Err(PluginError::Load { reason, .. }) if reason.contains("folder"))
    );
    assert!(matches!(Library::open(""), Err(PluginError::Load { .. })));
    let text = folder.path().join("text.so");
    std::fs::write(&text, "no library").unwrap();
    assert!(matches!(Library::open(&text), Err(PluginError::Load { .. })));

    let open = |source: &str| {
        let folder = tempfile::tempdir().unwrap();
        Library::open(compiled(folder.path(), source)).map(|_| ()).unwrap_err()
    };
    let lacks = |source: &str, missing: &str| {
        let error = open(source);
        assert!(matches!(&error, PluginError::Symbol { symbol, .. } if *symbol == missing), "{error}");
    };
    lacks("int anything;", "deq_decoder_abi_version");
    lacks(VERSION, "deq_decoder_create");
    lacks(&format!("{VERSION}{CREATE}{DESTROY}"), "deq_decoder_decode");
    let whole = answering("*count = 0; return 0;");
    lacks(
        &format!("{whole}uint64_t deq_decoder_capabilities(void) {{ return 1; }}"),
        "deq_decoder_decode_request",
    );
    lacks(
        &format!("{whole}int deq_decoder_decode_request(void) {{ return 0; }}"),
        "deq_decoder_capabilities",
    );
    let can = |bits: u64| {
        format!(
            "{whole}int deq_decoder_decode_request(void) {{ return 0; }}\nuint64_t deq_decoder_capabilities(void) {{ return {bits}u; }}"
        )
    };
    lacks(&can(8), "deq_decoder_create_with_observables");
    assert!(matches!(open(&can(16)), PluginError::Capabilities { unknown: 16, .. }));
    let other = VERSION.replace("return 1", "return 2");
    assert!(matches!(open(&other), PluginError::Version { found: 2, expected: 1, .. }));
}

#[test]
fn nonsense_out_of_a_library_is_an_error() {
    let model = text::parse("error(0.1) D0\nerror(0.1) D0 D1\nerror(0.1) D1 L0").unwrap();
    let decode = |body: &str| {
        let folder = tempfile::tempdir().unwrap();
        let library = Library::open(compiled(folder.path(), &answering(body))).unwrap();
        let mut decoder = PluginFactory::new(library, &model, "{}").unwrap().build().unwrap();
        let mut out = [0u8];
        decoder.decode(&[0], &mut out)
    };
    let why = |body: &str| decode(body).unwrap_err().to_string();
    assert!(why("*count = 4; return 0;").contains("4 errors"));
    assert!(why("*count = 1000; return 1;").contains("1000 errors"));
    assert!(why("out[0] = 3; *count = 1; return 0;").contains("names error 3"));
    assert!(why("return -9;").contains("status -9"));
    // An answer that does not explain the syndrome says so.
    assert!(!decode("*count = 0; return 0;").unwrap().converged);
    assert!(
        decode("out[0] = d[0] == 0x80 && n == 1 && s == 2 ? 0 : 9; *count = 1; return 0;").unwrap().converged
    );

    let folder = tempfile::tempdir().unwrap();
    let library = Library::open(compiled(folder.path(), &answering("return 0;"))).unwrap();
    let refused = PluginFactory::new(library, &model, "").unwrap_err();
    assert!(
        matches!(&refused, PluginError::Refused { reason, .. } if reason.contains("status -7")),
        "{refused}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// No model makes it panic, and answers explain their syndromes.
    #[test]
    fn any_model_is_decoded_or_refused(
        errors in prop::collection::vec((0.0..0.999f64, prop::collection::btree_set(0u32..7, 0..5)), 0..12),
        syndrome in prop::collection::btree_set(0u32..7, 0..7),
    ) {
        let lines: Vec<String> = errors
            .iter()
            .map(|(p, ids)| {
                let ids: Vec<String> = ids.iter().map(|id| format!("D{id}")).collect();
                format!("error({p:.6}) {} L0", ids.join(" "))
            })
            .collect();
        let model = text::parse(&format!("{}\ndetector D6", lines.join("\n"))).unwrap();
        let mut decoder = PluginFactory::new(own(), &model, r#"{"matching": "correlated"}"#).unwrap().build().unwrap();
        let syndrome: Vec<u32> = syndrome.into_iter().collect();
        let mut out = vec![0u8; (model.num_observables as usize).div_ceil(8)];
        match decoder.decode(&syndrome, &mut out) {
            Ok(found) => prop_assert!(found.converged),
            Err(error) => prop_assert!(error.to_string().contains("no set of edges"), "{error}"),
        }
    }
}
