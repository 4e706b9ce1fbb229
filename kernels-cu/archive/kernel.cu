// A dispatch kernel's host stub; KERNEL is its name, BYTES the size of its parameters. The body here is thrown away: `cargo xtask dist --device` puts the
// kernel's committed PTX, which is Rust's, in place of what this compiles to, and lets the compiler's own tools do the
// rest.

// ringcall_wire::launch::DispatchParams, or ringcall_wire::unified::UnifiedParams, by value.
struct alignas(8) Params {
  unsigned char bytes[BYTES];
};

extern "C" __global__ void KERNEL(Params) {}
