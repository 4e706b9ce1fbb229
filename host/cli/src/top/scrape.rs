//! One look at a service's metrics.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// How long an answer may take, and how long it may be.
const TIMEOUT: Duration = Duration::from_secs(3);
const MOST_BYTES: u64 = 1 << 22;

/// What was there.
#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) at: Instant,
    values: BTreeMap<String, f64>,
    counts: BTreeMap<String, u64>,
    /// Of answers: the buckets' upper bounds in seconds, and how many were within each and those before.
    buckets: Vec<(f64, u64)>,
}

impl Scrape {
    /// Asks.
    ///
    /// # Errors
    /// No service answers there, or something else than metrics.
    pub(super) fn read(address: SocketAddr) -> Result<Self> {
        let ask = || -> Result<String> {
            let mut stream = TcpStream::connect_timeout(&address, TIMEOUT)?;
            stream.set_read_timeout(Some(TIMEOUT))?;
            stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n")?;
            let mut text = String::new();
            stream.take(MOST_BYTES).read_to_string(&mut text)?;
            Ok(text)
        };
        let text = ask()
            .with_context(|| format!("no metrics at {address}: `ringcall serve --metrics` serves them"))?;
        match text.split_once("\r\n\r\n") {
            Some((head, body)) if head.split(' ').nth(1) == Some("200") => Ok(Self::of(body)),
            _ => bail!("{address} answers, and not with metrics"),
        }
    }

    /// Reads the OpenMetrics text format, as far as a service of ours writes it.
    fn of(text: &str) -> Self {
        let mut scrape = Self {
            at: Instant::now(),
            values: BTreeMap::new(),
            counts: BTreeMap::new(),
            buckets: Vec::new(),
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            if let Some(bound) = name.strip_prefix("ringcall_transport_request_duration_seconds_bucket{le=\"")
            {
                let bound = bound.trim_end_matches("\"}");
                let bound = if bound == "+Inf" { Ok(f64::INFINITY) } else { bound.parse() };
                scrape.buckets.extend(bound.ok().map(|bound| (bound, value as u64)));
                continue;
            }
            let name = name.strip_suffix("_total").unwrap_or(name).to_owned();
            scrape.counts.insert(name.clone(), value as u64);
            scrape.values.insert(name, value);
        }
        scrape
    }

    pub(super) fn value(&self, name: &str) -> Option<f64> {
        self.values.get(name).copied()
    }

    /// A count; 0 where it is not there.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.counts.iter()
    }

    /// The time in seconds that this share of the answers since `before` took at most: a bucket's bound; `None` without answers.
    pub(super) fn latency(&self, before: &Self, share: f64) -> Option<f64> {
        let since = |(place, &(bound, count)): (usize, &(f64, u64))| {
            (bound, count.saturating_sub(before.buckets.get(place).map_or(0, |bucket| bucket.1)))
        };
        let since: Vec<(f64, u64)> = self.buckets.iter().enumerate().map(since).collect();
        let all = since.last().map(|bucket| bucket.1).filter(|&all| all > 0)?;
        since.iter().find(|bucket| bucket.1 as f64 >= share * all as f64).map(|bucket| bucket.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEFORE: &str = "# TYPE ringcall_transport_answered counter
ringcall_transport_answered_total 100
ringcall_transport_request_duration_seconds_bucket{le=\"0.000001\"} 100
ringcall_transport_request_duration_seconds_bucket{le=\"0.000002\"} 100
ringcall_transport_request_duration_seconds_bucket{le=\"+Inf\"} 100
# EOF
";
    const AFTER: &str = "ringcall_transport_answered_total 200
process_cpu_seconds_total 1.5
ringcall_transport_request_duration_seconds_bucket{le=\"0.000001\"} 100
ringcall_transport_request_duration_seconds_bucket{le=\"0.000002\"} 190
ringcall_transport_request_duration_seconds_bucket{le=\"+Inf\"} 200
";

    #[test]
    fn latencies_are_those_between_two_looks() {
        let (before, after) = (Scrape::of(BEFORE), Scrape::of(AFTER));
        assert_eq!(after.count("ringcall_transport_answered"), 200);
        assert_eq!(after.value("process_cpu_seconds"), Some(1.5));
        assert_eq!([0.5, 0.9].map(|share| after.latency(&before, share)), [Some(0.000_002); 2]);
        assert_eq!(after.latency(&before, 0.99), Some(f64::INFINITY));
        assert_eq!(before.latency(&before, 0.5), None);
    }
}
