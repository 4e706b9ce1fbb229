//! Compiles the handlers for devices, where this machine has a compiler for that.

fn main() {
    ringcall_build::handlers("../device").build();
}
