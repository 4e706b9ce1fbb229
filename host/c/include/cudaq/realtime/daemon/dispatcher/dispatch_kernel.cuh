/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The dispatch kernels for CUDA C++: the launch functions, whose kernels are in the device archive (libringcall_device.a, or
 * libcudaq-realtime-dispatch.a of the compatible tree), and the wire structs, kernel types and dispatch modes. */
#ifndef CUDAQ_REALTIME_DISPATCH_KERNEL_CUH
#define CUDAQ_REALTIME_DISPATCH_KERNEL_CUH
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"
#include "cudaq/realtime/daemon/dispatcher/dispatch_kernel_launch.h"
#include "cudaq/realtime/daemon/dispatcher/dispatch_modes.h"
#include "cudaq/realtime/daemon/dispatcher/kernel_types.h"

#include <cstddef>
#include <cstdint>

namespace cudaq {
namespace realtime {

/// cudaq_launch_dispatch_kernel_regular under its C++ name.
inline void launch_dispatch_kernel_regular_inline(
    volatile std::uint64_t *rx_flags, volatile std::uint64_t *tx_flags, std::uint8_t *rx_data, std::uint8_t *tx_data,
    std::size_t rx_stride_sz, std::size_t tx_stride_sz, ::cudaq_function_entry_t *function_table, std::size_t func_count,
    volatile int *shutdown_flag, std::uint64_t *stats, std::size_t num_slots, std::uint32_t num_blocks,
    std::uint32_t threads_per_block, cudaStream_t stream) {
  ::cudaq_launch_dispatch_kernel_regular(rx_flags, tx_flags, rx_data, tx_data, rx_stride_sz, tx_stride_sz, function_table,
                                         func_count, shutdown_flag, stats, num_slots, num_blocks, threads_per_block,
                                         stream);
}

/// cudaq_launch_dispatch_kernel_cooperative under its C++ name.
inline void launch_dispatch_kernel_cooperative_inline(
    volatile std::uint64_t *rx_flags, volatile std::uint64_t *tx_flags, std::uint8_t *rx_data, std::uint8_t *tx_data,
    std::size_t rx_stride_sz, std::size_t tx_stride_sz, ::cudaq_function_entry_t *function_table, std::size_t func_count,
    volatile int *shutdown_flag, std::uint64_t *stats, std::size_t num_slots, std::uint32_t num_blocks,
    std::uint32_t threads_per_block, cudaStream_t stream) {
  ::cudaq_launch_dispatch_kernel_cooperative(rx_flags, tx_flags, rx_data, tx_data, rx_stride_sz, tx_stride_sz,
                                             function_table, func_count, shutdown_flag, stats, num_slots, num_blocks,
                                             threads_per_block, stream);
}

} // namespace realtime
} // namespace cudaq
#endif
