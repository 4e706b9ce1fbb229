// What the examples of transports serve on a device: the parity of a request's bytes.
#pragma once
#include "device.h"

constexpr std::uint32_t PARITY = cudaq::realtime::fnv1a_hash("parity");

static __device__ int parity_rpc(const void *input, void *output, std::uint32_t arg_len, std::uint32_t max_result_len,
                                 std::uint32_t *result_len) {
  if (max_result_len < 1)
    return 1;
  std::uint8_t parity = 0;
  for (std::uint32_t i = 0; i < arg_len; ++i)
    parity ^= static_cast<const std::uint8_t *>(input)[i];
  *static_cast<std::uint8_t *>(output) = parity;
  *result_len = 1;
  return 0;
}

static __global__ void init_function_table(cudaq_function_entry_t *entries) {
  entries[0] = {};
  entries[0].handler.device_fn_ptr = reinterpret_cast<void *>(&parity_rpc);
  entries[0].function_id = PARITY;
  entries[0].dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  entries[0].schema.num_args = 1;
  entries[0].schema.args[0] = {CUDAQ_TYPE_BIT_PACKED, {0}, 16, 128};
  entries[0].schema.num_results = 1;
  entries[0].schema.results[0] = {CUDAQ_TYPE_UINT8, {0}, 1, 1};
}

// A table with that function, in the device's memory.
struct ParityTable : cudaq_function_table_t {
  ParityTable() : cudaq_function_table_t{} {
    CHECK_CUDA(cudaMalloc(&entries, sizeof *entries));
    init_function_table<<<1, 1>>>(entries);
    CHECK_CUDA(cudaDeviceSynchronize());
    count = 1;
  }
  ~ParityTable() { cudaFree(entries); }
};

// Request `id` in a slot of `slot_bytes`: 16 bytes, one of which is not zero. Returns the request's bytes.
inline std::size_t write_parity_request(std::uint8_t *slot, std::size_t slot_bytes, std::uint32_t id) {
  const cudaq::realtime::RPCHeader header{cudaq::realtime::RPC_MAGIC_REQUEST, PARITY, 16, id, 0};
  std::memset(slot, 0, slot_bytes);
  std::memcpy(slot, &header, sizeof header);
  slot[sizeof header + id % 16] = static_cast<std::uint8_t>(id);
  return sizeof header + 16;
}

// Ends the program unless this is the right answer to request `id`. Not by exit, which would wait for the kernel.
inline void check_parity_answer(const std::uint8_t *slot, std::uint32_t id) {
  cudaq::realtime::RPCResponse response;
  std::memcpy(&response, slot, sizeof response);
  if (response.status == 0 && response.request_id == id && response.result_len == 1 &&
      slot[sizeof response] == static_cast<std::uint8_t>(id))
    return;
  std::fprintf(stderr, "request %u: status %d, request %u\n", id, response.status, response.request_id);
  std::_Exit(1);
}
