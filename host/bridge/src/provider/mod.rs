//! Providers: a transport as a shared library of the bridge interface.
//!
//! | basis | item |
//! |---|---|
//! | a [`Wire`](ringcall_transport::Wire) | [`LinkedWire`]: the ring, both modes and the life cycle are here |
//! | something else | [`ProviderTransport`]: every function of the interface as a safe method |
//!
//! A crate of type `cdylib` with [`export_provider!`](crate::export_provider) is then a library for any loader of the
//! interface, Ringcall's or the reference's:
//!
//! ```
//! use ringcall::RingConfig;
//! use ringcall_bridge::Refused;
//! use ringcall_bridge::provider::{Args, Linked, LinkedWire};
//! use ringcall_transport::{TransportAddress, udp};
//!
//! struct Local;
//!
//! impl LinkedWire for Local {
//!     const NAME: &'static str = "local";
//!     type Wire = udp::Udp;
//!
//!     fn bind(args: &Args, _: RingConfig, before: Option<&TransportAddress>) -> Result<udp::Udp, Refused> {
//!         let port = before.map_or(args.number("--port", 0)?, |before| before.address.port());
//!         let address = std::net::SocketAddr::from(([127, 0, 0, 1], port));
//!         Ok(udp::Udp::bind(&udp::UdpOptions { address, ..Default::default() })?)
//!     }
//! }
//!
//! ringcall_bridge::export_provider!(Linked<Local>);
//! # fn main() {}
//! ```
//!
//! A panic never crosses the border: it becomes `CUDAQ_ERR_INTERNAL`.

mod args;
mod entries;
mod hooks;
mod linked;

pub use args::Args;
#[doc(hidden)]
pub use entries::{extension, interface};
pub use linked::{Linked, LinkedArguments, LinkedWire};

use crate::Refused;
use ringcall_protocol::SharedRing;
use ringcall_transport::TransportStats;
use std::time::Duration;

/// A transport under the interface: one value for each instance, called from any thread.
///
/// The caller is responsible for the order of calls, but the transport must survive any order: it answers calls at the
/// wrong time with [`Refused`].
pub trait ProviderTransport: Send + Sync + Sized + 'static {
    /// The name, for messages.
    const NAME: &'static str;

    /// Creates an instance that peers can reach.
    ///
    /// # Errors
    /// Invalid arguments, or the operating system's error.
    fn create(args: &Args) -> Result<Self, Refused>;

    /// The ring that the transport fills after it is [launched](Self::launch). Its memory lives as long as the
    /// instance.
    ///
    /// # Errors
    /// The transport has no ring.
    fn ring(&self) -> Result<SharedRing, Refused> {
        Err(Refused::unsupported("no ring buffer"))
    }

    /// The slots of [`rx_poll`](Self::rx_poll) and [`tx_publish`](Self::tx_publish). The C header describes their
    /// flags.
    ///
    /// # Errors
    /// The transport has no data plane.
    fn dataplane(&self) -> Result<SharedRing, Refused> {
        Err(Refused::unsupported("no data plane for a loop of the caller's"))
    }

    /// Waits for a peer, if the transport needs to know one.
    ///
    /// # Errors
    /// No peer came, or the call is not allowed now.
    fn connect(&self) -> Result<(), Refused> {
        Ok(())
    }

    /// Starts moving data.
    ///
    /// # Errors
    /// The call is not allowed now, or the operating system refuses a thread.
    fn launch(&self) -> Result<(), Refused>;

    /// Stops moving data.
    ///
    /// # Errors
    /// The call is not allowed now, or something does not end.
    fn disconnect(&self) -> Result<(), Refused>;

    /// The instance's address: one line of `key=value` pairs.
    ///
    /// # Errors
    /// The transport has no address.
    fn endpoint_info(&self) -> Result<String, Refused>;

    /// The number of slots, and the bytes of each.
    ///
    /// # Errors
    /// The transport has no slots.
    fn geometry(&self) -> Result<(u32, u32), Refused>;

    /// The slot of an arrived request. Called by one thread at a time; never blocks.
    fn rx_poll(&self) -> Option<u32> {
        None
    }

    /// Sends the response in a slot. Called by the thread of [`rx_poll`](Self::rx_poll).
    ///
    /// # Errors
    /// No request waits for a response in this slot.
    fn tx_publish(&self, slot: u32) -> Result<(), Refused> {
        Err(Refused::unsupported(format!("slot {slot}: no data plane for a loop of the caller's")))
    }

    /// The counters.
    fn stats(&self) -> Option<TransportStats> {
        None
    }

    /// Refuses further requests, and continues to send answers.
    ///
    /// # Errors
    /// The transport cannot refuse requests while it sends answers.
    fn close(&self) -> Result<(), Refused> {
        Err(Refused::unsupported("it closes when it is disconnected"))
    }

    /// As [`disconnect`](Self::disconnect), but waits at most `deadline` for requests in flight.
    ///
    /// # Errors
    /// As for [`disconnect`](Self::disconnect).
    fn stop(&self, deadline: Duration) -> Result<(), Refused> {
        let _ = deadline;
        self.disconnect()
    }

    /// Blocks until a request may be there, or until `at_most`. Returns whether it blocked.
    fn wait(&self, at_most: Duration) -> bool {
        let _ = at_most;
        false
    }
}

/// Makes this library (crate type `cdylib`) a provider of the [`ProviderTransport`] `$transport`: exports
/// `cudaq_realtime_get_bridge_interface` and `ringcall_bridge_get_extension`.
#[macro_export]
macro_rules! export_provider {
    ($transport:ty) => {
        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn cudaq_realtime_get_bridge_interface() -> *const $crate::layout::Interface {
            $crate::provider::interface::<$transport>()
        }

        #[doc(hidden)]
        #[unsafe(no_mangle)]
        pub extern "C" fn ringcall_bridge_get_extension() -> *const $crate::extension::Extension {
            $crate::provider::extension::<$transport>()
        }
    };
}
