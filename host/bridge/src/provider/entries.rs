//! The interface's C functions over a [`ProviderTransport`].
#![allow(unsafe_code)] // named for it: the border to C

use super::{Args, ProviderTransport};
use crate::Refused;
use crate::border::{enter, enter_for, last_error_text, raw, read_args, write_text};
use crate::extension::Extension;
use crate::handles::Handles;
use crate::layout::{
    CONTEXT_RING_BUFFER, CONTEXT_UNIFIED, CpuDataplane, Handle, INTERFACE_VERSION, Interface, InterfaceV1,
    InterfaceV2, RX_EMPTY, RX_READY, RingBuffer, UnifiedContext,
};
use core::ffi::{c_char, c_int, c_void};
use core::fmt::Write;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_wire::CudaqStatus;
use std::any::Any;
use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// All instances of this library. (A static cannot be generic, but a library has instances of one type only.)
static INSTANCES: Handles<Box<dyn Any + Send + Sync>> = Handles::new();

/// An instance, and copies of the answers that it has given, which stay valid even if the `ProviderTransport` changes.
struct Instance<T> {
    transport: T,
    handed_out: Mutex<Vec<SharedRing>>,
}

struct Entries<T>(PhantomData<T>);

/// The interface of a transport: what the exported function returns.
#[must_use]
pub fn interface<T: ProviderTransport>() -> *const Interface {
    Entries::<T>::INTERFACE
}

/// The extension of a transport.
#[must_use]
pub fn extension<T: ProviderTransport>() -> *const Extension {
    Entries::<T>::EXTENSION
}

type Found<T> = (Arc<Box<dyn Any + Send + Sync>>, PhantomData<T>);

fn find<T: ProviderTransport>(handle: Handle) -> Result<Found<T>, Refused> {
    let instance = INSTANCES.get(handle).filter(|instance| (***instance).is::<Instance<T>>());
    let instance = instance.ok_or_else(|| Refused::invalid("no such handle, or one that was destroyed"))?;
    Ok((instance, PhantomData))
}

fn instance<T: ProviderTransport>(found: &Found<T>) -> Result<&Instance<T>, Refused> {
    (**found.0).downcast_ref().ok_or_else(|| Refused::internal("another kind of instance"))
}

fn with<T: ProviderTransport>(
    handle: Handle,
    body: impl FnOnce(&Instance<T>) -> Result<(), Refused>,
) -> c_int {
    enter(|| {
        let found = find::<T>(handle)?;
        body(instance(&found)?)
    })
}

impl<T: ProviderTransport> Instance<T> {
    /// The ring's addresses, the same for host and device: this is host memory.
    fn hand_out(&self, ring: &SharedRing) -> RingBuffer {
        let windows = ring.windows();
        let words = |address: u64| std::ptr::with_exposed_provenance_mut::<u64>(address as usize);
        let bytes = |address: u64| std::ptr::with_exposed_provenance_mut::<u8>(address as usize);
        let (rx_flags, tx_flags) = (words(windows.rx_flags.address()), words(windows.tx_flags.address()));
        let (rx_data, tx_data) = (bytes(windows.rx_data.address()), bytes(windows.tx_data.address()));
        let geometry = ring.geometry();
        self.handed_out.lock().unwrap_or_else(PoisonError::into_inner).push(ring.clone());
        RingBuffer {
            rx_flags,
            tx_flags,
            rx_data,
            tx_data,
            rx_stride_sz: geometry.rx_stride() as usize,
            tx_stride_sz: geometry.tx_stride() as usize,
            rx_flags_host: rx_flags,
            tx_flags_host: tx_flags,
            rx_data_host: rx_data,
            tx_data_host: tx_data,
        }
    }
}

impl<T: ProviderTransport> Entries<T> {
    const INTERFACE: &'static Interface = &Interface {
        v2: InterfaceV2 {
            v1: InterfaceV1 {
                version: INTERFACE_VERSION,
                create: Some(Self::create),
                destroy: Some(Self::destroy),
                get_transport_context: Some(Self::get_transport_context),
                connect: Some(Self::connect),
                launch: Some(Self::launch),
                disconnect: Some(Self::disconnect),
            },
            get_cpu_dataplane: Some(Self::get_cpu_dataplane),
            get_endpoint_info: Some(Self::get_endpoint_info),
            get_ring_geometry: Some(Self::get_ring_geometry),
        },
        // Functions are the dispatcher's: the provider calls none.
        set_function_table: None,
    };

    const EXTENSION: &'static Extension = &Extension {
        size: size_of::<Extension>(),
        last_error: Some(Self::last_error),
        statistics: Some(Self::stats),
        close: Some(Self::close),
        stop: Some(Self::stop),
        wait: Some(Self::wait),
    };

    unsafe extern "C" fn create(out: *mut Handle, argc: c_int, argv: *mut *mut c_char) -> c_int {
        enter(|| {
            if out.is_null() {
                return Err(Refused::invalid("the handle's address is null"));
            }
            // SAFETY: the interface's contract.
            let args = unsafe { read_args(argc, argv) }?;
            let transport = T::create(&Args::new(args)).map_err(|refused| {
                // Loaders that do not know the extension only get a number.
                eprintln!("{}: {refused}", T::NAME);
                refused
            })?;
            let instance: Box<dyn Any + Send + Sync> =
                Box::new(Instance { transport, handed_out: Mutex::default() });
            // SAFETY: not null, and the caller's to be written.
            unsafe { out.write(INSTANCES.insert(Arc::new(instance))) };
            Ok(())
        })
    }

    unsafe extern "C" fn destroy(handle: Handle) -> c_int {
        enter(|| {
            find::<T>(handle)?;
            drop(INSTANCES.remove(handle));
            Ok(())
        })
    }

    unsafe extern "C" fn get_transport_context(handle: Handle, kind: c_int, out: *mut c_void) -> c_int {
        with::<T>(handle, |instance| {
            if out.is_null() {
                return Err(Refused::invalid("the context's address is null"));
            }
            match kind {
                CONTEXT_RING_BUFFER => {
                    let ring = instance.hand_out(&instance.transport.ring()?);
                    // SAFETY: not null; the caller's, of this type for this kind.
                    unsafe { out.cast::<RingBuffer>().write(ring) };
                    Ok(())
                }
                CONTEXT_UNIFIED => {
                    instance.transport.dataplane()?;
                    // The caller runs the loop, over the data plane.
                    // SAFETY: not null; the caller's, of this type for this kind.
                    unsafe { out.cast::<UnifiedContext>().write(UnifiedContext::EMPTY) };
                    Ok(())
                }
                other => Err(Refused::invalid(format!("context {other} does not exist"))),
            }
        })
    }

    unsafe extern "C" fn connect(handle: Handle) -> c_int {
        with::<T>(handle, |instance| instance.transport.connect())
    }

    unsafe extern "C" fn launch(handle: Handle) -> c_int {
        with::<T>(handle, |instance| instance.transport.launch())
    }

    unsafe extern "C" fn disconnect(handle: Handle) -> c_int {
        with::<T>(handle, |instance| instance.transport.disconnect())
    }

    unsafe extern "C" fn get_cpu_dataplane(handle: Handle, out: *mut CpuDataplane) -> c_int {
        with::<T>(handle, |instance| {
            if out.is_null() {
                return Err(Refused::invalid("the data plane's address is null"));
            }
            let ring = instance.hand_out(&instance.transport.dataplane()?);
            let plane = CpuDataplane {
                ctx: std::ptr::from_ref(instance).cast_mut().cast(),
                ring,
                rx_poll: Some(Self::rx_poll),
                tx_publish: Some(Self::tx_publish),
            };
            // SAFETY: not null, and the caller's to be written.
            unsafe { out.write(plane) };
            Ok(())
        })
    }

    unsafe extern "C" fn get_endpoint_info(handle: Handle, out: *mut c_char, len: usize) -> c_int {
        with::<T>(handle, |instance| {
            let line = instance.transport.endpoint_info()?;
            // SAFETY: the interface's contract.
            unsafe { write_text(&line, out, len) }
        })
    }

    unsafe extern "C" fn get_ring_geometry(handle: Handle, slots: *mut u32, slot_bytes: *mut u32) -> c_int {
        with::<T>(handle, |instance| {
            if slots.is_null() || slot_bytes.is_null() {
                return Err(Refused::invalid("an address for the geometry is null"));
            }
            let geometry = instance.transport.geometry()?;
            // SAFETY: not null, and the caller's to be written.
            unsafe { slots.write(geometry.0) };
            // SAFETY: as above.
            unsafe { slot_bytes.write(geometry.1) };
            Ok(())
        })
    }

    unsafe extern "C" fn rx_poll(ctx: *mut c_void, slot: *mut u32) -> c_int {
        enter_for(RX_EMPTY, || {
            // SAFETY: `ctx` came from `get_cpu_dataplane`, and the instance was not destroyed: the interface's contract.
            let instance = unsafe { ctx.cast::<Instance<T>>().as_ref() };
            let Some(instance) = instance.filter(|_| !slot.is_null()) else { return RX_EMPTY };
            match instance.transport.rx_poll() {
                Some(index) => {
                    // SAFETY: not null, and the caller's to be written.
                    unsafe { slot.write(index) };
                    RX_READY
                }
                None => RX_EMPTY,
            }
        })
    }

    unsafe extern "C" fn tx_publish(ctx: *mut c_void, slot: u32) -> c_int {
        // The error's text is not kept, because this is called for every answer.
        enter_for(raw(CudaqStatus::Internal), || {
            // SAFETY: as for `rx_poll`.
            let instance = unsafe { ctx.cast::<Instance<T>>().as_ref() };
            let Some(instance) = instance else { return raw(CudaqStatus::InvalidArg) };
            // A loop publishes only the slots that it was given: any other refusal is a fault.
            raw(instance.transport.tx_publish(slot).map_or(CudaqStatus::Internal, |()| CudaqStatus::Ok))
        })
    }

    unsafe extern "C" fn last_error(out: *mut c_char, len: usize) -> c_int {
        let text = last_error_text();
        enter_for(raw(CudaqStatus::Internal), || {
            let mut text = text.to_string_lossy().into_owned();
            text.truncate(text.floor_char_boundary(len.saturating_sub(1)));
            // SAFETY: the extension's contract.
            let written = unsafe { write_text(&text, out, len) };
            raw(written.map_or_else(|refused| refused.status, |()| CudaqStatus::Ok))
        })
    }

    unsafe extern "C" fn stats(handle: Handle, out: *mut c_char, len: usize) -> c_int {
        with::<T>(handle, |instance| {
            let counts =
                instance.transport.stats().ok_or_else(|| Refused::unsupported("nothing is counted"))?;
            let mut line = String::new();
            for (name, n) in counts.named().filter(|&(_, n)| n != 0) {
                let _ = write!(line, "{}{name}={n}", if line.is_empty() { "" } else { " " });
            }
            // SAFETY: the extension's contract.
            unsafe { write_text(&line, out, len) }
        })
    }

    unsafe extern "C" fn close(handle: Handle) -> c_int {
        with::<T>(handle, |instance| instance.transport.close())
    }

    unsafe extern "C" fn stop(handle: Handle, ns: u64) -> c_int {
        with::<T>(handle, |instance| instance.transport.stop(Duration::from_nanos(ns)))
    }

    unsafe extern "C" fn wait(handle: Handle, ns: u64) -> c_int {
        with::<T>(handle, |instance| {
            if instance.transport.wait(Duration::from_nanos(ns)) {
                Ok(())
            } else {
                Err(Refused::unsupported("it does not block now"))
            }
        })
    }
}
