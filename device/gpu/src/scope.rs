//! Scopes of atomics: the threads that must see a write.
//!
//! The scope is part of an atomic's type, because a scope that is too narrow is a data race that no test on one machine
//! reveals. On a CPU all scopes are the same hardware; the types still decide which operations exist (see
//! [`SameSide`]).

mod sealed {
    #[cfg(not(target_arch = "nvptx64"))]
    pub trait Sealed {}
    /// On a device a scope brings its instructions along.
    #[cfg(target_arch = "nvptx64")]
    #[allow(private_bounds)] // the instructions are private to this crate
    pub trait Sealed: super::Access {}
}

/// The operations of one scope. Implemented for the three scopes by a macro, because the scope is part of the mnemonic.
#[cfg(target_arch = "nvptx64")]
pub(crate) trait Access {
    /// # Safety
    /// `at` is aligned and readable.
    unsafe fn load(at: *const u64, order: core::sync::atomic::Ordering) -> u64;
    /// # Safety
    /// `at` is aligned and writable.
    unsafe fn store(at: *mut u64, value: u64, order: core::sync::atomic::Ordering);
    /// # Safety
    /// `at` is aligned and writable.
    unsafe fn add(at: *mut u64, value: u64, order: core::sync::atomic::Ordering) -> u64;
    /// # Safety
    /// `at` is aligned and writable.
    unsafe fn or(at: *mut u64, value: u64, order: core::sync::atomic::Ordering) -> u64;
    /// # Safety
    /// `at` is aligned and writable.
    unsafe fn and(at: *mut u64, value: u64, order: core::sync::atomic::Ordering) -> u64;
    /// # Safety
    /// `at` is aligned and writable.
    unsafe fn swap(at: *mut u64, value: u64, order: core::sync::atomic::Ordering) -> u64;
    /// The value found: `current` if the exchange happened.
    ///
    /// # Safety
    /// `at` is aligned and writable.
    unsafe fn exchange(at: *mut u64, current: u64, new: u64, order: core::sync::atomic::Ordering) -> u64;
}

/// A set of agents between which an atomic synchronises.
pub trait Scope: sealed::Sealed + Send + Sync + 'static {
    /// The qualifier's spelling in PTX.
    const PTX: &'static str;
}

/// A scope whose agents all sit on one side of the bus, so that read-modify-write operations are atomic between them.
///
/// Memory mapped between a CPU and a GPU has [`SystemScope`] and offers aligned loads and stores only: a
/// read-modify-write across PCIe is atomic only on machines with native host atomics, so the type does not have one.
pub trait SameSide: Scope {}

/// Every agent: CPU threads, GPU threads, NICs.
#[derive(Debug, Clone, Copy)]
pub enum SystemScope {}
/// All threads of one device. On a CPU: all threads of the process.
#[derive(Debug, Clone, Copy)]
pub enum DeviceScope {}
/// The threads of one block. On a CPU: the threads that play one block's lanes.
#[derive(Debug, Clone, Copy)]
pub enum BlockScope {}

impl sealed::Sealed for SystemScope {}
impl sealed::Sealed for DeviceScope {}
impl sealed::Sealed for BlockScope {}
impl Scope for SystemScope {
    const PTX: &'static str = "sys";
}
impl Scope for DeviceScope {
    const PTX: &'static str = "gpu";
}
impl Scope for BlockScope {
    const PTX: &'static str = "cta";
}
impl SameSide for DeviceScope {}
impl SameSide for BlockScope {}
