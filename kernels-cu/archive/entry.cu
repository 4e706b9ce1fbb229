// The launch helpers for programs that link their handlers with the dispatch kernels (nvcc -rdc=true). They name the kernel
// of the program's own module; libringcall does the rest.

#include <cuda_runtime.h>

#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

struct alignas(8) DispatchParams {
  unsigned char bytes[128];
};
extern "C" __global__ void ringcall_dispatch(DispatchParams);
extern "C" __global__ void ringcall_dispatch_grid(DispatchParams);
extern "C" __global__ void ringcall_dispatch_graph(DispatchParams);

// libringcall's side (host/c/src/device/api.rs).
extern "C" {
cudaError_t ringcall_linked_launch(int kernel, int device, cudaFunction_t function, volatile uint64_t *rx_flags,
                                   volatile uint64_t *tx_flags, uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,
                                   size_t tx_stride_sz, cudaq_function_entry_t *function_table, size_t func_count,
                                   volatile int *shutdown_flag, uint64_t *stats, size_t num_slots, uint32_t num_blocks,
                                   uint32_t threads_per_block, cudaStream_t stream);
cudaError_t ringcall_linked_graph_create(int device, cudaFunction_t function, volatile uint64_t *rx_flags,
                                         volatile uint64_t *tx_flags, uint8_t *rx_data, uint8_t *tx_data,
                                         size_t rx_stride_sz, size_t tx_stride_sz,
                                         cudaq_function_entry_t *function_table, size_t func_count, void *graph_io_ctx,
                                         volatile int *shutdown_flag, uint64_t *stats, size_t num_slots,
                                         uint32_t num_blocks, uint32_t threads_per_block, cudaGraphExec_t trigger_graph,
                                         cudaStream_t stream, cudaq_dispatch_graph_context **out_context);
cudaError_t ringcall_linked_occupancy(int kernel, int device, cudaFunction_t function, int *out_blocks,
                                      uint32_t threads_per_block);
}

namespace {

enum { REGULAR = 0, COOPERATIVE = 1, GRAPH = 2 };

/// The current device, and a kernel of this module on it (null without one: the library says what is wrong).
struct Here {
  int device = 0;
  cudaFunction_t function = nullptr;

  explicit Here(const void *kernel) {
    if (cudaGetDevice(&device) != cudaSuccess || cudaGetFuncBySymbol(&function, kernel) != cudaSuccess)
      function = nullptr;
  }
};

const void *kernel_of(int which) {
  return which == COOPERATIVE ? reinterpret_cast<const void *>(&ringcall_dispatch_grid)
                              : reinterpret_cast<const void *>(&ringcall_dispatch);
}

} // namespace

#define RINGCALL_ARGUMENTS                                                                                             \
  volatile uint64_t *rx_flags, volatile uint64_t *tx_flags, uint8_t *rx_data, uint8_t *tx_data, size_t rx_stride_sz,   \
      size_t tx_stride_sz, cudaq_function_entry_t *function_table, size_t func_count
#define RINGCALL_PASSED rx_flags, tx_flags, rx_data, tx_data, rx_stride_sz, tx_stride_sz, function_table, func_count

extern "C" {

void cudaq_launch_dispatch_kernel_regular(RINGCALL_ARGUMENTS, volatile int *shutdown_flag, uint64_t *stats,
                                          size_t num_slots, uint32_t num_blocks, uint32_t threads_per_block,
                                          cudaStream_t stream) {
  const Here here(kernel_of(REGULAR));
  ringcall_linked_launch(REGULAR, here.device, here.function, RINGCALL_PASSED, shutdown_flag, stats, num_slots,
                         num_blocks, threads_per_block, stream);
}

void cudaq_launch_dispatch_kernel_cooperative(RINGCALL_ARGUMENTS, volatile int *shutdown_flag, uint64_t *stats,
                                              size_t num_slots, uint32_t num_blocks, uint32_t threads_per_block,
                                              cudaStream_t stream) {
  const Here here(kernel_of(COOPERATIVE));
  ringcall_linked_launch(COOPERATIVE, here.device, here.function, RINGCALL_PASSED, shutdown_flag, stats, num_slots,
                         num_blocks, threads_per_block, stream);
}

cudaError_t cudaq_dispatch_kernel_query_occupancy(int *out_blocks, uint32_t threads_per_block) {
  const Here here(kernel_of(REGULAR));
  return ringcall_linked_occupancy(REGULAR, here.device, here.function, out_blocks, threads_per_block);
}

cudaError_t cudaq_dispatch_kernel_cooperative_query_occupancy(int *out_blocks, uint32_t threads_per_block) {
  const Here here(kernel_of(COOPERATIVE));
  return ringcall_linked_occupancy(COOPERATIVE, here.device, here.function, out_blocks, threads_per_block);
}

cudaError_t ringcall_dispatch_graph_query_occupancy(int *out_blocks, uint32_t threads_per_block) {
  const Here here(reinterpret_cast<const void *>(&ringcall_dispatch_graph));
  return ringcall_linked_occupancy(GRAPH, here.device, here.function, out_blocks, threads_per_block);
}

cudaError_t cudaq_create_dispatch_graph_regular(RINGCALL_ARGUMENTS, void *graph_io_ctx, volatile int *shutdown_flag,
                                                uint64_t *stats, size_t num_slots, uint32_t num_blocks,
                                                uint32_t threads_per_block, cudaGraphExec_t trigger_graph,
                                                cudaStream_t stream, cudaq_dispatch_graph_context **out_context) {
  const Here here(reinterpret_cast<const void *>(&ringcall_dispatch_graph));
  return ringcall_linked_graph_create(here.device, here.function, RINGCALL_PASSED, graph_io_ctx, shutdown_flag, stats,
                                      num_slots, num_blocks, threads_per_block, trigger_graph, stream, out_context);
}

cudaError_t cudaq_create_dispatch_graph_regular_v2(RINGCALL_ARGUMENTS, void *graph_io_ctx, volatile int *shutdown_flag,
                                                   uint64_t *stats, size_t num_slots, uint32_t num_blocks,
                                                   uint32_t threads_per_block, cudaGraphExec_t trigger_graph,
                                                   cudaStream_t stream, cudaq_dispatch_graph_context **out_context) {
  return cudaq_create_dispatch_graph_regular(RINGCALL_PASSED, graph_io_ctx, shutdown_flag, stats, num_slots, num_blocks,
                                             threads_per_block, trigger_graph, stream, out_context);
}

cudaError_t cudaq_create_dispatch_graph_regular_v1(RINGCALL_ARGUMENTS, void *graph_io_ctx, volatile int *shutdown_flag,
                                                   uint64_t *stats, size_t num_slots, uint32_t num_blocks,
                                                   uint32_t threads_per_block, cudaStream_t stream,
                                                   cudaq_dispatch_graph_context **out_context) {
  return cudaq_create_dispatch_graph_regular(RINGCALL_PASSED, graph_io_ctx, shutdown_flag, stats, num_slots, num_blocks,
                                             threads_per_block, cudaGraphExec_t{}, stream, out_context);
}
}
