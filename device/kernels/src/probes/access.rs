//! Every load, store and read-modify-write, with every order that is legal for it, on every type that has it.

use core::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed, Release, SeqCst};
use ringcall_gpu::atomic::{BlockU64, DeviceU64, SystemU64};

macro_rules! loads_and_stores {
    ($scope:literal $word:ty) => {
        loads_and_stores!(@load $scope $word, "relaxed" Relaxed, "acquire" Acquire, "seq_cst" SeqCst);
        loads_and_stores!(@store $scope $word, "relaxed" Relaxed, "release" Release, "seq_cst" SeqCst);
    };
    (@load $scope:literal $word:ty, $($name:literal $order:ident),*) => {
        $(probe!(["load" $name $scope] (word: &$word) -> u64 { word.load($order) });)*
    };
    (@store $scope:literal $word:ty, $($name:literal $order:ident),*) => {
        $(probe!(["store" $name $scope] (word: &$word, value: u64) { word.store(value, $order) });)*
    };
}

macro_rules! read_modify_writes {
    ($scope:literal $word:ty) => {
        read_modify_writes!(@op $scope $word, "add" fetch_add);
        read_modify_writes!(@op $scope $word, "or" fetch_or);
        read_modify_writes!(@op $scope $word, "and" fetch_and);
        read_modify_writes!(@op $scope $word, "swap" swap);
        read_modify_writes!(@exchange $scope $word, "relaxed" Relaxed);
        read_modify_writes!(@exchange $scope $word, "acquire" Acquire);
        read_modify_writes!(@exchange $scope $word, "release" Release);
        read_modify_writes!(@exchange $scope $word, "acq_rel" AcqRel);
        read_modify_writes!(@exchange $scope $word, "seq_cst" SeqCst);
    };
    (@op $scope:literal $word:ty, $name:literal $op:ident) => {
        read_modify_writes!(@orders $scope $word, $name $op, "relaxed" Relaxed, "acquire" Acquire, "release" Release,
            "acq_rel" AcqRel, "seq_cst" SeqCst);
    };
    (@orders $scope:literal $word:ty, $name:literal $op:ident, $($order_name:literal $order:ident),*) => {
        $(probe!([$name $order_name $scope] (word: &$word, value: u64) -> u64 { word.$op(value, $order) });)*
    };
    (@exchange $scope:literal $word:ty, $name:literal $success:ident) => {
        read_modify_writes!(@failures $scope $word, $name $success, "relaxed" Relaxed, "acquire" Acquire,
            "seq_cst" SeqCst);
    };
    (@failures $scope:literal $word:ty, $name:literal $success:ident, $($failure_name:literal $failure:ident),*) => {
        $(probe!(["exchange" $name $failure_name $scope] (word: &$word, current: u64, new: u64) -> u64 {
            match word.compare_exchange(current, new, $success, $failure) {
                Ok(found) | Err(found) => found,
            }
        });)*
    };
}

loads_and_stores!("sys" SystemU64);
loads_and_stores!("gpu" DeviceU64);
loads_and_stores!("cta" BlockU64);
// Across the bus there is one read-modify-write only.
probe!(["claim"] (word: &SystemU64, from: u64, to: u64) -> bool { word.claim(from, to) });
read_modify_writes!("gpu" DeviceU64);
read_modify_writes!("cta" BlockU64);
