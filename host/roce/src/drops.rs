//! Counters of datagrams that the operating system dropped because a socket's receive buffer was full.
//!
//! Linux counts them for each socket in `/proc/self/net/udp`. (`SO_RXQ_OVFL` would deliver the same count as a control
//! message with each datagram, but the safe wrappers of `recvmmsg` do not reset the control buffers between calls.)

use rustix::fs::fstat;
use std::net::SocketAddr;
use std::os::fd::AsFd;

/// Columns of the table, counted from 0.
const INODE: usize = 9;
const DROPS: usize = 12;

/// Reads how many datagrams the operating system has dropped for one socket.
#[derive(Debug, Clone, Copy)]
pub struct SocketDrops {
    inode: u64,
    table: &'static str,
}

impl SocketDrops {
    /// The counter of `socket`, which is bound to `address`. `None` if the operating system shows none.
    pub fn of(socket: &impl AsFd, address: SocketAddr) -> Option<Self> {
        let table = if address.is_ipv4() { "/proc/self/net/udp" } else { "/proc/self/net/udp6" };
        let drops = Self { inode: fstat(socket).ok()?.st_ino, table };
        drops.find().map(|_| drops)
    }

    /// The datagrams dropped so far; 0 for a closed socket.
    #[must_use]
    pub fn read(&self) -> u64 {
        self.find().unwrap_or(0)
    }

    fn find(&self) -> Option<u64> {
        find(&std::fs::read_to_string(self.table).ok()?, self.inode)
    }
}

/// The dropped datagrams of the socket with this inode.
fn find(table: &str, inode: u64) -> Option<u64> {
    table.lines().skip(1).find_map(|line| {
        let columns: Vec<&str> = line.split_ascii_whitespace().collect();
        if columns.get(INODE)?.parse::<u64>().ok()? != inode {
            return None;
        }
        columns.get(DROPS)?.parse().ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two lines as Linux 6 writes them.
    const TABLE: &str = "   sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode ref pointer drops\n\
        1204: 00000000:0044 00000000:0000 07 00000000:00000000 00:00000000 00000000     0        0 1543 2 0000000000000000 0\n\
        1771: 0100007F:9E3B 00000000:0000 07 00000000:00001900 00:00000000 00000000  1000        0 98231 2 0000000000000000 417\n";

    #[test]
    fn the_line_of_the_socket_is_found() {
        assert_eq!(find(TABLE, 98231), Some(417));
        assert_eq!(find(TABLE, 1543), Some(0));
        assert_eq!(find(TABLE, 1), None);
        assert_eq!(find("a line\nof something else", 1), None);
    }
}
