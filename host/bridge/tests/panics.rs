//! A provider that panics in every function: each is an internal error, none crosses the border.
#![allow(unsafe_code, clippy::multiple_unsafe_ops_per_block)] // calls of C functions

use core::ptr::null_mut;
use ringcall::{Ring, RingConfig};
use ringcall_bridge::Refused;
use ringcall_bridge::layout::{CpuDataplane, Handle, Interface, RX_EMPTY, RingBuffer};
use ringcall_bridge::provider::{Args, ProviderTransport, extension, interface};
use ringcall_protocol::SharedRing;
use std::ffi::CStr;

struct Panics {
    ring: SharedRing,
}

impl ProviderTransport for Panics {
    const NAME: &'static str = "panics";

    fn create(args: &Args) -> Result<Self, Refused> {
        assert!(!args.flag("--panic"), "in create");
        let ring = Ring::allocate(RingConfig { slots: 2, slot_bytes: 64 }).unwrap();
        Ok(Self { ring: ring.shared().clone() })
    }

    fn ring(&self) -> Result<SharedRing, Refused> {
        panic!("in ring")
    }

    fn dataplane(&self) -> Result<SharedRing, Refused> {
        Ok(self.ring.clone())
    }

    fn connect(&self) -> Result<(), Refused> {
        panic!("in connect")
    }

    fn launch(&self) -> Result<(), Refused> {
        panic!("in launch")
    }

    fn disconnect(&self) -> Result<(), Refused> {
        panic!("in disconnect")
    }

    fn endpoint_info(&self) -> Result<String, Refused> {
        panic!("in endpoint_info")
    }

    fn geometry(&self) -> Result<(u32, u32), Refused> {
        panic!("in geometry")
    }

    fn rx_poll(&self) -> Option<u32> {
        panic!("in rx_poll")
    }

    fn tx_publish(&self, _: u32) -> Result<(), Refused> {
        panic!("in tx_publish")
    }
}

impl Drop for Panics {
    fn drop(&mut self) {
        panic!("in drop");
    }
}

#[test]
fn no_panic_crosses() {
    const INTERNAL: i32 = 2;
    // SAFETY: a table that lives indefinitely.
    let table: Interface = unsafe { *interface::<Panics>() };
    let mut handle: Handle = null_mut();
    let mut argv = [c"--panic".as_ptr().cast_mut(), null_mut()];
    let mut plane = CpuDataplane::EMPTY;
    let mut ring = RingBuffer::EMPTY;
    let (mut slot, mut line) = (0, [0_u8; 64]);
    // SAFETY: the interface's functions with what they ask for.
    unsafe {
        let create = table.v2.v1.create.unwrap();
        assert_eq!(create(&raw mut handle, 1, argv.as_mut_ptr()), INTERNAL);
        assert!(handle.is_null());
        assert_eq!(create(&raw mut handle, 0, null_mut()), 0);
        assert_eq!(table.v2.v1.get_transport_context.unwrap()(handle, 0, (&raw mut ring).cast()), INTERNAL);
        assert_eq!(table.v2.v1.connect.unwrap()(handle), INTERNAL);
        assert_eq!((*extension::<Panics>()).last_error.unwrap()(line.as_mut_ptr().cast(), 64), 0);
        assert_eq!(CStr::from_bytes_until_nul(&line).unwrap(), c"panic: in connect");
        assert_eq!(table.v2.v1.launch.unwrap()(handle), INTERNAL);
        assert_eq!(table.v2.v1.disconnect.unwrap()(handle), INTERNAL);
        assert_eq!(table.v2.get_endpoint_info.unwrap()(handle, line.as_mut_ptr().cast(), 64), INTERNAL);
        assert_eq!(table.v2.get_ring_geometry.unwrap()(handle, &raw mut slot, &raw mut slot), INTERNAL);
        assert_eq!(table.v2.get_cpu_dataplane.unwrap()(handle, &raw mut plane), 0);
        assert_eq!(plane.rx_poll.unwrap()(plane.ctx, &raw mut slot), RX_EMPTY);
        assert_eq!(plane.tx_publish.unwrap()(plane.ctx, 0), INTERNAL);
        assert_eq!(table.v2.v1.destroy.unwrap()(handle), INTERNAL);
        assert_eq!(table.v2.v1.destroy.unwrap()(handle), 1, "it is gone all the same");
    }
}
