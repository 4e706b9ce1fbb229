// Host stubs of dispatch kernels: KERNELS names them, as KERNEL(name) each, and BYTES is the size of their parameters. The bodies here are
// thrown away: `cargo xtask dist --device` puts the kernels' committed PTX, which is Rust's, in place of what this compiles to, and lets
// the compiler's own tools do the rest.

// ringcall_wire::launch::DispatchParams, or ringcall_wire::unified's UnifiedParams or RelayParams, by value.
struct alignas(8) Params {
  unsigned char bytes[BYTES];
};

#define KERNEL(name) extern "C" __global__ void name(Params) {}
KERNELS
