//! Layouts and bytes against what a C compiler, numpy and Python's struct say: `data/make.py` made the files.

use std::collections::BTreeMap;
use std::mem::{offset_of, size_of};

use ringcall_wire::bits::{BitView, pack_bits, unpack_bits};
use ringcall_wire::readout::{NibbleView, pack_nibbles, unpack_nibbles};
use ringcall_wire::{
    DecodeResponse, FunctionEntry, HandlerSchema, LegacyFunctionEntry, PayloadDecoder, PayloadEncoder,
    RequestHeader, ResponseHeader, SeedFunctionEntry, TypeDesc,
};
use zerocopy::{FromBytes, IntoBytes};

const LAYOUT: &str = include_str!("data/layout.txt");
const VECTORS: &str = include_str!("data/vectors.txt");

macro_rules! ours {
    ($($name:ident { $($field:ident),* })*) => {
        BTreeMap::from([$(
            ((stringify!($name), "size"), size_of::<$name>()),
            $(((stringify!($name), stringify!($field)), offset_of!($name, $field)),)*
        )*])
    };
}

#[test]
fn layouts_are_those_of_the_c_compiler() {
    let ours = ours! {
        RequestHeader { magic, function_id, arg_len, request_id, ptp_timestamp }
        ResponseHeader { magic, status, result_len, request_id, ptp_timestamp }
        TypeDesc { type_id, reserved, size_bytes, num_elements }
        HandlerSchema { num_args, num_results, reserved, args, results }
        FunctionEntry { handler, function_id, dispatch_mode, reserved, schema, routing_key }
        SeedFunctionEntry { handler, function_id, dispatch_mode, reserved, schema }
        LegacyFunctionEntry {
            handler, function_id, dispatch_mode, reserved, schema, mailbox_idx, d_queue_idx, d_ready_flags,
            d_inflight_flag
        }
        DecodeResponse { total_corrections, converged }
    };
    let mut theirs = BTreeMap::new();
    for line in LAYOUT.lines() {
        let words: Vec<_> = line.split(' ').collect();
        theirs.insert((words[0], words[1]), words[2].parse().unwrap());
    }
    assert_eq!(ours, theirs);
}

fn unhex(text: &str) -> Vec<u8> {
    if text == "-" {
        return Vec::new();
    }
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

/// The rows of one kind: elements as text, bytes.
fn rows(kind: &str) -> Vec<(&'static str, Vec<u8>)> {
    let rows: Vec<_> = VECTORS
        .lines()
        .filter_map(|line| {
            let (found, rest) = line.split_once(' ')?;
            let (elements, bytes) = rest.split_once(' ')?;
            (found == kind).then(|| (elements, unhex(bytes)))
        })
        .collect();
    assert!(!rows.is_empty(), "no rows of kind {kind}");
    rows
}

fn digits(text: &str) -> Vec<u8> {
    text.chars().filter(|&c| c != '-').map(|c| c.to_digit(16).unwrap() as u8).collect()
}

#[test]
fn bits_are_those_of_numpy() {
    for (elements, bytes) in rows("bits") {
        let bits = digits(elements);
        let mut packed = vec![0xAA; bytes.len()];
        assert_eq!(pack_bits(&bits, &mut packed), Ok(bytes.len()));
        assert_eq!(packed, bytes);
        let mut unpacked = vec![9; bits.len()];
        unpack_bits(&bytes, &mut unpacked).unwrap();
        assert_eq!(unpacked, bits);
        let view = BitView::new(&bytes, bits.len()).unwrap();
        let ones: Vec<_> = (0..bits.len()).filter(|&i| bits[i] == 1).collect();
        assert_eq!(view.ones().collect::<Vec<_>>(), ones);
        assert_eq!(view.count_ones(), ones.len());
    }
}

#[test]
fn nibbles_are_those_of_numpy() {
    for (elements, bytes) in rows("nibbles") {
        let values = digits(elements);
        let mut packed = vec![0xAA; bytes.len()];
        assert_eq!(pack_nibbles(&values, &mut packed), Ok(bytes.len()));
        assert_eq!(packed, bytes);
        let mut unpacked = vec![99; values.len()];
        unpack_nibbles(&bytes, &mut unpacked).unwrap();
        assert_eq!(unpacked, values);
        let view = NibbleView::new(&bytes, values.len()).unwrap();
        assert!((0..values.len()).all(|i| view.get(i) == Some(values[i])));
        assert_eq!(view.get(values.len()), None);
    }
}

#[test]
fn headers_are_those_of_struct() {
    for (elements, bytes) in rows("request") {
        let n: Vec<u64> = elements.split(',').map(|n| n.parse().unwrap()).collect();
        let header = RequestHeader::from_bytes(&bytes).unwrap();
        assert_eq!(
            [header.magic, header.function_id, header.arg_len, header.request_id].map(u64::from),
            n[..4]
        );
        assert_eq!(header.ptp_timestamp, n[4]);
        assert_eq!(header.to_bytes()[..], bytes);
        assert_eq!(header.as_bytes(), bytes, "the struct in memory is what is on the wire");
        assert_eq!(RequestHeader::read_from_bytes(&bytes), Ok(header));
    }
    for (elements, bytes) in rows("response") {
        let n: Vec<i64> = elements.split(',').map(|n| n.parse().unwrap()).collect();
        let header = ResponseHeader::from_bytes(&bytes).unwrap();
        assert_eq!(i64::from(header.status), n[1]);
        assert_eq!([header.magic, header.result_len, header.request_id].map(i64::from), [n[0], n[2], n[3]]);
        assert_eq!(header.ptp_timestamp, n[4] as u64);
        assert_eq!(header.to_bytes()[..], bytes);
        assert_eq!(header.as_bytes(), bytes);
    }
}

#[test]
fn numbers_are_those_of_struct_and_numpy() {
    let schema = HandlerSchema::new()
        .arg(TypeDesc::uint8())
        .arg(TypeDesc::array_uint8(3))
        .arg(TypeDesc::int32())
        .arg(TypeDesc::int64())
        .arg(TypeDesc::float32())
        .arg(TypeDesc::float64())
        .arg(TypeDesc::array_int32(3))
        .arg(TypeDesc::array_float32(2));
    let last = HandlerSchema::new().arg(TypeDesc::array_float64(3));
    let (_, bytes) = rows("mixed").remove(0);
    let (first, second) = bytes.split_at(schema.args_bytes().unwrap() as usize);

    let mut out = vec![0; bytes.len()];
    let written = PayloadEncoder::args(&schema, &mut out)
        .unwrap()
        .u8(7)
        .and_then(|e| e.bytes(&[1, 2, 3]))
        .and_then(|e| e.i32(-5))
        .and_then(|e| e.i64(-(1 << 40)))
        .and_then(|e| e.f32(0.156_25))
        .and_then(|e| e.f64(-2.5))
        .and_then(|e| e.array_i32(&[-1, i32::MAX, i32::MIN]))
        .and_then(|e| e.array_f32(&[0.5, -1.5e30]))
        .and_then(|e| e.finish())
        .unwrap();
    assert_eq!(&out[..written], first);
    let doubles = [1e-300, -0.0, 3.25];
    let written =
        PayloadEncoder::args(&last, &mut out).unwrap().array_f64(&doubles).unwrap().finish().unwrap();
    assert_eq!(&out[..written], second);

    let mut decoder = PayloadDecoder::args(&schema, first).unwrap();
    assert_eq!((decoder.u8(), decoder.bytes()), (Ok(7), Ok(&[1, 2, 3][..])));
    assert_eq!((decoder.i32(), decoder.i64()), (Ok(-5), Ok(-(1 << 40))));
    assert_eq!((decoder.f32(), decoder.f64()), (Ok(0.156_25), Ok(-2.5)));
    let mut ints = [0; 3];
    decoder.copy_i32(&mut ints).unwrap();
    assert_eq!(ints, [-1, i32::MAX, i32::MIN]);
    let mut floats = [0.0; 2];
    decoder.copy_f32(&mut floats).unwrap();
    assert_eq!(floats, [0.5, -1.5e30]);
    decoder.finish().unwrap();
    let mut decoder = PayloadDecoder::args(&last, second).unwrap();
    let mut read = [0.0; 3];
    decoder.copy_f64(&mut read).unwrap();
    assert_eq!(read.map(f64::to_bits), doubles.map(f64::to_bits));
}
