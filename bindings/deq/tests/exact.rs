//! Answers against every set of errors there is, on small hypergraphs.

use proptest::prelude::*;
use ringcall_deq::{Config, EdgeReweight, Hypergraph, HypergraphDecoder, LossSite, NO_LOSS, Refusal};

/// Errors of one detector or two, no two alike, with their probabilities.
type Errors = Vec<(Vec<u64>, f64)>;

const DETECTORS: u64 = 6;

fn probability() -> impl Strategy<Value = f64> {
    prop_oneof![6 => 0.001..0.5f64, 2 => 0.5..0.999f64, 1 => Just(0.0), 1 => Just(0.5)]
}

fn errors() -> impl Strategy<Value = Errors> {
    let error = (0..DETECTORS, 0..=DETECTORS, probability()).prop_map(|(u, v, p)| {
        let members = if v == u || v == DETECTORS { vec![u] } else { vec![u.min(v), u.max(v)] };
        (members, p)
    });
    prop::collection::vec(error, 1..11).prop_map(|mut errors| {
        errors.sort_by(|a, b| a.0.cmp(&b.0));
        errors.dedup_by(|a, b| a.0 == b.0);
        errors
    })
}

struct Flat {
    probabilities: Vec<f64>,
    offsets: Vec<u64>,
    members: Vec<u64>,
}

impl Flat {
    fn of(errors: &Errors) -> Self {
        let mut flat = Self { probabilities: Vec::new(), offsets: vec![0], members: Vec::new() };
        for (members, p) in errors {
            flat.probabilities.push(*p);
            flat.members.extend(members);
            flat.offsets.push(flat.members.len() as u64);
        }
        flat
    }

    fn decoder(&self, config: Config) -> HypergraphDecoder {
        let graph = Hypergraph::new(DETECTORS, &self.probabilities, &self.offsets, &self.members, None);
        HypergraphDecoder::new(&graph.unwrap(), config).unwrap()
    }
}

fn flipped(errors: &Errors, chosen: impl Iterator<Item = usize>) -> u8 {
    chosen.flat_map(|index| &errors[index].0).fold(0, |bits, detector| bits ^ (0x80 >> detector))
}

/// Minus the logarithm of the likelihood of just these errors.
fn cost(probabilities: &[f64], chosen: impl Fn(usize) -> bool) -> f64 {
    let of = |(index, p): (usize, &f64)| if chosen(index) { -p.ln() } else { -(1.0 - p).ln() };
    probabilities.iter().enumerate().map(of).sum()
}

fn least(errors: &Errors, probabilities: &[f64], syndrome: u8) -> f64 {
    let sets = 0..1usize << errors.len();
    let explains = |set: &usize| flipped(errors, (0..errors.len()).filter(|i| set >> i & 1 == 1)) == syndrome;
    sets.filter(explains).map(|set| cost(probabilities, |i| set >> i & 1 == 1)).fold(f64::INFINITY, f64::min)
}

fn check(
    errors: &Errors,
    probabilities: &[f64],
    syndrome: u8,
    answer: Result<&[u64], Refusal>,
) -> Result<(), TestCaseError> {
    let least = least(errors, probabilities, syndrome);
    match answer {
        Err(Refusal::Failed(_)) => prop_assert_eq!(least, f64::INFINITY),
        Err(other) => prop_assert!(false, "{}", other),
        Ok(answer) => {
            prop_assert!(answer.is_sorted_by(|a, b| a < b));
            prop_assert_eq!(flipped(errors, answer.iter().map(|e| *e as usize)), syndrome);
            let found = cost(probabilities, |i| answer.contains(&(i as u64)));
            prop_assert!((found - least).abs() < 0.01, "{} instead of {}", found, least);
        }
    }
    Ok(())
}

proptest! {
    /// With the probabilities of the graph, then with those of a request, then with the graph's again.
    #[test]
    fn answers_are_the_likeliest(
        errors in errors(),
        syndrome in 0u8..64,
        weights in prop::collection::vec((any::<prop::sample::Index>(), prop_oneof![8 => probability(), 1 => Just(1.0)]), 0..6),
    ) {
        let syndrome = syndrome << 2;
        let flat = Flat::of(&errors);
        let mut decoder = flat.decoder(Config::default());
        check(&errors, &flat.probabilities, syndrome, decoder.decode(&[syndrome], &[], NO_LOSS))?;

        let mut now = flat.probabilities.clone();
        let mut reweights: Vec<EdgeReweight> = Vec::new();
        for (index, probability) in weights {
            let edge = index.index(errors.len());
            if reweights.iter().all(|other| other.edge != edge as u64) {
                now[edge] = probability;
                reweights.push(EdgeReweight { edge: edge as u64, probability });
            }
        }
        check(&errors, &now, syndrome, decoder.decode(&[syndrome], &reweights, NO_LOSS))?;
        check(&errors, &flat.probabilities, syndrome, decoder.decode(&[syndrome], &[], NO_LOSS))?;
    }

    /// A loss is the same as the probabilities that it comes to.
    #[test]
    fn losses_are_probabilities(
        errors in errors(),
        syndrome in 0u8..64,
        first in 0.0..1.0f64,
        second in 0.0..1.0f64,
        fraction in 0.05..1.0f64,
        edges in prop::collection::vec(any::<prop::sample::Index>(), 2),
    ) {
        let syndrome = syndrome << 2;
        let flat = Flat::of(&errors);
        let mut decoder = flat.decoder(Config { loss_weight_fraction: fraction, ..Config::default() });
        let [a, b] = [edges[0].index(errors.len()), edges[1].index(errors.len())];
        let [source, continuation] = [[a as u64], [b as u64]];
        // What was lost at the first site was lost at the second, too, where another loss may have begun.
        let sites = [
            LossSite { source_edges: &source, probability: first, children: &[1], ..LossSite::default() },
            LossSite { continuation_edges: &continuation, probability: second, ..LossSite::default() },
        ];
        let odd = |p: f64, q: f64| p * (1.0 - q) + q * (1.0 - p);
        let mut caused = vec![None; errors.len()];
        for (edge, p) in [(a, first), (b, 1.0 - (1.0 - first) * (1.0 - second))] {
            caused[edge] = Some(caused[edge].map_or(p, |before| odd(before, p)));
        }
        let mut now = flat.probabilities.clone();
        for (p, caused) in now.iter_mut().zip(caused) {
            if let Some(caused) = caused {
                let one = odd(*p, caused);
                *p = 1.0 / (1.0 + ((1.0 - one) / one).max(1.0).powf(fraction));
            }
        }
        check(&errors, &now, syndrome, decoder.decode(&[syndrome], &[], &sites[..]))?;
        check(&errors, &flat.probabilities, syndrome, decoder.decode(&[syndrome], &[], NO_LOSS))?;
    }
}

#[test]
fn bad_requests_are_refused_and_forgotten() {
    let errors = vec![(vec![0], 0.1), (vec![0, 1], 0.1), (vec![1], 0.05)];
    let mut decoder = Flat::of(&errors).decoder(Config::default());
    let set = |edge, probability| EdgeReweight { edge, probability };
    let site = LossSite { source_edges: &[7], probability: 0.1, ..LossSite::default() };
    let syndrome: &[u8] = &[0x80];
    for (bytes, reweights, sites, why) in [
        (&[0x80, 0][..], &[][..], NO_LOSS, "2 bytes"),
        (&[], &[], NO_LOSS, "0 bytes"),
        (syndrome, &[set(0, 0.9), set(3, 0.1)], NO_LOSS, "edge 3"),
        (syndrome, &[set(0, 0.9), set(0, 0.9)], NO_LOSS, "twice"),
        (syndrome, &[set(0, 0.9), set(1, 1.5)], NO_LOSS, "1.5"),
        (syndrome, &[set(0, f64::NAN)], NO_LOSS, "NaN"),
        (syndrome, &[set(0, 0.9)], &[site][..], "edge 7"),
    ] {
        let error = decoder.decode(bytes, reweights, sites).unwrap_err();
        assert!(matches!(&error, Refusal::Argument(said) if said.contains(why)), "{error}");
        assert_eq!(decoder.decode(syndrome, &[], NO_LOSS), Ok(&[0][..]), "{why}");
    }
    // Padding is not looked at.
    assert_eq!(decoder.decode(&[0x83], &[], NO_LOSS), Ok(&[0][..]));
}

/// Two passes find what one does not: an error of several parts.
#[test]
fn correlated_matching_uses_errors_of_several_parts() {
    // As in the example of `GraphBuilder::error`: what flips 0 and 1 flips 2 as well.
    let errors = vec![
        (vec![0, 1, 2], 0.01),
        (vec![0, 1], 1e-9),
        (vec![2], 1e-9),
        (vec![2, 3], 0.001),
        (vec![3], 0.02),
        (vec![0], 0.001),
        (vec![1], 0.001),
    ];
    let flat = Flat::of(&errors);
    let decode = |matching| {
        let mut decoder = flat.decoder(Config { matching, ..Config::default() });
        (decoder.makes_second_pass(), decoder.decode(&[0b1110_0000], &[], NO_LOSS).unwrap().to_vec())
    };
    assert_eq!(decode(ringcall_deq::Matching::Correlated), (true, vec![1, 2]));
    assert!(!decode(ringcall_deq::Matching::Plain).0);
}
