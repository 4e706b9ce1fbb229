//! The calling side: typed arguments in, typed results out, by anything that carries bytes; and the same in C.

#![allow(clippy::too_many_arguments)] // a parameter of each kind

use ringcall_handler::{
    BitString, Bits, BitsMut, ClientError, F32, F64, FunctionId, Handler, I32, Output, Readout4, RoundTrip,
    Status, Warp, c_header, handler, handlers,
};
use std::fs;
use std::process::Command;

#[handler]
fn everything(
    a: u8,
    b: i32,
    c: i64,
    d: f32,
    e: f64,
    integers: &[I32; 3],
    bits: Bits<'_, 11>,
    soft: Readout4<'_, 5>,
) -> Result<(f64, [i32; 3], BitString<11>, u8), Status> {
    if a == 0 {
        return Err(Status(9));
    }
    let sum = f64::from(b) + c as f64 + f64::from(d) + e;
    let soft = soft.iter().fold(0_u8, |sum, value| sum.wrapping_mul(3).wrapping_add(value));
    Ok((sum, integers.map(|value| value.get().wrapping_neg()), bits.into(), soft))
}

#[handler(name = "write.in-place")]
fn in_place(scale: f32, values: &[F32; 4], flags: BitsMut<'_, 9>, doubled: &mut [F64; 4], count: &mut I32) {
    let mut flags = flags;
    for (index, (value, out)) in values.iter().zip(doubled).enumerate() {
        *out = F64::new(f64::from(value.get()) * f64::from(scale));
        flags.set(index, value.get() < 0.0);
    }
    flags.set(8, true);
    *count = I32::new(4);
}

#[handler(kind = "warp")]
fn warped(warp: Warp<'_>, input: &[u8; 40], output: Output<'_, [u8; 40]>) {
    for i in warp.stride(40) {
        output.set(i, input[i] ^ 0xFF);
    }
}

#[handler]
fn nothing() {}

#[handler]
fn reversed(input: &[u8], output: &mut [u8]) -> usize {
    output.iter_mut().zip(input.iter().rev()).map(|(out, byte)| *out = *byte).count()
}

const ALL: [Handler; 5] = handlers![everything, in_place, warped, nothing, reversed];

/// Calls on the calling thread; and an answer that is too long by so many bytes.
struct Here(usize);

impl RoundTrip for Here {
    type Error = &'static str;

    fn round_trip(
        &mut self,
        function: FunctionId,
        payload: &[u8],
        result: &mut [u8],
    ) -> Result<(Status, usize), Self::Error> {
        let handler = ALL.iter().find(|handler| handler.id() == function).ok_or("nobody")?;
        Ok(handler.call(payload, result).map_or_else(|status| (status, 0), |len| (Status::OK, len + self.0)))
    }
}

#[test]
fn every_type_goes_there_and_back() {
    let mut here = Here(0);
    let (bits, soft) = ([0b1010_0101, 0b101], [0x21, 0x43, 0x05]);
    let integers = [1, -2, i32::MAX].map(I32::new);
    let found = everything::call(
        &mut here,
        1,
        -5,
        1 << 40,
        0.5,
        0.25,
        &integers,
        Bits::new(&bits).unwrap(),
        Readout4::new(&soft).unwrap(),
    );
    let (sum, negated, same, folded) = found.unwrap();
    assert_eq!((sum, negated), ((1_u64 << 40) as f64 - 4.25, [-1, 2, -i32::MAX]));
    assert_eq!((same.as_bytes(), folded), (&bits[..], ((((3 + 2) * 3 + 3) * 3 + 4) * 3 + 5) as u8));

    let values = [1.5, -2.0, 0.0, -0.25].map(F32::new);
    let (flags, doubled, count) = in_place::call(&mut here, 2.0, &values).unwrap();
    assert_eq!(flags.as_bytes(), [0b1010, 1]);
    assert_eq!((doubled.map(F64::get), count.get()), ([3.0, -4.0, 0.0, -0.5], 4));

    assert_eq!(warped::call(&mut here, &[0xF0; 40]), Ok([0x0F; 40]));
    assert_eq!(nothing::call(&mut here), Ok(()));
    let mut result = [0; 8];
    assert_eq!(reversed::call(&mut here, b"LAH", &mut result), Ok(3));
    assert_eq!(&result[..3], b"HAL");
}

#[test]
fn what_is_no_answer_of_the_handler_is_an_error() {
    let values = [0.0; 4].map(F32::new);
    let long = ClientError::Malformed { found: 39, expected: 38 };
    assert_eq!(in_place::call(&mut Here(1), 2.0, &values).map(|_| ()), Err(long));
    let (bits, soft, integers) =
        (Bits::new(&[0; 2]).unwrap(), Readout4::new(&[0; 3]).unwrap(), [I32::new(0); 3]);
    let refused = everything::call(&mut Here(0), 0, 0, 0, 0.0, 0.0, &integers, bits, soft);
    assert_eq!(refused.map(|_| ()), Err(ClientError::Refused(Status(9))));

    /// Sets the padding of what comes back.
    struct Dirty;
    impl RoundTrip for Dirty {
        type Error = ();
        fn round_trip(&mut self, _: FunctionId, _: &[u8], result: &mut [u8]) -> Result<(Status, usize), ()> {
            result.fill(0xFF);
            Ok((Status::OK, result.len()))
        }
    }
    let dirty = in_place::call(&mut Dirty, 2.0, &values).map(|_| ());
    assert_eq!(dirty, Err(ClientError::Malformed { found: 38, expected: 38 }));
    assert_eq!(nothing::call(&mut Lost), Err(ClientError::Carrier("lost")));
}

/// Loses everything.
struct Lost;

impl RoundTrip for Lost {
    type Error = &'static str;

    fn round_trip(&mut self, _: FunctionId, _: &[u8], _: &mut [u8]) -> Result<(Status, usize), Self::Error> {
        Err("lost")
    }
}

/// A C program that was given the header writes the payload that Rust writes, and reads the result.
#[test]
fn a_program_in_c_writes_the_same_bytes() {
    let Some(cc) =
        ["cc", "gcc", "clang"].into_iter().find(|cc| Command::new(cc).arg("--version").output().is_ok())
    else {
        eprintln!("skipped: no C compiler");
        return;
    };
    let mut header = String::new();
    c_header::write(&mut header, "CALLS_H", &ALL).unwrap();
    let folder = std::env::temp_dir().join(format!("ringcall-c-header-{}", std::process::id()));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("calls.h"), header).unwrap();
    let program = r#"
#include "calls.h"
#include <stdio.h>
int main(void) {
  uint8_t payload[write_in_place_payload_bytes], result[write_in_place_result_bytes];
  const float values[4] = {1.5f, -2.0f, 0.0f, -0.25f};
  write_in_place_encode(payload, 2.0f, values);
  printf("%08x", (unsigned)write_in_place_function());
  for (size_t i = 0; i < sizeof payload; i++) printf(" %02x", payload[i]);
  for (size_t i = 0; i < sizeof result; i++) result[i] = 0;
  ringcall_put_f64(result + 2, 3.0);
  ringcall_put(result + 34, 4, 4);
  uint8_t flags[2];
  double doubled[4];
  int32_t count;
  if (write_in_place_decode(result, sizeof result - 1, flags, doubled, &count) != -1) return 1;
  if (write_in_place_decode(result, sizeof result, flags, doubled, &count) != 0) return 2;
  return doubled[0] == 3.0 && count == 4 ? 0 : 3;
}
"#;
    fs::write(folder.join("calls.c"), program).unwrap();
    let built = Command::new(cc)
        .args(["-std=c99", "-Wall", "-Wextra", "-Werror", "-Wno-unused-function", "-o"])
        .arg(folder.join("calls"))
        .arg(folder.join("calls.c"))
        .output()
        .unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let ran = Command::new(folder.join("calls")).output().unwrap();
    fs::remove_dir_all(&folder).unwrap();

    struct Written(String);
    impl RoundTrip for Written {
        type Error = ();
        fn round_trip(
            &mut self,
            function: FunctionId,
            payload: &[u8],
            _: &mut [u8],
        ) -> Result<(Status, usize), ()> {
            self.0 = format!("{:08x}", function.0);
            payload.iter().for_each(|byte| self.0 += &format!(" {byte:02x}"));
            Err(())
        }
    }
    let mut written = Written(String::new());
    let values = [1.5, -2.0, 0.0, -0.25].map(F32::new);
    assert!(in_place::call(&mut written, 2.0, &values).is_err());
    assert_eq!((ran.status.code(), String::from_utf8_lossy(&ran.stdout)), (Some(0), written.0.into()));
}
