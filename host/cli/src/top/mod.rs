//! `ringcall top`: a live view of a service's counters, from its metrics.

mod scrape;

use crate::number;
use crate::report::count;
use crate::signals::Signals;
use crate::style;
use crate::usage::{Misuse, misuse};
use anyhow::{Context, Result, anyhow, bail};
use console::Term;
use ringcall::thread::StopFlag;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use scrape::{Answers, Scrape};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, ToSocketAddrs};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::{Duration, Instant};

/// Shows what a service does: answers a second, latencies, requests under way, refusals and losses, by function where its transport
/// tells them apart (not `nic`, `hsb` or a plug-in that fills the ring), from the metrics that `ringcall serve --metrics` serves.
///
/// On a terminal the picture is drawn anew at each interval, until q or Ctrl-C, and a service that goes away is waited for; elsewhere each
/// interval is a line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// The metrics' address: the service's line has it after `metrics=`
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Interval between updates, in s
    #[arg(long, default_value = "1s", value_name = "TIME", value_parser = number::seconds)]
    interval: Duration,
    /// End after so many intervals
    #[arg(long, value_name = "N", value_parser = number::within::<u64>(1, u64::MAX))]
    count: Option<u64>,
}

/// The interval between polls of signals and keys.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Watches until it is told to end.
pub(crate) fn run(args: &Args, signals: &Signals) -> Result<()> {
    if !(Duration::from_millis(50)..=Duration::from_secs(3600)).contains(&args.interval) {
        bail!(misuse("--interval must be from 0.05 to 3600 s"));
    }
    let address = resolve(&args.address)?;
    signals.run();
    let terminal = Term::stdout();
    let keys = terminal.is_term().then(Keys::listen).flatten();
    let told = || signals.received().is_some() || keys.as_ref().is_some_and(Keys::quit);
    let mut picture = Picture { terminal, drawn: 0 };
    let Some(first) = scrape(address, &told) else { return Ok(()) };
    let (mut before, mut seen) = (first?, Instant::now());
    let mut left = args.count;
    while left != Some(0) {
        let until = Instant::now() + args.interval;
        while Instant::now() < until {
            if told() {
                return Ok(());
            }
            std::thread::sleep(CHECK_EVERY.min(until.saturating_duration_since(Instant::now())));
        }
        match scrape(address, &told) {
            None => return Ok(()),
            Some(Ok(now)) => {
                picture.draw(lines(address, &before, &now, picture.terminal.is_term()))?;
                (before, seen) = (now, Instant::now());
            }
            // At a terminal it waits for the service to come back; a script gets the error.
            Some(Err(error)) if !picture.terminal.is_term() => return Err(error),
            Some(Err(_)) => picture.draw(vec![
                heading(address, args.interval.as_secs_f64()),
                format!("no answer for {}: is it there?", style::span(seen.elapsed())),
            ])?,
        }
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// Scrapes on another thread, since a hanging service delays the answer; `None` if the command was told to end
/// meanwhile.
fn scrape(address: SocketAddr, told: &dyn Fn() -> bool) -> Option<Result<Scrape>> {
    let (give, look) = mpsc::channel();
    // The result is dropped if the command was told to end.
    std::thread::spawn(move || drop(give.send(Scrape::read(address))));
    loop {
        match look.recv_timeout(CHECK_EVERY) {
            Ok(scrape) => return Some(scrape),
            Err(RecvTimeoutError::Timeout) if told() => return None,
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => return Some(Err(anyhow!("looking panicked"))),
        }
    }
}

/// Lines that replace the previous ones on a terminal.
struct Picture {
    terminal: Term,
    drawn: usize,
}

impl Picture {
    fn draw(&mut self, mut lines: Vec<String>) -> Result<()> {
        if self.terminal.is_term() {
            let (rows, columns) = self.terminal.size();
            self.terminal.clear_last_lines(self.drawn).context("the terminal")?;
            lines.truncate(usize::from(rows).saturating_sub(1).max(1));
            lines.iter_mut().for_each(|line| *line = style::cut(line, usize::from(columns)));
            self.drawn = lines.len();
        }
        let mut out = std::io::stdout();
        lines.iter().try_for_each(|line| writeln!(out, "{line}")).context("standard output")
    }
}

/// The terminal's keys as they are pressed; Ctrl-C remains a signal.
struct Keys {
    before: Termios,
    quit: StopFlag,
}

impl Keys {
    /// `None` if standard input is not a terminal.
    fn listen() -> Option<Self> {
        let input = std::io::stdin();
        let before = tcgetattr(&input).ok()?;
        let mut each = before.clone();
        each.local_modes -= LocalModes::ICANON | LocalModes::ECHO;
        tcsetattr(&input, OptionalActions::Now, &each).ok()?;
        let quit = StopFlag::default();
        let pressed = quit.clone();
        std::thread::spawn(move || {
            let keys = input.lock().bytes().map_while(std::io::Result::ok);
            if keys.into_iter().any(|key| key.eq_ignore_ascii_case(&b'q')) {
                pressed.set();
            }
        });
        Some(Self { before, quit })
    }

    fn quit(&self) -> bool {
        self.quit.is_set()
    }
}

impl Drop for Keys {
    fn drop(&mut self) {
        let _ = tcsetattr(std::io::stdin(), OptionalActions::Now, &self.before);
    }
}

/// Resolves an address, or a name with a port.
fn resolve(text: &str) -> Result<SocketAddr> {
    let text = text.trim().trim_start_matches("http://").trim_start_matches("metrics=");
    let text = text.split('/').next().unwrap_or_default();
    let unknown =
        || Misuse(format!("no address of `{text}`: give what the service's line says after metrics="));
    let found = text.to_socket_addrs().with_context(unknown)?;
    found.min_by_key(SocketAddr::is_ipv6).with_context(unknown)
}

fn heading(address: SocketAddr, seconds: f64) -> String {
    format!("ringcall top   {address}   every {seconds:.1} s   q ends")
}

/// Prefixes of the counters that are shown if they have risen: the transport's and the dispatcher's.
const SHOWN: [&str; 2] = ["ringcall_transport_", "ringcall_dispatcher_"];

/// The median and the 99th percentile of the answers' times.
fn quantiles(answers: &Answers) -> [String; 2] {
    [0.5, 0.99].map(|share| match answers.latency(share) {
        None => "-".to_owned(),
        Some(seconds) if seconds.is_infinite() => "> 17 s".to_owned(),
        Some(seconds) if seconds < 1e-3 => format!("≤ {:.1} µs", seconds * 1e6),
        Some(seconds) => format!("≤ {:.1} ms", seconds * 1e3),
    })
}

/// The changes between two scrapes: one line, or a picture.
fn lines(address: SocketAddr, before: &Scrape, now: &Scrape, picture: bool) -> Vec<String> {
    let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
    let risen = |name: &str| now.count(name).saturating_sub(before.count(name));
    let answers = risen("ringcall_transport_answered") as f64 / seconds;
    let under_way = now.count("ringcall_transport_under_way");
    let all = now.answers(before, None);
    let [p50, p99] = quantiles(&all);
    let first = format!("{answers:.0} answers/s   p50 {p50}   p99 {p99}   under way {under_way}");
    if !picture {
        return vec![first];
    }
    let mut lines = vec![heading(address, seconds), first];
    let was: BTreeMap<&str, u64> = before.functions().map(|(name, _, refused)| (name, refused)).collect();
    for (place, (name, all, refused)) in now.functions().enumerate() {
        if place == 0 {
            let [function, rate, p50, p99] = ["function", "a second", "p50", "p99"];
            lines.push(format!(
                "{function:<20} {rate:>9} {p50:>11} {p99:>11} {:>9} {:>15}",
                "refused", "altogether"
            ));
        }
        let since = now.answers(before, Some(name));
        let ([p50, p99], rate) = (quantiles(&since), since.count() as f64 / seconds);
        let refused = refused.saturating_sub(was.get(name).copied().unwrap_or(0)) as f64 / seconds;
        let all = count(all);
        lines.push(format!("{name:<20} {rate:>9.0} {p50:>11} {p99:>11} {refused:>9.0} {all:>15}"));
    }
    lines.push(format!("{:<44} {:>14} {:>16}", "count", "a second", "altogether"));
    for (name, all) in now.counts() {
        let Some(short) = SHOWN.iter().find_map(|prefix| name.strip_prefix(prefix)) else { continue };
        if *all > 0 && short != "under_way" && !short.starts_with("request_duration") {
            let group = if name.starts_with(SHOWN[0]) { "transport" } else { "dispatcher" };
            let rate = risen(name) as f64 / seconds;
            let (all, name) = (count(*all), format!("{group} {short}"));
            lines.push(format!("{name:<44} {rate:>14.0} {all:>16}"));
        }
    }
    if let (Some(cpu), Some(was)) = (now.value("process_cpu_seconds"), before.value("process_cpu_seconds")) {
        let memory = now.value("process_resident_memory_bytes").unwrap_or(0.0) / f64::from(1 << 20);
        lines.push(format!("{:.1} cores, {memory:.0} MiB", (cpu - was) / seconds));
    }
    lines
}
