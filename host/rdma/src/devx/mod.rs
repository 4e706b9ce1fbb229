//! Queue pairs of mlx5 adapters through rdma-core's DevX, which is loaded at run time.
//!
//! ```no_run
//! use ringcall_rdma::command::{Mtu, Path, ConnectionService, gid_of};
//! use ringcall_rdma::devx::{QueuePairLayout, Library, Memory, QueuePair};
//!
//! let device = Library::load()?.open(None)?;
//! let layout = QueuePairLayout::of(6, 6)?;
//! # let memory: *mut u8 = std::ptr::null_mut(); // page-aligned, `layout.bytes` long, as long as the queue pair
//! // SAFETY: the memory is mapped, and outlives the queue pair.
//! let pair = unsafe { QueuePair::create(&device, ConnectionService::Unreliable, layout, Memory::Host(memory)) }?;
//! let path = Path {
//!     port: 1, gid_index: 3, mtu: Mtu::B4096, hop_limit: 255, traffic_class: 0, udp_port: 0xC000,
//!     gid: gid_of("192.168.0.2".parse()?), mac: [2, 0, 0, 0, 0, 2], qp: 2, psn: 0,
//! };
//! pair.connect(&path, 0)?;
//! println!("queue pair {:#x}, doorbell register at {:?}", pair.number(), pair.register());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! This module has not run with an adapter; without one, [`Library::open`] fails with a message that says so.

#![allow(unsafe_code)] // rdma-core's functions

mod api;
mod pair;
#[cfg(test)]
mod stand_in;

pub use pair::{Memory, QueuePair, QueuePairLayout, RegisteredSlots};

use crate::command::{self, Command, CommandError};
use api::{Api, ContextAttributes, Handle, Objects, Pd};
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::ptr::{NonNull, null_mut};
use std::sync::Arc;

/// Why no queue pair was made.
#[derive(Debug, thiserror::Error)]
pub enum DevxError {
    /// rdma-core is not installed, or too old.
    #[error("{name} cannot be used: {why}; install rdma-core (Debian: ibverbs-providers)")]
    Library {
        /// The library or function.
        name: &'static str,
        /// The loader's message.
        why: String,
    },
    /// There is no mlx5 adapter, or none of the wanted name.
    #[error(
        "no mlx5 adapter{}; there {}", .wanted.as_ref().map_or(String::new(), |name| format!(" `{name}`")),
        if .found.is_empty() { "is no RDMA device at all".to_owned() } else { format!("are {}", .found.join(", ")) }
    )]
    NoDevice {
        /// The wanted name.
        wanted: Option<String>,
        /// RDMA devices of this machine.
        found: Vec<String>,
    },
    /// A call failed.
    #[error("{call}: {source}")]
    Call {
        /// rdma-core's function.
        call: &'static str,
        /// The function's error.
        source: io::Error,
    },
    /// A command that is invalid, or that the adapter refused.
    #[error(transparent)]
    Command(#[from] CommandError),
    /// The memory's alignment does not suit queues.
    #[error(
        "queue memory at {0:#x}: an address, or an offset in a dmabuf, that is a multiple of 4096 is needed"
    )]
    Misaligned(usize),
    /// The sizes are not those of a queue.
    #[error("a queue of 2^{0} requests: give 0 to 15 to send, 2 to 15 to receive")]
    Size(u8),
}

fn failed(call: &'static str) -> DevxError {
    DevxError::Call { call, source: io::Error::last_os_error() }
}

/// Turns the errno that a call returned into a result.
fn checked(call: &'static str, code: c_int) -> Result<(), DevxError> {
    if code == 0 {
        Ok(())
    } else {
        Err(DevxError::Call { call, source: io::Error::from_raw_os_error(code.abs()) })
    }
}

fn some<T>(call: &'static str, pointer: *mut T) -> Result<NonNull<T>, DevxError> {
    NonNull::new(pointer).ok_or_else(|| failed(call))
}

/// The loaded rdma-core.
pub struct Library {
    api: Api,
}

impl std::fmt::Debug for Library {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Library").finish_non_exhaustive()
    }
}

impl Library {
    /// Loads libibverbs and libmlx5.
    ///
    /// # Errors
    /// They are not installed, or lack a function.
    pub fn load() -> Result<Arc<Self>, DevxError> {
        Ok(Arc::new(Self { api: Api::load()? }))
    }

    /// Calls `each` with every RDMA device and its name, until `each` returns a value.
    fn find<T>(&self, mut each: impl FnMut(Handle, &str) -> Option<T>) -> Result<Option<T>, DevxError> {
        let mut count = 0;
        // SAFETY: the count is ours to write.
        let list = unsafe { (self.api.get_device_list)(&raw mut count) };
        let Some(list) = NonNull::new(list) else {
            // On a kernel without RDMA the list is missing because there are no devices, not because the call failed.
            let source = io::Error::last_os_error();
            return match source.raw_os_error() {
                Some(code) if code == NO_SUCH_SYSTEM_CALL || code == NO_SUCH_FILE => Ok(None),
                _ => Err(DevxError::Call { call: "ibv_get_device_list", source }),
            };
        };
        let mut found = None;
        for index in 0..usize::try_from(count).unwrap_or(0) {
            // SAFETY: the list has `count` entries.
            let entry = unsafe { list.add(index) };
            // SAFETY: as above; it stands until the list is freed.
            let device = unsafe { entry.read() };
            let Some(device) = NonNull::new(device) else { continue };
            // SAFETY: a device of the list.
            let name = unsafe { (self.api.get_device_name)(device.as_ptr()) };
            if name.is_null() {
                continue;
            }
            // SAFETY: a string that stands as long as the list.
            let name = unsafe { CStr::from_ptr(name) };
            found = each(device, &name.to_string_lossy());
            if found.is_some() {
                break;
            }
        }
        // SAFETY: the list is not used any more; an opened device stays.
        unsafe { (self.api.free_device_list)(list.as_ptr()) };
        Ok(found)
    }

    /// Names of all RDMA devices.
    ///
    /// # Errors
    /// The library's error.
    pub fn devices(&self) -> Result<Vec<String>, DevxError> {
        let mut names = Vec::new();
        self.find(|_, name| {
            names.push(name.to_owned());
            None::<()>
        })?;
        Ok(names)
    }

    /// Opens the mlx5 adapter `wanted`, or the first one, with DevX.
    ///
    /// # Errors
    /// There is no such adapter, or the process may not open it.
    pub fn open(self: &Arc<Self>, wanted: Option<&str>) -> Result<Arc<Device>, DevxError> {
        let mut attributes = ContextAttributes { flags: CONTEXT_DEVX, comp_mask: 0 };
        let opened = self.find(|device, name| {
            if wanted.is_some_and(|wanted| wanted != name) {
                return None;
            }
            // SAFETY: a device of the list.
            if !unsafe { (self.api.is_supported)(device.as_ptr()) } {
                return None;
            }
            // SAFETY: a device of the list, and attributes of ours.
            let context = unsafe { (self.api.open_device)(device.as_ptr(), &raw mut attributes) };
            Some(some("mlx5dv_open_device", context))
        })?;
        match opened {
            Some(context) => Ok(Arc::new(Device { library: Arc::clone(self), context: context? })),
            None => Err(DevxError::NoDevice { wanted: wanted.map(str::to_owned), found: self.devices()? }),
        }
    }
}

const CONTEXT_DEVX: u32 = 1;
const NO_SUCH_SYSTEM_CALL: i32 = 38;
const NO_SUCH_FILE: i32 = 2;
/// Flag of `mlx5dv_init_obj`: the object is a protection domain, the seventh pair.
const OBJECT_PD: u64 = 1 << 6;

/// An open adapter. It is closed when every object made from it is dropped.
#[derive(Debug)]
pub struct Device {
    library: Arc<Library>,
    context: Handle,
}

// SAFETY: rdma-core's contexts may be used by any thread.
unsafe impl Send for Device {}
// SAFETY: as above; its calls lock.
unsafe impl Sync for Device {}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: nothing made of it is left: each holds the device.
        unsafe { (self.library.api.close_device)(self.context.as_ptr()) };
    }
}

impl Device {
    fn api(&self) -> &Api {
        &self.library.api
    }

    /// The number of an event queue, which a completion queue has to name.
    fn event_queue(&self) -> Result<u32, DevxError> {
        let mut number = 0;
        // SAFETY: the number is ours to write.
        let code = unsafe { (self.api().query_eqn)(self.context.as_ptr(), 0, &raw mut number) };
        checked("mlx5dv_devx_query_eqn", code)?;
        Ok(number)
    }

    fn create(self: &Arc<Self>, command: &Command) -> Result<Object, DevxError> {
        let mut answer = command::answer();
        let (input, output) = (command.as_ptr().cast::<c_void>(), answer.as_mut_ptr().cast::<c_void>());
        // SAFETY: both buffers are as long as is said.
        let object = unsafe {
            (self.api().obj_create)(self.context.as_ptr(), input, command.len(), output, answer.len())
        };
        let call = failed("mlx5dv_devx_obj_create");
        let number = command::made(&answer)?;
        let object = NonNull::new(object).ok_or(call)?;
        Ok(Object { device: Arc::clone(self), object, number })
    }
}

/// A queue that the adapter has created.
#[derive(Debug)]
struct Object {
    device: Arc<Device>,
    object: Handle,
    number: u32,
}

impl Object {
    fn modify(&self, command: &Command) -> Result<(), DevxError> {
        let mut answer = command::answer();
        let (input, output) = (command.as_ptr().cast::<c_void>(), answer.as_mut_ptr().cast::<c_void>());
        // SAFETY: both buffers are as long as is said.
        let code = unsafe {
            (self.device.api().obj_modify)(self.object.as_ptr(), input, command.len(), output, answer.len())
        };
        command::made(&answer)?;
        checked("mlx5dv_devx_obj_modify", code)
    }
}

impl Drop for Object {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more: what does is dropped before.
        unsafe { (self.device.api().obj_destroy)(self.object.as_ptr()) };
    }
}

#[derive(Debug)]
struct Domain {
    device: Arc<Device>,
    domain: Handle,
    number: u32,
}

// SAFETY: rdma-core's protection domains may be used by any thread.
unsafe impl Send for Domain {}
// SAFETY: as above; it changes nothing in one but at its end.
unsafe impl Sync for Domain {}

impl Domain {
    fn new(device: &Arc<Device>) -> Result<Self, DevxError> {
        // SAFETY: an open context.
        let domain = unsafe { (device.api().alloc_pd)(device.context.as_ptr()) };
        let domain = some("ibv_alloc_pd", domain)?;
        let mut made = Self { device: Arc::clone(device), domain, number: 0 };
        let mut answer = Pd { pdn: 0, comp_mask: 0 };
        let mut objects = Objects { pairs: [[null_mut(); 2]; 7] };
        objects.pairs[6] = [domain.as_ptr(), (&raw mut answer).cast()];
        // SAFETY: the seventh pair is a protection domain and room for its answer.
        let code = unsafe { (device.api().init_obj)(&raw mut objects, OBJECT_PD) };
        checked("mlx5dv_init_obj", code)?;
        made.number = answer.pdn;
        Ok(made)
    }
}

impl Drop for Domain {
    fn drop(&mut self) {
        // SAFETY: nothing uses it any more.
        unsafe { (self.device.api().dealloc_pd)(self.domain.as_ptr()) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Without an adapter each step names the missing part. A queue pair of a real adapter is for a person to try.
    #[test]
    fn without_an_adapter_it_says_so() {
        let library = match Library::load() {
            Ok(library) => library,
            Err(error @ DevxError::Library { .. }) => {
                assert!(error.to_string().contains("install rdma-core"), "{error}");
                eprintln!("skipped: {error}");
                return;
            }
            Err(error) => panic!("{error}"),
        };
        let devices = library.devices().expect("it can be asked");
        let error = library.open(Some("no_such_adapter")).map(|_| ()).expect_err("nobody has it");
        assert!(error.to_string().starts_with("no mlx5 adapter `no_such_adapter`; there "), "{error}");
        if devices.is_empty() {
            let error = library.open(None).map(|_| ()).expect_err("there is none");
            assert_eq!(error.to_string(), "no mlx5 adapter; there is no RDMA device at all");
            eprintln!("ran: rdma-core is here, and no adapter");
        }
    }
}
