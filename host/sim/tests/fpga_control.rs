//! The control plane: bytes, registers, and both ends over a socket.

use ringcall_sim::fpga::control::codec::{FLAG_ACKNOWLEDGE, FLAG_SEQUENCE_CHECK, MAX_PAIRS};
use ringcall_sim::fpga::control::registers::{bram, data_plane, host_interface, ila, player};
use ringcall_sim::fpga::control::{
    AddressEncoding, ClientError, ClientOptions, Command, ControlClient, ControlError, ControlServer,
    RegisterFile, RegisterMap, Reply, Request, ResponseCode, SequenceCheck,
};
use std::net::{SocketAddr, UdpSocket};
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn peer(port: u16) -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], port))
}

fn server(check: SequenceCheck) -> (ControlServer, Arc<Mutex<RegisterFile>>) {
    let file = Arc::new(Mutex::new(RegisterFile::new(RegisterMap::default())));
    let socket = UdpSocket::bind(peer(0)).expect("a socket");
    (ControlServer::new(socket, Arc::clone(&file), check).expect("a server"), file)
}

/// Requests and replies byte for byte: lengths and offsets as CUDA-Q Realtime's emulator reads and writes them.
#[test]
fn golden_bytes() {
    let (mut server, _) = server(SequenceCheck::Ignore);
    for (request, reply) in [
        // WR_DWORD 0x1004 = 0xBEEF
        (&b"\x04\x01\x01\x02\0\0\0\0\x10\x04\0\0\xbe\xef"[..], &b"\x04\x01\x01\x02\0"[..]),
        // RD_DWORD 0x1004
        (b"\x14\x01\x01\x03\0\0\0\0\x10\x04", b"\x14\x01\x01\x03\0\0\0\0\x10\x04\0\0\xbe\xef\x01\x03"),
        // WR_BLOCK 0x1000 = 2, 0x1010 = 3
        (b"\x09\x01\x01\x04\0\0\0\0\x10\0\0\0\0\x02\0\0\x10\x10\0\0\0\x03", b"\x09\x01\x01\x04\0"),
        // RD_BLOCK 0x1010, 0x1000
        (
            b"\x19\x01\x01\x05\0\0\0\0\x10\x10\0\0\0\0\0\0\x10\0\0\0\0\0",
            b"\x19\x01\x01\x05\0\0\0\0\x10\x10\0\0\0\x03\0\0\x10\0\0\0\0\x02\x01\x05",
        ),
        // An unknown command, and one that is cut off.
        (b"\x55\x01\x01\x06\0\0", b"\x55\x01\x01\x06\x04"),
        (b"\x04\x01\x01\x07\0\0\0\0\x10\x04", b"\x04\x01\x01\x07\x05"),
    ] {
        let answer = server.answer(peer(1), request).expect("an answer was asked for").encode();
        assert_eq!(answer, reply, "to {request:02x?}");
    }
    assert_eq!((server.stats().done, server.stats().refused), (4, 2));
    assert_eq!(
        server.answer(peer(1), b"\x04\0\x01\x08\0\0\0\0\x10\x04\0\0\0\x01"),
        None,
        "no answer asked for"
    );
    assert_eq!(server.answer(peer(1), b"\x04\0"), None);
    assert_eq!(server.stats().ignored, 1);
}

#[test]
fn requests_and_replies_are_read_as_written() {
    let pairs: Vec<(u32, u32)> = (0..MAX_PAIRS as u32).map(|k| (k * 4, !k)).collect();
    let mut packet = Vec::new();
    Request::encode(Command::WriteBlock, 0, 7, &pairs, &mut packet).expect("they fit");
    assert!(Request::parse(&packet).expect("a request").pairs().iter().eq(pairs.iter().copied()));
    packet.extend([0; 8]);
    assert_eq!(Request::parse(&packet), Err(ControlError::TooManyPairs(MAX_PAIRS + 1)));
    let none = Request::encode(Command::ReadBlock, 0, 7, &[], &mut packet);
    assert_eq!(none, Err(ControlError::TooManyPairs(0)));

    let reply = Reply {
        command: Command::ReadBlock as u8,
        flags: 1,
        sequence: 9,
        code: ResponseCode::SUCCESS,
        values: pairs,
        latched: Some(9),
    };
    let bytes = reply.encode();
    assert_eq!(Reply::parse(&bytes), Ok(reply));
    for length in 0..40 {
        let cut = Reply::parse(&bytes[..length]);
        let whole = length == 5 || length == 6 || length == 7 || (length >= 8 && length % 8 == 0);
        assert_eq!(cut.is_ok(), whole, "{length} bytes: {cut:?}");
    }
}

#[test]
fn a_repeat_is_answered_and_not_done_again() {
    let (mut server, file) = server(SequenceCheck::Ignore);
    let mut packet = Vec::new();
    let flags = FLAG_ACKNOWLEDGE | FLAG_SEQUENCE_CHECK;
    let start = [(player::ENABLE, player::SINGLE_PASS)];
    Request::encode(Command::WriteWord, flags, 1, &start, &mut packet).expect("it fits");
    assert!(server.answer(peer(1), &packet).is_some());
    packet[1] = FLAG_ACKNOWLEDGE;
    let again = server.answer(peer(1), &packet).expect("an answer");
    assert_eq!((again.code, again.flags), (ResponseCode::SUCCESS, FLAG_ACKNOWLEDGE));
    assert_eq!(file.lock().expect("unharmed").player().starts, 1);
    // From another peer it is another request.
    server.answer(peer(2), &packet);
    assert_eq!(file.lock().expect("unharmed").player().starts, 2);
    assert_eq!((server.stats().done, server.stats().repeated), (2, 1));
}

#[test]
fn sequence_numbers_are_checked_on_request() {
    let (mut server, _) = server(SequenceCheck::Enforce);
    let mut ask = |sequence, flags, from| {
        let mut packet = Vec::new();
        let read = [(player::TIMER, 0)];
        Request::encode(Command::ReadWord, FLAG_ACKNOWLEDGE | flags, sequence, &read, &mut packet)
            .expect("it fits");
        server.answer(peer(from), &packet).expect("an answer").code
    };
    assert_eq!(ask(500, FLAG_SEQUENCE_CHECK, 1), ResponseCode::SUCCESS, "the first number is anyone's");
    assert_eq!(ask(502, FLAG_SEQUENCE_CHECK, 1), ResponseCode::SEQUENCE_CHECK_FAILED);
    assert_eq!(ask(501, FLAG_SEQUENCE_CHECK, 1), ResponseCode::SUCCESS);
    assert_eq!(ask(700, 0, 1), ResponseCode::SUCCESS, "unless it asks for no check");
    assert_eq!(ask(3, FLAG_SEQUENCE_CHECK, 2), ResponseCode::SUCCESS, "another host begins anew");
}

#[test]
fn registers_mean_what_the_map_says() {
    let mut file = RegisterFile::new(RegisterMap::default());
    let mut write = |address, value| file.write(address, value).expect("a register");
    for (offset, value) in [
        (data_plane::QP, 0x12),
        (data_plane::RKEY, 0xBEEF),
        (data_plane::PAGE_LSB, 0x1000),
        (data_plane::PAGE_MSB, 0x7F),
        (data_plane::PAGE_INC, 3),
        (data_plane::MAX_BUFF, 63),
        (data_plane::HOST_IP, 0x0A00_0001),
        (data_plane::HOST_UDP_PORT, data_plane::METADATA_OFF | 4791),
    ] {
        write(0x1000 + offset, value);
    }
    write(0x800 + host_interface::PACKET_SIZE, 8);
    write(player::TIMER, 322 * 120);
    write(player::WINDOW_SIZE, 128);
    write(player::WINDOW_NUMBER, 2);
    write(player::ENABLE, player::LOOP);
    let target = file.target(AddressEncoding::Bytes).expect("queue pair and key are there");
    assert_eq!((target.qp, target.key, target.page_bytes, target.pages), (0x12, 0xBEEF, 384, 64));
    assert_eq!(target.base, 0x7F_0000_1000);
    assert_eq!(file.target(AddressEncoding::Pages).expect("as before").base, 0x7F_0008_0000);
    assert_eq!((target.host_ip, target.host_port), (Some([10, 0, 0, 1].into()), Some(4791)));
    assert_eq!(target.packet_bytes, Some(1024));
    let settings = file.player();
    assert!(settings.enabled && settings.repeat);
    assert_eq!(
        (settings.interval, settings.window_bytes, settings.windows),
        (Duration::from_micros(120), 128, 2)
    );

    // Windows of two beats, spread over the banks.
    for beat in 0..4 {
        for bank in 0..bram::BANKS {
            file.write(bram::address(bank, beat), beat << 8 | bank).expect("a register");
        }
    }
    let window = file.window(1, 128).expect("the memory holds it");
    for (word, bytes) in window.chunks(4).enumerate() {
        let word = word as u32;
        assert_eq!(bytes, (((2 + word / 16) << 8) | (word % 16)).to_le_bytes());
    }
    assert_eq!(file.window(256, 128), None);
    assert_eq!(file.window(u32::MAX, u32::MAX), None);
    assert_eq!(file.window(0, 0), None);
    assert!(file.read(0x1002).is_err() && file.write(0x1001, 0).is_err());
}

#[test]
fn registers_without_a_meaning_are_bounded() {
    let mut file = RegisterFile::new(RegisterMap::default());
    let kept = (0..100_000_u32).take_while(|k| file.write(0x9000_0000 + 4 * k, *k).is_ok()).count();
    assert!((1000..10_000).contains(&kept), "{kept}");
    assert_eq!(file.read(0x9000_0004), Ok(1));
    assert!(file.write(0x9000_0004, 5).is_ok(), "one that is there can be written again");
}

#[test]
fn the_analyser_captures_answers() {
    let mut file = RegisterFile::new(RegisterMap::default());
    assert!(!file.capture(b"not on", 1));
    file.write(ila::CTRL, ila::ENABLE).expect("a register");
    let answer: Vec<u8> = (0..80).collect();
    let time = 0x1234_5678_9ABC_DEF0;
    assert!(file.capture(b"abc", 0) && file.capture(&answer, time));
    let read = |bank| file.read(ila::address(bank, 1)).expect("a register");
    assert_eq!(file.read(ila::SAMPLE_ADDR), Ok(2));
    assert_eq!((read(0), read(15)), (0x0302_0100, 0x3F3E_3D3C));
    assert_eq!(read(16) & 3, 3);
    let tail = u128::from(read(16)) | u128::from(read(17)) << 32 | u128::from(read(18)) << 64;
    assert_eq!((tail >> 9) as u64, time);
    assert_eq!(file.read(ila::address(0, 0)), Ok(u32::from_le_bytes(*b"abc\0")));
    file.set_done();
    assert_eq!(file.read(ila::STATUS), Ok(ila::DONE));
    file.write(ila::CTRL, ila::RESET).expect("a register");
    assert_eq!((file.read(ila::STATUS), file.read(ila::SAMPLE_ADDR)), (Ok(0), Ok(0)));
    file.write(ila::CTRL, ila::ENABLE).expect("a register");
    for _ in 0..ila::SAMPLES {
        assert!(file.capture(b"x", 0));
    }
    assert!(!file.capture(b"one too many", 0));
}

#[test]
fn both_ends_over_a_socket() {
    let (server, _) = server(SequenceCheck::Enforce);
    let handle = server.spawn().expect("a thread");
    let options = ClientOptions { sequence_check: true, ..ClientOptions::default() };
    let mut client = ControlClient::connect(handle.address(), options).expect("a socket");
    client.write(player::TIMER, 77).expect("written");
    assert_eq!(client.read(player::TIMER).expect("read"), 77);
    let words: Vec<(u32, u32)> = (0..400).map(|k| (bram::address(0, k), k)).collect();
    client.write_all(&words).expect("written");
    let read = client.read_all(bram::address(0, 0), 400).expect("read");
    assert!(read.into_iter().eq(0..400));
    let refused = client.write(player::TIMER + 1, 0);
    assert!(matches!(refused, Err(ClientError::Refused(ResponseCode::INVALID_ADDRESS))), "{refused:?}");
    let stats = handle.stop().expect("it ran well");
    assert_eq!((stats.done, stats.refused, stats.ignored), (2 + 3 + 3, 1, 0));
}

/// The first request, its repeat, and a stray reply: the client repeats without the check, and takes its own alone.
#[test]
fn a_client_repeats_and_ignores_strangers() {
    let bridge = UdpSocket::bind(peer(0)).expect("a socket");
    bridge.set_read_timeout(Some(Duration::from_secs(5))).expect("a timeout");
    let options = ClientOptions { timeout: Duration::from_millis(50), attempts: 100, sequence_check: true };
    let mut client =
        ControlClient::connect(bridge.local_addr().expect("an address"), options).expect("a socket");
    let host = std::thread::spawn(move || client.read(0x1000));
    let mut buffer = [0; 64];
    let mut next = || {
        let (length, from) = bridge.recv_from(&mut buffer).expect("a request");
        let request = Request::parse(&buffer[..length]).expect("a request");
        (request.flags, request.sequence, from)
    };
    let (flags, first, _) = next();
    assert_eq!(flags, FLAG_ACKNOWLEDGE | FLAG_SEQUENCE_CHECK);
    let (flags, sequence, from) = next();
    assert_eq!((flags, sequence), (FLAG_ACKNOWLEDGE, first));
    let mut reply = Reply {
        command: Command::ReadWord as u8,
        flags,
        sequence: sequence.wrapping_sub(1),
        code: ResponseCode::SUCCESS,
        values: vec![(0x1000, 13)],
        latched: Some(sequence),
    };
    bridge.send_to(&reply.encode(), from).expect("sent");
    bridge.send_to(b"noise", from).expect("sent");
    reply.sequence = sequence;
    reply.values = vec![(0x1000, 42)];
    bridge.send_to(&reply.encode(), from).expect("sent");
    assert_eq!(host.join().expect("no panic").expect("an answer"), 42);
}

#[test]
fn nobody_there() {
    let address = UdpSocket::bind(peer(0)).and_then(|socket| socket.local_addr()).expect("an address");
    let options = ClientOptions { timeout: Duration::from_millis(5), attempts: 2, sequence_check: false };
    let mut client = ControlClient::connect(address, options).expect("a socket");
    let error = client.read(0).expect_err("nobody listens");
    assert!(matches!(error, ClientError::NoAnswer { attempts: 2, .. }), "{error}");
}
