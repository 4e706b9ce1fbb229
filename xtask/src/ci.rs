//! CI steps: all checks in order, each under a heading with its time.

use crate::aarch64;
use crate::book;
use crate::browser;
use crate::deq;
use crate::dist;
use crate::dist_compat;
use crate::doca;
use crate::package;
use crate::pages;
use crate::ptx::Cuda;
use crate::publish;
use crate::rdma;
use crate::shell::Shell;
use crate::steps::{self, Outcome};
use crate::tensorrt;
use crate::training;
use crate::wheel;
use anyhow::{Context, Result, anyhow};
use std::thread::{self, ScopedJoinHandle};
use std::time::Instant;

/// One check.
struct Step {
    name: &'static str,
    run: fn(&Shell) -> Result<Outcome>,
}

/// Quick ones first, so that a misplaced space is known before anything is built.
const STEPS: &[Step] = &[
    Step { name: "fmt", run: steps::fmt },
    Step { name: "rooms", run: steps::rooms },
    Step { name: "book", run: book::step },
    Step { name: "publishable", run: publish::step },
    Step { name: "test", run: steps::test },
    Step { name: "browser", run: browser::step },
    Step { name: "pages", run: pages::step },
    Step { name: "ptx", run: steps::ptx },
    Step { name: "rdma", run: rdma::step },
    Step { name: "onnxruntime", run: steps::onnxruntime },
    Step { name: "clippy", run: steps::clippy },
    Step { name: "aarch64", run: aarch64::step },
    Step { name: "docs", run: steps::docs },
    Step { name: "deq", run: deq::step },
    Step { name: "package", run: package::step },
    Step { name: "wheel", run: wheel::step },
    Step { name: "dist", run: dist::step },
    Step { name: "tensorrt", run: tensorrt::step },
    // Takes the libclang of the step before it.
    Step { name: "doca", run: doca::step },
    Step { name: "chaos", run: steps::chaos },
    Step { name: "worlds", run: steps::worlds },
    Step { name: "loom", run: steps::loom },
    Step { name: "sanitize", run: steps::sanitize },
    Step { name: "fuzz", run: |shell| steps::fuzz(shell, steps::FUZZ_SECONDS, None) },
    Step { name: "deny", run: steps::deny },
];

/// The steps that take none of the [`PACKAGES`], first of all.
const BEFORE_PACKAGES: usize = 4;

/// What the other steps take from PyPI and Debian, in their order. Downloaded while the tests are built, it costs no time of
/// its own. A step that still lacks something says so itself.
const PACKAGES: &[fn(&Shell) -> Result<()>] = &[
    |shell| Cuda::find(shell).map(drop),
    rdma::make,
    |shell| steps::onnxruntime_library(shell).map(drop),
    |shell| training::install(shell).map(drop),
    |shell| deq::install(shell).map(drop),
    package::install,
    |shell| wheel::install(shell).map(drop),
    |shell| dist_compat::cmake(shell).map(drop).context("no cmake"),
    |shell| tensorrt::install(shell).map(drop),
    aarch64::install,
    browser::install,
    |shell| pages::install(shell).map(drop).context("no mdBook"),
];

/// The steps' names, for `--only`.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// Runs the steps named in `only`, or all of them.
pub(crate) fn run(shell: &Shell, only: &[String]) -> Result<()> {
    let chosen: Vec<&Step> =
        STEPS.iter().filter(|step| only.is_empty() || only.iter().any(|name| name == step.name)).collect();
    let packages = if only.is_empty() { PACKAGES } else { &[] };
    thread::scope(|scope| {
        let fetched = scope.spawn(|| {
            for fetch in packages {
                if let Err(error) = fetch(shell) {
                    println!("==> not fetched: {error:#}");
                }
            }
        });
        run_all(shell, &chosen, fetched)
    })
}

/// Runs steps in order, up to the first that fails. Those that take packages run after these are `fetched`.
fn run_all(shell: &Shell, chosen: &[&Step], fetched: ScopedJoinHandle<'_, ()>) -> Result<()> {
    let mut fetched = Some(fetched);
    let begun = Instant::now();
    let mut summary = Vec::new();
    let mut skipped = 0;
    for (index, step) in chosen.iter().enumerate() {
        println!("\n==> [{}/{}] {}", index + 1, chosen.len(), step.name);
        let started = Instant::now();
        if index >= BEFORE_PACKAGES
            && let Some(fetched) = fetched.take()
        {
            fetched.join().map_err(|_| anyhow!("fetching packages panicked"))?;
        }
        let outcome = (step.run)(shell);
        let seconds = started.elapsed().as_secs_f64();
        let line = match &outcome {
            Ok(Outcome::Done) => format!("{}: ok in {seconds:.1} s", step.name),
            Ok(Outcome::Skipped(why)) => {
                skipped += 1;
                format!("{}: skipped: {why}", step.name)
            }
            Err(_) => format!("{}: FAILED after {seconds:.1} s", step.name),
        };
        println!("==> {line}");
        summary.push(line);
        if let Err(error) = outcome {
            let total = begun.elapsed().as_secs_f64();
            println!(
                "\nci result: FAILED. {} steps passed; 1 failed ({}); {skipped} skipped; {} not run; \
                 finished in {total:.1}s",
                index - skipped,
                step.name,
                chosen.len() - index - 1
            );
            return Err(error).with_context(|| format!("step `{}` (`cargo xtask ci --only {0}`)", step.name));
        }
    }
    println!("\n{}", summary.join("\n"));
    println!(
        "\nci result: ok. {} steps passed; 0 failed; {skipped} skipped; finished in {:.1}s",
        chosen.len() - skipped,
        begun.elapsed().as_secs_f64()
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_step_has_a_name_of_its_own() {
        let mut names = names();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
