//! Rendezvous of a service: a thread that sends queue pair and key to every client that asks.

use super::server::Server;
use anyhow::{Context, Result};
use ringcall_roce::Hosts;
use ringcall_roce::introduced::Introducer;
use ringcall_roce::rendezvous::{ConnectionSide, RendezvousService};
use std::net::SocketAddr;

/// Failed callers that are reported one by one; further ones are only counted.
const TOLD: u64 = 10;

/// The number of failed callers, which is reported at the end.
#[derive(Default)]
struct Failed(u64);

impl Failed {
    fn one(&mut self, error: &std::io::Error) {
        self.0 += 1;
        if self.0 <= TOLD {
            eprintln!("ringcall: a rendezvous failed: {error}");
        }
    }
}

impl Drop for Failed {
    fn drop(&mut self) {
        if self.0 > TOLD {
            eprintln!("ringcall: {} rendezvous failed", self.0);
        }
    }
}

/// Sends `here` to each caller from these hosts, after introducing the caller to the service's thread.
pub(super) fn start(
    address: SocketAddr,
    here: ConnectionSide,
    introducer: Introducer,
    allowed: Hosts,
) -> Result<Server> {
    let service = RendezvousService::bind(address).with_context(|| format!("no rendezvous at {address}"))?;
    let mut service = service.only(allowed);
    let address = service.local_addr()?;
    let mut failed = Failed::default();
    Server::start("ringcall-rendezvous", address, move || {
        let meet = |there| {
            // A service that is ending no longer takes introductions.
            introducer.introduce(there);
            here
        };
        service.turn_with(meet, |outcome| {
            if let Err(error) = outcome {
                failed.one(&error);
            }
        })
    })
}
