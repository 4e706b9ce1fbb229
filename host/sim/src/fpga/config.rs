//! Configuration of the player: target, pace, and faults.

use crate::fpga::error::EmulatorError;
use crate::fpga::faults::Faults;
use ringcall_roce::{IcrcCheck, MAX_PAGES, PathMtu, Psn};
use ringcall_wire::HEADER_BYTES;
use ringcall_wire::tag::FrameKey;
use serde::Serialize;
use std::net::SocketAddrV4;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// A host's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct PlayerTarget {
    /// Where packets go.
    pub peer: SocketAddrV4,
    /// The host's queue pair.
    pub qp: u32,
    /// The key to the window.
    pub key: u32,
    /// The window's first address.
    pub base: u64,
    /// Bytes from page to page.
    pub page_bytes: u32,
    /// Pages; each takes one request.
    pub pages: u32,
}

/// How a time of sending is in a request's 64 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum TimeFormat {
    /// Nanoseconds since 1970 by this machine's clock.
    #[default]
    Nanoseconds,
    /// Seconds in the upper half, nanoseconds in the lower, as the bridge's hardware writes PTP time.
    SecondsNanoseconds,
}

impl TimeFormat {
    /// The time now.
    #[must_use]
    pub fn now(self) -> u64 {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        match self {
            Self::Nanoseconds => u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            Self::SecondsNanoseconds => since.as_secs() << 32 | u64::from(since.subsec_nanos()),
        }
    }
}

/// Whose numbers requests bear.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum RequestIds {
    /// The player counts from 0.
    #[default]
    Counted,
    /// As they stand in the windows. A window waits while its number is in flight.
    AsWritten,
}

/// How a [`Player`](crate::fpga::Player) plays.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct PlayerConfig {
    /// Where to.
    pub target: PlayerTarget,
    /// The player's own queue pair, to which answers are addressed.
    pub qp: u32,
    /// From one window's due time to the next; zero: as fast as pages come free. A window that is late is sent at once.
    pub interval: Duration,
    /// The most requests without an answer; at most the target's pages.
    pub in_flight: u32,
    /// When a request is given up and its page used again.
    pub timeout: Duration,
    /// The most payload bytes of a packet: longer windows are sent as several WRITEs. Not for the reliable service.
    pub packet_bytes: u32,
    /// The reliable service, with this path MTU: a window is one WRITE, which is sent again until the host has acknowledged it.
    /// `None`: the unreliable one. Default: `None`.
    pub reliable: Option<PathMtu>,
    /// Whether each window is padded to a multiple of 128 bytes and followed by a
    /// [metadata block](crate::fpga::metadata), as frames of a camera are. Default: no, as for RPC.
    pub metadata: bool,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// The first packet's number; `None` takes one from the clock, so that a second run is not taken for a repeat of the
    /// first. With the reliable service the host expects that number, and begins with it too; `None` is 0.
    pub first_psn: Option<u32>,
    /// How times are written.
    pub time: TimeFormat,
    /// Whose numbers requests bear.
    pub ids: RequestIds,
    /// How answers' iCRCs are checked. Default: [`IcrcCheck::Recover`], which takes answers of adapters, too.
    pub icrc: IcrcCheck,
    /// What requests are tagged with, and answers must be ([`ringcall_wire::tag`]). Default: none, and no tags.
    /// Not part of what is written.
    #[serde(skip)]
    pub key: Option<FrameKey>,
}

impl PlayerConfig {
    /// As fast as possible, every page in flight, a second for each answer, no faults.
    #[must_use]
    pub fn new(target: PlayerTarget) -> Self {
        Self {
            target,
            qp: EMULATOR_QP,
            interval: Duration::ZERO,
            in_flight: target.pages,
            timeout: Duration::from_secs(1),
            packet_bytes: DEFAULT_PACKET_BYTES,
            reliable: None,
            metadata: false,
            faults: Faults::default(),
            first_psn: None,
            time: TimeFormat::default(),
            ids: RequestIds::default(),
            icrc: IcrcCheck::Recover,
            key: None,
        }
    }

    pub(crate) fn check(&self) -> Result<(), EmulatorError> {
        let setting = |setting, value: String, needed| Err(EmulatorError::Setting { setting, value, needed });
        let target = &self.target;
        if target.qp > Psn::MASK || self.qp > Psn::MASK {
            let value = format!("{:#x}", target.qp.max(self.qp));
            return setting("a queue pair number", value, "it has 24 bits");
        }
        if target.pages == 0 || target.pages > MAX_PAGES {
            return setting("the number of pages", target.pages.to_string(), "give 1 to 4096");
        }
        if (target.page_bytes as usize) < HEADER_BYTES {
            return setting(
                "the page size",
                target.page_bytes.to_string(),
                "a request has at least 24 bytes",
            );
        }
        if u64::from(target.pages)
            .checked_mul(target.page_bytes.into())
            .and_then(|bytes| target.base.checked_add(bytes))
            .is_none()
        {
            return setting("the window's address", format!("{:#x}", target.base), "the window wraps around");
        }
        if self.in_flight == 0 || self.in_flight > target.pages {
            return setting("in_flight", self.in_flight.to_string(), "give 1 to the target's pages");
        }
        if self.packet_bytes == 0 || self.packet_bytes > MAX_PACKET_BYTES {
            return setting("packet_bytes", self.packet_bytes.to_string(), "give 1 to 4096");
        }
        if self.timeout.is_zero() {
            return setting("timeout", "0".to_owned(), "a request needs time");
        }
        self.faults.check()
    }
}

/// The queue pair that hosts take a bridge to have unless told otherwise.
pub const EMULATOR_QP: u32 = 0x2;
/// Fits an Ethernet frame of 1500 bytes with every header.
const DEFAULT_PACKET_BYTES: u32 = 1024;
/// The largest path MTU of InfiniBand.
pub(crate) const MAX_PACKET_BYTES: u32 = 4096;
