//! Counters for Prometheus, over HTTP, in the OpenMetrics text format.

use super::figures::{Figure, Figures};
use anyhow::{Result, anyhow};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;
use std::thread::JoinHandle;
use tiny_http::{Header, Method, Request, Response, Server};

/// Of the OpenMetrics text format.
const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// An endpoint on a thread of its own: `GET /metrics`.
pub(super) struct Metrics {
    server: Arc<Server>,
    thread: JoinHandle<()>,
}

impl Metrics {
    pub(super) fn start(address: SocketAddr, figures: Figures) -> Result<Self> {
        let server = Server::http(address).map_err(|e| anyhow!("cannot serve metrics on {address}: {e}"))?;
        let server = Arc::new(server);
        let mut registry = Registry::default();
        registry.register_collector(Box::new(Counts(figures)));
        let thread = std::thread::Builder::new().name("ringcall-metrics".to_owned()).spawn({
            let server = Arc::clone(&server);
            move || {
                // An error ends it: the stop unblocks the receive with one.
                while let Ok(request) = server.recv() {
                    answer(request, &registry);
                }
            }
        })?;
        Ok(Self { server, thread })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> Option<SocketAddr> {
        self.server.server_addr().to_ip()
    }

    pub(super) fn stop(self) {
        self.server.unblock();
        let _ = self.thread.join();
    }
}

/// A client that has gone away meanwhile is nobody to tell.
fn answer(request: Request, registry: &Registry) {
    let _ = match (request.method(), request.url()) {
        (Method::Get, "/metrics") => {
            let mut out = String::new();
            match text::encode(&mut out, registry) {
                Ok(()) => {
                    let response = Response::from_string(out);
                    request.respond(match Header::from_bytes("Content-Type", CONTENT_TYPE) {
                        Ok(kind) => response.with_header(kind),
                        Err(()) => response,
                    })
                }
                Err(error) => request.respond(Response::from_string(error.to_string()).with_status_code(500)),
            }
        }
        _ => request.respond(Response::from_string("try /metrics\n").with_status_code(404)),
    };
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
