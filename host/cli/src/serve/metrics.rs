//! Metrics of a service over HTTP: counters for Prometheus in the OpenMetrics text format, and health checks.

use super::counters::{NamedCounter, ReadCounters, ServiceCounters};
use super::http::{self, Page, Reply};
use super::server::Server;
use crate::report::Provenance;
use anyhow::Result;
use procfs::process::Process;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, MetricEncoder, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};
use ringcall::thread::StopFlag;
use ringcall_transport::{FunctionAnswers, Latencies};
use ringcall_wire::function::{FunctionId, names};
use std::fmt;
use std::net::SocketAddr;

/// The media type of the OpenMetrics text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";
const PLAIN: &str = "text/plain; charset=utf-8";

/// On a thread of its own, serves counters at `/metrics`, `/healthz` while the process lives, and `/readyz` until
/// `ending` is set.
pub(super) fn start(address: SocketAddr, counters: ReadCounters, ending: StopFlag) -> Result<Server> {
    let mut registry = Registry::default();
    let Provenance { version, commit, .. } = Provenance::now();
    let build = vec![("version", version.to_owned()), ("commit", commit.unwrap_or("unknown").to_owned())];
    registry.register("ringcall_build", "the program that serves", Info::new(build));
    registry.register_collector(Box::new(Counts(counters)));
    // Cached before the sandbox forbids files.
    let _ = (procfs::page_size(), procfs::ticks_per_second());
    registry.register_collector(Box::new(ThisProcess));
    let metrics = move || {
        let mut out = String::new();
        match text::encode(&mut out, &registry) {
            Ok(()) => Reply::Ok(out),
            Err(error) => Reply::Failed(error),
        }
    };
    let ready = move || match ending.is_set() {
        false => Reply::Ok("ready\n".to_owned()),
        true => Reply::Unavailable("the service stops"),
    };
    let pages = vec![
        Page { path: "/metrics", content_type: CONTENT_TYPE, text: Box::new(metrics) },
        Page { path: "/healthz", content_type: PLAIN, text: Box::new(|| Reply::Ok("alive\n".to_owned())) },
        Page { path: "/readyz", content_type: PLAIN, text: Box::new(ready) },
    ];
    http::start("ringcall-metrics", address, pages)
}

/// Reads the counters at each scrape.
struct Counts(ReadCounters);

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let ServiceCounters { counters, latencies, functions } = (self.0)();
        for NamedCounter { name, meaning, value, falls } in counters {
            if falls {
                gauge(&mut encoder, &name, meaning, None, value)?;
            } else {
                let counter = ConstCounter::new(value);
                counter.encode(encoder.encode_descriptor(&name, meaning, None, counter.metric_type())?)?;
            }
        }
        let Some(latencies) = latencies else { return Ok(()) };
        let meaning = "from a request's slot being written until its answer was taken out of it";
        let name = "ringcall_transport_request_duration";
        let seconds = Some(&Unit::Seconds);
        let all = encoder.encode_descriptor(name, meaning, seconds, MetricType::Histogram)?;
        histogram(all, &latencies)?;
        let mut each = encoder.encode_descriptor(
            "ringcall_function_request_duration",
            "the same, by function",
            seconds,
            MetricType::Histogram,
        )?;
        for answers in &functions {
            histogram(each.encode_family(&[("function", function(answers))])?, &answers.latencies)?;
        }
        let meaning = "answers with another status than OK, by function";
        let mut each =
            encoder.encode_descriptor("ringcall_function_refused", meaning, None, MetricType::Counter)?;
        for answers in &functions {
            let labels = [("function", function(answers))];
            ConstCounter::new(answers.refused).encode(each.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn histogram(mut encoder: MetricEncoder<'_>, latencies: &Latencies) -> fmt::Result {
    let buckets: Vec<(f64, u64)> = latencies
        .buckets()
        .map(|(bound, count)| (bound.map_or(f64::INFINITY, |bound| bound.as_secs_f64()), count))
        .collect();
    let (seconds, count) = (latencies.sum().as_secs_f64(), latencies.count());
    encoder.encode_histogram::<NoLabelSet>(seconds, count, &buckets, None)
}

/// The function's name if Ringcall knows it, else its id; `others` for functions without an entry.
fn function(answers: &FunctionAnswers) -> String {
    let Some(id) = answers.function else { return "others".to_owned() };
    let known = names::ALL.iter().find(|name| FunctionId::of(name) == id);
    known.map_or_else(|| format!("0x{:08x}", id.0), |&name| name.to_owned())
}

fn gauge(
    encoder: &mut DescriptorEncoder<'_>,
    name: &str,
    meaning: &str,
    unit: Option<&Unit>,
    value: u64,
) -> fmt::Result {
    let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
    gauge.encode(encoder.encode_descriptor(name, meaning, unit, gauge.metric_type())?)
}

/// The operating system's counters of this process, under the names of Prometheus' client libraries.
#[derive(Debug)]
struct ThisProcess;

impl Collector for ThisProcess {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let Ok(process) = Process::myself() else { return Ok(()) };
        if let Ok(stat) = process.stat() {
            let seconds = (stat.utime + stat.stime) as f64 / procfs::ticks_per_second() as f64;
            let counter = ConstCounter::new(seconds);
            let meaning = "processor time";
            let descriptor = encoder.encode_descriptor(
                "process_cpu",
                meaning,
                Some(&Unit::Seconds),
                counter.metric_type(),
            )?;
            counter.encode(descriptor)?;
            let resident = stat.rss * procfs::page_size();
            gauge(&mut encoder, "process_resident_memory", "memory in use", Some(&Unit::Bytes), resident)?;
            let threads = u64::try_from(stat.num_threads).unwrap_or(0);
            gauge(&mut encoder, "process_threads", "threads", None, threads)?;
            if let Ok(boot) = procfs::boot_time_secs() {
                let seconds = boot + stat.starttime / procfs::ticks_per_second();
                let meaning = "when it started, since 1970";
                gauge(&mut encoder, "process_start_time", meaning, Some(&Unit::Seconds), seconds)?;
            }
        }
        match process.fd_count() {
            Ok(open) => gauge(&mut encoder, "process_open_fds", "open file descriptors", None, open as u64),
            Err(_) => Ok(()),
        }
    }
}
