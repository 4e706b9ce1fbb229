//! Sessions of a decoding server: every status, a simple model of the states, garbage, several at once, and answers against direct
//! decoding.

use proptest::prelude::*;
use ringcall::dispatcher::Stepped;
use ringcall::wire::decoding::{
    DecodingStatus, EnqueueSyndromes, GET_CORRECTIONS_BYTES, GetCorrections, RESET_DECODER_BYTES,
    reset_decoder,
};
use ringcall::wire::names;
use ringcall::{Client, FunctionId, FunctionTable, HostDispatcher, Ring, RingConfig, Status};
use ringcall_decoder_service::decoding_server::{Config, Frame, Session, SessionState, Sessions, write};
use ringcall_qec::circuit::{CircuitNoise, Code, Experiment, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{
    BpConfig, Decoder, DecoderFactory, DecodingGraph, MatchingEngine, MatchingFactory, OrderedStatistics,
    ParallelEdges, RelayFactory,
};
use ringcall_qec::dem::DetectorErrorModel;
use ringcall_qec::sample::Sampler;
use std::sync::Arc;
use std::time::Duration;

/// Against hanging.
const TIMEOUT: Duration = Duration::from_secs(20);

/// A repetition code of four bits, the first of which is the observable; each detector is the parity of a measurement and the one
/// before.
const REPETITION: &str = "decoders:
- id: 7
  type: pymatching
  block_size: 4
  syndrome_size: 3
  H_sparse: [0, 1, -1, 1, 2, -1, 2, 3, -1]
  O_sparse: [0, -1, 3, -1]
  D_sparse: [0, -1, 0, 1, -1, 1, 2, -1]
  error_rate_vec: [0.1, 0.2, 0.05, 0.15]
";
/// The same on a circle, without a boundary: an odd number of detectors has no explanation.
const CIRCLE: &str = "decoders:
- {id: 7, type: pymatching, block_size: 3, syndrome_size: 3, H_sparse: [0, 1, -1, 1, 2, -1, 2, 0, -1], O_sparse: [0, -1],
   D_sparse: [0, -1, 1, -1, 2, -1]}
";

fn config(text: &str) -> Config {
    text.parse().expect("a valid configuration")
}

fn session(text: &str, frame: Frame) -> Session {
    Session::new(&config(text).decoders[0], frame).expect("a decoder")
}

fn packed(bits: &[bool]) -> Vec<u8> {
    bits.chunks(8).map(|bits| (0..).zip(bits).fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i)).collect()
}

fn enqueue(decoder_id: i64, bits: &[bool]) -> Vec<u8> {
    let request =
        EnqueueSyndromes { decoder_id, counter: 0, num_syndromes: bits.len() as u32, bits: &packed(bits) };
    let mut payload = vec![0; EnqueueSyndromes::bytes(bits.len())];
    assert_eq!(request.write(&mut payload), Some(payload.len()));
    payload
}

fn get(session: &mut Session, return_size: i64, reset: bool) -> Result<u8, DecodingStatus> {
    let mut result = [0xAA; 1];
    session.corrections(return_size, reset, &mut result).map(|len| {
        assert_eq!(len, 1);
        result[0]
    })
}

#[test]
fn a_session_goes_from_collecting_to_ready_and_back() {
    let mut session = session(REPETITION, Frame::Volume);
    assert_eq!(get(&mut session, 2, false), Err(DecodingStatus::NotReady));
    assert_eq!(session.enqueue(&enqueue(7, &[true])), DecodingStatus::Ok);
    assert_eq!(
        (session.state(), get(&mut session, 2, false)),
        (SessionState::Collecting, Err(DecodingStatus::NotReady))
    );
    // Measurements 1 1 1: detector 0 alone, which error 0 explains.
    assert_eq!(session.enqueue(&enqueue(7, &[true, true])), DecodingStatus::Ok);
    for wrong in [i64::MIN, -1, 0, 1, 3, i64::MAX] {
        assert_eq!(get(&mut session, wrong, true), Err(DecodingStatus::BadRequest), "{wrong}");
    }
    assert_eq!(session.corrections(2, true, &mut []), Err(DecodingStatus::InternalError), "never cut");
    assert_eq!((get(&mut session, 2, false), get(&mut session, 2, true)), (Ok(1), Ok(1)));
    assert_eq!(get(&mut session, 2, false), Err(DecodingStatus::NotReady), "cleared");
    // Input after a result begins a new volume: the old result is gone.
    session.push(3, &[0]);
    assert_eq!((session.state(), session.decodes()), (SessionState::Ready, 2));
    session.push(1, &[0]);
    assert_eq!(get(&mut session, 2, false), Err(DecodingStatus::NotReady));
    // Bits after the last measurement belong to no measurement.
    session.push(2, &[0xFC]);
    assert_eq!(get(&mut session, 2, false), Ok(0));
}

#[test]
fn a_failed_session_takes_and_ignores_until_it_is_reset() {
    let is_failed = |session: &mut Session| {
        assert_eq!(session.state(), SessionState::Failed);
        assert_eq!(session.enqueue(&enqueue(7, &[true])), DecodingStatus::Ok, "taken and ignored");
        assert_eq!(get(session, 2, false), Err(DecodingStatus::InternalError));
        assert_eq!(get(session, 0, false), Err(DecodingStatus::BadRequest), "malformed all the same");
        session.reset();
        session.push(3, &[0b111]);
        assert_eq!(get(session, 2, true), Ok(1), "as good as new");
    };
    let mut session = session(REPETITION, Frame::Volume);
    session.push(4, &[0]);
    is_failed(&mut session);
    session.push(2, &[3]);
    session.push(2, &[3]);
    is_failed(&mut session);
    let good = enqueue(7, &[true, false, true]);
    for (offset, value) in [(16, 1_u64), (16, u64::MAX), (24, 0), (24, u64::MAX), (24, 9), (24, 1 << 21)] {
        let mut bad = good.clone();
        bad[offset..offset + 8].copy_from_slice(&value.to_le_bytes());
        assert_eq!(session.enqueue(&bad), DecodingStatus::BadRequest, "{offset}: {value}");
        is_failed(&mut session);
    }
}

#[test]
fn a_syndrome_that_nothing_explains_is_told_with_the_corrections() {
    let mut session = session(CIRCLE, Frame::Volume);
    assert_eq!(session.enqueue(&enqueue(7, &[true, false, false])), DecodingStatus::Ok);
    assert_eq!(get(&mut session, 1, false), Err(DecodingStatus::InternalError));
    session.reset();
    session.push(3, &[0b011]);
    assert!(get(&mut session, 1, false).is_ok());
}

/// What a call is, in the property test.
#[derive(Debug, Clone)]
enum Call {
    Push(Vec<bool>),
    /// A mapping that there is not.
    Malformed,
    Get {
        return_size: i64,
        reset: bool,
        room: usize,
    },
    Reset,
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        6 => prop::collection::vec(any::<bool>(), 1..=4).prop_map(Call::Push),
        1 => Just(Call::Malformed),
        5 => (prop_oneof![8 => Just(2), 1 => -1..4_i64], any::<bool>(), prop_oneof![8 => Just(1_usize), 1 => Just(0)])
            .prop_map(|(return_size, reset, room)| Call::Get { return_size, reset, room }),
        1 => Just(Call::Reset),
    ]
}

/// The least-weight set of errors of the repetition code, by trying all.
fn by_hand(measurements: &[bool]) -> u8 {
    let at = |i: usize| measurements[i];
    let detectors = [at(0), at(0) ^ at(1), at(1) ^ at(2)];
    let weights = [0.1, 0.2, 0.05, 0.15].map(|p: f64| ((1.0 - p) / p).ln());
    let errors = (0..16_u8)
        .filter(|errors| (0..3).all(|i| detectors[i] == ((errors >> i ^ errors >> (i + 1)) & 1 == 1)));
    let weight = |errors: &u8| (0..4).filter(|i| errors >> i & 1 == 1).map(|i| weights[i]).sum::<f64>();
    let best = errors.min_by(|a, b| weight(a).total_cmp(&weight(b))).expect("a boundary on each side");
    best & 1 | (best >> 3 & 1) << 1
}

/// The states in the words of the specification.
#[derive(Default)]
struct Model {
    measurements: Vec<bool>,
    result: Option<u8>,
    sum: u8,
    failed: bool,
}

impl Model {
    fn answer(&mut self, call: &Call, frame: Frame) -> Result<Option<u8>, DecodingStatus> {
        match call {
            Call::Malformed => {
                self.failed = true;
                return Err(DecodingStatus::BadRequest);
            }
            Call::Push(_) if self.failed => {}
            Call::Push(bits) => {
                self.result = None;
                self.measurements.extend(bits);
                self.failed = self.measurements.len() > 3;
                if self.measurements.len() == 3 {
                    let new = by_hand(&self.measurements);
                    self.sum = if frame == Frame::Running { self.sum ^ new } else { new };
                    self.result = Some(self.sum);
                    self.measurements.clear();
                }
            }
            &Call::Get { return_size, reset, room } => {
                return match self.result {
                    _ if return_size <= 0 => Err(DecodingStatus::BadRequest),
                    _ if self.failed => Err(DecodingStatus::InternalError),
                    _ if return_size != 2 => Err(DecodingStatus::BadRequest),
                    None => Err(DecodingStatus::NotReady),
                    Some(_) if room == 0 => Err(DecodingStatus::InternalError),
                    Some(result) => {
                        if reset {
                            (self.result, self.sum) = (None, 0);
                        }
                        Ok(Some(result))
                    }
                };
            }
            Call::Reset => *self = Self::default(),
        }
        Ok(None)
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn the_states_are_those_of_the_specification(
        calls in prop::collection::vec(call(), 1..60),
        running in any::<bool>(),
    ) {
        let frame = if running { Frame::Running } else { Frame::Volume };
        let sessions = Sessions::new(&config(REPETITION), frame).expect("a decoder");
        let mut model = Model::default();
        for call in &calls {
            let status = |status| if status == DecodingStatus::Ok { Ok(None) } else { Err(status) };
            let found = match call {
                Call::Push(bits) => status(sessions.enqueue_syndromes(&enqueue(7, bits))),
                Call::Malformed => {
                    let mut bad = enqueue(7, &[true]);
                    bad[16] = 1;
                    status(sessions.enqueue_syndromes(&bad))
                }
                &Call::Get { return_size, reset, room } => {
                    let request = GetCorrections { decoder_id: 7, return_size, reset };
                    let mut result = vec![0xAA; room];
                    sessions.get_corrections(&request.to_bytes(), &mut result).map(|_| Some(result[0]))
                }
                Call::Reset => status(sessions.reset_decoder(&reset_decoder(7))),
            };
            prop_assert_eq!(found, model.answer(call, frame), "{:?}", call);
        }
    }

    /// Any bytes at all: answered, and another session is none the worse.
    #[test]
    fn garbage_has_an_answer(payloads in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..70), 1..20)) {
        let two = format!("{REPETITION}{}", REPETITION.replace("decoders:\n", "").replace("id: 7", "id: 0"));
        let sessions = Sessions::new(&config(&two), Frame::Volume).expect("decoders");
        for mut payload in payloads {
            if payload.len() >= 8 && payload[7] % 2 == 0 {
                payload[..8].fill(0);
            }
            let _ = sessions.enqueue_syndromes(&payload);
            let _ = sessions.get_corrections(&payload, &mut [0; 4]);
            let _ = sessions.reset_decoder(&payload);
        }
        prop_assert_eq!(sessions.enqueue_syndromes(&enqueue(7, &[true; 3])), DecodingStatus::Ok);
        let question = GetCorrections { decoder_id: 7, return_size: 2, reset: true }.to_bytes();
        let mut result = [0];
        prop_assert_eq!(sessions.get_corrections(&question, &mut result), Ok(1));
        prop_assert_eq!(result, [1]);
    }
}

#[test]
fn payloads_of_every_length_have_their_status() {
    let sessions = Sessions::new(&config(REPETITION), Frame::Volume).expect("a decoder");
    let whole = enqueue(7, &[false; 3]);
    let question = GetCorrections { decoder_id: 7, return_size: 2, reset: false }.to_bytes();
    for len in 0..100 {
        // Longer than needed is as good: CUDA-Q pads.
        let cut = |payload: &[u8]| -> Vec<u8> { payload.iter().copied().chain([0; 100]).take(len).collect() };
        let expected =
            |whole: usize| if len < whole { DecodingStatus::BadRequest } else { DecodingStatus::Ok };
        assert_eq!(sessions.reset_decoder(&cut(&reset_decoder(7))), expected(RESET_DECODER_BYTES), "{len}");
        let _ = sessions.reset_decoder(&reset_decoder(7));
        let mut long = cut(&whole);
        long.truncate(len);
        assert_eq!(sessions.enqueue_syndromes(&long), expected(whole.len()), "{len}");
        let _ = sessions.reset_decoder(&reset_decoder(7));
        assert_eq!(sessions.enqueue_syndromes(&whole), DecodingStatus::Ok);
        let found = sessions.get_corrections(&cut(&question), &mut [0; 8]);
        assert_eq!(found.err().unwrap_or(DecodingStatus::Ok), expected(GET_CORRECTIONS_BYTES), "{len}");
    }
    for id in [-1, 0, 6, 8, i64::MAX, i64::MIN] {
        assert_eq!(sessions.enqueue_syndromes(&enqueue(id, &[true])), DecodingStatus::InvalidDecoder);
        assert_eq!(sessions.reset_decoder(&reset_decoder(id)), DecodingStatus::InvalidDecoder);
        let question = GetCorrections { decoder_id: id, return_size: 2, reset: false };
        let found = sessions.get_corrections(&question.to_bytes(), &mut [0]);
        assert_eq!(found, Err(DecodingStatus::InvalidDecoder));
    }
}

fn surface(distance: u32, rounds: u32, p: f64) -> DetectorErrorModel {
    let experiment = MemoryExperiment { distance, rounds, basis: Basis::Z, noise: CircuitNoise::uniform(p) };
    experiment.detector_error_model().expect("a model")
}

/// Decodes shots of a configuration's errors by sessions, in parts of these sizes again and again, and by `direct`; how many
/// answers differ, and how many are wrong each.
fn compare(text: &str, direct: &mut dyn Decoder, shots: u32, parts: &[usize]) -> (u32, u32, u32) {
    let config = config(text);
    let decoder = &config.decoders[0];
    let mut session = Session::new(decoder, Frame::Volume).expect("a decoder");
    let mut sampler = Sampler::new(&decoder.model(), 3).expect("a model");
    let mut shot = sampler.new_shot();
    let bytes = decoder.observables().div_ceil(8);
    let (mut found, mut expected, mut defects) = (vec![0; bytes], vec![0; bytes], Vec::new());
    let (mut differ, mut wrong, mut directly_wrong) = (0, 0, 0);
    let mut sizes = parts.iter().copied().cycle();
    for _ in 0..shots {
        sampler.sample_into(&mut shot).expect("a shot");
        // Measurements are detectors here.
        let bits: Vec<bool> =
            (0..shot.detectors.len()).map(|i| shot.detectors.get(i) == Some(true)).collect();
        let mut from = 0;
        while from < bits.len() {
            let to = (from + sizes.next().expect("endless")).min(bits.len());
            assert_eq!(session.enqueue(&enqueue(decoder.id(), &bits[from..to])), DecodingStatus::Ok);
            from = to;
        }
        let size = decoder.observables() as i64;
        assert_eq!(session.corrections(size, true, &mut found), Ok(bytes));
        shot.detectors.ones_into(&mut defects);
        direct.decode(&defects, &mut expected).expect("a correction");
        let truth: Vec<u8> = shot.observables.iter_bytes().collect();
        differ += u32::from(found != expected);
        wrong += u32::from(found != truth);
        directly_wrong += u32::from(expected != truth);
    }
    (differ, wrong, directly_wrong)
}

fn plain(text: &str) -> Box<dyn Decoder> {
    let model = config(text).decoders[0].model();
    let graph = DecodingGraph::from_dem(&model, ParallelEdges::Independent).expect("edges");
    let factory = MatchingFactory::new(&graph, MatchingEngine::SparseBlossom);
    factory.and_then(|factory| factory.build()).expect("a decoder")
}

#[test]
fn answers_are_those_of_direct_decoding() {
    let text = write(&surface(5, 5, 0.005), 1, false).expect("written");
    let (differ, wrong, _) = compare(&text, plain(&text).as_mut(), 20_000, &[1, 7, 24, 200]);
    assert_eq!(differ, 0);
    assert!(wrong > 0, "shots that are worth decoding");
}

#[test]
#[ignore = "minutes; `cargo test --release -p ringcall-decoder-service --test decoding_sessions -- --ignored`"]
fn a_million_answers_are_those_of_direct_decoding() {
    let text = write(&surface(7, 7, 0.003), 1, false).expect("written");
    assert_eq!(compare(&text, plain(&text).as_mut(), 1_000_000, &[48]).0, 0);
}

#[test]
fn belief_propagation_answers_as_directly() {
    let model = Experiment { p: 0.002, rounds: 2, ..Experiment::of(Code::Bb72) }
        .detector_error_model()
        .expect("a model");
    let text = write(&model, 1, true).expect("written");
    let settings = BpConfig { max_iterations: u32::MAX, ..BpConfig::relay() };
    let factory = RelayFactory::new(&config(&text).decoders[0].model(), &settings).expect("a graph");
    assert_eq!(compare(&text, factory.build().expect("a decoder").as_mut(), 300, &[36]).0, 0);
}

/// The head of a configuration of a bicycle code, whose decoder has these arguments.
fn bicycle(arguments: &str) -> String {
    let model = Experiment { p: 0.004, rounds: 2, ..Experiment::of(Code::Bb72) }
        .detector_error_model()
        .expect("a model");
    let text = write(&model, 1, true).expect("written");
    let (head, _) = text.split_once("    decoder_custom_args").expect("there");
    format!("{head}    decoder_custom_args: {{{arguments}}}\n")
}

/// Min-sum of three iterations, which often finds nothing: counted, unless ordered statistics follow.
#[test]
fn ordered_statistics_answer_what_does_not_converge() {
    let few = "bp_method: 1, max_iterations: 3";
    for (arguments, order) in [
        ("", None),
        (", use_osd: true", Some(OrderedStatistics::Zero)),
        (", use_osd: true, osd_method: 3, osd_order: 7", Some(OrderedStatistics::CombinationSweep(7))),
    ] {
        let text = bicycle(&format!("{few}{arguments}"));
        let settings = BpConfig { ordered_statistics: order, ..BpConfig::min_sum(3) };
        let decoder = &config(&text).decoders[0];
        let factory = RelayFactory::new(&decoder.model(), &settings).expect("a graph");
        assert_eq!(
            compare(&text, factory.build().expect("a decoder").as_mut(), 200, &[36]).0,
            0,
            "{arguments}"
        );
        let mut session = Session::new(decoder, Frame::Volume).expect("a decoder");
        let mut sampler = Sampler::new(&decoder.model(), 5).expect("a model");
        let mut shot = sampler.new_shot();
        for _ in 0..200 {
            sampler.sample_into(&mut shot).expect("a shot");
            let bytes: Vec<u8> = shot.detectors.iter_bytes().collect();
            session.push(decoder.detectors(), &bytes);
            assert_eq!(session.state(), SessionState::Ready);
        }
        let counts = session.stats();
        assert_eq!((counts.decodes, counts.late), (200, 0));
        assert_eq!(counts.unconverged > 0, order.is_none(), "{arguments}: {counts:?}");
    }
}

/// A decode that would go on for days: one detector of three fires, and each error flips two.
const ENDLESS: &str = "decoders:
- {id: 7, type: nv-qldpc-decoder, block_size: 3, syndrome_size: 3, H_sparse: [0, 1, -1, 1, 2, -1, 2, 0, -1],
   O_sparse: [0, -1], D_sparse: [0, -1, 1, -1, 2, -1],
   decoder_custom_args: {error_rate: 0.1, bp_method: 3, composition: 1, gamma0: 0.125, gamma_dist: [-0.25, 0.5],
     max_iterations: 1000000, srelay_config: {pre_iter: 80, num_sets: 100000}}}
";

#[test]
fn a_deadline_ends_belief_propagation_with_a_guess() {
    let text = ENDLESS.replace("bp_method", "deadline_us: 300, bp_method");
    let sessions = Sessions::new(&config(&text), Frame::Volume).expect("a decoder");
    let question = GetCorrections { decoder_id: 7, return_size: 1, reset: true }.to_bytes();
    for (bits, late) in [([true, false, false], 1), ([true, true, false], 1), ([false, false, true], 2)] {
        assert_eq!(sessions.enqueue_syndromes(&enqueue(7, &bits)), DecodingStatus::Ok);
        assert_eq!(sessions.get_corrections(&question, &mut [0]), Ok(1), "a guess, at least");
        assert_eq!(sessions.total().late, late, "{bits:?}");
    }
    let counts = sessions.stats(7).expect("it is there");
    assert_eq!((counts.decodes, counts.unconverged, sessions.stats(8)), (3, 0, None));
    assert_eq!(counts, sessions.total());
}

/// Cancels decodes under way and later ones, those of a replaced decoder, too.
#[test]
fn a_stop_ends_belief_propagation_with_a_guess() {
    let sessions = Arc::new(Sessions::new(&config(ENDLESS), Frame::Volume).expect("a decoder"));
    assert!(sessions.replace(vec![session(ENDLESS, Frame::Volume)]));
    let decoding = std::thread::spawn({
        let sessions = Arc::clone(&sessions);
        move || [(); 2].map(|()| sessions.enqueue_syndromes(&enqueue(7, &[true, false, false])))
    });
    // Busy: the decode has begun.
    let begin = std::time::Instant::now();
    let question = GetCorrections { decoder_id: 7, return_size: 1, reset: false }.to_bytes();
    while sessions.get_corrections(&question, &mut [0]) != Err(DecodingStatus::Busy) {
        assert!(begin.elapsed() < TIMEOUT, "the decode does not begin");
        std::thread::yield_now();
    }
    assert!(!decoding.is_finished());
    sessions.cancel_after(Duration::from_millis(1));
    assert_eq!(decoding.join().expect("no panic"), [DecodingStatus::Ok; 2]);
    assert_eq!(sessions.get_corrections(&question, &mut [0]), Ok(1));
    assert_eq!(sessions.total().late, 2);
}

#[test]
fn windows_answer_nearly_as_the_whole() {
    let text = write(&surface(3, 12, 0.004), 1, false).expect("written");
    let whole = plain(&text);
    let windows = text.replacen("type: pymatching", "type: sliding_window", 1).replacen(
        "merge_strategy: independent",
        "{window_size: 7, step_size: 3, num_syndromes_per_round: 8, num_boundary_syndromes: 4, \
         inner_decoder_name: pymatching, inner_decoder_params: {merge_strategy: independent}}",
        1,
    );
    let mut whole = whole;
    let (differ, wrong, of_the_whole) = compare(&windows, whole.as_mut(), 4000, &[8]);
    assert!(
        differ < 40 && wrong < of_the_whole + 30,
        "{differ} differ, {wrong} and {of_the_whole} are wrong"
    );
}

#[test]
fn correlations_are_minded_where_they_are_asked_for() {
    let experiment =
        MemoryExperiment { distance: 5, rounds: 5, basis: Basis::Z, noise: CircuitNoise::uniform(0.008) };
    let model = experiment.undecomposed_detector_error_model().expect("a model");
    // By Relay-BP's columns, which are whole errors.
    let text = write(&model, 1, true).expect("written");
    let (head, _) = text.split_once("    decoder_custom_args").expect("there");
    let text = head.replacen("nv-qldpc-decoder", "pymatching", 1);
    let text = format!("{text}    decoder_custom_args: {{enable_correlations: true}}\n");
    let edges = write(&surface(5, 5, 0.008), 1, false).expect("written");
    let (_, correlated, in_one_pass) = compare(&text, plain(&edges).as_mut(), 5000, &[24]);
    assert!(correlated < in_one_pass, "{correlated} and {in_one_pass} wrong");
}

#[test]
fn windows_mind_correlations_where_they_are_asked_for() {
    let noise = CircuitNoise::uniform(0.006);
    let experiment = MemoryExperiment { distance: 5, rounds: 16, basis: Basis::Z, noise };
    let text =
        write(&experiment.undecomposed_detector_error_model().expect("a model"), 1, true).expect("written");
    let (head, _) = text.split_once("    decoder_custom_args").expect("there");
    let head = head.replacen("nv-qldpc-decoder", "sliding_window", 1);
    let text = format!(
        "{head}    decoder_custom_args: {{window_size: 10, step_size: 5, num_syndromes_per_round: 24, \
         num_boundary_syndromes: 12, inner_decoder_name: pymatching, \
         inner_decoder_params: {{enable_correlations: true}}}}\n"
    );
    assert_eq!(config(&text).decoders[0].method(), "correlated sliding window");
    let edges = write(&surface(5, 16, 0.006), 1, false).expect("written");
    let (_, correlated, in_one_pass) = compare(&text, plain(&edges).as_mut(), 3000, &[24]);
    assert!(correlated < in_one_pass, "{correlated} and {in_one_pass} wrong");
}

/// One round over a ring: calls of one decoder, whose requests are written before the first is served.
fn volume(
    client: &mut Client,
    dispatcher: &mut HostDispatcher<Stepped>,
    id: i64,
    bits: &[bool],
) -> (Status, Vec<u8>) {
    let mut slots = Vec::new();
    for (i, part) in (0..).zip(bits.chunks(1)) {
        slots.push(
            client.send(FunctionId::of(names::ENQUEUE_SYNDROMES), i, 0, &enqueue(id, part)).expect("room"),
        );
    }
    let question = GetCorrections { decoder_id: id, return_size: 2, reset: true }.to_bytes();
    slots.push(client.send(FunctionId::of(names::GET_CORRECTIONS), 99, 0, &question).expect("room"));
    dispatcher.step();
    let mut last = None;
    for slot in slots {
        last = Some(client.wait(slot, TIMEOUT).expect("answered"));
    }
    let last = last.expect("the question");
    (last.status, last.result)
}

#[test]
fn a_ring_serves_calls_in_the_order_of_their_requests() {
    let sessions = Arc::new(Sessions::new(&config(REPETITION), Frame::Volume).expect("a decoder"));
    let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 128 }).expect("a ring");
    let table = sessions.serve(FunctionTable::builder()).build(&ring).expect("a table");
    let mut dispatcher =
        HostDispatcher::builder(&ring, table).in_order().build().expect("wired").into_stepper();
    let mut client = Client::new(&ring);
    // Four requests a volume in eight slots, and one more now and then: every slot begins a volume.
    for i in 0..200_usize {
        let bits = [i & 1 == 1, i & 2 == 2, i & 4 == 4];
        let expected = (Status::OK, vec![by_hand(&bits)]);
        assert_eq!(volume(&mut client, &mut dispatcher, 7, &bits), expected, "{i}");
        if i % 3 == 0 {
            let slot =
                client.send(FunctionId::of(names::RESET_DECODER), 0, 0, &reset_decoder(7)).expect("room");
            dispatcher.step();
            assert_eq!(client.wait(slot, TIMEOUT).expect("answered").status, Status::OK);
        }
    }
    let other = volume(&mut client, &mut dispatcher, 8, &[true; 3]);
    assert_eq!(other, (DecodingStatus::InvalidDecoder.status(), vec![]));
}

#[test]
fn four_decoders_are_served_at_once() {
    let one = REPETITION.replace("decoders:\n", "");
    let text: String = (0..4).map(|id| one.replace("id: 7", &format!("id: {id}"))).collect();
    let sessions =
        Arc::new(Sessions::new(&config(&format!("decoders:\n{text}")), Frame::Volume).expect("decoders"));
    std::thread::scope(|scope| {
        for id in 0..4_i64 {
            let sessions = Arc::clone(&sessions);
            scope.spawn(move || {
                let ring = Ring::allocate(RingConfig { slots: 8, slot_bytes: 128 }).expect("a ring");
                let table = sessions.serve(FunctionTable::builder()).build(&ring).expect("a table");
                let mut dispatcher =
                    HostDispatcher::builder(&ring, table).in_order().build().expect("wired").into_stepper();
                let mut client = Client::new(&ring);
                for i in 0..500_usize {
                    let i = i.wrapping_mul(id as usize + 3);
                    let bits = [i & 1 == 1, i & 2 == 2, i & 4 == 4];
                    assert_eq!(
                        volume(&mut client, &mut dispatcher, id, &bits),
                        (Status::OK, vec![by_hand(&bits)])
                    );
                }
            });
        }
    });
}

#[test]
fn calls_allocate_nothing() {
    let text = write(&surface(3, 3, 0.02), 1, false).expect("written");
    let config = config(&text);
    let mut session = Session::new(&config.decoders[0], Frame::Volume).expect("a decoder");
    let mut result = [0; 8];
    let detectors = config.decoders[0].measurements();
    let info = allocation_counter::measure(|| {
        for i in 0..2000_u32 {
            let bits = i.wrapping_mul(0x9E37_79B1).to_le_bytes();
            for from in (0..detectors).step_by(32) {
                session.push(32.min(detectors - from), &bits);
            }
            assert_eq!(session.corrections(1, true, &mut result), Ok(1));
        }
    });
    assert_eq!((info.count_total, session.decodes()), (0, 2000));
}
