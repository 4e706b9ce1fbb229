//! A DOCA SDK's queue pair on a device (`doca_gpu_dev_verbs_qp`), read from its bytes.
//!
//! The struct's layout differs between generations of the SDK, so [`QpLayout`] is a table of offsets. With feature
//! `doca` the build script takes them from the installed headers (`RINGCALL_DOCA_INCLUDE`, or pkg-config's
//! doca-gpunetio) for [`QpLayout::installed`], which otherwise returns why there are none. [`QpLayout::OPEN_2_0`] is
//! the layout of the open GPUNetIO 2.0 (296 bytes, no receive queue), and [`QpLayout::SDK`] the layout of the SDKs with
//! a receive queue: use either only for a struct that is known to be of that generation.
//!
//! ```
//! use ringcall_rdma::doca::{DocaError, QpLayout};
//!
//! let mut bytes = vec![0; QpLayout::SDK.bytes];
//! bytes[24..28].copy_from_slice(&0x12_u32.to_le_bytes());
//! // A struct that says nothing of its queues is refused.
//! assert!(matches!(QpLayout::SDK.read(&bytes), Err(DocaError::Field { .. })));
//! ```

/// Offsets in a queue pair's struct, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QpLayout {
    /// Bytes of the struct.
    pub bytes: usize,
    /// Queue pair number, u32.
    pub sq_num: usize,
    /// Number of send requests, u16.
    pub sq_wqe_num: usize,
    /// Device address of the send queue, u64.
    pub sq_wqe_daddr: usize,
    /// Device address of the doorbell record's send counter, u64.
    pub sq_dbrec: usize,
    /// Device address of the doorbell register, u64.
    pub sq_db: usize,
    /// The receive queue, if the layout has one.
    pub receive: Option<ReceiveLayout>,
    /// Completion queue of sends.
    pub cq_sq: usize,
    /// Completion queue of receives.
    pub cq_rq: Option<usize>,
}

/// Offsets of the receive queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ReceiveLayout {
    /// Number of receive requests, u32.
    pub rq_wqe_num: usize,
    /// Device address of the receive queue, u64.
    pub rq_wqe_daddr: usize,
    /// Device address of the doorbell record's receive counter, u64.
    pub rq_dbrec: usize,
}

/// Offsets within a completion queue's struct, the same in every generation.
mod cq {
    /// Device address, u64.
    pub(super) const DADDR: usize = 0;
    /// Number of entries, u32.
    pub(super) const ENTRIES: usize = 12;
}

/// A completion queue on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceCompletions {
    /// Device address.
    pub address: u64,
    /// Number of entries.
    pub entries: u32,
}

/// A receive queue on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceReceive {
    /// Device address.
    pub address: u64,
    /// Number of requests.
    pub entries: u32,
    /// Device address of the receive counter.
    pub record: u64,
    /// The queue's completions.
    pub completions: DeviceCompletions,
}

/// Addresses and sizes of a queue pair on a device, over which `ringcall-mlx5` accesses its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DeviceQp {
    /// The queue pair's number.
    pub number: u32,
    /// Device address of the send queue.
    pub send: u64,
    /// Number of send requests.
    pub send_entries: u32,
    /// Device address of the send counter in the doorbell record.
    pub send_record: u64,
    /// Device address of the doorbell register.
    pub doorbell: u64,
    /// Completions of sends.
    pub send_completions: DeviceCompletions,
    /// The receive queue.
    pub receive: Option<DeviceReceive>,
}

/// Why a struct cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DocaError {
    /// This program was built without the SDK's headers.
    #[error("built without the DOCA SDK's headers: {0}")]
    NoHeaders(&'static str),
    /// The bytes are not as many as the struct has.
    #[error("{have} bytes, where the struct has {needed}: of another generation of the SDK?")]
    Length {
        /// Bytes given.
        have: usize,
        /// Bytes of the struct.
        needed: usize,
    },
    /// A field with an invalid value: most likely the struct is of another generation.
    #[error("{field} is {value:#x}, which no queue has: of another generation of the SDK?")]
    Field {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
}

impl QpLayout {
    /// The layout of the SDKs with a receive queue.
    pub const SDK: Self = Self {
        bytes: 312,
        sq_num: 24,
        sq_wqe_num: 56,
        sq_wqe_daddr: 64,
        sq_dbrec: 72,
        sq_db: 80,
        receive: Some(ReceiveLayout { rq_wqe_num: 104, rq_wqe_daddr: 112, rq_dbrec: 120 }),
        cq_sq: 160,
        cq_rq: Some(216),
    };

    /// The layout of the open GPUNetIO 2.0.
    pub const OPEN_2_0: Self = Self {
        bytes: 296,
        sq_num: 24,
        sq_wqe_num: 60,
        sq_wqe_daddr: 64,
        sq_dbrec: 72,
        sq_db: 80,
        receive: None,
        cq_sq: 160,
        cq_rq: None,
    };

    /// The layout of the headers that were installed at build time.
    ///
    /// # Errors
    /// No headers were installed.
    pub fn installed() -> Result<Self, DocaError> {
        installed::layout()
    }

    /// The struct of `pair`, as an emulated adapter hands it out: all fields that [`read`](Self::read) reads, and zeros
    /// elsewhere. The receive queue is left out if the layout has none.
    #[must_use]
    pub fn write(&self, pair: &DeviceQp) -> Vec<u8> {
        let mut out = vec![0; self.bytes];
        let mut put = |at: usize, bytes: &[u8]| {
            if let Some(target) = out.get_mut(at..at + bytes.len()) {
                target.copy_from_slice(bytes);
            }
        };
        let completions = |put: &mut dyn FnMut(usize, &[u8]), at: usize, queue: &DeviceCompletions| {
            put(at + cq::DADDR, &queue.address.to_le_bytes());
            put(at + cq::ENTRIES, &queue.entries.to_le_bytes());
        };
        put(self.sq_num, &pair.number.to_le_bytes());
        // Below 2¹⁶, and followed by its mask.
        put(self.sq_wqe_num, &(pair.send_entries as u16).to_le_bytes());
        put(self.sq_wqe_num + 2, &(pair.send_entries.wrapping_sub(1) as u16).to_le_bytes());
        put(self.sq_wqe_daddr, &pair.send.to_le_bytes());
        put(self.sq_dbrec, &pair.send_record.to_le_bytes());
        put(self.sq_db, &pair.doorbell.to_le_bytes());
        completions(&mut put, self.cq_sq, &pair.send_completions);
        if let (Some(offsets), Some(cq_rq), Some(receive)) = (self.receive, self.cq_rq, &pair.receive) {
            put(offsets.rq_wqe_num, &receive.entries.to_le_bytes());
            put(offsets.rq_wqe_daddr, &receive.address.to_le_bytes());
            put(offsets.rq_dbrec, &receive.record.to_le_bytes());
            completions(&mut put, cq_rq, &receive.completions);
        }
        out
    }

    /// Reads a struct that was copied from the device.
    ///
    /// # Errors
    /// The length is not the struct's, or a value is not valid for a queue.
    pub fn read(&self, bytes: &[u8]) -> Result<DeviceQp, DocaError> {
        if bytes.len() != self.bytes {
            return Err(DocaError::Length { have: bytes.len(), needed: self.bytes });
        }
        let address = |field, at| match word(bytes, at) {
            value if value != 0 && value.is_multiple_of(4) => Ok(value),
            value => Err(DocaError::Field { field, value }),
        };
        let entries = |field, value: u32| {
            if value.is_power_of_two() && value < 1 << 16 {
                Ok(value)
            } else {
                Err(DocaError::Field { field, value: value.into() })
            }
        };
        let number = half(bytes, self.sq_num);
        if number == 0 || number >= 1 << 24 {
            return Err(DocaError::Field { field: "the queue pair's number", value: number.into() });
        }
        let completions = |field, at: usize| {
            Ok(DeviceCompletions {
                address: address(field, at + cq::DADDR)?,
                entries: entries(field, half(bytes, at + cq::ENTRIES))?,
            })
        };
        let receive = match (self.receive, self.cq_rq) {
            (Some(offsets), Some(cq_rq)) => Some(DeviceReceive {
                address: address("the receive queue", offsets.rq_wqe_daddr)?,
                entries: entries("the number of receive requests", half(bytes, offsets.rq_wqe_num))?,
                record: address("the receive counter", offsets.rq_dbrec)?,
                completions: completions("the receive completions", cq_rq)?,
            }),
            _ => None,
        };
        Ok(DeviceQp {
            number,
            send: address("the send queue", self.sq_wqe_daddr)?,
            send_entries: entries("the number of send requests", half(bytes, self.sq_wqe_num) & 0xFFFF)?,
            send_record: address("the send counter", self.sq_dbrec)?,
            doorbell: address("the doorbell register", self.sq_db)?,
            send_completions: completions("the send completions", self.cq_sq)?,
            receive,
        })
    }
}

fn word(bytes: &[u8], at: usize) -> u64 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u64::from_le_bytes(*chunk))
}

fn half(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(<[u8]>::first_chunk).map_or(0, |chunk| u32::from_le_bytes(*chunk))
}

/// Offsets from the SDK's own headers, with assertions of their sizes.
#[cfg(doca_headers)]
mod installed {
    use super::{DocaError, QpLayout};

    mod headers {
        #![allow(missing_docs, dead_code, unreachable_pub, non_camel_case_types, non_upper_case_globals)]
        #![allow(clippy::all, clippy::pedantic)]
        include!(concat!(env!("OUT_DIR"), "/doca.rs"));
    }

    pub(super) fn layout() -> Result<QpLayout, DocaError> {
        headers::LAYOUT.map_err(DocaError::NoHeaders)
    }
}

#[cfg(not(doca_headers))]
mod installed {
    use super::{DocaError, QpLayout};

    pub(super) fn layout() -> Result<QpLayout, DocaError> {
        Err(DocaError::NoHeaders(env!("RINGCALL_DOCA_WHY")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(layout: &QpLayout) -> Vec<u8> {
        let mut bytes = vec![0; layout.bytes];
        let mut put = |at: usize, value: &[u8]| bytes[at..at + value.len()].copy_from_slice(value);
        put(layout.sq_num, &0x1234_u32.to_le_bytes());
        put(layout.sq_wqe_num, &64_u16.to_le_bytes());
        // The mask follows the number.
        put(layout.sq_wqe_num + 2, &63_u16.to_le_bytes());
        for (at, value) in
            [(layout.sq_wqe_daddr, 0x1000_u64), (layout.sq_dbrec, 0x2004), (layout.sq_db, 0x3800)]
        {
            put(at, &value.to_le_bytes());
        }
        let mut completions = |at: usize, address: u64| {
            put(at, &address.to_le_bytes());
            put(at + 12, &128_u32.to_le_bytes());
        };
        completions(layout.cq_sq, 0x4000);
        if let Some(at) = layout.cq_rq {
            completions(at, 0x5000);
        }
        if let Some(offsets) = layout.receive {
            put(offsets.rq_wqe_num, &32_u32.to_le_bytes());
            put(offsets.rq_wqe_daddr, &0x6000_u64.to_le_bytes());
            put(offsets.rq_dbrec, &0x2000_u64.to_le_bytes());
        }
        bytes
    }

    #[test]
    fn a_struct_is_read_by_its_generation_s_offsets() {
        let sdk = QpLayout::SDK.read(&filled(&QpLayout::SDK)).expect("a queue pair");
        assert_eq!((sdk.number, sdk.send, sdk.send_entries), (0x1234, 0x1000, 64));
        assert_eq!((sdk.send_record, sdk.doorbell), (0x2004, 0x3800));
        assert_eq!(sdk.send_completions, DeviceCompletions { address: 0x4000, entries: 128 });
        let completions = DeviceCompletions { address: 0x5000, entries: 128 };
        let receive = DeviceReceive { address: 0x6000, entries: 32, record: 0x2000, completions };
        assert_eq!(sdk.receive, Some(receive));
        let open = QpLayout::OPEN_2_0.read(&filled(&QpLayout::OPEN_2_0)).expect("a queue pair");
        assert_eq!((open.number, open.send_entries, open.receive), (0x1234, 64, None));
    }

    #[test]
    fn another_generation_s_struct_is_refused() {
        let open = filled(&QpLayout::OPEN_2_0);
        assert_eq!(QpLayout::SDK.read(&open), Err(DocaError::Length { have: 296, needed: 312 }));
        let mut padded = open;
        padded.resize(312, 0);
        assert!(matches!(QpLayout::SDK.read(&padded), Err(DocaError::Field { .. })));
        let whole = filled(&QpLayout::SDK);
        for at in [24, 56, 64, 72, 80, 104, 112, 120, 160, 216] {
            let mut bytes = whole.clone();
            bytes[at..at + 4].fill(0xFF);
            assert!(QpLayout::SDK.read(&bytes).is_err(), "byte {at}");
        }
    }

    #[cfg(not(doca_headers))]
    #[test]
    fn without_headers_it_says_so() {
        let error = QpLayout::installed().expect_err("no headers");
        assert!(error.to_string().contains("DOCA"), "{error}");
    }
}
