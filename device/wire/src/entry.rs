//! Entries of a function table in memory, as C lays them out on a 64-bit machine.
//!
//! Three generations exist. All begin with the same 164 bytes: handler word @0, function_id @8, dispatch_mode @12,
//! 3 reserved bytes, schema @16.
//!
//! | struct | bytes | after the schema |
//! |---|---|---|
//! | [`FunctionEntry`] | 176 | 4 padding bytes, routing_key `u64` @168 |
//! | [`SeedFunctionEntry`] | 168 | 4 padding bytes |
//! | [`LegacyFunctionEntry`] | 192 | mailbox_idx `u32` @164, three pointers @168, @176, @184 |
//!
//! A table's entries do not say which generation they are; the caller has to know, and strides the table by it.
//! The handler word is an address or a graph handle, opaque here.

use core::mem::{align_of, offset_of, size_of};

use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

use crate::error::WireError;
use crate::function::FunctionId;
use crate::schema::HandlerSchema;
use crate::status::DispatchMode;

/// One entry of a function table: the present layout, 176 bytes.
///
/// ```
/// use ringcall_wire::{DispatchMode, FunctionEntry, FunctionId, HandlerSchema};
///
/// let id = FunctionId::of("rpc_increment");
/// let entry = FunctionEntry::new(id, DispatchMode::DeviceCall, HandlerSchema::new(), 0x7000);
/// assert_eq!(entry.mode(), Ok(DispatchMode::DeviceCall));
/// assert!(entry.validate().is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct FunctionEntry {
    /// Device function, host function or executable graph.
    pub handler: u64,
    /// Raw [`FunctionId`].
    pub function_id: u32,
    /// Raw [`DispatchMode`].
    pub dispatch_mode: u8,
    /// Written as zero, not looked at.
    pub reserved: [u8; 3],
    /// Arguments and results.
    pub schema: HandlerSchema,
    /// Written as zero, not looked at.
    pub padding: [u8; 4],
    /// Which worker serves the function; 0 when any may.
    pub routing_key: u64,
}

/// An entry without routing key, 168 bytes: the layout of the published C host API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct SeedFunctionEntry {
    /// Device function or executable graph.
    pub handler: u64,
    /// Raw [`FunctionId`].
    pub function_id: u32,
    /// Raw [`DispatchMode`].
    pub dispatch_mode: u8,
    /// Written as zero, not looked at.
    pub reserved: [u8; 3],
    /// Arguments and results.
    pub schema: HandlerSchema,
    /// Written as zero, not looked at.
    pub padding: [u8; 4],
}

/// An entry with a predecoder's backpressure pointers, 192 bytes: the oldest layout.
#[derive(Clone, Copy, Debug, PartialEq, Eq, FromBytes, IntoBytes, KnownLayout, Immutable)]
#[repr(C)]
pub struct LegacyFunctionEntry {
    /// Device function or executable graph.
    pub handler: u64,
    /// Raw [`FunctionId`].
    pub function_id: u32,
    /// Raw [`DispatchMode`].
    pub dispatch_mode: u8,
    /// Written as zero, not looked at.
    pub reserved: [u8; 3],
    /// Arguments and results.
    pub schema: HandlerSchema,
    /// Index in the bank of mailboxes.
    pub mailbox_idx: u32,
    /// Address of the queue's tail index, an `i32`.
    pub d_queue_idx: u64,
    /// Address of the queue's ready flags, `i32`s.
    pub d_ready_flags: u64,
    /// Address of the in-flight flag, an `i32`.
    pub d_inflight_flag: u64,
}

macro_rules! assert_common_layout {
    ($($entry:ident: $bytes:literal;)*) => {
        const _: () = {
            $(
                assert!(size_of::<$entry>() == $bytes && align_of::<$entry>() == 8);
                assert!(offset_of!($entry, handler) == 0 && offset_of!($entry, function_id) == 8);
                assert!(offset_of!($entry, dispatch_mode) == 12 && offset_of!($entry, reserved) == 13);
                assert!(offset_of!($entry, schema) == 16);
            )*
        };
    };
}

assert_common_layout! {
    FunctionEntry: 176;
    SeedFunctionEntry: 168;
    LegacyFunctionEntry: 192;
}

const _: () = {
    assert!(offset_of!(FunctionEntry, padding) == 164 && offset_of!(FunctionEntry, routing_key) == 168);
    assert!(offset_of!(SeedFunctionEntry, padding) == 164);
    assert!(offset_of!(LegacyFunctionEntry, mailbox_idx) == 164);
    assert!(offset_of!(LegacyFunctionEntry, d_queue_idx) == 168);
    assert!(offset_of!(LegacyFunctionEntry, d_ready_flags) == 176);
    assert!(offset_of!(LegacyFunctionEntry, d_inflight_flag) == 184);
};

impl FunctionEntry {
    /// An entry that any worker may serve.
    #[must_use]
    pub const fn new(id: FunctionId, mode: DispatchMode, schema: HandlerSchema, handler: u64) -> Self {
        Self {
            handler,
            function_id: id.0,
            dispatch_mode: mode as u8,
            reserved: [0; 3],
            schema,
            padding: [0; 4],
            routing_key: 0,
        }
    }

    /// The same with a routing key.
    #[must_use]
    pub const fn with_routing_key(mut self, key: u64) -> Self {
        self.routing_key = key;
        self
    }

    /// Which function.
    #[must_use]
    pub const fn id(&self) -> FunctionId {
        FunctionId(self.function_id)
    }

    /// How it is called.
    ///
    /// # Errors
    /// [`WireError::UnknownValue`] for a mode byte without a meaning.
    pub const fn mode(&self) -> Result<DispatchMode, WireError> {
        DispatchMode::from_raw(self.dispatch_mode as u32)
    }

    /// Checks the mode, the schema and that there is a handler.
    ///
    /// # Errors
    /// [`WireError::NullHandler`], what [`Self::mode`] and [`HandlerSchema::validate`] refuse.
    pub const fn validate(&self) -> Result<(), WireError> {
        if self.handler == 0 {
            return Err(WireError::NullHandler { function_id: self.function_id });
        }
        match self.mode() {
            Ok(_) => self.schema.validate(),
            Err(error) => Err(error),
        }
    }

    /// As the 168-byte layout, or `None` when the routing key, which has no field there, is set.
    #[must_use]
    pub const fn to_seed(&self) -> Option<SeedFunctionEntry> {
        if self.routing_key != 0 {
            return None;
        }
        Some(SeedFunctionEntry {
            handler: self.handler,
            function_id: self.function_id,
            dispatch_mode: self.dispatch_mode,
            reserved: self.reserved,
            schema: self.schema,
            padding: self.padding,
        })
    }

    /// As the 192-byte layout with null backpressure pointers, or `None` when the routing key is set.
    #[must_use]
    pub const fn to_legacy(&self, mailbox_idx: u32) -> Option<LegacyFunctionEntry> {
        if self.routing_key != 0 {
            return None;
        }
        Some(LegacyFunctionEntry {
            handler: self.handler,
            function_id: self.function_id,
            dispatch_mode: self.dispatch_mode,
            reserved: self.reserved,
            schema: self.schema,
            mailbox_idx,
            d_queue_idx: 0,
            d_ready_flags: 0,
            d_inflight_flag: 0,
        })
    }
}

impl From<SeedFunctionEntry> for FunctionEntry {
    /// Routing key 0.
    fn from(old: SeedFunctionEntry) -> Self {
        Self {
            handler: old.handler,
            function_id: old.function_id,
            dispatch_mode: old.dispatch_mode,
            reserved: [0; 3],
            schema: old.schema,
            padding: [0; 4],
            routing_key: 0,
        }
    }
}

impl From<LegacyFunctionEntry> for FunctionEntry {
    /// Routing key 0; mailbox and backpressure pointers have no field and are dropped.
    fn from(old: LegacyFunctionEntry) -> Self {
        Self {
            handler: old.handler,
            function_id: old.function_id,
            dispatch_mode: old.dispatch_mode,
            reserved: [0; 3],
            schema: old.schema,
            padding: [0; 4],
            routing_key: 0,
        }
    }
}
