// The launch functions of unified dispatch for programs that link their handlers with the unified kernel: an object of its own, so that the
// kernel is linked only into programs that name one of them.

#include <cuda_runtime.h>

#include "ringcall_hsb.h"

// ringcall_wire::unified::UnifiedParams.
struct alignas(8) UnifiedParams {
  unsigned char bytes[248];
};
extern "C" __global__ void ringcall_unified(UnifiedParams);

// libringcall's side (host/c/src/hsb/api.rs).
extern "C" int ringcall_linked_unified(int later, int device, cudaFunction_t function, void *transport_ctx,
                                       size_t tx_stride_sz, cudaq_function_entry_t *function_table, size_t func_count,
                                       volatile int *shutdown_flag, uint64_t *stats);

namespace {

void launch(int later, void *transport_ctx, size_t tx_stride_sz, cudaq_function_entry_t *function_table,
            size_t func_count, volatile int *shutdown_flag, uint64_t *stats) {
  int device = 0;
  cudaFunction_t function = nullptr;
  // Null without a kernel on the current device: the library says what is wrong.
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaGetFuncBySymbol(&function, reinterpret_cast<const void *>(&ringcall_unified)) != cudaSuccess)
    function = nullptr;
  ringcall_linked_unified(later, device, function, transport_ctx, tx_stride_sz, function_table, func_count,
                          shutdown_flag, stats);
}

} // namespace

extern "C" {

void HSB_launch_unified_dispatch(void *transport_ctx, cudaq_function_entry_t *function_table, size_t func_count,
                                 volatile int *shutdown_flag, uint64_t *stats, cudaStream_t) {
  launch(0, transport_ctx, 0, function_table, func_count, shutdown_flag, stats);
}

void HSB_launch_unified_dispatch_v2(void *transport_ctx, size_t tx_stride_sz, cudaq_function_entry_t *function_table,
                                    size_t func_count, volatile int *shutdown_flag, uint64_t *stats, cudaStream_t) {
  launch(1, transport_ctx, tx_stride_sz, function_table, func_count, shutdown_flag, stats);
}
}
