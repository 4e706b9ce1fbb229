//! Counters of a port, which any thread may read while the port runs.

use ringcall_gpu::atomic::DeviceU64;
use std::sync::atomic::Ordering;

ringcall_wire::named! {
    /// What is counted.
    #[repr(usize)]
    pub enum Count {
        Packets, "port_packets", "packets taken from the socket";
        Accepted, "port_accepted", "packets that passed every check";
        Refused, "port_refused", "packets refused: iCRC, queue pair, key, addresses, not RoCE";
        WrongIcrc, "port_wrong_icrc", "of the refused packets, those whose invariant CRC is wrong";
        WrongKey, "port_wrong_key", "of the refused packets, those whose key is not the window's";
        Repeated, "port_repeated", "packets refused: their sequence number was here before";
        Lost, "port_lost", "packets that sequence numbers say are missing";
        Busy, "port_busy", "requests refused (BACKPRESSURE): their page has a request in flight";
        Incomplete, "port_incomplete", "frames given up: packets of them never came";
        Evicted, "port_evicted", "peers that lost their entry to a newcomer: more wrote than the port knows at a time";
        Delivered, "port_delivered", "messages given to the NIC";
        Sent, "port_sent", "messages that the socket took";
        Unsent, "port_unsent", "messages lost here: no peer to send to, too long, or the socket would not take them";
        Errors, "port_errors", "errors of the socket";
    }
}

/// Counts of one port: one writer, any reader.
#[derive(Debug)]
pub struct Counts([DeviceU64; Count::ALL.len()]);

impl Default for Counts {
    fn default() -> Self {
        Self(std::array::from_fn(|_| DeviceU64::new(0)))
    }
}

impl Counts {
    pub(crate) fn add(&self, count: Count, n: u64) {
        let word = &self.0[count as usize];
        word.store(word.load(Ordering::Relaxed).wrapping_add(n), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, count: Count, n: u64) {
        self.0[count as usize].store(n, Ordering::Relaxed);
    }

    /// The count so far.
    #[must_use]
    pub fn get(&self, count: Count) -> u64 {
        self.0[count as usize].load(Ordering::Relaxed)
    }
}
