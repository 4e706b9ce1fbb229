//! The provider in Rust of `examples/tcp_provider.rs`, loaded as a service would load it, and asked over TCP.

use ringcall::{FunctionId, FunctionTable, HostDispatcher};
use ringcall_bridge::{Provider, RingProvider};
use ringcall_transport::RingFilling;
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

fn library() -> String {
    let test = std::env::current_exe().unwrap();
    let path = test.ancestors().nth(2).unwrap().join("examples/libtcp_provider.so");
    assert!(path.exists(), "{} is not built: cargo build -p ringcall-bridge --examples", path.display());
    path.to_str().unwrap().to_owned()
}

fn call(stream: &mut TcpStream, id: u32, payload: &[u8]) -> Vec<u8> {
    let header = RequestHeader::new(FunctionId::of("rpc_increment").0, payload.len() as u32, id, 0);
    let length = (HEADER_BYTES + payload.len()) as u32;
    stream.write_all(&[&length.to_le_bytes()[..], &header.to_bytes(), payload].concat()).unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).unwrap();
    let mut frame = vec![0; u32::from_le_bytes(length) as usize];
    stream.read_exact(&mut frame).unwrap();
    assert_eq!(ResponseHeader::from_bytes(&frame).unwrap().request_id, id);
    frame.split_off(HEADER_BYTES)
}

#[test]
fn it_is_loaded_and_answers() {
    let provider = Provider::load(&library(), &["--num-slots=4", "--slot-size=64"]).unwrap();
    let ring = provider.ring().unwrap();
    let table = FunctionTable::builder().host_call("rpc_increment", |request: &[u8], result: &mut [u8]| {
        result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
        Ok(request.len())
    });
    let dispatcher = HostDispatcher::builder(&ring, table.build(&ring).unwrap()).build().unwrap();
    let dispatcher = dispatcher.start().unwrap();
    let service = RingProvider::launch(provider, &ring).unwrap();
    assert!(service.endpoint().to_string().starts_with("transport=example-tcp port="));

    let connect = || {
        let stream = TcpStream::connect(service.endpoint().address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
        stream
    };
    let (mut one, mut two) = (connect(), connect());
    for id in 0..20 {
        assert_eq!(call(&mut one, id, &[1, 2, 3]), [2, 3, 4]);
        assert_eq!(call(&mut two, id, &[7]), [8]);
    }
    // A length that cannot be: that peer is given up, the others are not.
    two.write_all(&u32::MAX.to_le_bytes()).unwrap();
    assert_eq!(two.read(&mut [0]).unwrap(), 0);
    assert_eq!(call(&mut one, 99, &[]), []);

    let report = Box::new(service).stop(Duration::from_secs(5));
    assert_eq!((report.stats.answered, report.stats.malformed), (41, 1));
    assert_eq!(report.stats.balance(), (0, 0));
    assert_eq!(dispatcher.stop(Duration::from_secs(5)).report.dropped, 0);
}
