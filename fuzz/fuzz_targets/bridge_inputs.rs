//! What the bridge takes from outside: arguments, lines, names of libraries, handles and buffers of C callers. Any of it is
//! an answer or an error, and writes nowhere but where it may.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall::RingConfig;
use ringcall_bridge::c_api::bridge;
use ringcall_bridge::loader::ProviderLibrary;
use ringcall_bridge::parse_endpoint;
use ringcall_bridge::provider::{Args, LinkedArguments};
use std::ffi::{CString, c_char, c_int, c_void};

fuzz_target!(|data: &[u8]| {
    let text = String::from_utf8_lossy(data);
    let args = Args::new(text.split('\0'));
    if let Ok(shape) = LinkedArguments::read(&args, RingConfig { slots: 8, slot_bytes: 256 }) {
        assert_eq!(shape.unified, text.split('\0').any(|arg| arg == "--unified"));
    }
    let endpoint = parse_endpoint(&text);
    assert!(endpoint.details.len() <= text.split_ascii_whitespace().count());
    // A name of a file that is not there, whatever it is made of.
    let name = format!("/nowhere/{text}");
    assert!(ProviderLibrary::open(&name).is_err());

    // As C hands it in: any bytes up to the first NUL, any count of arguments up to those that there are.
    let strings: Vec<CString> =
        data.split(|&byte| byte == 0).map(|part| CString::new(part).expect("it has no NUL")).collect();
    let mut argv: Vec<*mut c_char> = strings.iter().map(|arg| arg.as_ptr().cast_mut()).collect();
    argv.push(std::ptr::null_mut());
    let argc = data.first().map_or(0, |&n| c_int::from(n) - 8).min(argv.len() as c_int);
    let library = CString::new(format!("/nowhere/{}", text.replace('\0', ""))).expect("it has no NUL");
    let mut handle = std::ptr::null_mut();
    // SAFETY: strings with their NULs, as many as `argc` says or a null before that.
    let status = unsafe {
        bridge::cudaq_bridge_create_from_library(&raw mut handle, library.as_ptr(), argc, argv.as_mut_ptr())
    };
    assert!(status != 0 && handle.is_null());
    for chunk in data.chunks_exact(8) {
        let wild = usize::from_le_bytes(chunk.try_into().expect("eight bytes"));
        let wild = std::ptr::without_provenance_mut::<c_void>(wild);
        let mut line = [0x5A_u8; 16];
        assert_ne!(bridge::cudaq_bridge_connect(wild), 0);
        // SAFETY: the buffer is as long as it says.
        let status = unsafe {
            bridge::cudaq_bridge_get_endpoint_info(wild, line.as_mut_ptr().cast(), usize::from(chunk[0] % 16))
        };
        assert!(status != 0 && line == [0x5A; 16]);
        assert_ne!(bridge::cudaq_bridge_destroy(wild), 0);
    }
});
