//! Headers, flags, function entries: any bytes are read without a panic, and what is read is written back the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use ringcall_wire::flag::{self, TxState, TxStatus};
use ringcall_wire::{
    Counter, DispatchMode, FunctionEntry, HEADER_BYTES, LegacyFunctionEntry, RequestHeader, ResponseHeader,
    SeedFunctionEntry, Status, TypeDesc,
};
use zerocopy::{FromBytes, IntoBytes};

fuzz_target!(|data: &[u8]| {
    match (RequestHeader::from_bytes(data), ResponseHeader::from_bytes(data)) {
        (Ok(request), Ok(response)) => {
            assert_eq!(request.to_bytes(), data[..HEADER_BYTES]);
            assert_eq!(response.to_bytes(), data[..HEADER_BYTES]);
            assert_eq!(RequestHeader::from_words(request.to_words()), request);
            assert_eq!(ResponseHeader::from_words(response.to_words()), response);
            assert_eq!(request.check_magic().is_ok(), request.has_magic());
            assert_eq!(response.check_magic().is_ok(), response.has_magic());
            let reply = ResponseHeader::reply(&request, response.status, response.result_len);
            assert!(reply.has_magic() && reply.request_id == request.request_id);
            let status = response.status();
            assert!(status.is_ok() || status.is_handler_error() || status.is_protocol_error());
            assert!(!status.name().is_empty() && !status.meaning().is_empty());
            assert!(Counter::of_status(status).index() < Counter::COUNT);
        }
        (Err(_), Err(_)) => assert!(data.len() < HEADER_BYTES),
        _ => panic!("one header fits and the other does not"),
    }
    if let Some(word) = data.first_chunk().map(|word| u64::from_le_bytes(*word)) {
        let state = TxState::decode(word);
        assert_eq!(TxStatus::from_raw(state.status().raw()), Ok(state.status()));
        match state {
            TxState::Error(code) => assert_eq!(TxState::decode(flag::error(code)), state),
            TxState::Ready(address) => assert_eq!(address, word),
            TxState::Empty => assert_eq!(word, flag::FREE),
            TxState::InFlight => assert_eq!(word, flag::IN_FLIGHT),
        }
        let mode = DispatchMode::from_raw(word as u32);
        assert!(mode.is_err() || mode.is_ok_and(|mode| mode as u32 == word as u32));
        let _ = Status(word as i32).to_string();
    }
    if let Ok((entry, _)) = FunctionEntry::read_from_prefix(data) {
        assert_eq!(entry.as_bytes(), &data[..size_of::<FunctionEntry>()]);
        if entry.validate().is_ok() {
            assert!(entry.handler != 0 && entry.mode().is_ok() && entry.schema.validate().is_ok());
        }
        if let Some(old) = entry.to_seed() {
            assert_eq!(FunctionEntry::from(old).schema, entry.schema);
        }
        if let Some(old) = entry.to_legacy(7) {
            assert_eq!((old.mailbox_idx, FunctionEntry::from(old).id()), (7, entry.id()));
        }
    }
    if let Ok((entry, _)) = SeedFunctionEntry::read_from_prefix(data) {
        let _ = FunctionEntry::from(entry).validate();
    }
    if let Ok((entry, _)) = LegacyFunctionEntry::read_from_prefix(data) {
        let _ = FunctionEntry::from(entry).validate();
    }
    if let Ok((desc, _)) = TypeDesc::read_from_prefix(data) {
        let _ = (desc.validate(), desc.payload_type(), desc.is_nibbles());
    }
});
