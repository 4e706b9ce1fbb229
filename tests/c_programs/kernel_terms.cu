// A program in the terms of dispatch_kernel.cuh: compiled and linked by nvcc against the compatible tree, not run.
#include "cudaq/realtime/daemon/dispatcher/dispatch_kernel.cuh"
#include <type_traits>
using namespace cudaq::realtime;
template <class K> __global__ void kernel(int *x){ K::sync(); if (K::is_cooperative) x[0]=1; }
struct Context { cudaGraphExec_t graph_exec; cudaStream_t stream; int n; };
__device__ void handler(Context &c, int k){ c.n += k; }
__global__ void call(Context c){ DeviceCallMode::dispatch(handler, c, 3); GraphLaunchMode::dispatch(c); }
static_assert(!RegularKernel::is_cooperative && CooperativeKernel::is_cooperative, "");
int main(){ (void)&launch_dispatch_kernel_regular_inline; (void)&launch_dispatch_kernel_cooperative_inline; int n; kernel<RegularKernel><<<1,1>>>(&n); kernel<CooperativeKernel><<<1,1>>>(&n); call<<<1,1>>>(Context{}); }
