//! A shared library that provides a transport.
#![allow(unsafe_code)] // named for it: code and tables of a shared library

use super::maps::Maps;
use crate::BridgeError;
use crate::extension::{Checked, Extension, GET_EXTENSION, GetExtension};
use crate::layout::{GET_INTERFACE, GetInterface, INTERFACE_VERSION, Interface, InterfaceV1, InterfaceV2};
use core::ffi::c_int;
use std::collections::HashMap;
use std::error::Error;
use std::fmt;
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

/// A loaded library, with checked copies of its tables.
///
/// Each library is loaded once for each name, and stays loaded until the process ends: a provider may have threads and
/// handlers that cannot be undone. Loading runs the library's initialisers; the user who names a library trusts it as a
/// dependency. The values that it returns are checked as far as possible.
#[derive(Clone)]
pub struct ProviderLibrary(Arc<Loaded>);

struct Loaded {
    name: String,
    interface: Interface,
    extension: Option<Checked>,
}

/// The loaded libraries by the names they were loaded by.
static LOADED: LazyLock<Mutex<HashMap<String, ProviderLibrary>>> = LazyLock::new(Mutex::default);

impl ProviderLibrary {
    /// Loads the library at a path (with a `/`), or of a name that the dynamic linker looks up.
    ///
    /// # Errors
    /// The library cannot be loaded, is not a provider of version 1 to 3, or has an invalid
    /// [extension](crate::extension). It is then unloaded.
    pub fn open(name: &str) -> Result<Self, BridgeError> {
        if name.contains('\0') {
            return Err(BridgeError::Nul(name.to_owned()));
        }
        let mut loaded = LOADED.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(library) = loaded.get(name) {
            return Ok(library.clone());
        }
        let library = Self::load(name)?;
        loaded.insert(name.to_owned(), library.clone());
        Ok(library)
    }

    fn load(name: &str) -> Result<Self, BridgeError> {
        use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
        let failed = |e: &libloading::Error| BridgeError::Load { library: name.to_owned(), why: said(e) };
        let none = |why: String| BridgeError::NoProvider { library: name.to_owned(), why };
        if name.is_empty() {
            // To the dynamic linker the empty name is the program itself.
            return Err(none("it has no name".to_owned()));
        }
        // SAFETY: its initialisers run; that is what loading means, and the caller has asked for it.
        let library = unsafe { Library::open(Some(name), RTLD_NOW | RTLD_LOCAL) }.map_err(|e| failed(&e))?;
        // SAFETY: the symbol has this type, by the interface.
        let get = unsafe { library.get::<GetInterface>(GET_INTERFACE.as_bytes()) };
        let get = *get.map_err(|e| none(format!("it has no {GET_INTERFACE} ({})", said(&e))))?;
        // SAFETY: takes nothing, by the interface.
        let table = unsafe { get() };
        // SAFETY: what the library says is its table; mapped, which is checked first.
        let interface = unsafe { read_interface(table) }.map_err(none)?;
        // SAFETY: the symbol has this type in every library that has it.
        let extension = unsafe { library.get::<GetExtension>(GET_EXTENSION.as_bytes()) };
        let extension = match extension {
            Ok(get) => {
                // SAFETY: takes nothing.
                let table = unsafe { get() };
                // SAFETY: what the library says is its extension; mapped, which is checked first.
                unsafe { read_extension(table) }.map_err(none)?
            }
            Err(_) => None,
        };
        // From here on the library is used, so it stays loaded.
        std::mem::forget(library);
        Ok(Self(Arc::new(Loaded { name: name.to_owned(), interface, extension })))
    }

    /// The name by which the library was loaded.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The version of the library's interface.
    #[must_use]
    pub fn version(&self) -> c_int {
        self.0.interface.v2.v1.version
    }

    /// Whether the library has Ringcall's extension.
    #[must_use]
    pub fn has_extension(&self) -> bool {
        self.0.extension.is_some()
    }

    pub(super) fn interface(&self) -> &Interface {
        &self.0.interface
    }

    pub(super) fn extension(&self) -> Option<&Checked> {
        self.0.extension.as_ref()
    }
}

impl fmt::Debug for ProviderLibrary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProviderLibrary")
            .field("name", &self.name())
            .field("version", &self.version())
            .finish()
    }
}

/// The dynamic linker's message, which has the cause; the error itself only names the function that failed.
fn said(error: &libloading::Error) -> String {
    error.source().map_or_else(|| error.to_string(), ToString::to_string)
}

/// Copies the table. A table of an earlier version ends early: nothing past its end is read.
///
/// # Safety
/// If `table` is mapped, it is a table: as long as its version says.
unsafe fn read_interface(table: *const Interface) -> Result<Interface, String> {
    if table.is_null() {
        return Err("it returned no interface".to_owned());
    }
    let maps = Maps::read();
    let address = table.addr() as u64;
    if !table.is_aligned() || !maps.readable(address, size_of::<InterfaceV1>() as u64) {
        return Err(format!("its interface is said to be at {address:#x}, where nothing can be"));
    }
    // SAFETY: aligned, mapped, and the caller's promise.
    let version = unsafe { table.cast::<c_int>().read() };
    let length = match version {
        1 => size_of::<InterfaceV1>(),
        2 => size_of::<InterfaceV2>(),
        INTERFACE_VERSION => size_of::<Interface>(),
        other => {
            return Err(format!("its interface has version {other}; versions 1 to {INTERFACE_VERSION} work"));
        }
    };
    if !maps.readable(address, length as u64) {
        return Err("its interface ends before it is complete".to_owned());
    }
    let interface = match version {
        1 => {
            // SAFETY: as above, and no longer than version 1.
            let v1 = unsafe { table.cast::<InterfaceV1>().read() };
            let v2 =
                InterfaceV2 { v1, get_cpu_dataplane: None, get_endpoint_info: None, get_ring_geometry: None };
            Interface { v2, set_function_table: None }
        }
        2 => {
            // SAFETY: as above, and no longer than version 2.
            let v2 = unsafe { table.cast::<InterfaceV2>().read() };
            Interface { v2, set_function_table: None }
        }
        _ => {
            // SAFETY: as above.
            unsafe { table.read() }
        }
    };
    let Interface { v2, set_function_table } = interface;
    let InterfaceV2 { v1, get_cpu_dataplane, get_endpoint_info, get_ring_geometry } = v2;
    let members = [
        ("create", v1.create.map(|f| f as usize)),
        ("destroy", v1.destroy.map(|f| f as usize)),
        ("get_transport_context", v1.get_transport_context.map(|f| f as usize)),
        ("connect", v1.connect.map(|f| f as usize)),
        ("launch", v1.launch.map(|f| f as usize)),
        ("disconnect", v1.disconnect.map(|f| f as usize)),
        ("get_cpu_dataplane", get_cpu_dataplane.map(|f| f as usize)),
        ("get_endpoint_info", get_endpoint_info.map(|f| f as usize)),
        ("get_ring_geometry", get_ring_geometry.map(|f| f as usize)),
        ("set_function_table", set_function_table.map(|f| f as usize)),
    ];
    for (name, address) in members {
        if address.is_some() || matches!(name, "create" | "destroy") {
            check_function(&maps, name, address)?;
        }
    }
    Ok(interface)
}

/// Checks that a member of a table is the address of code.
fn check_function(maps: &Maps, name: &str, address: Option<usize>) -> Result<(), String> {
    match address {
        None => Err(format!("its {name} is null")),
        Some(address) if !maps.executable(address as u64) => {
            Err(format!("its {name} is said to be at {address:#x}, where no code is"))
        }
        Some(_) => Ok(()),
    }
}

/// Copies the extension. `None` if there is none, or if it is shorter than this crate's and so lacks a function.
///
/// # Safety
/// If `table` is mapped, it is an extension: as long as its size says.
unsafe fn read_extension(table: *const Extension) -> Result<Option<Checked>, String> {
    if table.is_null() {
        return Ok(None);
    }
    let maps = Maps::read();
    let address = table.addr() as u64;
    let nowhere = || format!("its extension is said to be at {address:#x}, where nothing can be");
    if !table.is_aligned() || !maps.readable(address, size_of::<usize>() as u64) {
        return Err(nowhere());
    }
    // SAFETY: aligned, mapped, and the caller's promise.
    let size = unsafe { table.cast::<usize>().read() };
    if size < size_of::<Extension>() {
        return Ok(None);
    }
    if !maps.readable(address, size_of::<Extension>() as u64) {
        return Err(nowhere());
    }
    // SAFETY: as above; what it has for functions may be any number or null.
    let Extension { size: _, last_error, statistics, close, stop, wait } = unsafe { table.read() };
    for (name, address) in [
        ("extension's last_error", last_error.map(|f| f as usize)),
        ("extension's statistics", statistics.map(|f| f as usize)),
        ("extension's close", close.map(|f| f as usize)),
        ("extension's stop", stop.map(|f| f as usize)),
        ("extension's wait", wait.map(|f| f as usize)),
    ] {
        check_function(&maps, name, address)?;
    }
    let all = last_error.zip(statistics).zip(stop.zip(wait));
    Ok(all.map(|((last_error, statistics), (stop, wait))| Checked { last_error, statistics, stop, wait }))
}
