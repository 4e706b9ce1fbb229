//! Life cycle and calls of a provider's instances.
#![allow(unsafe_code)] // named for it: calls into a shared library

use super::library::ProviderLibrary;
use super::plane::Plane;
use super::ring;
use crate::layout::{
    CONTEXT_RING_BUFFER, CONTEXT_UNIFIED, CpuDataplane, CudaqFunctionTable, Handle, RingBuffer,
    UnifiedContext,
};
use crate::{BridgeError, endpoint};
use core::ffi::{CStr, c_char, c_int};
use ringcall::Ring;
use ringcall_transport::{TransportAddress, TransportStats};
use std::any::Any;
use std::ffi::CString;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most bytes of a provider's endpoint line, its NUL included.
const LINE_BYTES: usize = 1024;
/// Bytes after the buffer for a line, which reveal a provider that writes past its end.
const GUARD_BYTES: usize = 256;
const GUARD: u8 = 0xA5;

/// An instance of a loaded provider. Cheap to clone: a handle. The instance is disconnected and destroyed when the last
/// handle is dropped, and the last ring or data plane taken from it.
///
/// ```no_run
/// use ringcall_bridge::Provider;
///
/// let provider = Provider::load("./libtransport.so", &["--port=0", "--num-slots=64"])?;
/// println!("{}", provider.endpoint_info()?); // transport=udp port=...
/// let ring = provider.ring()?; // for a dispatcher
/// provider.connect()?;
/// provider.launch()?;
/// // ...
/// provider.disconnect()?;
/// # Ok::<(), ringcall_bridge::BridgeError>(())
/// ```
#[derive(Clone)]
pub struct Provider(Arc<Instance>);

pub(super) struct Instance {
    library: ProviderLibrary,
    handle: Handle,
    stage: Mutex<Stage>,
    /// A provider may keep the pointers, since in a program they are those of `main`.
    _args: Vec<CString>,
}

// SAFETY: the interface's functions may be called from any thread; the hooks, which may not, are a `Plane`'s.
unsafe impl Send for Instance {}
// SAFETY: as above.
unsafe impl Sync for Instance {}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Created,
    Connecting,
    Connected,
    Launching,
    Launched,
    Disconnected,
    /// No further call is allowed.
    Ended,
    Destroyed,
}

/// The stages in which there is something to stop.
const RUNNING: [Stage; 3] = [Stage::Connecting, Stage::Connected, Stage::Launched];

impl Stage {
    const fn name(self) -> &'static str {
        match self {
            Self::Created => "not connected yet",
            Self::Connecting => "waiting for its peer",
            Self::Connected => "connected, not launched",
            Self::Launching => "being launched",
            Self::Launched => "launched",
            Self::Disconnected => "disconnected",
            Self::Ended | Self::Destroyed => "destroyed",
        }
    }
}

impl Provider {
    /// Loads a library (once for each name) and creates an instance of its transport.
    ///
    /// # Errors
    /// The library cannot be loaded or is not a provider, or the provider refuses the arguments.
    pub fn load<S: AsRef<str>>(library: &str, args: &[S]) -> Result<Self, BridgeError> {
        Self::create(ProviderLibrary::open(library)?, args)
    }

    /// Creates an instance of a library's transport.
    ///
    /// # Errors
    /// The provider refuses the arguments.
    pub fn create<S: AsRef<str>>(library: ProviderLibrary, args: &[S]) -> Result<Self, BridgeError> {
        let args = args
            .iter()
            .map(|arg| CString::new(arg.as_ref()).map_err(|_| BridgeError::Nul(arg.as_ref().to_owned())))
            .collect::<Result<Vec<_>, _>>()?;
        let count = c_int::try_from(args.len()).map_err(|_| BridgeError::TooManyArguments)?;
        let mut argv: Vec<*mut c_char> = args.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
        argv.push(std::ptr::null_mut());
        let mut handle: Handle = std::ptr::null_mut();
        let Some(create) = library.interface().v2.v1.create else {
            return Err(BridgeError::Unsupported { library: library.name().to_owned(), call: "create" });
        };
        // SAFETY: a function of the library's, as its interface says; the arguments are as in `main`.
        let status = unsafe { create(&raw mut handle, count, argv.as_mut_ptr()) };
        if status != 0 {
            return Err(refused(&library, "create", status));
        }
        if handle.is_null() {
            return Err(garbage(&library, "create", "a null handle".to_owned()));
        }
        Ok(Self(Arc::new(Instance { library, handle, stage: Mutex::new(Stage::Created), _args: args })))
    }

    /// The instance's library.
    #[must_use]
    pub fn library(&self) -> &ProviderLibrary {
        &self.0.library
    }

    /// Waits for the peer, if the provider needs to know one: this may block. After a [disconnection](Self::disconnect)
    /// it starts again.
    ///
    /// # Errors
    /// The provider refuses, or is connected already.
    pub fn connect(&self) -> Result<(), BridgeError> {
        let connect = self.0.has("connect", self.0.library.interface().v2.v1.connect)?;
        let before = self.0.enter("connect", &[Stage::Created, Stage::Disconnected], Stage::Connecting)?;
        // SAFETY: a function of the library's, on a live handle.
        let status = unsafe { connect(self.0.handle) };
        self.0.leave(Stage::Connecting, if status == 0 { Stage::Connected } else { before });
        self.0.answered("connect", status)
    }

    /// Starts moving data. The provider decides whether it must be connected first.
    ///
    /// # Errors
    /// The provider refuses, or is launched already.
    pub fn launch(&self) -> Result<(), BridgeError> {
        let launch = self.0.has("launch", self.0.library.interface().v2.v1.launch)?;
        let from = [Stage::Created, Stage::Connected, Stage::Disconnected];
        let before = self.0.enter("launch", &from, Stage::Launching)?;
        // SAFETY: a function of the library's, on a live handle.
        let status = unsafe { launch(self.0.handle) };
        self.0.leave(Stage::Launching, if status == 0 { Stage::Launched } else { before });
        self.0.answered("launch", status)
    }

    /// Connects, if the provider supports it, and launches. Returns the endpoint.
    pub(crate) fn begin(&self) -> Result<TransportAddress, BridgeError> {
        let endpoint = match self.endpoint_info() {
            Err(BridgeError::Unsupported { .. }) => endpoint::parse(""),
            line => endpoint::parse(&line?),
        };
        match self.connect() {
            Err(BridgeError::Unsupported { .. }) => (),
            connected => connected?,
        }
        self.launch()?;
        Ok(endpoint)
    }

    /// Stops the instance, possibly from another thread while [`connect`](Self::connect) waits.
    ///
    /// # Errors
    /// The provider refuses, or is not connected.
    pub fn disconnect(&self) -> Result<(), BridgeError> {
        let disconnect = self.0.has("disconnect", self.0.library.interface().v2.v1.disconnect)?;
        self.0.end("disconnect")?;
        // SAFETY: a function of the library's, on a live handle.
        let status = unsafe { disconnect(self.0.handle) };
        self.0.answered("disconnect", status)
    }

    /// Ends calls in progress, so that a call waiting in another thread returns, and refuses new calls: the holder of
    /// the last handle destroys the instance.
    #[cfg_attr(not(feature = "c-api"), allow(dead_code))] // C has handles that others use
    pub(crate) fn end_for_good(&self) {
        let before = {
            let mut stage = self.0.stage();
            let before = *stage;
            // A launch does not wait, and the destruction of the instance undoes it.
            if before != Stage::Launching {
                *stage = Stage::Ended;
            }
            before
        };
        let disconnect = self.0.library.interface().v2.v1.disconnect;
        if let Some(disconnect) = disconnect.filter(|_| RUNNING.contains(&before)) {
            // SAFETY: a function of the library's, on a live handle.
            unsafe { disconnect(self.0.handle) };
        }
    }

    /// As [`disconnect`](Self::disconnect), but waits at most `deadline` for requests in flight, if the provider can.
    /// Returns whether it can.
    ///
    /// # Errors
    /// As for [`disconnect`](Self::disconnect).
    pub fn stop(&self, deadline: Duration) -> Result<bool, BridgeError> {
        let Some(extension) = self.0.library.extension() else { return self.disconnect().map(|()| false) };
        self.0.end("disconnect")?;
        let ns = u64::try_from(deadline.as_nanos()).unwrap_or(u64::MAX);
        // SAFETY: a function of the library's, on a live handle.
        let status = unsafe { (extension.stop)(self.0.handle, ns) };
        self.0.answered("stop", status).map(|()| true)
    }

    /// Destroys the instance now, or once every ring and data plane taken from it is dropped.
    ///
    /// # Errors
    /// The provider's error.
    pub fn destroy(self) -> Result<(), BridgeError> {
        match Arc::into_inner(self.0) {
            Some(instance) => {
                let status = instance.destroy();
                instance.answered("destroy", status)
            }
            None => Ok(()),
        }
    }

    /// The instance's address: one line of `key=value` pairs.
    ///
    /// # Errors
    /// The provider has no address, or returns something other than a line of text.
    pub fn endpoint_info(&self) -> Result<String, BridgeError> {
        const CALL: &str = "get_endpoint_info";
        let get = self.0.has(CALL, self.0.library.interface().v2.get_endpoint_info)?;
        let line = self.0.text(CALL, |out, len| {
            // SAFETY: a function of the library's, on a live handle; `len` bytes may be written.
            unsafe { get(self.0.handle, out, len) }
        })?;
        if line.chars().any(char::is_control) {
            return Err(self.0.garbage(CALL, format!("no single line: {}", line.escape_debug())));
        }
        Ok(line)
    }

    /// The provider's number of slots, and the bytes of each.
    ///
    /// # Errors
    /// The provider does not say.
    pub fn ring_geometry(&self) -> Result<(u32, u32), BridgeError> {
        const CALL: &str = "get_ring_geometry";
        let get = self.0.has(CALL, self.0.library.interface().v2.get_ring_geometry)?;
        let (mut slots, mut slot_bytes) = (0, 0);
        // SAFETY: a function of the library's, on a live handle; two addresses to write to.
        let status = unsafe { get(self.0.handle, &raw mut slots, &raw mut slot_bytes) };
        self.0.answered(CALL, status)?;
        Ok((slots, slot_bytes))
    }

    /// The ring that the provider fills, as this host sees it, for a dispatcher.
    ///
    /// # Errors
    /// The provider has no ring, does not say how many slots it has ([`ring_of`](Self::ring_of)), or returns an invalid
    /// ring: null or unmapped memory, overlapping arrays, or strides shorter than a header.
    pub fn ring(&self) -> Result<Ring, BridgeError> {
        let (slots, _) = self.ring_geometry()?;
        self.ring_of(slots)
    }

    /// The ring of a provider that does not say how many slots it has (version 1).
    ///
    /// # Errors
    /// As for [`ring`](Self::ring).
    pub fn ring_of(&self, slots: u32) -> Result<Ring, BridgeError> {
        let buffer = self.ring_buffer()?;
        let owner: Arc<dyn Any + Send + Sync> = Arc::<Instance>::clone(&self.0);
        ring::host_ring(&buffer, slots, &owner).map_err(|why| self.0.garbage("get_transport_context", why))
    }

    /// The ring's addresses, unchanged: of arrays that a device or the host sees.
    ///
    /// # Errors
    /// The provider has no ring, or an array is not mapped, or a stride is invalid.
    pub fn ring_buffer(&self) -> Result<RingBuffer, BridgeError> {
        let mut out = RingBuffer::EMPTY;
        self.context(CONTEXT_RING_BUFFER, (&raw mut out).cast())?;
        ring::check_either(&out).map_err(|why| self.0.garbage("get_transport_context", why))?;
        Ok(out)
    }

    /// The parameters with which a unified kernel is launched. Without a launch function the caller runs the loop, over
    /// the provider's [data plane](Self::plane).
    ///
    /// # Errors
    /// The provider has no unified form.
    pub fn unified_context(&self) -> Result<UnifiedContext, BridgeError> {
        let mut out = UnifiedContext::EMPTY;
        self.context(CONTEXT_UNIFIED, (&raw mut out).cast())?;
        Ok(out)
    }

    /// Passes the dispatcher's function table on. A provider without the function needs no table.
    ///
    /// # Errors
    /// The provider's error.
    ///
    /// # Safety
    /// `table` has as many `cudaq_function_entry_t`s as it says, and they remain until the provider is destroyed.
    #[cfg_attr(not(feature = "c-api"), allow(dead_code))] // C has such tables
    pub(crate) unsafe fn set_function_table(&self, table: &CudaqFunctionTable) -> Result<(), BridgeError> {
        let Some(set) = self.0.library.interface().set_function_table else { return Ok(()) };
        // SAFETY: a function of the library's, on a live handle; the caller's promise.
        let status = unsafe { set(self.0.handle, table.entries, table.count as usize) };
        self.0.answered("set_function_table", status)
    }

    fn context(&self, kind: c_int, out: *mut core::ffi::c_void) -> Result<(), BridgeError> {
        const CALL: &str = "get_transport_context";
        let get = self.0.has(CALL, self.0.library.interface().v2.v1.get_transport_context)?;
        // SAFETY: a function of the library's, on a live handle; `out` is of the kind's type.
        let status = unsafe { get(self.0.handle, kind, out) };
        self.0.answered(CALL, status)
    }

    /// The data plane's structure, unchanged, with hooks and host addresses that are not null.
    ///
    /// # Errors
    /// The provider has no data plane, or returns hooks or addresses that are null.
    pub fn cpu_dataplane(&self) -> Result<CpuDataplane, BridgeError> {
        const CALL: &str = "get_cpu_dataplane";
        let get = self.0.has(CALL, self.0.library.interface().v2.get_cpu_dataplane)?;
        let mut out = CpuDataplane::EMPTY;
        // SAFETY: a function of the library's, on a live handle.
        let status = unsafe { get(self.0.handle, &raw mut out) };
        self.0.answered(CALL, status)?;
        let missing = [
            ("rx_poll", out.rx_poll.is_none()),
            ("tx_publish", out.tx_publish.is_none()),
            ("rx_data_host", out.ring.rx_data_host.is_null()),
            ("tx_data_host", out.ring.tx_data_host.is_null()),
        ];
        if let Some((name, _)) = missing.iter().find(|(_, missing)| *missing) {
            return Err(self.0.garbage(CALL, format!("{name} is null")));
        }
        ring::check_either(&RingBuffer {
            // This form does not use the flags, and they may be missing.
            rx_flags: out.ring.rx_data_host.cast(),
            tx_flags: out.ring.tx_data_host.cast(),
            ..out.ring
        })
        .map_err(|why| self.0.garbage(CALL, why))?;
        Ok(out)
    }

    /// The hooks and slots for a loop of one thread.
    ///
    /// # Errors
    /// As for [`cpu_dataplane`](Self::cpu_dataplane), or memory that is not mapped.
    pub fn plane(&self) -> Result<Plane, BridgeError> {
        let plane = self.cpu_dataplane()?;
        let (slots, _) = self.ring_geometry()?;
        let owner: Arc<dyn Any + Send + Sync> = Arc::<Instance>::clone(&self.0);
        let slots = ring::slots(&plane.ring, slots, &owner)
            .map_err(|why| self.0.garbage("get_cpu_dataplane", why))?;
        match (plane.rx_poll, plane.tx_publish) {
            (Some(rx_poll), Some(tx_publish)) => Ok(Plane::new(plane.ctx, rx_poll, tx_publish, slots)),
            _ => Err(self.0.garbage("get_cpu_dataplane", "a hook is null".to_owned())),
        }
    }

    /// The provider's counters, if it reports them.
    #[must_use]
    pub fn stats(&self) -> Option<TransportStats> {
        let extension = self.0.library.extension()?;
        let line = self.0.text("statistics", |out, len| {
            // SAFETY: a function of the library's, on a live handle; `len` bytes may be written.
            unsafe { (extension.statistics)(self.0.handle, out, len) }
        });
        let mut counts = TransportStats::default();
        for (name, n) in line.ok()?.split_ascii_whitespace().filter_map(|pair| pair.split_once('=')) {
            if let Ok(n) = n.parse() {
                counts.set(name, n);
            }
        }
        Some(counts)
    }

    /// Blocks until a request may be there, or until `at_most`. Returns false if the provider cannot wait.
    #[must_use]
    pub fn wait(&self, at_most: Duration) -> bool {
        let ns = u64::try_from(at_most.as_nanos()).unwrap_or(u64::MAX);
        let Some(extension) = self.0.library.extension() else { return false };
        // SAFETY: a function of the library's, on a live handle.
        unsafe { (extension.wait)(self.0.handle, ns) == 0 }
    }
}

impl Instance {
    fn stage(&self) -> MutexGuard<'_, Stage> {
        self.stage.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a call that is allowed in the stages `from`. Returns the stage before.
    fn enter(&self, call: &'static str, from: &[Stage], to: Stage) -> Result<Stage, BridgeError> {
        let mut stage = self.stage();
        let before = *stage;
        if !from.contains(&before) {
            let library = self.library.name().to_owned();
            return Err(BridgeError::Order { library, call, state: before.name() });
        }
        *stage = to;
        Ok(before)
    }

    /// Ends a call, unless another thread has disconnected meanwhile.
    fn leave(&self, during: Stage, after: Stage) {
        let mut stage = self.stage();
        if *stage == during {
            *stage = after;
        }
    }

    fn end(&self, call: &'static str) -> Result<(), BridgeError> {
        self.enter(call, &RUNNING, Stage::Disconnected).map(drop)
    }

    fn has<F>(&self, call: &'static str, function: Option<F>) -> Result<F, BridgeError> {
        function.ok_or_else(|| BridgeError::Unsupported { library: self.library.name().to_owned(), call })
    }

    fn answered(&self, call: &'static str, status: c_int) -> Result<(), BridgeError> {
        if status == 0 { Ok(()) } else { Err(refused(&self.library, call, status)) }
    }

    fn garbage(&self, call: &'static str, why: String) -> BridgeError {
        garbage(&self.library, call, why)
    }

    fn text(
        &self,
        call: &'static str,
        write: impl FnOnce(*mut c_char, usize) -> c_int,
    ) -> Result<String, BridgeError> {
        let mut buffer = [GUARD; LINE_BYTES + GUARD_BYTES];
        buffer[0] = 0;
        let status = write(buffer.as_mut_ptr().cast(), LINE_BYTES);
        let (text, guard) = buffer.split_at(LINE_BYTES);
        if guard.iter().any(|&byte| byte != GUARD) {
            return Err(self.garbage(call, format!("more than the {LINE_BYTES} bytes that it was given")));
        }
        self.answered(call, status)?;
        let text = CStr::from_bytes_until_nul(text)
            .map_err(|_| self.garbage(call, format!("no NUL in {LINE_BYTES} bytes")))?;
        let text = text.to_str().map_err(|_| self.garbage(call, format!("no UTF-8: {text:?}")))?;
        Ok(text.to_owned())
    }

    fn destroy(&self) -> c_int {
        let interface = &self.library.interface().v2.v1;
        let before = std::mem::replace(&mut *self.stage(), Stage::Destroyed);
        if before == Stage::Destroyed {
            return 0;
        }
        let under_way = !matches!(before, Stage::Created | Stage::Disconnected | Stage::Ended);
        if let Some(disconnect) = interface.disconnect.filter(|_| under_way) {
            // SAFETY: a function of the library's, on a live handle.
            unsafe { disconnect(self.handle) };
        }
        // SAFETY: a function of the library's, on a live handle, for the last time.
        interface.destroy.map_or(0, |destroy| unsafe { destroy(self.handle) })
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // A drop has no caller to report an error to.
        self.destroy();
    }
}

fn refused(library: &ProviderLibrary, call: &'static str, status: c_int) -> BridgeError {
    let mut why = [0_u8; LINE_BYTES];
    if let Some(extension) = library.extension() {
        // SAFETY: a function of the library's; so many bytes may be written.
        unsafe { (extension.last_error)(why.as_mut_ptr().cast(), why.len()) };
    }
    let why =
        CStr::from_bytes_until_nul(&why).map_or_else(|_| String::new(), |text| text.to_string_lossy().into());
    BridgeError::Refused { library: library.name().to_owned(), call, status, why }
}

fn garbage(library: &ProviderLibrary, call: &'static str, why: String) -> BridgeError {
    BridgeError::Garbage { library: library.name().to_owned(), call, why }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stage = self.0.stage().name();
        f.debug_struct("Provider").field("library", &self.0.library).field("stage", &stage).finish()
    }
}
