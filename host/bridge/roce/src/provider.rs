//! The provider: RoCE in software or over an adapter, as its arguments say.

use crate::Roce;
use crate::adapter::{Adapter, is_wanted};
use ringcall_bridge::Refused;
use ringcall_bridge::provider::{Args, Linked, ProviderTransport};
use ringcall_protocol::SharedRing;
use ringcall_transport::TransportStats;
use std::time::Duration;

/// The library's transport.
#[derive(Debug)]
pub struct RoceProvider(Either);

#[derive(Debug)]
enum Either {
    Software(Linked<Roce>),
    Adapter(Linked<Adapter>),
}

/// Calls a method of the provider's variant.
macro_rules! of {
    ($self:ident.$method:ident($($argument:expr),*)) => {
        match &$self.0 {
            Either::Software(linked) => linked.$method($($argument),*),
            Either::Adapter(linked) => linked.$method($($argument),*),
        }
    };
}

impl ProviderTransport for RoceProvider {
    const NAME: &'static str = "bridge-roce";

    fn create(args: &Args) -> Result<Self, Refused> {
        Ok(Self(if is_wanted(args) {
            Either::Adapter(Linked::create(args)?)
        } else {
            Either::Software(Linked::create(args)?)
        }))
    }

    fn ring(&self) -> Result<SharedRing, Refused> {
        of!(self.ring())
    }

    fn dataplane(&self) -> Result<SharedRing, Refused> {
        of!(self.dataplane())
    }

    fn connect(&self) -> Result<(), Refused> {
        of!(self.connect())
    }

    fn launch(&self) -> Result<(), Refused> {
        of!(self.launch())
    }

    fn disconnect(&self) -> Result<(), Refused> {
        of!(self.disconnect())
    }

    fn endpoint_info(&self) -> Result<String, Refused> {
        of!(self.endpoint_info())
    }

    fn geometry(&self) -> Result<(u32, u32), Refused> {
        of!(self.geometry())
    }

    fn rx_poll(&self) -> Option<u32> {
        of!(self.rx_poll())
    }

    fn tx_publish(&self, slot: u32) -> Result<(), Refused> {
        of!(self.tx_publish(slot))
    }

    fn stats(&self) -> Option<TransportStats> {
        of!(self.stats())
    }

    fn close(&self) -> Result<(), Refused> {
        of!(self.close())
    }

    fn stop(&self, deadline: Duration) -> Result<(), Refused> {
        of!(self.stop(deadline))
    }

    fn wait(&self, at_most: Duration) -> bool {
        of!(self.wait(at_most))
    }
}
