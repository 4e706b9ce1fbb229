/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* Wire structs, handler signature and hash for C++ and CUDA C++. C programs find the same in rpc_wire_format.h. */
#ifndef CUDAQ_REALTIME_DISPATCH_KERNEL_LAUNCH_H
#define CUDAQ_REALTIME_DISPATCH_KERNEL_LAUNCH_H

#include "cudaq/realtime/daemon/dispatcher/rpc_wire_format.h"

#ifdef __cplusplus

#include <cstddef>
#include <cstdint>

#ifdef __CUDACC__
#define RINGCALL_HOST_DEVICE __host__ __device__
#else
#define RINGCALL_HOST_DEVICE
#endif

namespace cudaq {
namespace realtime {

constexpr std::uint32_t RPC_MAGIC_REQUEST = CUDAQ_RPC_MAGIC_REQUEST;
constexpr std::uint32_t RPC_MAGIC_RESPONSE = CUDAQ_RPC_MAGIC_RESPONSE;

/// Request header: 24 bytes, little-endian, at any alignment.
struct __attribute__((packed)) RPCHeader {
  std::uint32_t magic;         ///< RPC_MAGIC_REQUEST
  std::uint32_t function_id;   ///< fnv1a_hash of the function's name
  std::uint32_t arg_len;       ///< payload bytes after this header
  std::uint32_t request_id;    ///< the caller's number, echoed
  std::uint64_t ptp_timestamp; ///< the caller's send time, echoed; 0 if unused
};

/// Response header: 24 bytes, little-endian, at any alignment.
struct __attribute__((packed)) RPCResponse {
  std::uint32_t magic;         ///< RPC_MAGIC_RESPONSE
  std::int32_t status;         ///< 0 success, positive the handler's, negative the protocol's
  std::uint32_t result_len;    ///< payload bytes after this header
  std::uint32_t request_id;    ///< the request's
  std::uint64_t ptp_timestamp; ///< the request's
};

/// A device handler. `input` and `output` do not overlap; at most `max_result_len` bytes of `output` may be written,
/// `*result_len` says how many were. Returns the response's status.
using DeviceRPCFunction = int (*)(const void *input, void *output, std::uint32_t arg_len,
                                  std::uint32_t max_result_len, std::uint32_t *result_len);

/// 32-bit FNV-1a: the function id of a name.
RINGCALL_HOST_DEVICE constexpr std::uint32_t fnv1a_hash(const char *name) {
  std::uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name)
    hash = (hash ^ static_cast<std::uint8_t>(*name)) * 16777619u;
  return hash;
}

/// Where a graph finds its request and puts its response; filled before each launch. The graph writes a response header
/// and the result to `tx_slot`, then a system-wide fence, then `tx_flag_value` to `*tx_flag`.
struct GraphIOContext {
  void *rx_slot;                   ///< request slot: header, payload
  std::uint8_t *tx_slot;           ///< response slot
  volatile std::uint64_t *tx_flag; ///< its flag
  std::uint64_t tx_flag_value;     ///< the flag's value when the response is there
  std::size_t tx_stride_sz;        ///< bytes of the response slot
};

/// Payload types under their short names; the same numbers as cudaq_payload_type_t.
enum PayloadTypeID : std::uint8_t {
  TYPE_UINT8 = 0x10,
  TYPE_INT32 = 0x11,
  TYPE_INT64 = 0x12,
  TYPE_FLOAT32 = 0x13,
  TYPE_FLOAT64 = 0x14,
  TYPE_ARRAY_UINT8 = 0x20,
  TYPE_ARRAY_INT32 = 0x21,
  TYPE_ARRAY_FLOAT32 = 0x22,
  TYPE_ARRAY_FLOAT64 = 0x23,
  TYPE_BIT_PACKED = 0x30,
  TYPE_UINT32 = TYPE_INT32 ///< Of the protocol's examples, which give it no number: four bytes, little-endian.
};

/// Twin of the C struct, without padding requirements.
struct __attribute__((packed)) cudaq_type_desc_t {
  std::uint8_t type_id;
  std::uint8_t reserved[3];
  std::uint32_t size_bytes;
  std::uint32_t num_elements;
};

/// Twin of the C struct, without padding requirements.
struct __attribute__((packed)) cudaq_handler_schema_t {
  std::uint8_t num_args;
  std::uint8_t num_results;
  std::uint16_t reserved;
  cudaq_type_desc_t args[8];
  cudaq_type_desc_t results[4];
};

} // namespace realtime
} // namespace cudaq

#endif
#endif
