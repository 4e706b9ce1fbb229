//! `ringcall explain`: one shot decoded by matching, as an animated picture.

mod growth;
mod layout;
mod picture;

use crate::experiment::ExperimentArgs;
use crate::memory::MemoryLimit;
use crate::number;
use crate::output;
use crate::report::{Provenance, page};
use crate::usage::Misuse;
use anyhow::{Context, Result, bail};
use growth::Growth;
use maud::{Markup, PreEscaped, html};
use ringcall_decoder_service::Problem;
use ringcall_matching::{MatchedPair, MatchingGraph};
use ringcall_qec::decode::{DecodingGraph, MatchingDecoder, MatchingEngine, ParallelEdges};
use ringcall_qec::sample::Sampler;
use ringcall_qec::shots::{Shot, ShotFormat, ShotLayout, ShotReader};
use std::fs::File;
use std::io::{BufReader, Write};
use std::path::PathBuf;

/// Graphs with more edges make pictures too large for a browser.
const MOST_EDGES: usize = 40_000;

/// Decodes one shot by matching, and draws how: the lattice, the defects, regions that grow around them, the matching.
///
/// The picture is a page that fetches nothing and runs no script; it plays again and again, and is still where the reader prefers
/// no motion. Of a model without coordinates the detectors stand in rows.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    experiment: ExperimentArgs,
    /// Shots of a file, in place of sampled ones
    #[arg(long = "in", alias = "shots", value_name = "FILE")]
    input: Option<PathBuf>,
    /// Format of the shots of --in: 01, b8, r8, ptb64, hits or dets
    #[arg(long = "in-format", aliases = ["in_format", "shots-format"], value_name = "FORMAT", default_value = "b8", requires = "input")]
    shots_format: ShotFormat,
    /// The true observables follow the detectors in each shot of --in
    #[arg(
        long = "in-includes-appended-observables",
        aliases = ["in_includes_appended_observables", "shots-with-observables"],
        requires = "input"
    )]
    shots_with_observables: bool,
    /// Seed of sampled shots
    #[arg(long, default_value_t = 1, value_parser = number::count, conflicts_with = "input")]
    seed: u64,
    /// Which shot, counted from 0 [default: the first with a defect]
    #[arg(long, value_name = "K", value_parser = number::count)]
    shot: Option<u64>,
    #[command(flatten)]
    memory: MemoryLimit,
    /// Where the page goes, or to standard output for `-`; the picture alone where FILE ends in .svg
    #[arg(long, alias = "out", short, value_name = "FILE", default_value = "explain.html")]
    output: PathBuf,
}

/// A shot with its true observables, if known.
struct Chosen {
    number: u64,
    defects: Vec<u32>,
    /// The observables that flipped, if known.
    truth: Option<Vec<u32>>,
}

/// The decoder's result for a shot.
pub(super) struct Explained<'a> {
    model: &'a ringcall_qec::dem::DetectorErrorModel,
    graph: &'a MatchingGraph,
    defects: &'a [u32],
    pairs: Vec<MatchedPair>,
    correction: Vec<u32>,
    predicted: Vec<u32>,
    weight: f64,
}

/// Decodes, draws, and prints where the picture is.
pub(crate) fn run(args: &Args) -> Result<()> {
    output::check_writable(&args.output)?;
    let problem = args.experiment.problem(args.memory, |estimate| estimate)?;
    let Some(kind) = problem.matching() else {
        bail!(Misuse(format!("explain draws matching, and {} decodes this model", problem.decoder_name())));
    };
    let chosen = choose(args, &problem)?;
    let (page, svg) = explain(&problem, kind, &chosen)?;
    let text = if page::has_extension(&args.output, "svg") { svg } else { page };
    output::write_text(&args.output, &text)?;
    if args.output.as_os_str() != "-" {
        let (number, path) = (chosen.number, args.output.display());
        writeln!(std::io::stdout(), "shot {number}, {} defects: {path}", chosen.defects.len())
            .context("standard output")?;
    }
    Ok(())
}

/// Reads or samples the next shot. Returns whether there was one.
type Next = Box<dyn FnMut(&mut Shot) -> Result<bool>>;

/// The requested shot.
fn choose(args: &Args, problem: &Problem) -> Result<Chosen> {
    let (detectors, observables) = (problem.detectors(), problem.observables());
    let mut next: Next;
    let (layout, known) = match &args.input {
        None => {
            let mut sampler = Sampler::new(problem.model(), args.seed)?;
            let layout = sampler.layout();
            next = Box::new(move |shot| Ok(sampler.sample_into(shot).map(|()| true)?));
            (layout, true)
        }
        Some(path) => {
            let file = File::open(path).with_context(|| format!("cannot open {}", path.display()))?;
            let layout = if args.shots_with_observables {
                ShotLayout::with_observables(detectors, observables)
            } else {
                ShotLayout::detectors(detectors)
            };
            let mut reader = ShotReader::new(BufReader::new(file), args.shots_format, layout)?;
            let shown = path.display().to_string();
            next = Box::new(move |shot| reader.read(shot).with_context(|| shown.clone()));
            (layout, args.shots_with_observables)
        }
    };
    let mut shot = Shot::new(layout);
    let mut number = 0;
    while next(&mut shot)? {
        let wanted = args.shot.map_or(shot.detectors.count_ones() > 0, |wanted| wanted == number);
        if wanted {
            let truth = known.then(|| shot.observables.iter_ones().collect());
            return Ok(Chosen { number, defects: shot.detectors.iter_ones().collect(), truth });
        }
        number += 1;
        // Without noise no sampled shot has a defect.
        if args.shot.is_none() && number > 1_000_000 {
            bail!("no shot of a million has a defect; --shot names one");
        }
    }
    match args.shot {
        Some(wanted) => bail!("no shot {wanted}: there are {number}, counted from 0"),
        None => bail!("none of {number} shots has a defect; --shot names one"),
    }
}

/// The page, and the picture in it.
fn explain(problem: &Problem, kind: MatchingEngine, chosen: &Chosen) -> Result<(String, String)> {
    let model = problem.model();
    let graph = DecodingGraph::from_dem(model, ParallelEdges::Independent)?;
    if graph.edges().len() > MOST_EDGES {
        bail!("the matching graph has {} edges: a picture has at most {MOST_EDGES}", graph.edges().len());
    }
    let decoder = MatchingDecoder::new(&graph, kind)?;
    let mut engine = decoder.engine().clone();
    let solution = engine.decode(&chosen.defects)?;
    let predicted = (0..model.num_observables).filter(|&o| solution.flips(o as usize)).collect();
    let (pairs, weight) = (solution.pairs().to_vec(), solution.weight());
    let correction = engine.correction().to_vec();
    let explained = Explained {
        model,
        graph: engine.graph(),
        defects: &chosen.defects,
        pairs,
        correction,
        predicted,
        weight,
    };
    let growth = Growth::new(&explained);
    let svg = picture::svg(&explained, &growth);
    let page = page(&explained, &growth, kind, chosen, &svg);
    let file = svg.replacen("<svg ", "<svg xmlns=\"http://www.w3.org/2000/svg\" ", 1);
    Ok((page, page::described(&file, &Provenance::now())))
}

fn page(
    explained: &Explained<'_>,
    growth: &Growth,
    kind: MatchingEngine,
    chosen: &Chosen,
    svg: &str,
) -> String {
    let Explained { model, graph, defects, pairs, predicted, weight, correction } = explained;
    let observables = |list: &[u32]| match list {
        [] => "none".to_owned(),
        list => list.iter().map(|o| format!("L{o}")).collect::<Vec<_>>().join(" "),
    };
    let outcome = chosen.truth.as_ref().map(|truth| {
        let outcome = if truth == predicted { "right" } else { "wrong: a logical error" };
        format!("{} ({outcome})", observables(truth))
    });
    let facts = [
        ("matching", kind.name().to_owned()),
        ("detectors", model.num_detectors.to_string()),
        ("edges of the matching graph", graph.num_edges().to_string()),
        ("defects", defects.len().to_string()),
        ("edges of the correction", correction.len().to_string()),
        ("its weight", format!("{weight:.3}")),
        ("observables predicted to flip", observables(predicted)),
        ("observables that flipped", outcome.unwrap_or_else(|| "not known".to_owned())),
    ];
    let body = html! {
        section id="picture" {
            h2 { "Shot " (chosen.number) ", decoded" }
            (PreEscaped(svg))
            (steps())
        }
        section id="facts" {
            h2 { "What the decoder found" }
            table.settings { @for (key, value) in facts { tr { td { (key) } td { (value) } } } }
        }
        section id="pairs" {
            h2 { "Matched pairs" }
            (page::table(["defect", "with", "weight of the path"], pairs.iter().map(|pair| [
                format!("D{}", pair.a),
                pair.b.map_or_else(|| "the boundary".to_owned(), |b| format!("D{b}")),
                growth.distance(pair).map_or_else(|| "-".to_owned(), |weight| format!("{weight:.3}")),
            ])))
        }
    };
    page::page("Ringcall explain", &body, &Provenance::now())
}

fn steps() -> Markup {
    html! {
        p.note {
            "Grey: the matching graph, a point for each detector (time goes up), a line for each error that flips one or two of them. "
            "Red: the defects, the detectors that fired. Blue: regions that grow around the defects at one speed until the path to "
            "each one's partner is covered. Green: the matching, the lightest set of errors that explains every defect. (The "
            "algorithm's regions also shrink where three or more compete, which is not drawn; distances are those of one pass.)"
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_qec::circuit::{CircuitNoise, MemoryExperiment};
    use ringcall_qec::code::Basis;

    fn problem() -> Problem {
        let experiment =
            MemoryExperiment { distance: 3, rounds: 3, basis: Basis::Z, noise: CircuitNoise::uniform(0.01) };
        Problem::new(experiment.detector_error_model().expect("a model")).expect("a problem")
    }

    #[test]
    fn every_defect_and_every_edge_of_the_correction_is_drawn() {
        let problem = problem();
        let mut sampler = Sampler::new(problem.model(), 3).expect("a sampler");
        let mut shot = sampler.new_shot();
        for number in 0..50 {
            sampler.sample_into(&mut shot).expect("a shot");
            let defects: Vec<u32> = shot.detectors.iter_ones().collect();
            let truth = Some(shot.observables.iter_ones().collect());
            let chosen = Chosen { number, defects, truth };
            let (page, svg) = explain(&problem, MatchingEngine::SparseBlossom, &chosen).expect("a picture");
            assert_eq!(svg.matches("class=\"defect\"").count(), chosen.defects.len());
            let edges = page.split("edges of the correction</td><td>").nth(1).expect("a count");
            let edges: usize = edges.split('<').next().and_then(|n| n.parse().ok()).expect("a number");
            assert_eq!(svg.matches("class=\"match\"").count(), edges);
            assert!(!page.contains("NaN") && !page.contains("<script"), "shot {number}");
        }
    }
}
