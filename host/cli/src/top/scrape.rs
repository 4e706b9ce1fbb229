//! Scrape of a service's metrics.

use anyhow::{Context, Result, bail};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// The longest time and the largest size of an answer.
const TIMEOUT: Duration = Duration::from_secs(3);
const MOST_BYTES: u64 = 1 << 22;

/// Buckets of answers: upper bounds in seconds, and cumulative counts.
type Buckets = Vec<(f64, u64)>;

/// The beginning of a histogram's bucket lines.
const ALL: &str = "ringcall_transport_request_duration_seconds_bucket";
const EACH: &str = "ringcall_function_request_duration_seconds_bucket";
/// The beginning of lines of refusals.
const REFUSED: &str = "ringcall_function_refused_total";

#[derive(Debug)]
pub(super) struct Scrape {
    pub(super) at: Instant,
    values: BTreeMap<String, f64>,
    counts: BTreeMap<String, u64>,
    all: Buckets,
    functions: BTreeMap<String, Buckets>,
    refused: BTreeMap<String, u64>,
}

impl Scrape {
    /// Reads the metrics of a service.
    ///
    /// # Errors
    /// No service answers there, or the answer is not metrics.
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

    /// Parses the OpenMetrics text format as Ringcall's services write it.
    fn of(text: &str) -> Self {
        let mut scrape = Self {
            at: Instant::now(),
            values: BTreeMap::new(),
            counts: BTreeMap::new(),
            all: Buckets::new(),
            functions: BTreeMap::new(),
            refused: BTreeMap::new(),
        };
        for line in text.lines().filter(|line| !line.starts_with('#')) {
            let Some((name, value)) = line.rsplit_once(' ') else { continue };
            let Ok(value) = value.parse::<f64>() else { continue };
            let (family, labels) = name.split_once('{').unwrap_or((name, ""));
            let label = |key: &str| {
                let of = |pair: &str| {
                    pair.strip_prefix(key)?.strip_prefix("=\"")?.strip_suffix('"').map(str::to_owned)
                };
                labels.trim_end_matches('}').split(',').find_map(of)
            };
            let bound = || match label("le")?.as_str() {
                "+Inf" => Some(f64::INFINITY),
                bound => bound.parse().ok(),
            };
            match (family, label("function")) {
                (ALL, _) => scrape.all.extend(bound().map(|bound| (bound, value as u64))),
                (EACH, Some(function)) => {
                    let buckets = scrape.functions.entry(function).or_default();
                    buckets.extend(bound().map(|bound| (bound, value as u64)));
                }
                (REFUSED, Some(function)) => {
                    scrape.refused.insert(function, value as u64);
                }
                _ => {}
            }
            if !labels.is_empty() {
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

    /// A counter's value; 0 if it is missing.
    pub(super) fn count(&self, name: &str) -> u64 {
        self.counts.get(name).copied().unwrap_or(0)
    }

    pub(super) fn counts(&self) -> impl Iterator<Item = (&String, &u64)> {
        self.counts.iter()
    }

    /// The answers since `before`: of all functions for `None`, else of the named function.
    pub(super) fn answers(&self, before: &Self, function: Option<&str>) -> Answers {
        let of = |scrape: &Self| match function {
            None => scrape.all.clone(),
            Some(name) => scrape.functions.get(name).cloned().unwrap_or_default(),
        };
        let (now, before) = (of(self), of(before));
        let since = |(place, &(bound, count)): (usize, &(f64, u64))| {
            (bound, count.saturating_sub(before.get(place).map_or(0, |bucket| bucket.1)))
        };
        Answers(now.iter().enumerate().map(since).collect())
    }

    /// The functions that have answered, each with its answers so far and its refusals.
    pub(super) fn functions(&self) -> impl Iterator<Item = (&str, u64, u64)> {
        self.functions.iter().map(|(name, buckets)| {
            let refused = self.refused.get(name).copied().unwrap_or(0);
            (name.as_str(), buckets.last().map_or(0, |bucket| bucket.1), refused)
        })
    }
}

#[derive(Debug)]
pub(super) struct Answers(Buckets);

impl Answers {
    pub(super) fn count(&self) -> u64 {
        self.0.last().map_or(0, |bucket| bucket.1)
    }

    /// The bound of the bucket, in seconds, within which this share of the answers is; `None` without answers.
    pub(super) fn latency(&self, share: f64) -> Option<f64> {
        let all = Some(self.count()).filter(|&all| all > 0)?;
        self.0.iter().find(|bucket| bucket.1 as f64 >= share * all as f64).map(|bucket| bucket.0)
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
ringcall_function_request_duration_seconds_bucket{le=\"0.000001\",function=\"decode_syndrome\"} 30
ringcall_function_request_duration_seconds_bucket{function=\"decode_syndrome\",le=\"+Inf\"} 40
ringcall_function_refused_total{function=\"decode_syndrome\"} 4
";

    #[test]
    fn latencies_are_those_between_two_looks() {
        let (before, after) = (Scrape::of(BEFORE), Scrape::of(AFTER));
        assert_eq!(after.count("ringcall_transport_answered"), 200);
        assert_eq!(after.value("process_cpu_seconds"), Some(1.5));
        let since = after.answers(&before, None);
        assert_eq!([0.5, 0.9].map(|share| since.latency(share)), [Some(0.000_002); 2]);
        assert_eq!((since.latency(0.99), since.count()), (Some(f64::INFINITY), 100));
        assert_eq!(before.answers(&before, None).latency(0.5), None);
    }

    #[test]
    fn functions_are_told_apart() {
        let (before, after) = (Scrape::of(BEFORE), Scrape::of(AFTER));
        assert!(after.functions().eq([("decode_syndrome", 40, 4)]) && before.functions().next().is_none());
        let since = after.answers(&before, Some("decode_syndrome"));
        assert_eq!((since.count(), since.latency(0.75)), (40, Some(0.000_001)));
        assert_eq!(after.answers(&before, Some("another")).count(), 0);
        assert_eq!(after.counts().count(), 2, "labels are no counts");
    }
}
