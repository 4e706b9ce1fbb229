//! Counters for Prometheus, over HTTP, in the OpenMetrics text format.

use super::figures::{Figure, Figures};
use super::http::{self, Page};
use super::server::Server;
use anyhow::Result;
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::net::SocketAddr;

/// Of the OpenMetrics text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Serves them at `/metrics`, on its own thread.
pub(super) fn start(address: SocketAddr, figures: Figures) -> Result<Server> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Counts(figures)));
    let text = move || {
        let mut out = String::new();
        text::encode(&mut out, &registry).map(|()| out)
    };
    http::start("ringcall-metrics", address, Page { path: "/metrics", content_type: CONTENT_TYPE, text })
}

/// Reads the counts at each scrape.
struct Counts(Figures);

impl fmt::Debug for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Counts").finish_non_exhaustive()
    }
}

impl Collector for Counts {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for Figure { name, meaning, value, falls } in (self.0)() {
            if falls {
                let gauge = ConstGauge::new(i64::try_from(value).unwrap_or(i64::MAX));
                gauge.encode(encoder.encode_descriptor(&name, meaning, None, gauge.metric_type())?)?;
            } else {
                let counter = ConstCounter::new(value);
                counter.encode(encoder.encode_descriptor(&name, meaning, None, counter.metric_type())?)?;
            }
        }
        Ok(())
    }
}
