//! Transports from a shared library.

use super::served::{Served, TwoThreadService, driven};
use super::{ThreadsArg, TransportArg};
use anyhow::Result;
use clap::ValueEnum;
use ringcall::dispatcher::Wired;
use ringcall::{HostDispatcher, Ring, RingConfig};
use ringcall_bridge::{BridgeError, PolledProvider, Provider, RingProvider, parse_endpoint};
use ringcall_transport::TransportAddress;
use ringcall_wire::CudaqStatus;
use std::str::FromStr;

/// The transport of requests.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Over {
    /// A transport of this program.
    Own(TransportArg),
    /// The library of a provider.
    Plugin(String),
}

impl FromStr for Over {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.strip_prefix("plugin:") {
            Some("") => Err("name the library: plugin:LIBRARY".to_owned()),
            Some(library) => Ok(Self::Plugin(library.to_owned())),
            None => TransportArg::from_str(text, false)
                .map(Self::Own)
                .map_err(|_| "take udp, roce, nic or plugin:LIBRARY".to_owned()),
        }
    }
}

/// A provider that is not yet launched.
pub(super) struct Plugin {
    provider: Provider,
    /// Whether a thread of this process polls the provider; otherwise it fills a ring by itself.
    driven: bool,
}

impl Plugin {
    pub(super) fn load(library: &str, args: &[String]) -> Result<Self> {
        let provider = Provider::load(library, args)?;
        let driven = match provider.plane() {
            Ok(_) => true,
            Err(error) if error.status() == CudaqStatus::Unsupported => false,
            Err(error) => return Err(error.into()),
        };
        Ok(Self { provider, driven })
    }

    /// Whether a thread of this process polls the provider.
    pub(super) const fn is_driven(&self) -> bool {
        self.driven
    }

    /// The ring to serve: the provider's, or a new one of the same shape.
    pub(super) fn ring(&self) -> Result<Ring> {
        if !self.driven {
            return Ok(self.provider.ring()?);
        }
        let (slots, slot_bytes) = self.provider.ring_geometry()?;
        Ok(Ring::allocate(RingConfig { slots, slot_bytes })?)
    }

    /// The provider's endpoint, which is known before a peer connects.
    pub(super) fn endpoint(&self) -> Result<TransportAddress> {
        match self.provider.endpoint_info() {
            Ok(line) => Ok(parse_endpoint(&line)),
            Err(BridgeError::Unsupported { .. }) => Ok(parse_endpoint("")),
            Err(error) => Err(error.into()),
        }
    }

    /// Connects, which may wait for a peer, and launches.
    pub(super) fn start(
        self,
        ring: &Ring,
        dispatcher: HostDispatcher<Wired>,
        threads: ThreadsArg,
    ) -> Result<Box<dyn Served>> {
        // The endpoint is read before waiting for a peer, which needs the address.
        match self.provider.endpoint_info() {
            Ok(line) => eprintln!("{line}"),
            Err(BridgeError::Unsupported { .. }) => (),
            Err(error) => return Err(error.into()),
        }
        if self.driven {
            return driven(PolledProvider::attach(self.provider, ring)?, dispatcher, threads);
        }
        let dispatcher = dispatcher.start()?;
        let transport = Box::new(RingProvider::launch(self.provider, ring)?);
        Ok(Box::new(TwoThreadService { transport, dispatcher }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transports_are_named_or_loaded() {
        assert_eq!("roce".parse(), Ok(Over::Own(TransportArg::Roce)));
        assert_eq!("plugin:./a.so".parse(), Ok(Over::Plugin("./a.so".to_owned())));
        assert!("plugin:".parse::<Over>().is_err() && "tcp".parse::<Over>().is_err());
    }
}
