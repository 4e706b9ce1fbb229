// The dispatch kernels' host stubs. The bodies here are thrown away: `cargo xtask dist --device` puts the PTX of record,
// which is Rust's, in the place of what this compiles to, and lets the compiler's own tools do the rest.

// ringcall_wire::launch::DispatchParams: 128 bytes, by value.
struct alignas(8) DispatchParams {
  unsigned char bytes[128];
};

extern "C" __global__ void ringcall_dispatch(DispatchParams) {}
extern "C" __global__ void ringcall_dispatch_grid(DispatchParams) {}
extern "C" __global__ void ringcall_dispatch_graph(DispatchParams) {}
