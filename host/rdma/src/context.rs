//! Transport contexts: the structs with which a unified kernel is launched, with the addresses of its queue pair and
//! its slots.
//!
//! The reference passes an opaque struct in one of two forms, of 48 and of 72 bytes, that name neither their size nor
//! their version: the receiving library must know the form. [`Context`] is Ringcall's form and names both; each form
//! converts to and from it.
//!
//! | field | [`Context48`] | [`Context72`] | [`Context`] |
//! |---|---|---|---|
//! | magic, bytes | | | 0, 8 |
//! | queue pair's struct (device address) | 0 | 0 | 16 |
//! | request slots: address, stride, count | 8, 16, 28 | 8, 16, 24 | 24, 32, 40 |
//! | their key (as in a request: big-endian) | 24 | | 44 |
//! | response slots: address, stride, key | | 32, 40, 48 | 48, 56, 64 |
//! | bytes of a response | 32 | 56 | 72 |
//! | BlueFlame | 40 | 64 | 68 |
//!
//! The first form sends each answer from its request's slot, so its one key covers both.
//!
//! ```
//! use ringcall_rdma::context::{Context, Context48};
//!
//! let theirs = Context48 {
//!     gpu_dev_qp: 0x7f00_0000_1000, rx_ring_data: 0x7f00_0010_0000, rx_ring_stride_sz: 1024,
//!     rx_ring_mkey: 0x1234_u32.to_be(), rx_ring_stride_num: 64, frame_size: 56, use_bf: 1, reserved: 0,
//! };
//! let ours = Context::try_from(theirs)?;
//! assert_eq!((ours.slots, ours.tx_key(), ours.tx_data), (64, 0x1234, ours.rx_data));
//! assert_eq!(Context::from_bytes(&ours.to_bytes())?, ours);
//! assert_eq!(Context48::try_from(ours)?, theirs);
//! # Ok::<(), ringcall_rdma::context::ContextError>(())
//! ```

use ringcall_mlx5::endpoint::MAX_SLOTS;
use std::mem::{offset_of, size_of};

/// The first form, 48 bytes.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the reference's names; see the table
pub struct Context48 {
    pub gpu_dev_qp: u64,
    pub rx_ring_data: u64,
    pub rx_ring_stride_sz: u64,
    pub rx_ring_mkey: u32,
    pub rx_ring_stride_num: u32,
    pub frame_size: u64,
    pub use_bf: i32,
    pub reserved: u32,
}

/// The later form, 72 bytes: responses have slots apart from the requests.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[allow(missing_docs)] // the reference's names; see the table
pub struct Context72 {
    pub gpu_dev_qp: u64,
    pub rx_ring_data: u64,
    pub rx_ring_stride_sz: u64,
    pub rx_ring_stride_num: u32,
    pub reserved_28: u32,
    pub tx_ring_data: u64,
    pub tx_ring_stride_sz: u64,
    pub tx_ring_mkey: u32,
    pub reserved_52: u32,
    pub frame_size: u64,
    pub use_bf: i32,
    pub reserved_68: u32,
}

/// Ringcall's form: it begins with a magic number and its own size, by which a receiver recognises it.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Context {
    /// [`MAGIC`].
    pub magic: u64,
    /// Bytes of this struct, as its sender knows it.
    pub bytes: u32,
    /// [`VERSION`].
    pub version: u32,
    /// Device address of the queue pair's struct.
    pub qp: u64,
    /// Request slot 0.
    pub rx_data: u64,
    /// Bytes from one request slot to the next.
    pub rx_stride: u64,
    /// Request slots.
    pub slots: u32,
    /// Key of the request slots, big-endian as in a work request. 0: unknown.
    pub rx_mkey: u32,
    /// Response slot 0.
    pub tx_data: u64,
    /// Bytes from one response slot to the next.
    pub tx_stride: u64,
    /// Key of the response slots, big-endian as in a work request.
    pub tx_mkey: u32,
    /// Whether requests are copied to the BlueFlame buffer: 0 or 1.
    pub blue_flame: u32,
    /// The most bytes of a response, header included.
    pub frame_bytes: u64,
}

/// "RCTXUNI1", least significant byte first.
pub const MAGIC: u64 = u64::from_le_bytes(*b"RCTXUNI1");
/// The layout's version.
pub const VERSION: u32 = 1;

const _: () = {
    assert!(size_of::<Context48>() == 48 && size_of::<Context72>() == 72 && size_of::<Context>() == 80);
    assert!(offset_of!(Context48, rx_ring_mkey) == 24 && offset_of!(Context48, rx_ring_stride_num) == 28);
    assert!(offset_of!(Context48, frame_size) == 32 && offset_of!(Context48, use_bf) == 40);
    assert!(offset_of!(Context72, rx_ring_stride_num) == 24 && offset_of!(Context72, tx_ring_data) == 32);
    assert!(offset_of!(Context72, tx_ring_mkey) == 48 && offset_of!(Context72, frame_size) == 56);
    assert!(offset_of!(Context72, use_bf) == 64);
    assert!(offset_of!(Context, qp) == 16 && offset_of!(Context, slots) == 40);
    assert!(offset_of!(Context, tx_mkey) == 64 && offset_of!(Context, frame_bytes) == 72);
};

/// The three forms as a C header.
pub const C_HEADER: &str = include_str!("../include/ringcall_hsb_context.h");

/// Bytes that are not a context, or a context that the other form cannot express.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ContextError {
    /// Fewer bytes than the struct has.
    #[error("{have} bytes, where the context has {needed}")]
    Short {
        /// Bytes available.
        have: usize,
        /// Bytes needed.
        needed: usize,
    },
    /// No form has this length.
    #[error("{0} bytes: a transport context has 48, 72, or 80 and more")]
    Form(usize),
    /// The magic number is not that of [`Context`].
    #[error(
        "magic {0:#018x}: no context that says its size; the reference's forms are Context48 and Context72"
    )]
    Magic(u64),
    /// A version that this library does not know.
    #[error("version {0} of the context; {VERSION} is known here")]
    Version(u32),
    /// A field with an invalid value.
    #[error("{field} is {value:#x}: {needed}")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The valid values.
        needed: &'static str,
    },
    /// The other form cannot express separate response slots.
    #[error("the form of 48 bytes answers from the request's slot: responses have slots of their own here")]
    OwnResponses,
}

fn field(field: &'static str, value: u64, needed: &'static str) -> ContextError {
    ContextError::Field { field, value, needed }
}

impl Context {
    /// The response slots' key in host byte order.
    #[must_use]
    pub const fn tx_key(&self) -> u32 {
        u32::from_be(self.tx_mkey)
    }

    /// Returns the context if a kernel can be launched with it.
    ///
    /// # Errors
    /// The first invalid field.
    pub fn check(self) -> Result<Self, ContextError> {
        if self.magic != MAGIC {
            return Err(ContextError::Magic(self.magic));
        }
        if self.version != VERSION {
            return Err(ContextError::Version(self.version));
        }
        if (self.bytes as usize) < size_of::<Self>() {
            return Err(ContextError::Short { have: self.bytes as usize, needed: size_of::<Self>() });
        }
        for (name, address) in
            [("the queue pair", self.qp), ("request slot 0", self.rx_data), ("response slot 0", self.tx_data)]
        {
            if address == 0 || !address.is_multiple_of(8) {
                return Err(field(name, address, "an address that is a multiple of 8"));
            }
        }
        for (name, stride) in
            [("the request stride", self.rx_stride), ("the response stride", self.tx_stride)]
        {
            if stride == 0 || !stride.is_multiple_of(8) || stride >= 1 << 31 {
                return Err(field(name, stride, "a multiple of 8 below 2^31"));
            }
        }
        if self.slots == 0 || self.slots > MAX_SLOTS {
            return Err(field(
                "the number of slots",
                self.slots.into(),
                "1 to 4096, which an immediate names",
            ));
        }
        if self.frame_bytes < 24 || self.frame_bytes > self.tx_stride {
            return Err(field("a response's bytes", self.frame_bytes, "24 up to the response stride"));
        }
        if self.blue_flame > 1 {
            return Err(field("BlueFlame", self.blue_flame.into(), "0 or 1"));
        }
        Ok(self)
    }

    /// Reads the form whose length `bytes` has: 48 and 72 are the reference's forms, 80 and more this one.
    ///
    /// # Errors
    /// No form has this length, or the bytes are not a valid context.
    pub fn of_any_form(bytes: &[u8]) -> Result<Self, ContextError> {
        let word = |at| get(bytes, at).map_or(0, u64::from_le_bytes);
        let half = |at| get(bytes, at).map_or(0, u32::from_le_bytes);
        match bytes.len() {
            48 => Context48 {
                gpu_dev_qp: word(0),
                rx_ring_data: word(8),
                rx_ring_stride_sz: word(16),
                rx_ring_mkey: half(24),
                rx_ring_stride_num: half(28),
                frame_size: word(32),
                use_bf: half(40).cast_signed(),
                reserved: 0,
            }
            .try_into(),
            72 => Context72 {
                gpu_dev_qp: word(0),
                rx_ring_data: word(8),
                rx_ring_stride_sz: word(16),
                rx_ring_stride_num: half(24),
                tx_ring_data: word(32),
                tx_ring_stride_sz: word(40),
                tx_ring_mkey: half(48),
                frame_size: word(56),
                use_bf: half(64).cast_signed(),
                ..Context72::default()
            }
            .try_into(),
            have if have < size_of::<Self>() => Err(ContextError::Form(have)),
            _ => Self::from_bytes(bytes),
        }
    }

    /// The context as bytes in memory.
    #[must_use]
    pub fn to_bytes(&self) -> [u8; 80] {
        let mut out = [0; 80];
        for (at, word) in [
            (0, self.magic),
            (16, self.qp),
            (24, self.rx_data),
            (32, self.rx_stride),
            (48, self.tx_data),
            (56, self.tx_stride),
            (72, self.frame_bytes),
        ] {
            put(&mut out, at, &word.to_le_bytes());
        }
        for (at, half) in [
            (8, self.bytes),
            (12, self.version),
            (40, self.slots),
            (44, self.rx_mkey),
            (64, self.tx_mkey),
            (68, self.blue_flame),
        ] {
            put(&mut out, at, &half.to_le_bytes());
        }
        out
    }

    /// Reads and checks a context in memory. A later version may be longer.
    ///
    /// # Errors
    /// Why the bytes are not a valid context.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ContextError> {
        let short = |needed| ContextError::Short { have: bytes.len(), needed };
        let word = |at| get(bytes, at).map(u64::from_le_bytes).ok_or(short(size_of::<Self>()));
        let half = |at| get(bytes, at).map(u32::from_le_bytes).ok_or(short(size_of::<Self>()));
        let magic = word(0)?;
        if magic != MAGIC {
            return Err(ContextError::Magic(magic));
        }
        Self {
            magic,
            bytes: half(8)?,
            version: half(12)?,
            qp: word(16)?,
            rx_data: word(24)?,
            rx_stride: word(32)?,
            slots: half(40)?,
            rx_mkey: half(44)?,
            tx_data: word(48)?,
            tx_stride: word(56)?,
            tx_mkey: half(64)?,
            blue_flame: half(68)?,
            frame_bytes: word(72)?,
        }
        .check()
    }

    /// A context without queues or slots, for the caller to fill.
    #[must_use]
    pub const fn empty() -> Self {
        Self {
            magic: MAGIC,
            bytes: size_of::<Self>() as u32,
            version: VERSION,
            qp: 0,
            rx_data: 0,
            rx_stride: 0,
            slots: 0,
            rx_mkey: 0,
            tx_data: 0,
            tx_stride: 0,
            tx_mkey: 0,
            blue_flame: 0,
            frame_bytes: 0,
        }
    }
}

fn put(out: &mut [u8], at: usize, bytes: &[u8]) {
    if let Some(target) = out.get_mut(at..at + bytes.len()) {
        target.copy_from_slice(bytes);
    }
}

fn get<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..)?.first_chunk().copied()
}

impl TryFrom<Context48> for Context {
    type Error = ContextError;

    fn try_from(theirs: Context48) -> Result<Self, ContextError> {
        Self {
            qp: theirs.gpu_dev_qp,
            rx_data: theirs.rx_ring_data,
            rx_stride: theirs.rx_ring_stride_sz,
            slots: theirs.rx_ring_stride_num,
            rx_mkey: theirs.rx_ring_mkey,
            tx_data: theirs.rx_ring_data,
            tx_stride: theirs.rx_ring_stride_sz,
            tx_mkey: theirs.rx_ring_mkey,
            blue_flame: u32::from(theirs.use_bf != 0),
            frame_bytes: theirs.frame_size,
            ..Self::empty()
        }
        .check()
    }
}

impl TryFrom<Context72> for Context {
    type Error = ContextError;

    fn try_from(theirs: Context72) -> Result<Self, ContextError> {
        Self {
            qp: theirs.gpu_dev_qp,
            rx_data: theirs.rx_ring_data,
            rx_stride: theirs.rx_ring_stride_sz,
            slots: theirs.rx_ring_stride_num,
            tx_data: theirs.tx_ring_data,
            tx_stride: theirs.tx_ring_stride_sz,
            tx_mkey: theirs.tx_ring_mkey,
            blue_flame: u32::from(theirs.use_bf != 0),
            frame_bytes: theirs.frame_size,
            ..Self::empty()
        }
        .check()
    }
}

impl TryFrom<Context> for Context48 {
    type Error = ContextError;

    fn try_from(ours: Context) -> Result<Self, ContextError> {
        let ours = ours.check()?;
        let shared =
            (ours.tx_data, ours.tx_stride, ours.tx_mkey) == (ours.rx_data, ours.rx_stride, ours.rx_mkey);
        if !shared {
            return Err(ContextError::OwnResponses);
        }
        Ok(Self {
            gpu_dev_qp: ours.qp,
            rx_ring_data: ours.rx_data,
            rx_ring_stride_sz: ours.rx_stride,
            rx_ring_mkey: ours.rx_mkey,
            rx_ring_stride_num: ours.slots,
            frame_size: ours.frame_bytes,
            use_bf: i32::from(ours.blue_flame != 0),
            reserved: 0,
        })
    }
}

impl TryFrom<Context> for Context72 {
    type Error = ContextError;

    fn try_from(ours: Context) -> Result<Self, ContextError> {
        let ours = ours.check()?;
        Ok(Self {
            gpu_dev_qp: ours.qp,
            rx_ring_data: ours.rx_data,
            rx_ring_stride_sz: ours.rx_stride,
            rx_ring_stride_num: ours.slots,
            tx_ring_data: ours.tx_data,
            tx_ring_stride_sz: ours.tx_stride,
            tx_ring_mkey: ours.tx_mkey,
            frame_size: ours.frame_bytes,
            use_bf: i32::from(ours.blue_flame != 0),
            ..Self::default()
        })
    }
}
