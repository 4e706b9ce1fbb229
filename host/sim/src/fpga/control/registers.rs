//! Register addresses of a sensor bridge, and the contents of the words.

/// UDP port of a bridge's control plane.
pub const CONTROL_PORT: u16 = 8192;
/// UDP port of CUDA-Q Realtime's emulator, so that it can run beside one.
pub const EMULATOR_CONTROL_PORT: u16 = 8193;

/// Where the two relocatable blocks begin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RegisterMap {
    /// The data plane's (virtual port's) block.
    pub data_plane: u32,
    /// The host interface's block.
    pub host_interface: u32,
}

impl Default for RegisterMap {
    fn default() -> Self {
        Self { data_plane: 0x1000, host_interface: 0x0800 }
    }
}

/// Words of the relocatable blocks, from their base.
pub const BLOCK_WORDS: u32 = 64;

/// Offsets in the data plane's block.
pub mod data_plane {
    /// The host's queue pair.
    pub const QP: u32 = 0x00;
    /// The key to the host's window.
    pub const RKEY: u32 = 0x04;
    /// The window's address, low word; see [`AddressEncoding`](super::super::AddressEncoding).
    pub const PAGE_LSB: u32 = 0x08;
    /// The window's address, high word.
    pub const PAGE_MSB: u32 = 0x0C;
    /// Bytes from page to page, in units of 128.
    pub const PAGE_INC: u32 = 0x10;
    /// Number of the last page.
    pub const MAX_BUFF: u32 = 0x14;
    /// Bytes of a frame.
    pub const BUFFER_LENGTH: u32 = 0x18;
    /// The host's MAC address, low four bytes.
    pub const HOST_MAC_LOW: u32 = 0x20;
    /// The host's MAC address, high two bytes.
    pub const HOST_MAC_HIGH: u32 = 0x24;
    /// The host's IPv4 address, as a number.
    pub const HOST_IP: u32 = 0x28;
    /// The host's UDP port in the low half; [`METADATA_OFF`].
    pub const HOST_UDP_PORT: u32 = 0x2C;
    /// Bit of [`HOST_UDP_PORT`]: no metadata block after a frame.
    pub const METADATA_OFF: u32 = 1 << 16;
}

/// Offsets in the host interface's block.
pub mod host_interface {
    /// Bytes of a packet's payload, in units of 128.
    pub const PACKET_SIZE: u32 = 0x04;
    /// UDP port that packets come from.
    pub const PACKET_UDP_PORT: u32 = 0x08;
    /// Virtual ports that are on.
    pub const VP_MASK: u32 = 0x0C;
}

/// The player: sends windows out of [`bram`].
pub mod player {
    /// The block's base.
    pub const BASE: u32 = 0x5000_0000;
    /// Starts and stops it: [`START`], [`SINGLE_PASS`], [`LOOP`], 0.
    pub const ENABLE: u32 = BASE + 0x04;
    /// Time from window to window, in [`TICKS_PER_US`].
    pub const TIMER: u32 = BASE + 0x08;
    /// Bytes of a window.
    pub const WINDOW_SIZE: u32 = BASE + 0x0C;
    /// Windows to play.
    pub const WINDOW_NUMBER: u32 = BASE + 0x10;
    /// Words of the block.
    pub const WORDS: u32 = 8;

    /// Bit of [`ENABLE`]: play.
    pub const START: u32 = 1;
    /// [`ENABLE`]: every window once.
    pub const SINGLE_PASS: u32 = 0x0D;
    /// [`ENABLE`]: again and again.
    pub const LOOP: u32 = 0x03;
    /// Timer ticks in a microsecond.
    pub const TICKS_PER_US: u32 = 322;
}

/// The memory that the player's windows are in: a beat of 64 bytes has four from each of 16 banks, little-endian.
pub mod bram {
    /// The first bank's first word.
    pub const BASE: u32 = 0x5010_0000;
    /// Banks.
    pub const BANKS: u32 = 16;
    /// Words of a bank: beats that the memory holds.
    pub const BEATS: u32 = 512;
    /// Bytes from bank to bank.
    pub const BANK_STRIDE: u32 = BEATS * 4;
    /// Bytes of a beat.
    pub const BEAT_BYTES: u32 = BANKS * 4;

    /// Address of a beat's word in a bank.
    #[must_use]
    pub const fn address(bank: u32, beat: u32) -> u32 {
        BASE + bank * BANK_STRIDE + beat * 4
    }
}

/// The logic analyser, which captures answers.
pub mod ila {
    /// The block's base.
    pub const BASE: u32 = 0x4000_0000;
    /// [`ENABLE`], [`RESET`] or 0.
    pub const CTRL: u32 = BASE;
    /// [`DONE`] when the player has played all.
    pub const STATUS: u32 = BASE + 0x80;
    /// Samples captured.
    pub const SAMPLE_ADDR: u32 = BASE + 0x84;
    /// Words of the block.
    pub const WORDS: u32 = 0x24;

    /// [`CTRL`]: capture.
    pub const ENABLE: u32 = 1;
    /// [`CTRL`]: forget what was captured.
    pub const RESET: u32 = 2;
    /// Bit of [`STATUS`].
    pub const DONE: u32 = 1 << 1;

    /// The first bank's first word.
    pub const DATA: u32 = 0x4010_0000;
    /// Banks: a sample has a word in each.
    pub const BANKS: u32 = 19;
    /// Words of a bank: samples that it holds.
    pub const SAMPLES: u32 = 8192;
    /// Bytes from bank to bank.
    pub const BANK_STRIDE: u32 = SAMPLES * 4;
    /// Bytes of an answer that a sample holds: the words of banks 0 to 15, little-endian.
    pub const SAMPLE_BYTES: usize = 64;

    // A sample is 585 bits: 512 of data, then these, bank 16 and up.
    /// Bit: the sample is an answer.
    pub const VALID: u32 = 1 << 0;
    /// Bit: the last beat of one.
    pub const LAST: u32 = 1 << 1;
    /// Offset of the seven bits that count write transactions.
    pub const COUNT_SHIFT: u32 = 2;
    /// Offset of the 64 bits of time (seconds in the upper half, nanoseconds in the lower), over banks 16 to 18.
    pub const TIME_SHIFT: u32 = 9;

    /// Address of a sample's word in a bank.
    #[must_use]
    pub const fn address(bank: u32, sample: u32) -> u32 {
        DATA + bank * BANK_STRIDE + sample * 4
    }
}

/// What came of a loop, in emulators alone: later versions of CUDA-Q Realtime's emulator and its host have it.
pub mod loop_stats {
    /// The block's base: [`MAGIC_VALUE`] once a loop has ended.
    pub const MAGIC: u32 = 0xE000_0000;
    /// [`COMPLETE`] once a loop has ended.
    pub const STATE: u32 = MAGIC + 0x04;
    /// Windows sent, low word; the high word follows.
    pub const WINDOWS: u32 = MAGIC + 0x08;
    /// Answers received, low word; the high word follows.
    pub const RESPONSES: u32 = MAGIC + 0x10;
    /// Windows that could not be sent.
    pub const ERRORS: u32 = MAGIC + 0x18;
    /// Windows that were not answered in time.
    pub const TIMEOUTS: u32 = MAGIC + 0x1C;
    /// Answers that were none, or reported a failure.
    pub const RESPONSE_FAILURES: u32 = MAGIC + 0x24;
    /// Words of the block.
    pub const WORDS: u32 = 16;

    /// The letters of HSBE.
    pub const MAGIC_VALUE: u32 = 0x4853_4245;
    /// [`STATE`]: the figures are final.
    pub const COMPLETE: u32 = 2;
}

/// Threshold of the transmit buffer: 5 sends at once.
pub const SIF_TX_THRESHOLD: u32 = 0x0120_0000;
/// Version of the bridge's logic.
pub const VERSION: u32 = 0x80;
