//! Runs of any length in sessions: answers as of whole runs, measurements in any portions, and runs that are not whole.

use rand::{RngExt, SeedableRng};
use rand_xoshiro::Xoshiro256PlusPlus as Rng;
use ringcall::wire::decoding::DecodingStatus;
use ringcall_decoder_service::decoding_server::{Config, Frame, Session, SessionState, write_endless};
use ringcall_matching::{
    EndlessConfig, EndlessDecoder, GraphBuilder, SharedEndlessConfig, SharedEndlessDecoder,
};
use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
use ringcall_qec::code::Basis;
use ringcall_qec::decode::{Decoder, DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
use ringcall_qec::sample::Sampler;
use std::num::NonZeroUsize;

fn session(text: &str) -> Session {
    let config: Config = text.parse().expect("a valid configuration");
    Session::new(&config.decoders[0], Frame::Volume).expect("a decoder")
}

/// Sends bits in random portions, of at most a given size.
fn send(session: &mut Session, bits: &[bool], most: usize, rng: &mut Rng) {
    let mut left = bits;
    while !left.is_empty() {
        let (now, later) = left.split_at(rng.random_range(1..=most.min(left.len())));
        let bytes: Vec<u8> = now
            .chunks(8)
            .map(|bits| (0..).zip(bits).fold(0, |byte, (i, &bit)| byte | u8::from(bit) << i))
            .collect();
        session.push(now.len(), &bytes);
        left = later;
    }
}

fn corrections(session: &mut Session) -> Result<u8, DecodingStatus> {
    let mut result = [0];
    session.corrections(1, true, &mut result).map(|_| result[0])
}

/// A bit that is measured again and again, and its parity with the measurement before: as many rounds as the text describes.
fn bit_that_is_measured(rounds: usize) -> String {
    let list = |rows: Vec<Vec<usize>>| {
        let rows =
            rows.iter().map(|row| row.iter().map(|column| format!("{column}, ")).collect::<String>() + "-1");
        rows.collect::<Vec<_>>().join(", ")
    };
    // Column t is a flip of the bit in round t; column rounds + t a wrong measurement there.
    let wrong = |t: usize| rounds + t;
    let checks = (0..rounds).map(|t| {
        let mut row = vec![t];
        row.extend(t.checked_sub(1).map(wrong));
        row.extend((t + 1 < rounds).then(|| wrong(t)));
        row
    });
    let measured = (0..rounds).map(|t| t.checked_sub(1).into_iter().chain([t]).collect());
    let columns = 2 * rounds - 1;
    let priors: Vec<_> = (0..columns).map(|column| if column < rounds { "0.02" } else { "0.1" }).collect();
    format!(
        "decoders:\n- id: 0\n  type: endless\n  block_size: {columns}\n  syndrome_size: {rounds}\n  H_sparse: [{}]\n  \
         O_sparse: [{}]\n  D_sparse: [{}]\n  error_rate_vec: [{}]\n  decoder_custom_args: {{num_syndromes_per_round: 1}}\n",
        list(checks.collect()),
        list(vec![(0..rounds).collect()]),
        list(measured.collect()),
        priors.join(", "),
    )
}

#[test]
fn detectors_look_back_over_rounds() {
    look_back_over_rounds(1);
}

/// The same where two or three cores share each run.
#[test]
fn several_cores_share_a_run() {
    look_back_over_rounds(2);
    look_back_over_rounds(3);
}

fn look_back_over_rounds(cores: usize) {
    let mut rng = Rng::seed_from_u64(2);
    let text = bit_that_is_measured(8).replace("round: 1}", &format!("round: 1, cores: {cores}}}"));
    let mut session = session(&text);
    let least = session.least_rounds().expect("runs have any length");
    let mut wrong = 0;
    for turn in 0..300 {
        let rounds = least + turn % 90;
        let (mut bit, mut bits) = (false, Vec::new());
        for t in 0..rounds {
            bit ^= rng.random_bool(0.02);
            // The last measurement is of the bit itself.
            bits.push(bit ^ (t + 1 < rounds && rng.random_bool(0.1)));
        }
        let mut graph = GraphBuilder::new();
        let weight = |p: f64| ((1.0 - p) / p).ln();
        for t in 0..rounds as u32 {
            graph.boundary_edge(t, weight(0.02), &[0]).unwrap();
            if t > 0 {
                graph.edge(t - 1, t, weight(0.1), &[]).unwrap();
            }
        }
        let mut whole = ringcall_matching::MwpmDecoder::new(graph.build().unwrap());
        let fired = |t: usize| bits[t] != (t > 0 && bits[t - 1]);
        let defects: Vec<u32> = (0..rounds).filter(|&t| fired(t)).map(|t| t as u32).collect();
        let expected = whole.decode(&defects).unwrap().observables()[0] as u8;
        send(&mut session, &bits, 1 + turn % 70, &mut rng);
        assert_eq!(session.state(), SessionState::Collecting);
        assert_eq!(corrections(&mut session), Ok(expected), "{rounds} rounds");
        wrong += usize::from((expected == 1) != bit);
    }
    assert_eq!((session.decodes(), session.lost_helpers()), (300, 0));
    assert!(session.forced() <= 3, "{} decisions might have been others", session.forced());
    assert!(wrong < 30, "{wrong} of 300 runs were decoded wrongly");
}

/// Runs that are too short are never ready, runs that continue have not ended, and a reset clears the run.
#[test]
fn corrections_are_ready_when_a_run_is_whole() {
    let mut rng = Rng::seed_from_u64(3);
    let mut session = session(&bit_that_is_measured(8));
    let least = session.least_rounds().unwrap();
    let run = |rounds: usize| vec![true; rounds];
    for rounds in 1..least {
        assert_eq!(corrections(&mut session), Err(DecodingStatus::NotReady));
        session.push(1, &[u8::from(rounds == 1)]);
    }
    session.reset();
    send(&mut session, &run(least), 5, &mut rng);
    // A flip in the first round; asked twice, then cleared.
    let mut result = [0];
    assert_eq!(session.corrections(1, false, &mut result), Ok(1));
    assert_eq!((result, session.state()), ([1], SessionState::Ready));
    assert_eq!(
        (corrections(&mut session), corrections(&mut session)),
        (Ok(1), Err(DecodingStatus::NotReady))
    );
    // What follows is another run; a million measurements take no more memory than a thousand.
    let measured = allocation_counter::measure(|| {
        for _ in 0..1000 {
            session.push(1000, &[0; 125]);
        }
        assert_eq!(corrections(&mut session), Ok(0));
    });
    assert_eq!(measured.count_total, 0);
    for wrong in [0, 2, -1] {
        session.push(8 * least, &vec![0xFF; least]);
        assert_eq!(session.corrections(wrong, true, &mut result), Err(DecodingStatus::BadRequest));
    }
}

/// A surface code over runs that are longer than the one the configuration describes, in one pass and in two, on one core and on
/// two: answers are those of the decoder that is given rounds of defects, and as good as those of whole runs.
#[test]
fn runs_of_a_surface_code_are_decoded_round_by_round() {
    const RUNS: u32 = 150;
    let experiment = |rounds| MemoryExperiment {
        distance: 3,
        rounds,
        basis: Basis::Z,
        noise: CircuitNoise::uniform(0.003),
    };
    let short = experiment(8).detector_error_model().unwrap();
    let layers: Vec<u32> =
        experiment(8).detector_layout().unwrap().detectors().iter().map(|d| d.layer).collect();
    let two = NonZeroUsize::new(2).unwrap();
    for (correlated, engine, cores) in [
        (false, MatchingEngine::SparseBlossom, NonZeroUsize::MIN),
        (true, MatchingEngine::CorrelatedBlossom, NonZeroUsize::MIN),
        (true, MatchingEngine::CorrelatedBlossom, two),
    ] {
        let text = write_endless(&short, 1, correlated, (8, 4), cores).unwrap();
        let mut session = session(&text);
        let graph = DecodingGraph::from_dem(&short, ParallelEdges::Independent).unwrap();
        let mut config = EndlessConfig::default();
        config.correlations = correlated;
        let short = MatchingDecoder::new(&graph, engine).unwrap();
        let mut endless = EndlessDecoder::new(short.engine().graph(), &layers, &config).unwrap();
        assert_eq!(endless.makes_second_pass(), correlated);
        let mut config = SharedEndlessConfig::new(cores);
        config.correlations = correlated;
        let least = if cores == two {
            let shared = SharedEndlessDecoder::new(short.engine().graph(), &layers, &config, |_| {}).unwrap();
            shared.least_rounds()
        } else {
            endless.least_rounds()
        };
        assert_eq!(session.least_rounds(), Some(least));
        let mut rng = Rng::seed_from_u64(4);
        let (mut wrong, mut wrong_whole, mut differ) = (0, 0, 0);
        for rounds in [50, 51, 200] {
            let long = experiment(rounds).detector_error_model().unwrap();
            let layout = experiment(rounds).detector_layout().unwrap();
            let graph = DecodingGraph::from_dem(&long, ParallelEdges::Independent).unwrap();
            let mut whole = MatchingDecoder::new(&graph, engine).unwrap();
            let mut sampler = Sampler::new(&long, u64::from(rounds)).unwrap();
            let mut shot = sampler.new_shot();
            let mut defects = Vec::new();
            for _ in 0..RUNS / 3 {
                sampler.sample_into(&mut shot).unwrap();
                defects.clear();
                shot.detectors.ones_into(&mut defects);
                let mut rows: Vec<Vec<u32>> = vec![Vec::new(); rounds as usize + 1];
                let mut sizes = vec![0; rows.len()];
                for (id, detector) in (0..).zip(layout.detectors()) {
                    let layer = detector.layer as usize;
                    if shot.detectors.get(id) == Some(true) {
                        rows[layer].push(sizes[layer]);
                    }
                    sizes[layer] += 1;
                }
                let before = rows.len() - endless.tail_rounds();
                for row in &rows[..before] {
                    endless.push_round(row).unwrap();
                }
                let tail: Vec<&[u32]> = rows[before..].iter().map(Vec::as_slice).collect();
                let expected = endless.finish(&tail).unwrap()[0] as u8;
                let bits: Vec<bool> =
                    (0..long.num_detectors).map(|at| shot.detectors.get(at) == Some(true)).collect();
                send(&mut session, &bits, 40, &mut rng);
                let found = corrections(&mut session).unwrap();
                differ += u32::from(found != expected);
                let mut of_whole = [0];
                whole.decode(&defects, &mut of_whole).unwrap();
                let truth = u8::from(shot.observables.get(0) == Some(true));
                wrong += u32::from(found != truth);
                wrong_whole += u32::from(of_whole[0] != truth);
            }
        }
        eprintln!(
            "{correlated} on {cores}: differ {differ} wrong {wrong} whole {wrong_whole} forced {}",
            session.forced()
        );
        // The weights differ by rounding, since probabilities were added in another order.
        assert!(differ <= 2, "{differ} of {RUNS} answers are another");
        assert!(wrong < RUNS / 2 && wrong <= wrong_whole + 12, "{wrong} wrong, {wrong_whole} of whole runs");
    }
}

#[test]
fn what_does_not_repeat_is_refused() {
    let refused = |text: &str| match text.parse::<Config>() {
        Err(error) => error.to_string(),
        Ok(config) => Session::new(&config.decoders[0], Frame::Volume).unwrap_err().to_string(),
    };
    let good = bit_that_is_measured(8);
    assert!(refused(&bit_that_is_measured(2)).contains("alike"), "{}", refused(&bit_that_is_measured(2)));
    let reason = refused(&good.replace("num_syndromes_per_round: 1", "num_syndromes_per_round: 3"));
    assert!(reason.contains("no whole rounds of 3"), "{reason}");
    let reason = refused(&good.replace("{num_syndromes_per_round: 1}", "{margin: 1}"));
    assert!(reason.contains("this key is missing"), "{reason}");
    for (more, why) in [
        ("cores: 0", "from 1 to 64"),
        ("cores: 65", "from 1 to 64"),
        ("cores: 2, margin: 9", "in place of a margin"),
    ] {
        let reason = refused(&good.replace("{num", &format!("{{{more}, num")));
        assert!(reason.contains(why), "{more}: {reason}");
    }
    let many = |id: u32| good.replace("{num", "{cores: 64, num").replace("id: 0", &format!("id: {id}"));
    let all: String = (0..5).map(|id| many(id).replace("decoders:\n", "")).collect();
    let reason = refused(&format!("decoders:\n{all}"));
    assert!(reason.contains("315 cores besides one for each decoder"), "{reason}");
    let correlated = good.replace("{num", "{enable_correlations: true, num");
    let parts = |rows: &str| format!("{{parts_sparse: [{rows}], num");
    for (rows, why) in [
        ("-1, -1".to_owned(), "2 rows for 15 columns"),
        ("1, -1, ".to_owned() + &"-1, ".repeat(13) + "-1", "do not add up to it"),
        ("1, 2, -1, 0, 2, -1, ".to_owned() + &"-1, ".repeat(12) + "-1", "has a part of several parts"),
    ] {
        let reason = refused(&correlated.replace("{enable", &parts(&rows).replace("num", "enable")));
        assert!(reason.contains(why), "{reason}");
        let reason = refused(&good.replace("{num", &parts(&("-1, ".repeat(14) + "-1"))));
        assert!(reason.contains("minds correlations"), "{reason}");
    }
    // Detectors of other measurements in each round.
    let reason = refused(&good.replace(
        "0, 1, -1, 1, 2, -1, 2, 3, -1, 3, 4, -1, 4, 5",
        "0, 1, -1, 1, 2, -1, 0, 3, -1, 1, 4, -1, 2, 5",
    ));
    assert!(reason.contains("the same measurements"), "{reason}");
}
