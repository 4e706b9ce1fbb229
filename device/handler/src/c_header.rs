//! The calling side of handlers for programs in C: a header of functions that write payloads and read results.
//!
//! The header needs C99 and nothing else: what carries the bytes is the program's (`ringcall_ring_write_request` of the C interface, a
//! socket). For each handler there are its id, the bytes of payload and result, `NAME_encode` and `NAME_decode`.
//!
//! ```
//! use ringcall_handler::{Bits, c_header, handler, handlers};
//!
//! #[handler]
//! fn vote(syndrome: Bits<'_, 12>, weight: f32, votes: &mut [u8; 3]) {
//!     votes.fill((syndrome.count_ones() as f32 > weight).into());
//! }
//!
//! let mut text = String::new();
//! c_header::write(&mut text, "VOTES_H", &handlers![vote])?;
//! assert!(text.contains("static inline void vote_encode(uint8_t payload[6], const uint8_t syndrome[2], float weight)"));
//! assert!(text.contains("static inline int vote_decode(const uint8_t *result, size_t len, uint8_t votes[3])"));
//! # Ok::<(), core::fmt::Error>(())
//! ```

use crate::{Handler, TypeDesc};
use core::fmt::{self, Write};
use ringcall_wire::payload::PayloadType;

/// What every header begins with.
const HEAD: &str = "\
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#ifndef RINGCALL_TYPED_CALLS
#define RINGCALL_TYPED_CALLS
/* Little-endian bytes of integers, whatever the machine is. */
static inline void ringcall_put(uint8_t *to, uint64_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; i++) to[i] = (uint8_t)(value >> (8 * i));
}
static inline uint64_t ringcall_get(const uint8_t *from, unsigned bytes) {
  uint64_t value = 0;
  for (unsigned i = 0; i < bytes; i++) value |= (uint64_t)from[i] << (8 * i);
  return value;
}
static inline void ringcall_put_f32(uint8_t *to, float value) {
  uint32_t bits;
  memcpy(&bits, &value, 4);
  ringcall_put(to, bits, 4);
}
static inline void ringcall_put_f64(uint8_t *to, double value) {
  uint64_t bits;
  memcpy(&bits, &value, 8);
  ringcall_put(to, bits, 8);
}
static inline float ringcall_get_f32(const uint8_t *from) {
  uint32_t bits = (uint32_t)ringcall_get(from, 4);
  float value;
  memcpy(&value, &bits, 4);
  return value;
}
static inline double ringcall_get_f64(const uint8_t *from) {
  uint64_t bits = ringcall_get(from, 8);
  double value;
  memcpy(&value, &bits, 8);
  return value;
}
#endif
";

/// How a payload type is C's.
struct CType {
    name: &'static str,
    /// Bytes of an element; `None` for a scalar.
    bytes: u32,
    array: bool,
}

fn c_type(desc: &TypeDesc) -> CType {
    let (name, bytes, array) = match PayloadType::from_raw(desc.type_id) {
        Ok(PayloadType::Int32) => ("int32_t", 4, false),
        Ok(PayloadType::Int64) => ("int64_t", 8, false),
        Ok(PayloadType::Float32) => ("float", 4, false),
        Ok(PayloadType::Float64) => ("double", 8, false),
        Ok(PayloadType::ArrayInt32) => ("int32_t", 4, true),
        Ok(PayloadType::ArrayFloat32) => ("float", 4, true),
        Ok(PayloadType::ArrayFloat64) => ("double", 8, true),
        Ok(PayloadType::Uint8) => ("uint8_t", 1, false),
        // Bytes: of bits, of nibbles, of themselves.
        _ => ("uint8_t", 1, true),
    };
    CType { name, bytes, array }
}

impl CType {
    fn elements(&self, desc: &TypeDesc) -> u32 {
        desc.size_bytes / self.bytes
    }

    /// The statement that moves one element between C and bytes, at `at` of the payload.
    fn put(&self, out: &mut dyn Write, to: &str, value: &str) -> fmt::Result {
        match self.name {
            "float" => write!(out, "ringcall_put_f32({to}, {value});"),
            "double" => write!(out, "ringcall_put_f64({to}, {value});"),
            "int64_t" => write!(out, "ringcall_put({to}, (uint64_t){value}, 8);"),
            "int32_t" => write!(out, "ringcall_put({to}, (uint32_t){value}, 4);"),
            _ => write!(out, "*({to}) = {value};"),
        }
    }

    fn get(&self, out: &mut dyn Write, from: &str, value: &str) -> fmt::Result {
        match self.name {
            "float" => write!(out, "{value} = ringcall_get_f32({from});"),
            "double" => write!(out, "{value} = ringcall_get_f64({from});"),
            "int64_t" => write!(out, "{value} = (int64_t)ringcall_get({from}, 8);"),
            "int32_t" => write!(out, "{value} = (int32_t)ringcall_get({from}, 4);"),
            _ => write!(out, "{value} = *({from});"),
        }
    }
}

/// A handler's name as C has it: the end of its symbol.
fn name(handler: &Handler) -> &str {
    handler.symbol.strip_prefix("ringcall_handler_").unwrap_or(handler.symbol)
}

/// The name of a parameter: its own, or one by its number.
struct Parameter<'a>(Option<&'a str>, &'static str, usize);

impl fmt::Display for Parameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            // Names that C, or the function around it, has already.
            Self(Some(name), ..) if !RESERVED.contains(name) => f.write_str(name),
            Self(_, what, index) => write!(f, "{what}_{index}"),
        }
    }
}

const RESERVED: [&str; 24] = [
    "payload", "result", "len", "auto", "case", "char", "default", "do", "double", "float", "goto", "int",
    "long", "register", "short", "signed", "sizeof", "switch", "typedef", "union", "unsigned", "void",
    "volatile", "restrict",
];

/// Writes a header with the calling side of `handlers`, inside the guard `guard`. Handlers of bytes of any length have an id alone.
///
/// # Errors
/// The writer's own.
pub fn write(out: &mut dyn Write, guard: &str, handlers: &[Handler]) -> fmt::Result {
    writeln!(out, "/* Calls of handlers, written from their signatures: do not edit. */")?;
    writeln!(out, "#ifndef {guard}\n#define {guard}\n\n{HEAD}")?;
    for handler in handlers {
        one(out, handler)?;
    }
    writeln!(out, "#endif")
}

fn one(out: &mut dyn Write, handler: &Handler) -> fmt::Result {
    let name = name(handler);
    writeln!(out, "/* `{}` */", handler.name)?;
    writeln!(out, "static inline uint32_t {name}_function(void) {{ return 0x{:08x}u; }}", handler.id().0)?;
    let (arguments, results) = (handler.schema.args(), handler.schema.results());
    if arguments.is_empty() && results.is_empty() {
        return writeln!(out);
    }
    let own = |index: usize| handler.parameters.get(index).copied();
    let bytes = |descs: &[TypeDesc]| descs.iter().map(|desc| desc.size_bytes).sum::<u32>();
    let (payload_bytes, result_bytes) = (bytes(arguments), bytes(results));
    writeln!(
        out,
        "enum {{ {name}_payload_bytes = {payload_bytes}, {name}_result_bytes = {result_bytes} }};"
    )?;

    // An array of no element is no C.
    write!(out, "static inline void {name}_encode(uint8_t payload[{}]", payload_bytes.max(1))?;
    for (index, desc) in arguments.iter().enumerate() {
        let (ty, parameter) = (c_type(desc), Parameter(own(index), "argument", index));
        match ty.array {
            true => write!(out, ", const {} {parameter}[{}]", ty.name, ty.elements(desc).max(1))?,
            false => write!(out, ", {} {parameter}", ty.name)?,
        }
    }
    writeln!(out, ") {{")?;
    let mut at = 0;
    for (index, desc) in arguments.iter().enumerate() {
        let (ty, parameter) = (c_type(desc), Parameter(own(index), "argument", index));
        each(out, &ty, desc, &parameter, at, "payload", "", CType::put)?;
        at += desc.size_bytes;
    }
    if arguments.is_empty() {
        writeln!(out, "  (void)payload;")?;
    }
    writeln!(out, "}}")?;

    writeln!(out, "/* 0, or -1 where `len` bytes are no results of it. */")?;
    write!(out, "static inline int {name}_decode(const uint8_t *result, size_t len")?;
    // A returned value has no name.
    let out_own = |index: usize| own(arguments.len() + index);
    for (index, desc) in results.iter().enumerate() {
        let (ty, parameter) = (c_type(desc), Parameter(out_own(index), "result", index));
        match ty.array {
            true => write!(out, ", {} {parameter}[{}]", ty.name, ty.elements(desc).max(1))?,
            false => write!(out, ", {} *{parameter}", ty.name)?,
        }
    }
    writeln!(out, ") {{\n  if (len != {result_bytes}) return -1;")?;
    let mut at = 0;
    for (index, desc) in results.iter().enumerate() {
        let (ty, parameter) = (c_type(desc), Parameter(out_own(index), "result", index));
        each(out, &ty, desc, &parameter, at, "result", "*", CType::get)?;
        at += desc.size_bytes;
    }
    if results.is_empty() {
        writeln!(out, "  (void)result;")?;
    }
    writeln!(out, "  return 0;\n}}\n")
}

type Move = fn(&CType, &mut dyn Write, &str, &str) -> fmt::Result;

/// The statement of one value: of each element of an array.
#[expect(clippy::too_many_arguments, reason = "each is one word of the statement")]
fn each(
    out: &mut dyn Write,
    ty: &CType,
    desc: &TypeDesc,
    parameter: &Parameter<'_>,
    at: u32,
    buffer: &str,
    pointer: &str,
    statement: Move,
) -> fmt::Result {
    let mut destination = Words::default();
    let mut value = Words::default();
    if ty.array {
        write!(destination, "{buffer} + {at} + {} * i", ty.bytes)?;
        write!(value, "{parameter}[i]")?;
        write!(out, "  for (size_t i = 0; i < {}; i++) ", ty.elements(desc))?;
    } else {
        write!(destination, "{buffer} + {at}")?;
        write!(value, "{pointer}{parameter}")?;
        write!(out, "  ")?;
    }
    statement(ty, out, destination.text(), value.text())?;
    writeln!(out)
}

/// A short text without an allocator.
struct Words {
    bytes: [u8; 128],
    len: usize,
}

impl Default for Words {
    fn default() -> Self {
        Self { bytes: [0; 128], len: 0 }
    }
}

impl Words {
    fn text(&self) -> &str {
        self.bytes.get(..self.len).and_then(|bytes| core::str::from_utf8(bytes).ok()).unwrap_or_default()
    }
}

impl Write for Words {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let end = self.len + text.len();
        self.bytes.get_mut(self.len..end).ok_or(fmt::Error)?.copy_from_slice(text.as_bytes());
        self.len = end;
        Ok(())
    }
}
