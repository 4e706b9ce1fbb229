//! `ringcall top`: a service's counts as they rise, from its metrics.

mod scrape;

use crate::signals::Signals;
use anyhow::{Context, Result};
use console::Term;
use scrape::Scrape;
use std::io::Write;
use std::net::{SocketAddr, ToSocketAddrs};
use std::time::{Duration, Instant};

/// Shows what a service does: answers a second, latencies, requests under way, refusals and losses, from the metrics that
/// `ringcall serve --metrics` serves.
///
/// On a terminal the picture is drawn anew at each interval, until Ctrl-C; elsewhere each interval is a line.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Where the metrics are: what the service's line says after `metrics=`
    #[arg(value_name = "ADDRESS")]
    address: String,
    /// Seconds from one look to the next
    #[arg(long, default_value_t = 1.0, value_name = "SECONDS")]
    interval: f64,
    /// End after so many intervals
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
}

/// How often a signal is looked for while nothing is to be done.
const CHECK_EVERY: Duration = Duration::from_millis(50);

/// Watches until it is told to end.
pub(crate) fn run(args: &Args) -> Result<()> {
    if !(args.interval >= 0.05 && args.interval <= 3600.0) {
        anyhow::bail!("--interval must be from 0.05 to 3600 seconds, not {}", args.interval);
    }
    let interval = Duration::from_secs_f64(args.interval);
    let address = resolve(&args.address)?;
    let signals = Signals::listen()?;
    signals.run();
    let terminal = Term::stdout();
    let mut before = Scrape::read(address)?;
    let mut drawn = 0;
    let mut left = args.count;
    while left != Some(0) {
        let until = Instant::now() + interval;
        while Instant::now() < until {
            if signals.received().is_some() {
                return Ok(());
            }
            std::thread::sleep(CHECK_EVERY.min(until.saturating_duration_since(Instant::now())));
        }
        let now = Scrape::read(address)?;
        let lines = lines(address, &before, &now, terminal.is_term());
        if terminal.is_term() {
            terminal.clear_last_lines(drawn).context("the terminal")?;
            drawn = lines.len();
        }
        for line in lines {
            writeln!(std::io::stdout(), "{line}").context("standard output")?;
        }
        before = now;
        left = left.map(|left| left - 1);
    }
    Ok(())
}

/// An address, or a name with a port.
fn resolve(text: &str) -> Result<SocketAddr> {
    let text = text.trim().trim_start_matches("http://").trim_start_matches("metrics=");
    let text = text.split('/').next().unwrap_or_default();
    let found = text.to_socket_addrs().with_context(|| format!("no address of `{text}`"))?;
    found.min_by_key(SocketAddr::is_ipv6).with_context(|| format!("no address of `{text}`"))
}

/// The counts that are shown where they have risen: of the transport, and of the dispatcher.
const SHOWN: [&str; 2] = ["ringcall_transport_", "ringcall_dispatcher_"];

/// What happened between two looks: one line, or a picture.
fn lines(address: SocketAddr, before: &Scrape, now: &Scrape, picture: bool) -> Vec<String> {
    let seconds = (now.at - before.at).as_secs_f64().max(1e-3);
    let risen = |name: &str| now.count(name).saturating_sub(before.count(name));
    let answers = risen("ringcall_transport_answered") as f64 / seconds;
    let under_way = now.count("ringcall_transport_under_way");
    let quantile = |share| match now.latency(before, share) {
        None => "-".to_owned(),
        Some(seconds) if seconds.is_infinite() => "> 17 s".to_owned(),
        Some(seconds) if seconds < 1e-3 => format!("≤ {:.1} µs", seconds * 1e6),
        Some(seconds) => format!("≤ {:.1} ms", seconds * 1e3),
    };
    let [p50, p99] = [0.5, 0.99].map(quantile);
    let first = format!("{answers:.0} answers/s   p50 {p50}   p99 {p99}   under way {under_way}");
    if !picture {
        return vec![first];
    }
    let mut lines = vec![format!("ringcall top   {address}   every {seconds:.1} s   Ctrl-C ends"), first];
    lines.push(format!("{:<44} {:>14} {:>16}", "count", "a second", "altogether"));
    for (name, all) in now.counts() {
        let Some(short) = SHOWN.iter().find_map(|prefix| name.strip_prefix(prefix)) else { continue };
        if *all > 0 && short != "under_way" {
            let group = if name.starts_with(SHOWN[0]) { "transport" } else { "dispatcher" };
            let rate = risen(name) as f64 / seconds;
            lines.push(format!("{:<44} {rate:>14.0} {all:>16}", format!("{group} {short}")));
        }
    }
    if let (Some(cpu), Some(was)) = (now.value("process_cpu_seconds"), before.value("process_cpu_seconds")) {
        let memory = now.value("process_resident_memory_bytes").unwrap_or(0.0) / f64::from(1 << 20);
        lines.push(format!("{:.1} cores, {memory:.0} MiB", (cpu - was) / seconds));
    }
    lines
}
