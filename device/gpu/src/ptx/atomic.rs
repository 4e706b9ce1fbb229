//! Every load, store and read-modify-write, by order and scope.
//!
//! Sequential consistency is the order's fence before the access, as the PTX memory model's mapping of C++ has it.

use crate::scope::Access;
use core::arch::asm;
use core::sync::atomic::Ordering;

macro_rules! load {
    ($order:literal, $scope:literal, $at:expr) => {{
        let value: u64;
        // SAFETY: the caller's promise.
        unsafe {
            asm!(concat!("ld.", $order, ".", $scope, ".u64 {}, [{}];"), out(reg64) value, in(reg64) $at,
                 options(nostack));
        }
        value
    }};
}

macro_rules! store {
    ($order:literal, $scope:literal, $at:expr, $value:expr) => {
        // SAFETY: the caller's promise.
        unsafe {
            asm!(concat!("st.", $order, ".", $scope, ".u64 [{}], {};"), in(reg64) $at, in(reg64) $value,
                 options(nostack));
        }
    };
}

macro_rules! rmw {
    ($order:literal, $scope:literal, $op:literal, $at:expr, $value:expr) => {{
        let before: u64;
        // SAFETY: the caller's promise.
        unsafe {
            asm!(concat!("atom.", $order, ".", $scope, ".", $op, " {}, [{}], {};"), out(reg64) before,
                 in(reg64) $at, in(reg64) $value, options(nostack));
        }
        before
    }};
}

macro_rules! rmw_ordered {
    ($scope:literal, $op:literal, $at:expr, $value:expr, $order:expr) => {
        match $order {
            Ordering::Relaxed => rmw!("relaxed", $scope, $op, $at, $value),
            Ordering::Acquire => rmw!("acquire", $scope, $op, $at, $value),
            Ordering::Release => rmw!("release", $scope, $op, $at, $value),
            Ordering::AcqRel => rmw!("acq_rel", $scope, $op, $at, $value),
            _ => {
                fence_sc!($scope);
                rmw!("acq_rel", $scope, $op, $at, $value)
            }
        }
    };
}

macro_rules! exchange {
    ($order:literal, $scope:literal, $at:expr, $current:expr, $new:expr) => {{
        let found: u64;
        // SAFETY: the caller's promise.
        unsafe {
            asm!(concat!("atom.", $order, ".", $scope, ".cas.b64 {}, [{}], {}, {};"), out(reg64) found,
                 in(reg64) $at, in(reg64) $current, in(reg64) $new, options(nostack));
        }
        found
    }};
}

macro_rules! fence_sc {
    ($scope:literal) => {
        // SAFETY: a fence; touches nothing.
        unsafe { asm!(concat!("fence.sc.", $scope, ";"), options(nostack)) }
    };
}

macro_rules! access {
    ($scope:ty, $name:literal) => {
        impl Access for $scope {
            #[inline(always)]
            unsafe fn load(at: *const u64, order: Ordering) -> u64 {
                match order {
                    Ordering::Relaxed => load!("relaxed", $name, at),
                    Ordering::Acquire => load!("acquire", $name, at),
                    _ => {
                        fence_sc!($name);
                        load!("acquire", $name, at)
                    }
                }
            }

            #[inline(always)]
            unsafe fn store(at: *mut u64, value: u64, order: Ordering) {
                match order {
                    Ordering::Relaxed => store!("relaxed", $name, at, value),
                    Ordering::Release => store!("release", $name, at, value),
                    _ => {
                        fence_sc!($name);
                        store!("relaxed", $name, at, value);
                    }
                }
            }

            #[inline(always)]
            unsafe fn add(at: *mut u64, value: u64, order: Ordering) -> u64 {
                rmw_ordered!($name, "add.u64", at, value, order)
            }

            #[inline(always)]
            unsafe fn or(at: *mut u64, value: u64, order: Ordering) -> u64 {
                rmw_ordered!($name, "or.b64", at, value, order)
            }

            #[inline(always)]
            unsafe fn and(at: *mut u64, value: u64, order: Ordering) -> u64 {
                rmw_ordered!($name, "and.b64", at, value, order)
            }

            #[inline(always)]
            unsafe fn swap(at: *mut u64, value: u64, order: Ordering) -> u64 {
                rmw_ordered!($name, "exch.b64", at, value, order)
            }

            #[inline(always)]
            unsafe fn exchange(at: *mut u64, current: u64, new: u64, order: Ordering) -> u64 {
                match order {
                    Ordering::Relaxed => exchange!("relaxed", $name, at, current, new),
                    Ordering::Acquire => exchange!("acquire", $name, at, current, new),
                    Ordering::Release => exchange!("release", $name, at, current, new),
                    Ordering::AcqRel => exchange!("acq_rel", $name, at, current, new),
                    _ => {
                        fence_sc!($name);
                        exchange!("acq_rel", $name, at, current, new)
                    }
                }
            }
        }
    };
}

access!(crate::scope::SystemScope, "sys");
access!(crate::scope::DeviceScope, "gpu");
access!(crate::scope::BlockScope, "cta");
