//! Managers: owners of dispatchers.

use crate::handles::Registry;
use crate::raw_ring::aligned;
use crate::status::{Fault, status};
use core::ffi::{c_int, c_void};
use std::sync::Arc;

/// Dispatchers keep it, so its count says how many there are.
#[derive(Debug)]
pub(crate) struct Manager(());

pub(crate) static MANAGERS: Registry<Manager> = Registry::new("manager");

/// Makes a manager.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatch_manager_create(out_mgr: *mut *mut c_void) -> c_int {
    status(|| {
        aligned(out_mgr.cast_const(), 8, "out_mgr")?;
        let manager = MANAGERS.insert(Arc::new(Manager(())));
        // SAFETY: not null, aligned, and the header's contract.
        unsafe { out_mgr.write(manager) };
        Ok(())
    })
}

/// Ends a manager that has no dispatchers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn cudaq_dispatch_manager_destroy(mgr: *mut c_void) -> c_int {
    status(|| {
        // The registry's, and the one here.
        let dispatchers = Arc::strong_count(&MANAGERS.get(mgr)?).saturating_sub(2);
        if dispatchers > 0 {
            return Err(Fault::invalid(format!(
                "the manager still has {dispatchers} dispatchers: destroy them first"
            )));
        }
        MANAGERS.remove(mgr).map(drop)
    })
}
