//! The registers of a bridge in memory.

use super::registers::{
    BLOCK_WORDS, RegisterMap, SIF_TX_THRESHOLD, VERSION, bram, data_plane, host_interface, ila, loop_stats,
    player,
};
use ringcall_roce::immediate::{MAX_PAGES, PAGE_UNIT_BYTES};
use std::collections::HashMap;
use std::net::Ipv4Addr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// How the window's address is in its two registers. The two agree for address 0 alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AddressEncoding {
    /// The low word has the low 32 bits of the byte address: bridges from version 0x2602 on.
    #[default]
    Bytes,
    /// The low word counts pages of 128 bytes: older bridges, and CUDA-Q Realtime's emulator.
    Pages,
}

/// A register that the file does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("no register at {0:#010x}")]
pub struct AddressError(pub u32);

/// Where requests go: the data plane's registers, once queue pair and key are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// The host's queue pair.
    pub qp: u32,
    /// The key to its window.
    pub key: u32,
    /// The window's first address.
    pub base: u64,
    /// Bytes from page to page; 0 if the host left it out.
    pub page_bytes: u32,
    /// Pages, from 1 to [`MAX_PAGES`].
    pub pages: u32,
    /// The host's address, if it is written.
    pub host_ip: Option<Ipv4Addr>,
    /// The host's UDP port, if it is written.
    pub host_port: Option<u16>,
    /// Payload bytes of a packet, if they are written.
    pub packet_bytes: Option<u32>,
    /// Whether frames end in a [metadata block](crate::fpga::metadata): the host has not turned it off.
    pub metadata: bool,
}

/// What to play: the player's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlayerSettings {
    /// Whether it plays.
    pub enabled: bool,
    /// Whether it begins again after the last window.
    pub repeat: bool,
    /// From window to window.
    pub interval: Duration,
    /// Bytes of a window.
    pub window_bytes: u32,
    /// Windows.
    pub windows: u32,
    /// How often it was started since the file was made: a start that is missed between two looks still shows.
    pub starts: u64,
}

#[derive(Debug)]
struct Region {
    base: u32,
    words: Vec<u32>,
}

/// Registers that have no meaning here are kept too, for hosts that read back what they wrote; so many at most.
const MAX_OTHERS: usize = 4096;
/// A version from which hosts do not need page numbers for addresses.
const EMULATED_VERSION: u32 = 0x2602;

/// Every register of a bridge: the two relocatable blocks, player, its memory, logic analyser, and a bounded number of
/// others.
///
/// ```
/// use ringcall_sim::fpga::control::registers::{RegisterMap, data_plane};
/// use ringcall_sim::fpga::control::{AddressEncoding, RegisterFile};
///
/// let mut file = RegisterFile::new(RegisterMap::default());
/// assert_eq!(file.target(AddressEncoding::Bytes), None);
/// for (offset, value) in [(data_plane::QP, 2), (data_plane::RKEY, 7), (data_plane::PAGE_INC, 2)] {
///     file.write(0x1000 + offset, value)?;
/// }
/// let target = file.target(AddressEncoding::Bytes).expect("queue pair and key are there");
/// assert_eq!((target.qp, target.key, target.page_bytes, target.pages), (2, 7, 256, 1));
/// # Ok::<(), ringcall_sim::fpga::control::AddressError>(())
/// ```
#[derive(Debug)]
pub struct RegisterFile {
    map: RegisterMap,
    regions: Vec<Region>,
    others: HashMap<u32, u32>,
    qp_written: bool,
    key_written: bool,
    starts: u64,
}

impl RegisterFile {
    /// Registers of 0, the version apart.
    #[must_use]
    pub fn new(map: RegisterMap) -> Self {
        let region = |base, words: u32| Region { base, words: vec![0; words as usize] };
        Self {
            map,
            regions: vec![
                region(bram::BASE, bram::BANKS * bram::BEATS),
                region(ila::DATA, ila::BANKS * ila::SAMPLES),
                region(player::BASE, player::WORDS),
                region(ila::BASE, ila::WORDS),
                region(map.data_plane, BLOCK_WORDS),
                region(map.host_interface, BLOCK_WORDS),
                region(loop_stats::MAGIC, loop_stats::WORDS),
                region(SIF_TX_THRESHOLD, 1),
            ],
            others: HashMap::from([(VERSION, EMULATED_VERSION)]),
            qp_written: false,
            key_written: false,
            starts: 0,
        }
    }

    /// Where the relocatable blocks are.
    #[must_use]
    pub const fn map(&self) -> &RegisterMap {
        &self.map
    }

    fn word(&mut self, address: u32) -> Option<&mut u32> {
        self.regions.iter_mut().find_map(|region| {
            let index = address.checked_sub(region.base)? / 4;
            region.words.get_mut(index as usize)
        })
    }

    /// A register's value; 0 where nothing was written.
    ///
    /// # Errors
    /// An address that is no multiple of 4.
    pub fn read(&self, address: u32) -> Result<u32, AddressError> {
        if !address.is_multiple_of(4) {
            return Err(AddressError(address));
        }
        let word = self.regions.iter().find_map(|region| {
            let index = address.checked_sub(region.base)? / 4;
            region.words.get(index as usize).copied()
        });
        Ok(word.or_else(|| self.others.get(&address).copied()).unwrap_or(0))
    }

    /// Writes a register, as a host does.
    ///
    /// # Errors
    /// An address that is no multiple of 4, or one more of the registers without a meaning than there is room for.
    pub fn write(&mut self, address: u32, value: u32) -> Result<(), AddressError> {
        if !address.is_multiple_of(4) {
            return Err(AddressError(address));
        }
        if let Some(word) = self.word(address) {
            *word = value;
        } else if self.others.len() < MAX_OTHERS || self.others.contains_key(&address) {
            self.others.insert(address, value);
        } else {
            return Err(AddressError(address));
        }
        match address {
            player::ENABLE if value & player::START != 0 => {
                self.starts += 1;
                // Data that is there belongs to an earlier loop.
                self.set(loop_stats::MAGIC, 0);
                self.set(loop_stats::STATE, 0);
            }
            ila::CTRL if value & ila::RESET != 0 => {
                self.set(ila::STATUS, 0);
                self.set(ila::SAMPLE_ADDR, 0);
            }
            _ if address == self.map.data_plane + data_plane::QP => self.qp_written = true,
            _ if address == self.map.data_plane + data_plane::RKEY => self.key_written = true,
            _ => {}
        }
        Ok(())
    }

    /// A register that is known to be there.
    fn get(&self, address: u32) -> u32 {
        self.read(address).unwrap_or(0)
    }

    fn set(&mut self, address: u32, value: u32) {
        if let Some(word) = self.word(address) {
            *word = value;
        }
    }

    /// Where requests go; `None` until queue pair and key are written.
    #[must_use]
    pub fn target(&self, encoding: AddressEncoding) -> Option<Target> {
        let get = |offset| self.get(self.map.data_plane + offset);
        let some = |value: u32| (value != 0).then_some(value);
        if !(self.qp_written && self.key_written) {
            return None;
        }
        let low = match encoding {
            AddressEncoding::Bytes => u64::from(get(data_plane::PAGE_LSB)),
            AddressEncoding::Pages => u64::from(get(data_plane::PAGE_LSB)) * u64::from(PAGE_UNIT_BYTES),
        };
        let packet = self.get(self.map.host_interface + host_interface::PACKET_SIZE);
        Some(Target {
            qp: get(data_plane::QP),
            key: get(data_plane::RKEY),
            base: u64::from(get(data_plane::PAGE_MSB)) << 32 | low,
            page_bytes: get(data_plane::PAGE_INC).saturating_mul(PAGE_UNIT_BYTES),
            pages: get(data_plane::MAX_BUFF).saturating_add(1).min(MAX_PAGES),
            host_ip: some(get(data_plane::HOST_IP)).map(Ipv4Addr::from),
            // The low half of the word.
            host_port: some(get(data_plane::HOST_UDP_PORT) & 0xFFFF).map(|port| port as u16),
            metadata: get(data_plane::HOST_UDP_PORT) & data_plane::METADATA_OFF == 0,
            packet_bytes: some(packet).map(|units| units.saturating_mul(PAGE_UNIT_BYTES)),
        })
    }

    /// What to play.
    #[must_use]
    pub fn player(&self) -> PlayerSettings {
        let enable = self.get(player::ENABLE);
        let ticks = u64::from(self.get(player::TIMER));
        PlayerSettings {
            enabled: enable & player::START != 0,
            repeat: enable == player::LOOP,
            interval: Duration::from_nanos(ticks * 1000 / u64::from(player::TICKS_PER_US)),
            window_bytes: self.get(player::WINDOW_SIZE),
            windows: self.get(player::WINDOW_NUMBER),
            starts: self.starts,
        }
    }

    /// A window of the player's memory, put together from the banks; `None` if the memory does not hold it all.
    #[must_use]
    pub fn window(&self, index: u32, window_bytes: u32) -> Option<Vec<u8>> {
        let beats = window_bytes.div_ceil(bram::BEAT_BYTES);
        let first = index.checked_mul(beats)?;
        if window_bytes == 0 || first.checked_add(beats)? > bram::BEATS {
            return None;
        }
        let words = (first..first + beats).flat_map(|beat| (0..bram::BANKS).map(move |bank| (bank, beat)));
        let mut bytes: Vec<u8> =
            words.flat_map(|(bank, beat)| self.get(bram::address(bank, beat)).to_le_bytes()).collect();
        bytes.truncate(window_bytes as usize);
        Some(bytes)
    }

    /// Captures an answer, if the logic analyser is on and has room: its first 64 bytes, and when it came (seconds in the
    /// upper half, nanoseconds in the lower). Returns whether it did.
    pub fn capture(&mut self, answer: &[u8], time: u64) -> bool {
        let sample = self.get(ila::SAMPLE_ADDR);
        if self.get(ila::CTRL) & ila::ENABLE == 0 || sample >= ila::SAMPLES {
            return false;
        }
        let mut data = [0; ila::SAMPLE_BYTES];
        let length = answer.len().min(data.len());
        data[..length].copy_from_slice(&answer[..length]);
        let (words, _) = data.as_chunks();
        for (bank, word) in words.iter().enumerate() {
            // 16 words.
            self.set(ila::address(bank as u32, sample), u32::from_le_bytes(*word));
        }
        let beats = answer.len().div_ceil(ila::SAMPLE_BYTES).clamp(1, 0x7F) as u128;
        let flags = u128::from(ila::VALID | ila::LAST) | beats << ila::COUNT_SHIFT;
        let tail = flags | u128::from(time) << ila::TIME_SHIFT;
        for bank in 16..ila::BANKS {
            self.set(ila::address(bank, sample), (tail >> ((bank - 16) * 32)) as u32);
        }
        self.set(ila::SAMPLE_ADDR, sample + 1);
        true
    }

    /// Says what came of a loop: windows sent, answers received, windows unanswered, answers that were wrong.
    pub fn set_loop_stats(&mut self, windows: u64, responses: u64, timeouts: u64, failures: u64) {
        let small = |count: u64| u32::try_from(count).unwrap_or(u32::MAX);
        for (address, count) in [(loop_stats::WINDOWS, windows), (loop_stats::RESPONSES, responses)] {
            self.set(address, count as u32);
            self.set(address + 4, (count >> 32) as u32);
        }
        self.set(loop_stats::ERRORS, 0);
        self.set(loop_stats::TIMEOUTS, small(timeouts));
        self.set(loop_stats::RESPONSE_FAILURES, small(failures));
        self.set(loop_stats::MAGIC, loop_stats::MAGIC_VALUE);
        self.set(loop_stats::STATE, loop_stats::COMPLETE);
    }

    /// Says that the player has played all.
    pub fn set_done(&mut self) {
        let status = self.get(ila::STATUS);
        self.set(ila::STATUS, status | ila::DONE);
    }
}

/// Registers that several threads share. Words are never half written, so a thread that panicked with the lock has broken
/// nothing.
pub fn lock(file: &Mutex<RegisterFile>) -> MutexGuard<'_, RegisterFile> {
    file.lock().unwrap_or_else(PoisonError::into_inner)
}
