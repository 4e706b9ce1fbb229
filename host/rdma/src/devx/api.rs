//! rdma-core's functions, loaded at run time instead of linked.

use super::DevxError;
use libloading::Library;
use std::ffi::{c_char, c_int, c_void};
use std::ptr::NonNull;

/// An rdma-core object.
pub(super) type Handle = NonNull<c_void>;
type Raw = *mut c_void;

/// `mlx5dv_context_attr`.
#[repr(C)]
pub(super) struct ContextAttributes {
    pub(super) flags: u32,
    pub(super) comp_mask: u64,
}

/// The fields of `mlx5dv_devx_uar` up to the last one read.
#[repr(C)]
pub(super) struct Uar {
    pub(super) reg_addr: Raw,
    pub(super) base_addr: Raw,
    pub(super) page_id: u32,
}

/// `mlx5dv_devx_umem`.
#[repr(C)]
pub(super) struct Umem {
    pub(super) umem_id: u32,
}

/// `mlx5dv_devx_umem_in`.
#[repr(C)]
pub(super) struct UmemIn {
    pub(super) addr: Raw,
    pub(super) size: usize,
    pub(super) access: u32,
    pub(super) pgsz_bitmap: u64,
    pub(super) comp_mask: u64,
    pub(super) dmabuf_fd: c_int,
}

/// `mlx5dv_pd`.
#[repr(C)]
pub(super) struct Pd {
    pub(super) pdn: u32,
    pub(super) comp_mask: u64,
}

/// `mlx5dv_obj`: pairs of an object and room for the answer about it. The seventh pair is for protection domains.
#[repr(C)]
pub(super) struct Objects {
    pub(super) pairs: [[Raw; 2]; 7],
}

/// The fields of `ibv_mr` up to the last one read.
#[repr(C)]
pub(super) struct Mr {
    context: Raw,
    pd: Raw,
    addr: Raw,
    length: usize,
    handle: u32,
    pub(super) lkey: u32,
    pub(super) rkey: u32,
}

macro_rules! functions {
    ($($library:ident $field:ident = $symbol:literal: fn($($argument:ty),*) $(-> $result:ty)?;)*) => {
        /// The functions, with the libraries that have to stay loaded.
        pub(super) struct Api {
            $(pub(super) $field: unsafe extern "C" fn($($argument),*) $(-> $result)?,)*
            _verbs: Library,
            _mlx5: Library,
        }

        impl Api {
            pub(super) fn load() -> Result<Self, DevxError> {
                let verbs = open("libibverbs.so.1")?;
                let mlx5 = open("libmlx5.so.1")?;
                $(
                    // SAFETY: the symbol has this signature in every release of rdma-core with this library version.
                    let found = unsafe {
                        $library!(verbs, mlx5).get::<unsafe extern "C" fn($($argument),*) $(-> $result)?>($symbol)
                    };
                    let $field = *found.map_err(|why| DevxError::Library {
                        name: stringify!($field),
                        why: why.to_string(),
                    })?;
                )*
                Ok(Self { $($field,)* _verbs: verbs, _mlx5: mlx5 })
            }
        }
    };
}

macro_rules! verbs {
    ($verbs:ident, $mlx5:ident) => {
        $verbs
    };
}
macro_rules! mlx5 {
    ($verbs:ident, $mlx5:ident) => {
        $mlx5
    };
}

fn open(name: &'static str) -> Result<Library, DevxError> {
    // SAFETY: rdma-core's libraries do nothing on loading but register themselves.
    unsafe { Library::new(name) }.map_err(|why| DevxError::Library { name, why: why.to_string() })
}

functions! {
    verbs get_device_list = b"ibv_get_device_list": fn(*mut c_int) -> *mut Raw;
    verbs free_device_list = b"ibv_free_device_list": fn(*mut Raw);
    verbs get_device_name = b"ibv_get_device_name": fn(Raw) -> *const c_char;
    verbs close_device = b"ibv_close_device": fn(Raw) -> c_int;
    verbs alloc_pd = b"ibv_alloc_pd": fn(Raw) -> Raw;
    verbs dealloc_pd = b"ibv_dealloc_pd": fn(Raw) -> c_int;
    verbs reg_mr_iova2 = b"ibv_reg_mr_iova2": fn(Raw, Raw, usize, u64, u32) -> *mut Mr;
    verbs reg_dmabuf_mr = b"ibv_reg_dmabuf_mr": fn(Raw, u64, usize, u64, c_int, u32) -> *mut Mr;
    verbs dereg_mr = b"ibv_dereg_mr": fn(*mut Mr) -> c_int;
    mlx5 is_supported = b"mlx5dv_is_supported": fn(Raw) -> bool;
    mlx5 open_device = b"mlx5dv_open_device": fn(Raw, *mut ContextAttributes) -> Raw;
    mlx5 alloc_uar = b"mlx5dv_devx_alloc_uar": fn(Raw, u32) -> *mut Uar;
    mlx5 free_uar = b"mlx5dv_devx_free_uar": fn(*mut Uar);
    mlx5 query_eqn = b"mlx5dv_devx_query_eqn": fn(Raw, u32, *mut u32) -> c_int;
    mlx5 init_obj = b"mlx5dv_init_obj": fn(*mut Objects, u64) -> c_int;
    mlx5 umem_reg = b"mlx5dv_devx_umem_reg": fn(Raw, Raw, usize, u32) -> *mut Umem;
    mlx5 umem_reg_ex = b"mlx5dv_devx_umem_reg_ex": fn(Raw, *mut UmemIn) -> *mut Umem;
    mlx5 umem_dereg = b"mlx5dv_devx_umem_dereg": fn(*mut Umem) -> c_int;
    mlx5 obj_create = b"mlx5dv_devx_obj_create": fn(Raw, *const c_void, usize, Raw, usize) -> Raw;
    mlx5 obj_modify = b"mlx5dv_devx_obj_modify": fn(Raw, *const c_void, usize, Raw, usize) -> c_int;
    mlx5 obj_destroy = b"mlx5dv_devx_obj_destroy": fn(Raw) -> c_int;
}
