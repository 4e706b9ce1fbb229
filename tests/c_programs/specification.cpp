// What a reader of the specification writes, with its names and spellings, down the host path: wiring, a schema, a
// request written by hand, a response read by hand. Everything that needs a device compiles, and says so when it is run.
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

#include <cassert>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

#define ASSERT_EQ(call, expected)                                                                                   \
  do {                                                                                                              \
    if ((call) != (expected)) {                                                                                     \
      std::fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, ringcall_last_error());                    \
      std::exit(1);                                                                                                 \
    }                                                                                                               \
  } while (0)

namespace {

constexpr std::uint32_t MOCK_DECODE_FUNCTION_ID = cudaq::realtime::fnv1a_hash("mock_decode");

void mock_decode(const void *rx_slot, void *tx_slot, std::size_t) {
  auto *header = static_cast<const cudaq::realtime::RPCHeader *>(rx_slot);
  auto *response = static_cast<cudaq::realtime::RPCResponse *>(tx_slot);
  const auto *measurements = static_cast<const std::uint8_t *>(rx_slot) + sizeof(cudaq::realtime::RPCHeader);
  std::uint8_t parity = 0;
  for (std::uint32_t i = 0; i < header->arg_len; ++i)
    parity ^= measurements[i];
  response->magic = cudaq::realtime::RPC_MAGIC_RESPONSE;
  response->status = 0;
  response->result_len = 1;
  response->request_id = header->request_id;
  response->ptp_timestamp = header->ptp_timestamp;
  static_cast<std::uint8_t *>(tx_slot)[sizeof(cudaq::realtime::RPCResponse)] = parity;
}

// What a unified launch function was given, and how often it was called.
struct Launched {
  int calls = 0;
  cudaq_function_entry_t *table = nullptr;
  std::size_t count = 0;
  volatile int *shutdown = nullptr;
  std::uint64_t *stats = nullptr;
};

void a_launch_v1(void *context, cudaq_function_entry_t *table, std::size_t count, volatile int *shutdown, std::uint64_t *stats,
                 cudaStream_t) {
  auto *launched = static_cast<Launched *>(context);
  *launched = {launched->calls + 1, table, count, shutdown, stats};
}
void a_launch_v2(void *context, std::size_t, cudaq_function_entry_t *table, std::size_t count, volatile int *shutdown,
                 std::uint64_t *stats, cudaStream_t stream) {
  a_launch_v1(context, table, count, shutdown, stats, stream);
}

class Wiring {
public:
  void set_up() {
    rx_flags_ = new volatile std::uint64_t[num_slots_]();
    tx_flags_ = new volatile std::uint64_t[num_slots_]();
    rx_data_ = static_cast<std::uint8_t *>(std::aligned_alloc(64, num_slots_ * slot_size_));
    tx_data_ = static_cast<std::uint8_t *>(std::aligned_alloc(64, num_slots_ * slot_size_));

    ASSERT_EQ(cudaq_dispatch_manager_create(&manager_), CUDAQ_OK);
    cudaq_dispatcher_config_t config{};
    config.device_id = 0;
    config.num_blocks = 1;
    config.threads_per_block = 32;
    config.num_slots = static_cast<uint32_t>(num_slots_);
    config.slot_size = static_cast<uint32_t>(slot_size_);
    config.vp_id = 0;
    config.kernel_type = CUDAQ_KERNEL_REGULAR;
    config.dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
#ifdef EARLIER_NAMES
    config.backend = CUDAQ_BACKEND_HOST_LOOP;
#else
    config.dispatch_path = CUDAQ_DISPATCH_PATH_HOST;
#endif
    ASSERT_EQ(cudaq_dispatcher_create(manager_, &config, &dispatcher_), CUDAQ_OK);

    cudaq_ringbuffer_t ringbuffer{};
    ringbuffer.rx_flags = rx_flags_;
    ringbuffer.tx_flags = tx_flags_;
    ringbuffer.rx_data = rx_data_;
    ringbuffer.tx_data = tx_data_;
    ringbuffer.rx_stride_sz = slot_size_;
    ringbuffer.tx_stride_sz = slot_size_;
    ringbuffer.rx_flags_host = rx_flags_;
    ringbuffer.tx_flags_host = tx_flags_;
    ringbuffer.rx_data_host = rx_data_;
    ringbuffer.tx_data_host = tx_data_;
    ASSERT_EQ(cudaq_dispatcher_set_ringbuffer(dispatcher_, &ringbuffer), CUDAQ_OK);

    // Not zeroed as a whole, as the specification's table on a device is not.
    auto *entries = static_cast<cudaq_function_entry_t *>(std::malloc(func_count_ * sizeof(cudaq_function_entry_t)));
    std::memset(static_cast<void *>(entries), 0xA5, func_count_ * sizeof(cudaq_function_entry_t));
    entries[0].handler.host_fn = &mock_decode;
    entries[0].function_id = MOCK_DECODE_FUNCTION_ID;
    entries[0].dispatch_mode = CUDAQ_DISPATCH_HOST_CALL;
    entries[0].schema.num_args = 1;
    entries[0].schema.args[0] = {CUDAQ_TYPE_BIT_PACKED, {0}, 16, 128}; // 128 bits
    entries[0].schema.num_results = 1;
    entries[0].schema.results[0] = {cudaq::realtime::TYPE_UINT8, {0}, 1, 1};
    entries_ = entries;

    cudaq_function_table_t table{};
    table.entries = entries;
    table.count = func_count_;
    ASSERT_EQ(cudaq_dispatcher_set_function_table(dispatcher_, &table), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatcher_set_control(dispatcher_, &shutdown_flag_, &stats_), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatcher_start(dispatcher_), CUDAQ_OK);
  }

  void write_rpc_request(std::size_t slot, const std::vector<uint8_t> &measurements) {
    std::uint8_t *slot_data = const_cast<uint8_t *>(rx_data_) + slot * slot_size_;
    auto *header = reinterpret_cast<cudaq::realtime::RPCHeader *>(slot_data);
    header->magic = cudaq::realtime::RPC_MAGIC_REQUEST;
    header->function_id = MOCK_DECODE_FUNCTION_ID;
    header->arg_len = static_cast<std::uint32_t>(measurements.size());
    header->request_id = static_cast<std::uint32_t>(slot);
    header->ptp_timestamp = 0;
    std::memcpy(slot_data + sizeof(cudaq::realtime::RPCHeader), measurements.data(), measurements.size());
    __sync_synchronize();
    rx_flags_[slot] = reinterpret_cast<std::uint64_t>(slot_data);
  }

  bool read_rpc_response(std::size_t slot, uint8_t &correction, std::int32_t *status_out = nullptr,
                         std::uint32_t *result_len_out = nullptr) {
    __sync_synchronize();
    const uint8_t *slot_data = const_cast<uint8_t *>(tx_data_) + slot * slot_size_;
    const auto *response = reinterpret_cast<const cudaq::realtime::RPCResponse *>(slot_data);
    if (response->magic != cudaq::realtime::RPC_MAGIC_RESPONSE)
      return false;
    if (status_out)
      *status_out = response->status;
    if (result_len_out)
      *result_len_out = response->result_len;
    if (response->status != 0)
      return false;
    correction = *(slot_data + sizeof(cudaq::realtime::RPCResponse));
    return true;
  }

  void exercise() {
    for (std::size_t round = 0; round < 3 * num_slots_; ++round) {
      const std::size_t slot = round % num_slots_;
      std::vector<uint8_t> measurements(16, 0);
      measurements[round % 16] = static_cast<uint8_t>(round + 1);
      write_rpc_request(slot, measurements);
      const auto end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (tx_flags_[slot] == 0)
        assert(std::chrono::steady_clock::now() < end);
      uint8_t correction = 0;
      std::uint32_t result_len = 0;
      ASSERT_EQ(read_rpc_response(slot, correction, nullptr, &result_len), true);
      ASSERT_EQ(correction, static_cast<uint8_t>(round + 1));
      ASSERT_EQ(result_len, 1u);
      tx_flags_[slot] = 0;
    }
    std::uint64_t processed = 0;
    ASSERT_EQ(cudaq_dispatcher_get_processed(dispatcher_, &processed), CUDAQ_OK);
    ASSERT_EQ(processed, 3 * num_slots_);
  }

  void tear_down() {
    shutdown_flag_ = 1;
    __sync_synchronize();
    ASSERT_EQ(cudaq_dispatcher_stop(dispatcher_), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatcher_destroy(dispatcher_), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatch_manager_destroy(manager_), CUDAQ_OK);
    std::free(entries_);
    std::free(rx_data_);
    std::free(tx_data_);
    delete[] rx_flags_;
    delete[] tx_flags_;
  }

  // The unified mode, in both signatures: each piece of the wiring is wanted, ring and launch function of a ring are not. On a GPU the
  // start calls the launch function once, with what was wired; without one it fails, and calls nothing.
  static void unified() {
    cudaq_dispatch_manager_t *manager = nullptr;
    cudaq_dispatcher_t *dispatcher = nullptr;
    ASSERT_EQ(cudaq_dispatch_manager_create(&manager), CUDAQ_OK);
    cudaq_dispatcher_config_t config{};
    config.device_id = 0;
    config.kernel_type = CUDAQ_KERNEL_UNIFIED;
    config.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
    Launched ctx;
    cudaq_function_entry_t entry{};
    cudaq_function_table_t table{&entry, 1};
    volatile int shutdown = 0;
    std::uint64_t stats = 0;
    ASSERT_EQ(cudaq_dispatcher_create(manager, &config, &dispatcher), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatcher_set_unified_launch(dispatcher, &a_launch_v1, &ctx), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatcher_set_unified_launch(dispatcher, &a_launch_v2, &ctx), CUDAQ_OK);
    cudaq_unified_dispatch_ctx_t bundle{};
#if CUDAQ_REALTIME_API_VERSION >= 2
    bundle.launch_fn = &a_launch_v2;
#else
    bundle.launch_fn = &a_launch_v1;
#endif
    bundle.transport_ctx = &ctx;
    ASSERT_EQ(cudaq_dispatcher_set_unified_launch(dispatcher, bundle.launch_fn, nullptr), CUDAQ_ERR_INVALID_ARG);
    ASSERT_EQ(cudaq_dispatcher_set_launch_fn(dispatcher, &cudaq_launch_dispatch_kernel_regular), CUDAQ_ERR_INVALID_ARG);
    ASSERT_EQ(cudaq_dispatcher_start(dispatcher), CUDAQ_ERR_INVALID_ARG);
    ASSERT_EQ(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatcher_start(dispatcher), CUDAQ_ERR_INVALID_ARG);
    ASSERT_EQ(cudaq_dispatcher_set_function_table(dispatcher, &table), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatcher_set_unified_launch(dispatcher, bundle.launch_fn, bundle.transport_ctx), CUDAQ_OK);
    if (cudaq_dispatcher_start(dispatcher) == CUDAQ_OK) {
      ASSERT_EQ(ctx.calls, 1);
      ASSERT_EQ(ctx.table == &entry && ctx.count == 1 && ctx.shutdown == &shutdown && ctx.stats == &stats, true);
      ASSERT_EQ(cudaq_dispatcher_stop(dispatcher), CUDAQ_OK);
    } else {
      ASSERT_EQ(ctx.calls, 0);
      ASSERT_EQ(std::strlen(ringcall_last_error()) > 0, true);
    }
    ASSERT_EQ(cudaq_dispatcher_destroy(dispatcher), CUDAQ_OK);
    ASSERT_EQ(cudaq_dispatch_manager_destroy(manager), CUDAQ_OK);
  }

  // Dispatch graphs, in both signatures: refused, since there is nothing to dispatch.
  static void graphs() {
    cudaq_dispatch_graph_context *context = nullptr;
    cudaStream_t stream = nullptr;
    cudaGraphExec_t trigger = nullptr;
    ASSERT_EQ(cudaq_create_dispatch_graph_regular(nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, 0, nullptr, nullptr,
                                                  nullptr, 0, 1, 32, stream, &context) == 0,
              false);
    ASSERT_EQ(cudaq_create_dispatch_graph_regular(nullptr, nullptr, nullptr, nullptr, 0, 0, nullptr, 0, nullptr, nullptr,
                                                  nullptr, 0, 1, 32, trigger, stream, &context) == 0,
              false);
    ASSERT_EQ(cudaq_launch_dispatch_graph(context, stream) == 0, false);
    ASSERT_EQ(cudaq_destroy_dispatch_graph(context) == 0, false);
  }

private:
  static constexpr std::size_t num_slots_ = 4, slot_size_ = 256;
  static constexpr std::uint32_t func_count_ = 1;
  volatile std::uint64_t *rx_flags_ = nullptr, *tx_flags_ = nullptr;
  std::uint8_t *rx_data_ = nullptr, *tx_data_ = nullptr;
  void *entries_ = nullptr;
  cudaq_dispatch_manager_t *manager_ = nullptr;
  cudaq_dispatcher_t *dispatcher_ = nullptr;
  volatile int shutdown_flag_ = 0;
  std::uint64_t stats_ = 0;
};

} // namespace

int main() {
  Wiring wiring;
  wiring.set_up();
  wiring.exercise();
  wiring.tear_down();
  Wiring::unified();
  Wiring::graphs();
  std::puts("ok");
  return 0;
}
