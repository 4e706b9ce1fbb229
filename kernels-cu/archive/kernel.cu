// A dispatch kernel's host stub; KERNEL is its name. The body here is thrown away: `cargo xtask dist --device` puts the
// kernel's committed PTX, which is Rust's, in place of what this compiles to, and lets the compiler's own tools do the
// rest.

// ringcall_wire::launch::DispatchParams: 128 bytes, by value.
struct alignas(8) DispatchParams {
  unsigned char bytes[128];
};

extern "C" __global__ void KERNEL(DispatchParams) {}
