//! CI steps: all checks, each under a heading with its time, in three lanes where all of them run.

use crate::aarch64;
use crate::book;
use crate::browser;
use crate::deq;
use crate::dist;
use crate::dist_compat;
use crate::doca;
use crate::files;
use crate::package;
use crate::pages;
use crate::ptx::Cuda;
use crate::publish;
use crate::rdma;
use crate::shell::{self, Shell};
use crate::steps::{self, Outcome};
use crate::tensorrt;
use crate::training;
use crate::wheel;
use anyhow::{Context, Result, anyhow, ensure};
use procfs::process::Process;
use std::env;
use std::ffi::OsStr;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Instant;

/// One check.
struct Step {
    name: &'static str,
    lane: Lane,
    run: fn(&Shell) -> Result<Outcome>,
}

/// Where all steps are run, a step runs in one of three lanes. Each lane has the processor time that the others leave idle.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Lane {
    /// One after another, in the folder that the tests are built in.
    Main,
    /// Steps that build in folders of their own. They run in a second process after the step [`LAST_ALONE`].
    Side,
    /// Such steps without a bound on any wait. They run in a process that a processor serves when nothing else wants it, from the
    /// step [`LAST_ALONE`] on: its tests wait often.
    Idle,
}

impl Step {
    const fn main(name: &'static str, run: fn(&Shell) -> Result<Outcome>) -> Self {
        Self { name, lane: Lane::Main, run }
    }

    const fn side(name: &'static str, run: fn(&Shell) -> Result<Outcome>) -> Self {
        Self { name, lane: Lane::Side, run }
    }

    const fn idle(name: &'static str, run: fn(&Shell) -> Result<Outcome>) -> Self {
        Self { name, lane: Lane::Idle, run }
    }
}

/// Quick ones first, so that a misplaced space is known before anything is built.
const STEPS: &[Step] = &[
    Step::main("fmt", steps::fmt),
    Step::main("rooms", steps::rooms),
    Step::main("book", book::step),
    Step::main("publishable", publish::step),
    Step::main(LAST_ALONE, steps::test),
    Step::main("browser", browser::step),
    Step::main("rdma", rdma::step),
    Step::main("onnxruntime", steps::onnxruntime),
    Step::main("clippy", steps::clippy),
    Step::main("aarch64", aarch64::step),
    Step::main("docs", steps::docs),
    Step::main("deq", deq::step),
    Step::main("package", package::step),
    Step::main("tensorrt", tensorrt::step),
    // Takes the libclang of the step before it.
    Step::main("doca", doca::step),
    Step::main("c-sanitize", steps::sanitize_c),
    Step::main("chaos", steps::chaos),
    Step::main("worlds", steps::worlds),
    // Its tests play many threads in lock step, slowly where another program is at work: the last, when the other lanes have little
    // left to do.
    Step::main("sanitize", steps::sanitize),
    Step::side("dist", dist::step),
    Step::side("wheel", wheel::step),
    Step::side("fuzz", |shell| steps::fuzz(shell, steps::FUZZ_SECONDS, None)),
    Step::idle("ptx", steps::ptx),
    Step::idle("loom", steps::loom),
    Step::idle("pages", pages::step),
    Step::idle("deny", steps::deny),
];

/// The step after which another lane may take processors from the main one: its tests play devices and networks on every core.
const LAST_ALONE: &str = "test";

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
];

/// The steps' names, for `--only`.
pub(crate) fn names() -> Vec<&'static str> {
    STEPS.iter().map(|step| step.name).collect()
}

/// Runs the steps named in `only` in their order, or all of them in their lanes.
pub(crate) fn run(shell: &Shell, only: &[String]) -> Result<()> {
    if !only.is_empty() {
        let chosen: Vec<&Step> =
            STEPS.iter().filter(|step| only.iter().any(|name| name == step.name)).collect();
        return Run::of(&chosen).all(shell, |_| Ok(()));
    }
    let main: Vec<&Step> = STEPS.iter().filter(|step| step.lane == Lane::Main).collect();
    thread::scope(|scope| {
        let mut fetched = Some(scope.spawn(|| {
            for fetch in PACKAGES {
                if let Err(error) = fetch(shell) {
                    println!("==> not fetched: {error:#}");
                }
            }
        }));
        let mut beside = Vec::new();
        let main = Run::of(&main).all(shell, |done| {
            if let Some(fetched) = fetched.take_if(|_| done == BEFORE_PACKAGES) {
                fetched.join().map_err(|_| anyhow!("fetching packages panicked"))?;
                beside.push(Beside::start(shell, Lane::Idle, "idle", idle_class(shell))?);
            }
            if done > 0 && main[done - 1].name == LAST_ALONE {
                beside.push(Beside::start(shell, Lane::Side, "side", &[])?);
            }
            Ok(())
        });
        // Also after a failure: no process is left that builds.
        beside.into_iter().fold(main, |so_far, lane| {
            let this = lane.end();
            so_far.and(this)
        })
    })
}

/// The steps of a lane beside the main one, in a process of their own whose output is kept until they are done.
struct Beside {
    process: Child,
    output: PathBuf,
    name: &'static str,
}

impl Beside {
    /// Starts the lane's steps under the command `under`, if that is not empty.
    fn start(shell: &Shell, lane: Lane, name: &'static str, under: &[&str]) -> Result<Self> {
        let output = shell.target(&format!("ci-{name}-lane.log"));
        let file = File::create(&output).with_context(|| format!("{}", output.display()))?;
        let this = env::current_exe().context("this program")?;
        let mut words = under.iter().map(OsStr::new).chain([this.as_os_str(), OsStr::new("ci")]);
        let mut command = Command::new(words.next().context("a program")?);
        command.args(words).stdin(Stdio::null()).stdout(file.try_clone()?).stderr(file);
        let steps = STEPS.iter().filter(|step| step.lane == lane);
        command.args(steps.flat_map(|step| ["--only", step.name]));
        let process = command.spawn().with_context(|| format!("cannot start the {name} lane"))?;
        println!("==> beside the next steps, shown after them: {}", shell::shown(&command));
        Ok(Self { process, output, name })
    }

    /// Waits for the last step, and shows what all have printed.
    fn end(mut self) -> Result<()> {
        println!("\n==> the {} lane", self.name);
        let status = self.process.wait().with_context(|| format!("the {} lane", self.name))?;
        print!("{}", files::read(&self.output)?);
        ensure!(status.success(), "the {} lane: {status}", self.name);
        Ok(())
    }
}

/// The command that runs another one on processors that are idle, or at least behind all others where there is no `chrt`.
fn idle_class(shell: &Shell) -> &'static [&'static str] {
    let there = shell.command("chrt", &["--idle", "0", "true"]).stderr(Stdio::null()).status();
    if there.is_ok_and(|status| status.success()) { &["chrt", "--idle", "0"] } else { &["nice", "-n", "19"] }
}

/// Steps that run one after another.
struct Run<'a> {
    steps: &'a [&'a Step],
    /// A line for each step that has run.
    summary: Vec<String>,
    skipped: usize,
}

impl<'a> Run<'a> {
    fn of(steps: &'a [&'a Step]) -> Self {
        Self { steps, summary: Vec::new(), skipped: 0 }
    }

    /// Up to the first that fails. `before` is called before each step, with how many have run.
    fn all(mut self, shell: &Shell, mut before: impl FnMut(usize) -> Result<()>) -> Result<()> {
        let begun = Instant::now();
        let count = self.steps.len();
        for (done, step) in self.steps.iter().enumerate() {
            println!("\n==> [{}/{count}] {}", done + 1, step.name);
            if let Err(error) = before(done).and_then(|()| self.one(shell, step)) {
                println!(
                    "\nci result: FAILED. {} steps passed; 1 failed ({}); {} skipped; {} not run; finished in {:.1}s",
                    done - self.skipped,
                    step.name,
                    self.skipped,
                    count - done - 1,
                    begun.elapsed().as_secs_f64()
                );
                return Err(error)
                    .with_context(|| format!("step `{}` (`cargo xtask ci --only {0}`)", step.name));
            }
        }
        println!("\n{}", self.summary.join("\n"));
        println!(
            "\nci result: ok. {} steps passed; 0 failed; {} skipped; finished in {:.1}s",
            count - self.skipped,
            self.skipped,
            begun.elapsed().as_secs_f64()
        );
        Ok(())
    }

    fn one(&mut self, shell: &Shell, step: &Step) -> Result<()> {
        let (started, processor) = (Instant::now(), processor_seconds());
        let outcome = (step.run)(shell);
        let seconds = started.elapsed().as_secs_f64();
        let processor = processor_seconds() - processor;
        let line = match &outcome {
            Ok(Outcome::Done) => format!("{}: ok in {seconds:.1} s, {processor:.0} s of CPU time", step.name),
            Ok(Outcome::Skipped(why)) => {
                self.skipped += 1;
                format!("{}: skipped: {why}", step.name)
            }
            Err(_) => format!("{}: FAILED after {seconds:.1} s", step.name),
        };
        println!("==> {line}");
        self.summary.push(line);
        outcome.map(drop)
    }
}

/// CPU time of the processes that have ended, in seconds; zero where `/proc` does not say.
fn processor_seconds() -> f64 {
    let ticks =
        Process::myself().and_then(|process| process.stat()).map_or(0, |stat| stat.cutime + stat.cstime);
    ticks as f64 / procfs::ticks_per_second() as f64
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

    #[test]
    fn lanes_beside_the_main_one_begin() {
        assert_eq!(STEPS[BEFORE_PACKAGES].name, LAST_ALONE);
        assert!(STEPS[..=BEFORE_PACKAGES].iter().all(|step| step.lane == Lane::Main));
    }

    #[test]
    fn cpu_time_of_processes_that_ended_is_counted() {
        let before = processor_seconds();
        let spin = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
        shell::run(Command::new("sh").args(["-c", spin])).expect("a shell");
        assert!(processor_seconds() > before);
    }
}
