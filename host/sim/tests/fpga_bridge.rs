//! Both planes at once: a host that writes registers, loads windows, starts the player and reads the answers out of the
//! logic analyser, as the public host software does.

use ringcall_roce::{Incomplete, LocalQueuePair};
use ringcall_sim::fpga::control::registers::{
    SIF_TX_THRESHOLD, bram, data_plane, host_interface, ila, loop_stats, player,
};
use ringcall_sim::fpga::control::{AddressEncoding, ClientOptions, ControlClient};
use ringcall_sim::fpga::{Bridge, BridgeConfig, EmulatorError, Increment, Loopback, LoopbackConfig, Report};
use ringcall_wire::{FunctionId, HEADER_BYTES, RequestHeader, ResponseHeader, names};
use std::net::SocketAddrV4;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

const PAYLOAD: u32 = 8;
const WINDOW_BYTES: u32 = 64;

fn any() -> SocketAddrV4 {
    "127.0.0.1:0".parse().expect("an address")
}

struct Bench {
    service: Loopback,
    client: ControlClient,
    stop: Arc<AtomicBool>,
    bridge: JoinHandle<Result<Vec<Report>, EmulatorError>>,
}

impl Bench {
    fn start(change: impl FnOnce(&mut BridgeConfig)) -> Self {
        let queue_pair = LocalQueuePair {
            number: 0x77,
            key: 1234,
            base: 0x10_0000,
            slot_bytes: 384,
            slots: 16,
            incomplete: Incomplete::Discard,
        };
        let service = Loopback::start(any(), LoopbackConfig { queue_pair, ..LoopbackConfig::default() })
            .expect("a service");
        let mut config = BridgeConfig::new(any(), any().into());
        change(&mut config);
        let mut bridge = Bridge::start(config).expect("a bridge");
        let client =
            ControlClient::connect(bridge.control_addr(), ClientOptions::default()).expect("a socket");
        let stop = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&stop);
        let bridge = std::thread::spawn(move || {
            let stop = || seen.load(Ordering::Relaxed);
            let mut reports = Vec::new();
            while let Some(report) = bridge.play(&mut Increment::check, &stop)? {
                reports.push(report);
            }
            bridge.stop()?;
            Ok(reports)
        });
        Self { service, client, stop, bridge }
    }

    /// What a host does before it starts the player.
    fn configure(&mut self, low_word: u32, windows: u32) {
        let target = self.service.target();
        let port = u32::from(target.peer.port());
        self.client
            .write_all(&[
                (0x1000 + data_plane::QP, target.qp),
                (0x1000 + data_plane::RKEY, target.key),
                (0x1000 + data_plane::PAGE_LSB, low_word),
                (0x1000 + data_plane::PAGE_MSB, 0),
                (0x1000 + data_plane::PAGE_INC, target.page_bytes / 128),
                (0x1000 + data_plane::MAX_BUFF, target.pages - 1),
                (0x1000 + data_plane::BUFFER_LENGTH, WINDOW_BYTES),
                (0x1000 + data_plane::HOST_IP, u32::from(*target.peer.ip())),
                (0x1000 + data_plane::HOST_UDP_PORT, port),
                (player::ENABLE, 0),
                (player::WINDOW_SIZE, WINDOW_BYTES),
                (player::WINDOW_NUMBER, windows),
                (player::TIMER, player::TICKS_PER_US * 20),
            ])
            .expect("written");
        let mut words = Vec::new();
        for window in 0..windows {
            let bytes = request(window);
            for (bank, word) in bytes.chunks(4).enumerate() {
                let word = u32::from_le_bytes(word.try_into().expect("four bytes"));
                words.push((bram::address(bank as u32, window), word));
            }
        }
        self.client.write_all(&words).expect("written");
        for bank in 0..bram::BANKS {
            let read = self.client.read_all(bram::address(bank, 0), windows).expect("read");
            let bytes_of =
                |window: u32| 4 * bank as usize..4 * bank as usize + if window < windows { 4 } else { 0 };
            for (window, word) in read.into_iter().enumerate() {
                assert_eq!(request(window as u32)[bytes_of(window as u32)], word.to_le_bytes());
            }
        }
        let word = 0x1000 + data_plane::HOST_UDP_PORT;
        let value = self.client.read(word).expect("read");
        self.client.write(word, value | data_plane::METADATA_OFF).expect("written");
        self.client.write(SIF_TX_THRESHOLD, 5).expect("written");
    }

    fn wait_for(&mut self, what: &str, is_there: impl Fn(&mut ControlClient) -> bool) {
        let there = (0..500).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(10));
            is_there(&mut self.client)
        });
        assert!(there, "{what}: not within five seconds");
    }

    fn wait_done(&mut self) {
        self.wait_for("the player's end", |client| client.read(ila::STATUS).expect("read") & ila::DONE != 0);
    }

    fn finish(self) -> Result<Vec<Report>, EmulatorError> {
        self.stop.store(true, Ordering::Relaxed);
        self.service.stop().expect("it ran well");
        self.bridge.join().expect("no panic")
    }
}

/// A window as a host writes it: header, ascending bytes, padding.
fn request(number: u32) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of(names::RPC_INCREMENT).0, PAYLOAD, number, 0);
    let mut bytes = header.to_bytes().to_vec();
    bytes.extend((0..PAYLOAD).map(|k| (number + k) as u8));
    bytes.resize(WINDOW_BYTES as usize, 0);
    bytes
}

#[test]
fn a_host_plays_and_reads_the_answers_back() {
    let mut bench = Bench::start(|_| ());
    bench.configure(0x10_0000, 100);
    bench.client.write(ila::CTRL, ila::RESET).expect("written");
    bench.client.write(ila::CTRL, ila::ENABLE).expect("written");
    bench.client.write(player::ENABLE, player::SINGLE_PASS).expect("written");
    bench.wait_done();
    assert_eq!(bench.client.read(ila::SAMPLE_ADDR).expect("read"), 100);
    let banks: Vec<Vec<u32>> = (0..ila::BANKS)
        .map(|bank| bench.client.read_all(ila::address(bank, 0), 100).expect("read"))
        .collect();
    let mut numbers = Vec::new();
    for sample in 0..100 {
        let bytes: Vec<u8> = banks[..16].iter().flat_map(|bank| bank[sample].to_le_bytes()).collect();
        assert_eq!(banks[16][sample] & ila::VALID, 1);
        let header =
            ResponseHeader::from_bytes(&bytes).and_then(ResponseHeader::check_magic).expect("an answer");
        assert_eq!((header.status, header.result_len), (0, PAYLOAD));
        for (k, byte) in bytes[HEADER_BYTES..][..PAYLOAD as usize].iter().enumerate() {
            assert_eq!(*byte, (header.request_id as usize + k) as u8 + 1);
        }
        // Sent before it was captured, both in seconds and nanoseconds.
        let tail = (16..19).rev().fold(0_u128, |tail, bank| tail << 32 | u128::from(banks[bank][sample]));
        let captured = (tail >> ila::TIME_SHIFT) as u64;
        assert!(header.ptp_timestamp > 0 && header.ptp_timestamp <= captured, "{header:?} {captured}");
        numbers.push(header.request_id);
    }
    numbers.sort_unstable();
    assert!(numbers.into_iter().eq(0..100));
    let reports = bench.finish().expect("it ran well");
    assert!(reports.len() == 1 && reports[0].clean() && reports[0].correct == 100, "{reports:?}");
}

#[test]
fn a_loop_goes_on_until_it_is_disabled() {
    let mut bench = Bench::start(|config| config.address = AddressEncoding::Pages);
    bench.configure(0x10_0000 / 128, 3);
    bench.client.write(ila::CTRL, ila::RESET).expect("written");
    bench.client.write(ila::CTRL, ila::ENABLE).expect("written");
    bench.client.write(player::ENABLE, player::LOOP).expect("written");
    bench.wait_for("a second round", |client| client.read(ila::SAMPLE_ADDR).expect("read") > 3);
    bench.client.write(player::ENABLE, 0).expect("written");
    bench.wait_done();
    let stats = bench.client.read_all(loop_stats::MAGIC, 6).expect("read");
    assert_eq!((stats[0], stats[1]), (loop_stats::MAGIC_VALUE, loop_stats::COMPLETE));
    assert!(stats[2] > 3 && stats[2] == stats[4], "{stats:?}");
    // And can be started again.
    bench.client.write(ila::CTRL, ila::RESET).expect("written");
    bench.client.write(player::ENABLE, player::SINGLE_PASS).expect("written");
    bench.wait_done();
    let reports = bench.finish().expect("it ran well");
    assert_eq!(reports.len(), 2);
    assert!(reports.iter().all(Report::clean), "{reports:?}");
    assert!(reports[0].correct > 3 && reports[1].correct == 3, "{reports:?}");
    assert_eq!(u64::from(stats[2]), reports[0].sent);
}

#[test]
fn windows_that_the_memory_does_not_hold() {
    let mut bench = Bench::start(|_| ());
    bench.configure(0x10_0000, 1);
    bench.client.write(player::WINDOW_NUMBER, 100_000).expect("written");
    bench.client.write(player::ENABLE, player::SINGLE_PASS).expect("written");
    while !bench.bridge.is_finished() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let error = bench.finish().expect_err("they cannot be played");
    assert!(matches!(error, EmulatorError::Setting { setting: "the player's windows", .. }), "{error}");
}

#[test]
fn the_host_turns_the_metadata_block_off() {
    // Windows of 64 bytes; with the block, which stands at the next multiple of 128, frames of 256.
    for (turned_off, frame_bytes) in [(true, 64), (false, 256)] {
        let mut bench = Bench::start(|config| config.metadata = true);
        bench.configure(0x10_0000, 2);
        if !turned_off {
            let word = 0x1000 + data_plane::HOST_UDP_PORT;
            let value = bench.client.read(word).expect("read");
            bench.client.write(word, value & !data_plane::METADATA_OFF).expect("written");
        }
        bench.client.write(player::ENABLE, player::SINGLE_PASS).expect("written");
        bench.wait_done();
        let reports = bench.finish().expect("it ran well");
        let [report] = &reports[..] else { panic!("{reports:?}") };
        assert!(report.clean(), "{report:?}");
        assert_eq!((report.correct, report.payload_bytes), (2, 2 * frame_bytes), "{report:?}");
    }
}

#[test]
fn the_host_says_how_long_a_packet_is() {
    // Frames of 256 bytes. The register has units of 128 bytes; 0 says nothing, and no packet has more than 4096.
    for (units, packets_a_frame) in [(0, 1), (1, 2), (2, 1), (u32::MAX, 1)] {
        let mut bench = Bench::start(|config| config.metadata = true);
        bench.configure(0x10_0000, 3);
        let word = 0x1000 + data_plane::HOST_UDP_PORT;
        let value = bench.client.read(word).expect("read");
        let on = value & !data_plane::METADATA_OFF;
        let packet_size = 0x0800 + host_interface::PACKET_SIZE;
        bench.client.write_all(&[(word, on), (packet_size, units)]).expect("written");
        bench.client.write(player::ENABLE, player::SINGLE_PASS).expect("written");
        bench.wait_done();
        let reports = bench.finish().expect("it ran well");
        let [report] = &reports[..] else { panic!("{reports:?}") };
        assert!(report.clean(), "{units}: {report:?}");
        assert_eq!((report.correct, report.packets), (3, 3 * packets_a_frame), "{units}: {report:?}");
    }
}
