#!/usr/bin/env python3
"""Writes layout.txt (offsets and sizes as the C compiler has them) and vectors.txt (payload bytes as numpy and struct
have them) beside itself. Needs cc and numpy. Deterministic."""
import pathlib, struct, subprocess, tempfile
import numpy as np

HERE = pathlib.Path(__file__).parent
C_TYPES = r"""
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
struct __attribute__((packed)) RequestHeader { uint32_t magic, function_id, arg_len, request_id; uint64_t ptp_timestamp; };
struct __attribute__((packed)) ResponseHeader { uint32_t magic; int32_t status; uint32_t result_len, request_id; uint64_t ptp_timestamp; };
struct TypeDesc { uint8_t type_id, reserved[3]; uint32_t size_bytes, num_elements; };
struct HandlerSchema { uint8_t num_args, num_results; uint16_t reserved; struct TypeDesc args[8], results[4]; };
#define COMMON union { void *fn; void *graph; } handler; uint32_t function_id; uint8_t dispatch_mode, reserved[3]; struct HandlerSchema schema;
struct FunctionEntry { COMMON uint64_t routing_key; };
struct SeedFunctionEntry { COMMON };
struct LegacyFunctionEntry { COMMON uint32_t mailbox_idx; int *d_queue_idx; volatile int *d_ready_flags; int *d_inflight_flag; };
struct __attribute__((packed)) DecodeResponse { int32_t total_corrections, converged; };
"""
FIELDS = {
    "RequestHeader": "magic function_id arg_len request_id ptp_timestamp",
    "ResponseHeader": "magic status result_len request_id ptp_timestamp",
    "TypeDesc": "type_id reserved size_bytes num_elements",
    "HandlerSchema": "num_args num_results reserved args results",
    "FunctionEntry": "handler function_id dispatch_mode reserved schema routing_key",
    "SeedFunctionEntry": "handler function_id dispatch_mode reserved schema",
    "LegacyFunctionEntry": "handler function_id dispatch_mode reserved schema mailbox_idx d_queue_idx d_ready_flags d_inflight_flag",
    "DecodeResponse": "total_corrections converged",
}


def layout():
    body = ""
    for name, fields in FIELDS.items():
        body += f'printf("{name} size %zu\\n", sizeof(struct {name}));\n'
        for field in fields.split():
            body += f'printf("{name} {field} %zu\\n", offsetof(struct {name}, {field}));\n'
    with tempfile.TemporaryDirectory() as tmp:
        source = pathlib.Path(tmp, "layout.c")
        source.write_text(C_TYPES + "int main(void) {\n" + body + "return 0; }\n")
        subprocess.run(["cc", "-o", f"{tmp}/layout", source], check=True)
        return subprocess.run([f"{tmp}/layout"], check=True, capture_output=True, text=True).stdout


def digits(values):
    return "".join(f"{v:x}" for v in values) or "-"


def hexed(data):
    return bytes(data).hex() or "-"


def vectors():
    rng = np.random.default_rng(20)
    lines = ["# kind, elements (one hex digit each, or numbers), bytes on the wire; - is nothing"]
    for n in [0, 1, 7, 8, 9, 10, 63, 64, 65, 128, 130, 336]:
        bits = rng.integers(0, 2, n, dtype=np.uint8)
        lines.append(f"bits {digits(bits)} {hexed(np.packbits(bits, bitorder='little'))}")
    for n in [0, 1, 2, 3, 8, 17]:
        values = rng.integers(0, 16, n, dtype=np.uint8)
        padded = np.append(values, np.zeros(n % 2, np.uint8))
        lines.append(f"nibbles {digits(values)} {hexed(padded[0::2] + 16 * padded[1::2])}")
    for _ in range(8):
        magic, function, length, request = (int(v) for v in rng.integers(0, 2**32, 4))
        time = int(rng.integers(0, 2**63))
        lines.append(f"request {magic},{function},{length},{request},{time} "
                     f"{struct.pack('<IIIIQ', magic, function, length, request, time).hex()}")
        status = int(rng.integers(-2**31, 2**31))
        lines.append(f"response {magic},{status},{length},{request},{time} "
                     f"{struct.pack('<IiIIQ', magic, status, length, request, time).hex()}")
    # One value of every type in one payload: the nine numeric types, with odd sizes first so that nothing is aligned.
    i32s = [-1, 2**31 - 1, -2**31]
    f32s, f64s = [0.5, -1.5e30], [1e-300, -0.0, 3.25]
    mixed = (struct.pack("<B", 7) + bytes([1, 2, 3]) + struct.pack("<iqfd", -5, -(2**40), 0.15625, -2.5)
             + np.array(i32s, "<i4").tobytes() + np.array(f32s, "<f4").tobytes() + np.array(f64s, "<f8").tobytes())
    lines.append(f"mixed - {mixed.hex()}")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    (HERE / "layout.txt").write_text(layout())
    (HERE / "vectors.txt").write_text(vectors())
