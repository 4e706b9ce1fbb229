/* SPDX-License-Identifier: Apache-2.0 OR MIT */
/* The kernel types: the enumeration is in cudaq_realtime.h; for CUDA C++ the two ways that the threads of a kernel wait for
 * each other. */
#ifndef CUDAQ_REALTIME_KERNEL_TYPES_H
#define CUDAQ_REALTIME_KERNEL_TYPES_H
#include "cudaq/realtime/daemon/dispatcher/cudaq_realtime.h"

#ifdef __CUDACC__
#include <cooperative_groups.h>

namespace cudaq {
namespace realtime {

/// A kernel whose blocks work apart: one thread of a block calls the handler, and the block's threads wait for each other.
struct RegularKernel {
  static constexpr bool is_cooperative = false;
  static __device__ void sync() { __syncthreads(); }
};

/// A kernel that is launched cooperatively: every thread of the grid calls the handler, and all wait for each other.
struct CooperativeKernel {
  static constexpr bool is_cooperative = true;
  static __device__ void sync() { cooperative_groups::this_grid().sync(); }
};

} // namespace realtime
} // namespace cudaq
#endif
#endif
