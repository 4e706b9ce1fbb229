// What the examples of kernels on an adapter's queues share: a dispatcher wired to them, and a peer that asks.
#pragma once
#include "parity.cuh"
#include "ringcall_hsb.h"

#include <arpa/inet.h>

constexpr std::uint32_t pages = 64;
constexpr std::size_t page_bytes = 256;

// The peer writes `requests` requests into pages, and the kernels that `launch` starts answer them from the queues of `transceiver` with a
// handler of this program.
inline void serve_queues(ringcall_hsb_t transceiver, decltype(&HSB_launch_unified_dispatch) launch,
                         std::uint32_t requests) {
  HSB_doca_transport_ctx ctx{};
  ctx.gpu_dev_qp = HSB_get_gpu_dev_qp(transceiver);
  ctx.rx_ring_data = HSB_get_rx_ring_data_addr(transceiver);
  ctx.rx_ring_stride_sz = HSB_get_page_size(transceiver);
  ctx.rx_ring_mkey = htonl(HSB_get_rkey(transceiver));
  ctx.rx_ring_stride_num = HSB_get_num_pages(transceiver);
  ctx.frame_size = page_bytes;

  ParityTable table;
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
  CHECK(cudaq_dispatcher_set_unified_launch(dispatcher, launch, &ctx));
  CHECK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  CHECK(cudaq_dispatcher_set_control(dispatcher, shutdown_flag.device, stats.device));

  // The number, from 1, of the request that is under way in each page; 0 without one. Answers need not come in the requests' order.
  std::uint32_t under_way[pages] = {};
  // Two launches: the second goes on in the queues where the first has ended.
  std::uint32_t sent = 0, answered = 0;
  for (const std::uint32_t until : {requests / 2, requests}) {
    *shutdown_flag.host = 0;
    CHECK(cudaq_dispatcher_start(dispatcher));
    for (; answered < until; ++answered) {
      std::uint8_t frame[page_bytes] = {};
      for (; sent < until && under_way[sent % pages] == 0; ++sent) {
        const std::size_t bytes = write_parity_request(frame, sizeof frame, sent);
        CHECK(ringcall_hsb_write(transceiver, sent % pages, frame, bytes));
        under_way[sent % pages] = sent + 1;
      }
      std::size_t bytes = 0;
      CHECK(ringcall_hsb_receive(transceiver, frame, sizeof frame, 30000, &bytes));
      if (bytes == 0) {
        std::fprintf(stderr, "request %u: no answer\n", answered);
        std::_Exit(1); // not exit, which would wait for the kernel
      }
      cudaq::realtime::RPCResponse response;
      std::memcpy(&response, frame, sizeof response);
      std::uint32_t &page = under_way[response.request_id % pages];
      check_parity_answer(frame, page - 1);
      page = 0;
    }
    CHECK(cudaq_dispatcher_stop(dispatcher));
  }

  CHECK(cudaq_dispatcher_destroy(dispatcher));
  CHECK(cudaq_dispatch_manager_destroy(manager));
}

// How many requests the command line asks for.
inline std::uint32_t requests_of(int argc, char **argv) {
  return static_cast<std::uint32_t>(argc > 1 ? std::strtoul(argv[1], nullptr, 10) : 20000);
}
