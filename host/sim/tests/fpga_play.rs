//! A player against a service over the loopback interface: whatever goes wrong, every request's end is known.

use ringcall_roce::{Reason, RoceSocket};
use ringcall_sim::fpga::loopback::increment;
use ringcall_sim::fpga::metadata::{FrameMetadata, METADATA_BYTES};
use ringcall_sim::fpga::{
    EmulatorError, Exchange, Faults, Increment, Loopback, LoopbackConfig, LoopbackStats, Player,
    PlayerConfig, Recorded, Report, RequestIds, TimeFormat,
};
use ringcall_wire::{FunctionId, HEADER_BYTES, RequestHeader, ResponseHeader, names};
use std::net::SocketAddrV4;
use std::time::Duration;

fn any() -> SocketAddrV4 {
    "127.0.0.1:0".parse().expect("an address")
}

/// Plays calls of `rpc_increment` to its own service.
fn play(
    service: LoopbackConfig,
    calls: u64,
    payload_bytes: u32,
    change: impl FnOnce(&mut PlayerConfig),
) -> (Report, LoopbackStats) {
    let service = Loopback::start(any(), service).expect("a service");
    let mut config = PlayerConfig::new(service.target());
    change(&mut config);
    let mut player = Player::new(RoceSocket::bind(any()).expect("a socket"), config).expect("a player");
    let mut windows = Increment::new(calls, payload_bytes);
    let report = player.run(&mut windows, &mut Increment::check, &|| false).expect("it runs");
    assert!(report.accounted(), "{report:?}");
    (report, service.stop().expect("it ran well"))
}

#[test]
fn every_request_is_answered() {
    let (report, service) = play(LoopbackConfig::default(), 5000, 16, |_| ());
    assert!(report.clean(), "{report:?}");
    assert_eq!((report.sent, report.correct, report.packets), (5000, 5000, 5000));
    assert_eq!((service.arrived, service.refused.total(), service.gap_packets), (5000, 0, 0));
    assert_eq!((report.answers.messages, report.answers.gap_packets), (5000, 0));
    assert_eq!(report.latency_ns.count, 5000);
    assert!(report.latency_ns.min <= report.latency_ns.p50 && report.latency_ns.p50 <= report.latency_ns.max);
}

#[test]
fn with_one_in_a_hundred_lost_the_others_are_answered() {
    let faults = Faults { loss: 0.01, seed: 7, ..Faults::default() };
    let (report, service) = play(LoopbackConfig::default(), 5000, 16, |config| config.faults = faults);
    assert!(report.clean(), "{report:?}");
    assert!((10..150).contains(&report.faults.lost), "{report:?}");
    // One packet a request: each lost packet is one lost request, and reported.
    assert_eq!((report.lost, report.correct), (report.faults.lost, 5000 - report.faults.lost));
    assert_eq!(service.arrived, report.correct);
    // The last packets of all may be among the lost; nothing follows that shows it.
    assert!(service.lost_packets() <= report.lost && service.lost_packets() + 3 > report.lost, "{service:?}");
}

#[test]
fn requests_of_several_packets_survive_disorder() {
    let faults = Faults {
        loss: 0.003,
        corruption: 0.003,
        duplication: 0.02,
        reordering: 0.02,
        reorder_depth: 4,
        seed: 3,
        ..Faults::default()
    };
    let (report, service) = play(LoopbackConfig::default(), 3000, 700, |config| {
        config.packet_bytes = 256;
        config.faults = faults;
    });
    assert!(report.clean(), "{report:?}");
    assert_eq!(report.packets, 3 * 3000);
    let harm = report.faults.lost + report.faults.corrupted;
    assert!(
        report.faults.duplicated > 50 && report.faults.reordered > 50 && harm > 10,
        "{:?}",
        report.faults
    );
    assert!(report.lost > 0 && report.lost <= harm);
    assert_eq!(service.arrived, report.correct);
    // Seen from the other side: duplicates by their numbers, damage by the iCRC, disorder by packets that come late.
    assert_eq!(service.refused.of(Reason::Duplicate), report.faults.duplicated);
    let damaged = service.refused.of(Reason::WrongIcrc) + service.refused.of(Reason::Malformed);
    assert_eq!(damaged, report.faults.corrupted);
    assert!(service.late_packets > 50);
    assert_eq!(service.refused.total(), report.faults.duplicated + report.faults.corrupted);
}

#[test]
fn lost_answers_are_reported_too() {
    let faults = Faults { answer_loss: 0.02, seed: 5, ..Faults::default() };
    let (report, service) = play(LoopbackConfig::default(), 2000, 16, |config| {
        config.faults = faults;
        config.timeout = Duration::from_millis(500);
    });
    assert!(report.clean(), "{report:?}");
    assert!(report.lost > 5 && report.lost == report.faults.answers_lost);
    assert_eq!(service.arrived, 2000);
}

/// Answers only a request whose frame ends in the block that belongs to it.
fn with_metadata(request: &[u8], answer: &mut [u8]) -> usize {
    let length =
        HEADER_BYTES + RequestHeader::from_bytes(request).map_or(0, |header| header.arg_len as usize);
    let offset = FrameMetadata::offset(length);
    let Some(block) = request.get(offset..).and_then(FrameMetadata::from_bytes) else { return 0 };
    let data = &request[..length];
    let right = request.len() == offset + METADATA_BYTES
        && request[length..offset].iter().all(|byte| *byte == 0)
        && (block.bytes_written, block.crc) == (length as u64, FrameMetadata::crc_of(data))
        && block.time.seconds > 0
        && block.time.nanoseconds < 1_000_000_000;
    if right { increment(request, answer) } else { 0 }
}

#[test]
fn frames_end_in_a_metadata_block_if_they_shall() {
    let service = LoopbackConfig { handler: with_metadata, ..LoopbackConfig::default() };
    for (payload_bytes, packets) in [(16, 1), (104, 1), (105, 2), (1000, 5)] {
        let (report, _) = play(service, 200, payload_bytes, |config| {
            config.metadata = true;
            config.packet_bytes = 256;
        });
        assert!(report.clean(), "{payload_bytes}: {report:?}");
        assert_eq!(report.packets, 200 * packets, "{payload_bytes}");
    }
    let (report, _) = play(service, 3, 16, |config| config.timeout = Duration::from_millis(50));
    assert_eq!(report.unanswered, 3, "without the block nothing is answered");
    // The block must fit the page too.
    let socket = RoceSocket::bind(any()).expect("a socket");
    let target = Loopback::start(any(), service).expect("a service").target();
    let config = PlayerConfig { metadata: true, ..PlayerConfig::new(target) };
    let mut player = Player::new(socket, config).expect("a player");
    let error = player.run(&mut Increment::new(1, 4000), &mut Increment::check, &|| false);
    assert!(matches!(error, Err(EmulatorError::Window { bytes: 4224, .. })), "{error:?}");
}

/// Answers wrongly where the number's low bits say so: content, time, nothing, number, length, magic, status.
fn faulty(request: &[u8], answer: &mut [u8]) -> usize {
    let length = increment(request, answer);
    let mut header = ResponseHeader::from_bytes(answer).expect("an answer");
    match header.request_id % 10 {
        1 => answer[HEADER_BYTES] ^= 1,
        2 => header.ptp_timestamp ^= 1,
        3 => return 0,
        4 => header.request_id += 1_000_000,
        5 => header.result_len += 1,
        6 => header.magic += 1,
        7 => header.status = 1,
        _ => {}
    }
    answer[..HEADER_BYTES].copy_from_slice(&header.to_bytes());
    length
}

#[test]
fn every_wrong_answer_is_told_apart() {
    let service = LoopbackConfig { handler: faulty, ..LoopbackConfig::default() };
    let (report, _) = play(service, 60, 16, |config| config.timeout = Duration::from_millis(300));
    assert_eq!((report.correct, report.wrong_content, report.wrong_time), (18, 12, 6), "{report:?}");
    assert_eq!((report.unanswered, report.unexpected, report.malformed), (24, 6, 12), "{report:?}");
    assert_eq!(report.unanswered_ids.iter().filter(|id| **id % 10 == 3).count(), 6);
    assert!(!report.clean());
}

fn slow(request: &[u8], answer: &mut [u8]) -> usize {
    std::thread::sleep(Duration::from_millis(30));
    increment(request, answer)
}

#[test]
fn late_answers_stay_unanswered() {
    let service = LoopbackConfig { handler: slow, ..LoopbackConfig::default() };
    let (report, _) = play(service, 20, 16, |config| {
        config.timeout = Duration::from_millis(20);
        config.in_flight = 1;
    });
    // The answer to one comes while the next is in flight; the last ones' may come when the client no longer
    // waits.
    assert_eq!((report.correct, report.unanswered), (0, 20), "{report:?}");
    assert!(report.late > 0 && report.duplicate_answers == 0, "{report:?}");
}

fn twice(request: &[u8], answer: &mut [u8]) -> usize {
    let length = increment(request, answer);
    // The answer to the request before, unless this is the first.
    if answer[12] & 1 == 1 {
        answer[12] ^= 1;
    }
    length
}

#[test]
fn a_second_answer_is_counted_as_such() {
    let service = LoopbackConfig { handler: twice, ..LoopbackConfig::default() };
    let (report, _) = play(service, 10, 0, |config| {
        config.timeout = Duration::from_millis(100);
        config.in_flight = 1;
    });
    assert_eq!((report.correct, report.unanswered, report.duplicate_answers), (5, 5, 5), "{report:?}");
}

#[test]
fn the_wrong_key_reaches_nothing() {
    let (report, service) = play(LoopbackConfig::default(), 10, 16, |config| {
        config.target.key += 1;
        config.timeout = Duration::from_millis(50);
    });
    assert_eq!((report.unanswered, service.refused.of(Reason::WrongKey), service.arrived), (10, 10, 0));
}

#[test]
fn answers_for_another_queue_pair_are_refused() {
    let (report, _) = play(LoopbackConfig::default(), 10, 16, |config| {
        config.qp += 1;
        config.timeout = Duration::from_millis(50);
    });
    assert_eq!((report.unanswered, report.answers.refused.of(Reason::WrongQp)), (10, 10));
}

/// A window with its own number.
fn written(id: u32) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of(names::RPC_INCREMENT).0, 4, id, 0);
    // Padded, as a bridge's windows are.
    [&header.to_bytes()[..], &id.to_le_bytes(), &[0; 36]].concat()
}

#[test]
fn windows_may_bear_their_own_numbers() {
    let service = Loopback::start(any(), LoopbackConfig::default()).expect("a service");
    let mut config = PlayerConfig::new(service.target());
    config.ids = RequestIds::AsWritten;
    config.time = TimeFormat::SecondsNanoseconds;
    let mut player = Player::new(RoceSocket::bind(any()).expect("a socket"), config).expect("a player");
    let windows = (0..5).map(|k| written(100 + k)).collect();
    let mut seen = Vec::new();
    let mut checker = |exchange: &Exchange<'_>| {
        seen.push(exchange.request.request_id);
        assert!(exchange.request.ptp_timestamp as u32 <= 999_999_999, "nanoseconds in the lower half");
        Increment::check(exchange)
    };
    let mut windows = Recorded::new(windows, true);
    let mut left = 50;
    // Each number comes ten times: one pass waits for the one before.
    let mut some = |window: &mut Vec<u8>| {
        left -= 1;
        left >= 0 && ringcall_sim::fpga::Windows::next(&mut windows, window)
    };
    let report = player.run(&mut some, &mut checker, &|| false).expect("it runs");
    assert!(report.clean() && report.correct == 50, "{report:?}");
    assert!((100..105).all(|id| seen.iter().filter(|seen| **seen == id).count() == 10));
}

#[test]
fn a_stop_ends_an_endless_run() {
    let service = Loopback::start(any(), LoopbackConfig::default()).expect("a service");
    let mut config = PlayerConfig::new(service.target());
    config.interval = Duration::from_micros(100);
    let mut player = Player::new(RoceSocket::bind(any()).expect("a socket"), config).expect("a player");
    let begin = std::time::Instant::now();
    let stop = || begin.elapsed() > Duration::from_millis(50);
    let mut endless = Recorded::new(vec![written(0)], true);
    let report = player.run(&mut endless, &mut Increment::check, &stop).expect("it runs");
    assert!(report.clean() && report.sent > 0, "{report:?}");
    let json = serde_json::to_value(&report).expect("a report");
    assert_eq!(json["answers"]["refused"]["wrong_icrc"], 0);
    assert_eq!(json["latency_ns"]["count"], report.correct);
}

#[test]
fn settings_and_windows_that_do_not_work() {
    let service = Loopback::start(any(), LoopbackConfig::default()).expect("a service");
    let new = |change: fn(&mut PlayerConfig)| {
        let mut config = PlayerConfig::new(service.target());
        change(&mut config);
        Player::new(RoceSocket::bind(any()).expect("a socket"), config)
    };
    let changes: [fn(&mut PlayerConfig); 8] = [
        |c| c.in_flight = 0,
        |c| c.in_flight = 65,
        |c| c.target.pages = 4097,
        |c| c.target.page_bytes = 23,
        |c| c.target.base = u64::MAX - 5,
        |c| c.packet_bytes = 0,
        |c| c.timeout = Duration::ZERO,
        |c| c.qp = 1 << 24,
    ];
    for (index, change) in changes.into_iter().enumerate() {
        assert!(matches!(new(change), Err(EmulatorError::Setting { .. })), "{index}");
    }
    for bytes in [0, 23, 4097] {
        let mut player = new(|_| ()).expect("a player");
        let mut window = Recorded::new(vec![vec![0; bytes]], false);
        let error = player.run(&mut window, &mut Increment::check, &|| false);
        assert!(matches!(error, Err(EmulatorError::Window { index: 0, .. })), "{bytes}: {error:?}");
    }
}
