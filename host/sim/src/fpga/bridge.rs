//! Both planes: a bridge whose registers a host writes over UDP, and which plays the contents of its memory.
//!
//! A host writes where its window is and under which queue pair and key, loads windows into the player's memory, sets
//! size, number and interval, turns the logic analyser on if it wants to see the answers, and enables the player. The
//! bridge then plays the windows, once or until it is disabled, with as many in flight as the host has pages.

use crate::fpga::config::{
    EMULATOR_QP, MAX_PACKET_BYTES, PlayerConfig, PlayerTarget, RequestIds, TimeFormat,
};
use crate::fpga::control::file::lock;
use crate::fpga::control::{
    AddressEncoding, ControlServer, PlayerSettings, RegisterFile, RegisterMap, SequenceCheck, ServerHandle,
    ServerStats, Target,
};
use crate::fpga::error::EmulatorError;
use crate::fpga::faults::Faults;
use crate::fpga::player::Player;
use crate::fpga::report::Report;
use crate::fpga::windows::{Checker, Exchange, Recorded};
use ringcall_roce::{IcrcCheck, ROCE_PORT, RoceSocket};
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// How a bridge is set up, apart from what its registers say.
#[derive(Clone, Copy, Debug)]
pub struct BridgeConfig {
    /// The data plane's own address.
    pub data: SocketAddrV4,
    /// The control plane's own address.
    pub control: SocketAddr,
    /// Its queue pair, to which answers are addressed.
    pub qp: u32,
    /// Where its relocatable registers are.
    pub map: RegisterMap,
    /// How the window's address is in the registers.
    pub address: AddressEncoding,
    /// Whether sequence numbers of the control plane are checked.
    pub sequence: SequenceCheck,
    /// The host's address, instead of the registers'.
    pub host: Option<Ipv4Addr>,
    /// The host's UDP port, instead of the registers'; [`ROCE_PORT`] if neither does.
    pub host_port: Option<u16>,
    /// The most requests without an answer; the host's pages if there are fewer.
    pub in_flight: u32,
    /// When a request is given up.
    pub timeout: Duration,
    /// What goes wrong on purpose.
    pub faults: Faults,
    /// How times are written.
    pub time: TimeFormat,
    /// Whose numbers requests bear.
    pub ids: RequestIds,
    /// How answers' iCRCs are checked.
    pub icrc: IcrcCheck,
    /// Whether windows end in a metadata block, unless the host has turned that off in its registers. Hosts of RPC do turn
    /// it off; default: no.
    pub metadata: bool,
}

impl BridgeConfig {
    /// A bridge as hosts expect it, on these addresses: times as the hardware writes them, numbers as the host wrote
    /// them, 64 in flight.
    #[must_use]
    pub fn new(data: SocketAddrV4, control: SocketAddr) -> Self {
        Self {
            data,
            control,
            qp: EMULATOR_QP,
            map: RegisterMap::default(),
            address: AddressEncoding::default(),
            sequence: SequenceCheck::default(),
            host: None,
            host_port: None,
            in_flight: 64,
            timeout: Duration::from_secs(1),
            faults: Faults::default(),
            time: TimeFormat::SecondsNanoseconds,
            ids: RequestIds::AsWritten,
            icrc: IcrcCheck::Recover,
            metadata: false,
        }
    }
}

/// A bridge that listens.
#[derive(Debug)]
pub struct Bridge {
    config: BridgeConfig,
    file: Arc<Mutex<RegisterFile>>,
    server: ServerHandle,
    socket: RoceSocket,
    /// Starts that were played.
    played: u64,
}

const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// Passes answers to the logic analyser on their way.
struct Captured<'a, C: ?Sized> {
    checker: &'a mut C,
    file: &'a Mutex<RegisterFile>,
}

impl<C: Checker + ?Sized> Checker for Captured<'_, C> {
    fn check(&mut self, exchange: &Exchange<'_>) -> bool {
        self.checker.check(exchange)
    }

    fn capture(&mut self, answer: &[u8], time: u64) {
        lock(self.file).capture(answer, time);
        self.checker.capture(answer, time);
    }
}

impl Bridge {
    /// Opens both planes.
    ///
    /// # Errors
    /// Sockets that cannot be made.
    pub fn start(config: BridgeConfig) -> Result<Self, EmulatorError> {
        let socket = RoceSocket::bind(config.data)?;
        let file = Arc::new(Mutex::new(RegisterFile::new(config.map)));
        let failed = || EmulatorError::io("the control plane");
        let control = UdpSocket::bind(config.control).map_err(failed())?;
        let server = ControlServer::new(control, Arc::clone(&file), config.sequence)
            .and_then(ControlServer::spawn)
            .map_err(failed())?;
        Ok(Self { config, file, server, socket, played: 0 })
    }

    /// Where the control plane listens.
    #[must_use]
    pub const fn control_addr(&self) -> SocketAddr {
        self.server.address()
    }

    /// Closes both planes. Returns what the control plane counted.
    ///
    /// # Errors
    /// What ended the control plane before.
    pub fn stop(self) -> Result<ServerStats, EmulatorError> {
        self.server.stop().map_err(EmulatorError::io("the control plane"))
    }

    /// Waits until a host has started the player, and plays. `None`: `stop` said so before.
    ///
    /// # Errors
    /// Registers that cannot be played, or a socket that fails.
    pub fn play<C: Checker + ?Sized>(
        &mut self,
        checker: &mut C,
        stop: &dyn Fn() -> bool,
    ) -> Result<Option<Report>, EmulatorError> {
        let (target, settings) = loop {
            if stop() {
                return Ok(None);
            }
            let file = lock(&self.file);
            let settings = file.player();
            match file.target(self.config.address) {
                Some(target) if settings.enabled && settings.starts > self.played => {
                    break (target, settings);
                }
                _ => {}
            }
            drop(file);
            std::thread::sleep(POLL_INTERVAL);
        };
        self.played = settings.starts;
        let config = self.player_config(&target, &settings)?;
        let windows = self.windows(&settings)?;
        let socket = self.socket.try_clone().map_err(EmulatorError::io("the data plane's socket"))?;
        let mut player = Player::new(socket, config)?;
        let file = &self.file;
        let ended = || {
            let now = lock(file).player();
            stop() || !now.enabled || now.starts != settings.starts
        };
        let mut checker = Captured { checker, file };
        let report = player.run(&mut Recorded::new(windows, settings.repeat), &mut checker, &ended)?;
        let mut registers = lock(file);
        if settings.repeat {
            let failures = report.wrong() + report.malformed;
            let answers = report.correct + failures;
            registers.set_loop_stats(report.sent, answers, report.lost + report.unanswered, failures);
        }
        registers.set_done();
        drop(registers);
        Ok(Some(report))
    }

    fn windows(&self, settings: &PlayerSettings) -> Result<Vec<Vec<u8>>, EmulatorError> {
        let file = lock(&self.file);
        let PlayerSettings { windows, window_bytes, .. } = *settings;
        let all: Option<Vec<Vec<u8>>> = (0..windows).map(|index| file.window(index, window_bytes)).collect();
        all.filter(|all| !all.is_empty()).ok_or_else(|| EmulatorError::Setting {
            setting: "the player's windows",
            value: format!("{windows} of {window_bytes} bytes"),
            needed: "at least one, and no more than the memory of 512 beats of 64 bytes holds",
        })
    }

    fn player_config(
        &self,
        target: &Target,
        settings: &PlayerSettings,
    ) -> Result<PlayerConfig, EmulatorError> {
        let config = &self.config;
        let host = config.host.or(target.host_ip).ok_or_else(|| EmulatorError::Setting {
            setting: "the host's address",
            value: "unknown".to_owned(),
            needed: "write it to HOST_IP, or give it to the emulator",
        })?;
        let port = config.host_port.or(target.host_port).unwrap_or(ROCE_PORT);
        let metadata = target.metadata;
        // The host's, as far as a packet can be.
        let packet_bytes = target.packet_bytes.map(|bytes| bytes.min(MAX_PACKET_BYTES));
        let target = PlayerTarget {
            peer: SocketAddrV4::new(host, port),
            qp: target.qp,
            key: target.key,
            base: target.base,
            page_bytes: if target.page_bytes == 0 { settings.window_bytes } else { target.page_bytes },
            pages: target.pages,
        };
        let defaults = PlayerConfig::new(target);
        let packet_bytes = packet_bytes.unwrap_or(defaults.packet_bytes);
        Ok(PlayerConfig {
            qp: config.qp,
            metadata: config.metadata && metadata,
            interval: settings.interval,
            in_flight: config.in_flight.min(target.pages),
            timeout: config.timeout,
            faults: config.faults,
            time: config.time,
            ids: config.ids,
            icrc: config.icrc,
            packet_bytes,
            ..defaults
        })
    }
}
