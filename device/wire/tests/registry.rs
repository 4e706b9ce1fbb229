//! The registries: ids, flags, status codes, counters, enumerations of the C ABI, and the texts that list them.

use std::collections::BTreeSet;

use proptest::prelude::*;
use ringcall_wire::{
    Counter, CudaqStatus, DispatchMode, DispatchPath, FunctionEntry, FunctionId, HandlerSchema, KernelType,
    LegacyFunctionEntry, RequestHeader, ResponseHeader, SeedFunctionEntry, Status, TxState, TxStatus,
    TypeDesc, WireError, counter, flag, fnv1a, names, status,
};
use zerocopy::{FromBytes, IntoBytes};

#[test]
fn function_ids_have_their_known_values() {
    let known = [
        ("rpc_increment", 0x191b_6322),
        ("mock_decode", 0x6c45_a6d6),
        ("enqueue_syndromes", 0x7ed8_be82),
        ("get_corrections", 0x882d_5ba1),
        ("reset_decoder", 0x977a_59cf),
    ];
    for (name, id) in known {
        assert_eq!(FunctionId::of(name), FunctionId(id), "{name}");
        assert!(names::ALL.contains(&name));
    }
    // Published test vectors of 32-bit FNV-1a.
    assert_eq!([fnv1a(b""), fnv1a(b"a"), fnv1a(b"foobar")], [0x811c_9dc5, 0xe40c_292c, 0xbf9c_f968]);
    let ids: BTreeSet<_> = names::ALL.iter().map(|name| FunctionId::of(name)).collect();
    assert_eq!(ids.len(), names::ALL.len());
}

#[test]
fn status_codes_are_complete_distinct_and_documented() {
    let negative = [
        (Status::BAD_FLAG, -1),
        (Status::BAD_MAGIC, -2),
        (Status::ARG_TOO_LONG, -3),
        (Status::UNKNOWN_FUNCTION, -4),
        (Status::WRONG_MODE, -5),
        (Status::SCHEMA_MISMATCH, -6),
        (Status::RESULT_TOO_LONG, -7),
        (Status::HANDLER_PANIC, -8),
        (Status::LAUNCH_FAILED, -9),
        (Status::TIMED_OUT, -10),
        (Status::SHUTTING_DOWN, -11),
        (Status::ABANDONED, -12),
        (Status::NO_WORKER, -13),
        (Status::BACKPRESSURE, -14),
        (Status::ENGINE_FAILED, -15),
        (Status::BAD_PAYLOAD, -16),
    ];
    assert_eq!(status::ALL.len(), negative.len() + 1);
    assert_eq!(status::ALL[0].0, Status(0));
    for ((listed, _, _), (constant, code)) in status::ALL[1..].iter().zip(negative) {
        assert_eq!((listed.0, constant.0), (code, code));
    }
    let source = include_str!("../src/status.rs");
    for (status, name, meaning) in status::ALL {
        assert_eq!((status.name(), status.meaning()), (*name, *meaning));
        let meaning = meaning.replace("arg_len", "`arg_len`");
        let row = format!("//! | {} | `{name}` | {meaning} |", status.0);
        assert!(source.lines().any(|line| line == row), "the table in the module's text lacks: {row}");
    }
    assert_eq!((Status(5).name(), Status(-99).name()), ("HANDLER", "UNKNOWN"));
    assert!(Status(1).is_handler_error() && Status(-1).is_protocol_error() && Status::OK.is_ok());
}

#[test]
fn every_protocol_status_has_a_counter_of_its_own() {
    assert_eq!(Counter::COUNT, counter::ALL.len());
    for (index, counter) in counter::ALL.iter().enumerate() {
        assert_eq!(counter.index(), index);
    }
    let names: BTreeSet<_> = counter::ALL.iter().map(|counter| counter.name()).collect();
    assert_eq!(names.len(), Counter::COUNT);
    let rejections: BTreeSet<_> =
        status::ALL[1..].iter().map(|&(status, _, _)| Counter::of_status(status).index()).collect();
    assert_eq!(rejections.len(), status::ALL.len() - 1);
    for other in [Counter::Received, Counter::Dispatched, Counter::Completed, Counter::HandlerErrors] {
        assert!(!rejections.contains(&other.index()), "{}", other.name());
    }
    for (code, counter) in [
        (0, Counter::Completed),
        (1, Counter::HandlerErrors),
        (i32::MAX, Counter::HandlerErrors),
        (-6, Counter::SchemaMismatch),
        (-17, Counter::UnknownStatus),
        (i32::MIN, Counter::UnknownStatus),
    ] {
        assert_eq!(Counter::of_status(Status(code)), counter, "{code}");
    }
}

#[test]
fn c_numbers_are_checked() {
    assert_eq!(CudaqStatus::ALL.iter().map(|v| v.raw()).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
    assert_eq!(CudaqStatus::from_raw(4), Ok(CudaqStatus::Unsupported));
    assert_eq!(DispatchPath::from_raw(1), Ok(DispatchPath::Host));
    assert_eq!(KernelType::from_raw(2), Ok(KernelType::Unified));
    assert_eq!(DispatchMode::from_raw(0), Ok(DispatchMode::DeviceCall));
    assert_eq!(DispatchMode::from_raw(1), Ok(DispatchMode::GraphLaunch));
    assert_eq!(DispatchMode::from_raw(2), Ok(DispatchMode::HostCall));
    assert_eq!(TxStatus::from_raw(2), Ok(TxStatus::Error));
    assert!(CudaqStatus::from_raw(5).is_err() && DispatchPath::from_raw(2).is_err());
    assert!(KernelType::from_raw(3).is_err() && TxStatus::from_raw(4).is_err());
    assert_eq!(DispatchMode::from_raw(3), Err(WireError::UnknownValue { of: "dispatch mode", value: 3 }));
}

#[test]
fn flag_words_have_their_known_values() {
    assert_eq!(flag::error(0), 0xDEAD_0000_0000_0000);
    assert_eq!(flag::error(0xFFFF), 0xDEAD_0000_0000_FFFF);
    let states =
        [flag::FREE, flag::IN_FLIGHT, flag::error(1), 4096].map(|word| TxState::decode(word).status());
    assert_eq!(states.map(TxStatus::raw), [0, 1, 2, 3]);
    // A CUDA error that was stored without its tag must not look like one: it is an address that fits no slot.
    assert_eq!(TxState::decode(0xDEAD), TxState::Ready(0xDEAD));
    assert_eq!(TxState::decode(flag::GRAPH_TRIGGER), TxState::Ready(0x12A6E5));
}

#[test]
fn magics_differ() {
    let request = RequestHeader::new(1, 2, 3, 4);
    let response = ResponseHeader::reply(&request, -4, 0);
    assert_eq!(&request.to_bytes()[..4], b"RQUC");
    assert_eq!(&response.to_bytes()[..4], b"SQUC");
    assert!(RequestHeader::from_bytes(&response.to_bytes()).unwrap().check_magic().is_err());
    assert!(ResponseHeader::from_bytes(&request.to_bytes()).unwrap().check_magic().is_err());
    assert_eq!(response.status(), Status::UNKNOWN_FUNCTION);
    assert_eq!(response.check_magic(), Ok(response));
}

#[test]
fn entries_convert_without_losing_what_has_a_field() {
    let schema = HandlerSchema::new().arg(TypeDesc::bit_packed(24)).result(TypeDesc::int32());
    let entry = FunctionEntry::new(FunctionId(9), DispatchMode::GraphLaunch, schema, 0x1234);
    assert_eq!(entry.to_seed().map(FunctionEntry::from), Some(entry));
    assert_eq!(entry.to_legacy(3).map(FunctionEntry::from), Some(entry));
    assert_eq!(entry.to_legacy(3).map(|old| old.mailbox_idx), Some(3));
    let keyed = entry.with_routing_key(7);
    assert_eq!((keyed.to_seed(), keyed.to_legacy(0)), (None, None));
    // The older layout is the beginning of the present one.
    let seed = entry.to_seed().unwrap();
    assert_eq!(seed.as_bytes(), &entry.as_bytes()[..168]);
    assert_eq!(keyed.as_bytes()[168..], 7_u64.to_le_bytes());
    assert!(SeedFunctionEntry::read_from_bytes(&entry.as_bytes()[..167]).is_err());
    let legacy = LegacyFunctionEntry::read_from_bytes(entry.to_legacy(3).unwrap().as_bytes()).unwrap();
    assert_eq!(legacy.schema, schema);

    assert_eq!(entry.validate(), Ok(()));
    let null = FunctionEntry { handler: 0, ..entry };
    assert_eq!(null.validate(), Err(WireError::NullHandler { function_id: 9 }));
    let mode = FunctionEntry { dispatch_mode: 3, ..entry };
    assert!(mode.validate().is_err());
    let broken = FunctionEntry { schema: schema.arg(TypeDesc::UNUSED), ..entry };
    assert!(broken.validate().is_err());
}

proptest! {
    #[test]
    fn headers_survive_words_and_unaligned_bytes(
        fields: (u32, u32, u32, u32, u64), skew in 0_usize..8, cut in 0_usize..24,
    ) {
        let (magic, function_id, arg_len, request_id, ptp_timestamp) = fields;
        let request = RequestHeader { magic, function_id, arg_len, request_id, ptp_timestamp };
        prop_assert_eq!(RequestHeader::from_words(request.to_words()), request);
        let words = request.to_words();
        prop_assert_eq!(words[0], u64::from(magic) + (u64::from(function_id) << 32));
        prop_assert_eq!(words[1], u64::from(arg_len) + (u64::from(request_id) << 32));
        prop_assert_eq!(words[2], ptp_timestamp);
        let mut buffer = [0xFF; 40];
        buffer[skew..skew + 24].copy_from_slice(&request.to_bytes());
        prop_assert_eq!(RequestHeader::from_bytes(&buffer[skew..]), Ok(request));
        prop_assert_eq!(
            RequestHeader::from_bytes(&buffer[..cut]),
            Err(WireError::Truncated { needed: 24, available: cut })
        );
        let response = ResponseHeader::reply(&request, function_id.cast_signed(), arg_len);
        prop_assert_eq!((response.request_id, response.ptp_timestamp), (request_id, ptp_timestamp));
        prop_assert_eq!((response.status, response.result_len), (function_id.cast_signed(), arg_len));
        prop_assert_eq!(ResponseHeader::from_words(response.to_words()), response);
        prop_assert_eq!(ResponseHeader::from_bytes(&response.to_bytes()), Ok(response));
        prop_assert!(ResponseHeader::from_bytes(&buffer[..cut]).is_err());
    }

    #[test]
    fn errors_come_back_from_their_flag_word(code: u16, middle in 0_u64..1 << 32) {
        prop_assert_eq!(TxState::decode(flag::error(code)), TxState::Error(code));
        prop_assert_eq!(TxState::decode(flag::error(code) | middle << 16), TxState::Error(code));
    }

    #[test]
    fn canonical_user_addresses_are_ready(address in 1_u64..1 << 48) {
        prop_assert_eq!(TxState::decode(address), TxState::Ready(address));
    }
}
