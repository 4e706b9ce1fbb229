//! An adapter: a NIC in software on its own thread, whose queues are worked elsewhere, by kernels of a device.

use crate::nic::{Config, Memory, Nic, Region};
use crate::socket_nic::driver::{Driver, Signals};
use crate::socket_nic::port::{PortError, RocePort};
use crate::socket_nic::queues::AdapterQueues;
use crate::socket_nic::report::{LoopStats, Report, Watch};
use crate::socket_nic::service::{POLL_INTERVAL, ServiceError, SocketNicOptions, failed};
use ringcall::thread::{GRACE_PERIOD, Supervised};
use ringcall_mlx5::WaitEnd;
use ringcall_roce::introduced::Introduction;
use ringcall_roce::{PortOptions, RoceSocket};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use std::time::{Duration, Instant};

/// A NIC in software that runs. Dropped, it stops as soon as it can.
#[derive(Debug)]
pub struct Adapter {
    address: SocketAddrV4,
    options: SocketNicOptions,
    signals: Arc<Signals>,
    watch: Watch,
    nic: Supervised<Driver>,
}

impl Adapter {
    /// Binds, and turns a NIC on queues that a loop works already: `counts` is what that loop counts. Of the options the port, the
    /// peers and the delivery apply.
    ///
    /// # Errors
    /// See [`ServiceError`].
    pub fn start(
        options: SocketNicOptions,
        queues: &AdapterQueues<'_>,
        rendezvous: Option<Receiver<Introduction>>,
        counts: Arc<dyn LoopStats>,
    ) -> Result<Self, ServiceError> {
        let PortOptions { qp, key, base, .. } = options.port;
        let socket = RoceSocket::bind(options.port.address).map_err(PortError::from)?;
        let drops = socket.drops();
        let mut port =
            RocePort::over(socket, options.port, options.delivery, options.peers)?.answered_in_any_order();
        if let Some(rendezvous) = rendezvous {
            port = port.introduced_by(rendezvous, options.peers);
        }
        let (address, port_counts) = (port.local_addr(), port.counts());
        let AdapterQueues { config, windows, uar } = queues;
        let regions = Memory::new(vec![
            Region { key, base, window: windows.rx_data.clone(), remote_write: true },
            Region {
                key: config.tx_lkey,
                base: config.tx_base,
                window: windows.tx_data.clone(),
                remote_write: false,
            },
        ]);
        let nic_config = Config { qpn: qp, record: config.record, burst: 32 };
        let nic = Nic::new(nic_config, windows, (*uar).clone(), regions, port)?;
        let signals = Arc::new(Signals::default());
        let driver = Driver::new(nic, Arc::clone(&signals));
        let watch = Watch::of_loop(port_counts, counts, drops);
        let nic = Supervised::start("nic", None, move || driver.run()).map_err(failed("the NIC's thread"))?;
        Ok(Self { address, options, signals, watch, nic })
    }

    /// Where it listens.
    #[must_use]
    pub const fn address(&self) -> SocketAddrV4 {
        self.address
    }

    /// The options, which have everything that a peer must know.
    #[must_use]
    pub const fn options(&self) -> &SocketNicOptions {
        &self.options
    }

    /// Live counts.
    #[must_use]
    pub fn watch(&self) -> Watch {
        self.watch.clone()
    }

    /// Takes the packets that are in the socket and no later ones, waits until the loop has read them, calls `end` to
    /// end the loop within the rest of the deadline, while the NIC still sends, and ends. `end` returns how the loop
    /// ended; `None`: it did not end.
    #[must_use]
    pub fn stop(mut self, deadline: Duration, end: impl FnOnce(Duration) -> Option<WaitEnd>) -> Report {
        let begin = Instant::now();
        self.signals.close();
        // The loop has read every completion when the NIC writes no more and every credit is back.
        while begin.elapsed() < deadline && !self.is_drained() {
            std::thread::sleep(POLL_INTERVAL);
        }
        let ended = end(deadline.saturating_sub(begin.elapsed()));
        self.signals.halt();
        let driver = self.nic.wait(GRACE_PERIOD).ok();
        Report::new(&self.watch, driver.as_ref(), ended.map(|ended| (0, ended)), begin.elapsed())
    }

    fn is_drained(&self) -> bool {
        self.signals.completed().is_some_and(|completed| self.watch.has_consumed(completed))
    }
}

impl Drop for Adapter {
    fn drop(&mut self) {
        self.signals.close();
        self.signals.halt();
    }
}
