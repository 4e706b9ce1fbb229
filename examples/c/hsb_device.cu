// The wiring example of unified dispatch on a GPU, over an adapter without hardware whose queues the device maps: its peer writes requests
// into pages, and the unified kernel answers them from the queues with a handler in CUDA C++. Built with nvcc -rdc=true and the device
// archive.
#include "device.h"
#include "ringcall_hsb.h"

#include <arpa/inet.h>

namespace {

constexpr std::uint32_t PARITY = cudaq::realtime::fnv1a_hash("parity");
constexpr std::uint32_t pages = 64;
constexpr std::size_t page_bytes = 256;

} // namespace

__device__ int parity_rpc(const void *input, void *output, std::uint32_t arg_len, std::uint32_t max_result_len,
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

__global__ void init_function_table(cudaq_function_entry_t *entries) {
  entries[0] = {};
  entries[0].handler.device_fn_ptr = reinterpret_cast<void *>(&parity_rpc);
  entries[0].function_id = PARITY;
  entries[0].dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
}

int main(int argc, char **argv) {
  if (!have_device())
    return 0;
  const auto requests = static_cast<std::uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20000);
  ringcall_hsb_t transceiver = nullptr;
  CHECK(ringcall_hsb_create(page_bytes, pages, 0, &transceiver));

  HSB_doca_transport_ctx ctx{};
  ctx.gpu_dev_qp = HSB_get_gpu_dev_qp(transceiver);
  ctx.rx_ring_data = HSB_get_rx_ring_data_addr(transceiver);
  ctx.rx_ring_stride_sz = HSB_get_page_size(transceiver);
  ctx.rx_ring_mkey = htonl(HSB_get_rkey(transceiver));
  ctx.rx_ring_stride_num = HSB_get_num_pages(transceiver);
  ctx.frame_size = page_bytes;

  cudaq_function_entry_t *entries = nullptr;
  CHECK_CUDA(cudaMalloc(&entries, sizeof *entries));
  init_function_table<<<1, 1>>>(entries);
  CHECK_CUDA(cudaDeviceSynchronize());
  cudaq_function_table_t table{};
  table.entries = entries;
  table.count = 1;

  Mapped<int> shutdown_flag{1};
  Mapped<std::uint64_t> stats{1};
  cudaq_dispatcher_config_t config{};
  config.device_id = 0;
  config.kernel_type = CUDAQ_KERNEL_UNIFIED;
  config.dispatch_mode = CUDAQ_DISPATCH_DEVICE_CALL;
  cudaq_dispatch_manager_t *manager = nullptr;
  cudaq_dispatcher_t *dispatcher = nullptr;
  CHECK(cudaq_dispatch_manager_create(&manager));
  CHECK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  CHECK(cudaq_dispatcher_set_unified_launch(dispatcher, &HSB_launch_unified_dispatch, &ctx));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, shutdown_flag.device, stats.device));

  // Two launches: the second goes on in the queues where the first has ended.
  std::uint32_t sent = 0, answered = 0;
  for (const std::uint32_t until : {requests / 2, requests}) {
    *shutdown_flag.host = 0;
    CHECK(cudaq_dispatcher_start(dispatcher));
    for (; answered < until; ++answered) {
      std::uint8_t frame[page_bytes] = {};
      for (; sent < until && sent - answered < pages; ++sent) {
        cudaq::realtime::RPCHeader header{cudaq::realtime::RPC_MAGIC_REQUEST, PARITY, 16, sent, 0};
        std::memset(frame, 0, sizeof header + 16);
        std::memcpy(frame, &header, sizeof header);
        frame[sizeof header + sent % 16] = static_cast<std::uint8_t>(sent);
        CHECK(ringcall_hsb_write(transceiver, sent % pages, frame, sizeof header + 16));
      }
      std::size_t bytes = 0;
      CHECK(ringcall_hsb_receive(transceiver, frame, sizeof frame, 30000, &bytes));
      cudaq::realtime::RPCResponse response;
      std::memcpy(&response, frame, sizeof response);
      if (bytes != sizeof response + 1 || response.status != 0 || response.request_id != answered ||
          frame[sizeof response] != static_cast<std::uint8_t>(answered)) {
        std::fprintf(stderr, "request %u: %zu bytes, status %d, request %u\n", answered, bytes, response.status,
                     response.request_id);
        std::_Exit(1); // not exit, which would wait for the kernel
      }
    }
    CHECK(cudaq_dispatcher_stop(dispatcher));
  }

  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
  CHECK(ringcall_hsb_destroy(transceiver));
  CHECK_CUDA(cudaFree(entries));
  std::printf("ran: %u requests answered on the device from the adapter's queues\n", answered);
  return 0;
}
