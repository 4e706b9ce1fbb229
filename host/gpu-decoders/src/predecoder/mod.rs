//! The predecoder network on a GPU, batch 1: four layers of up to 128 channels in one kernel, in integers; every other depth and
//! width, also in halves, in a kernel for each layer.
//!
//! [`Network`] holds 3x3x3 convolutions from 4 channels to 4, with bytes or halves between, as they come in an ONNX
//! file. [`GpuModel`] is that network on a device, for one volume of `layers` times `d` by `d` cells: a
//! [`Model`](ringcall_infer::Model) like any other, whose engines replay a captured graph.
//!
//! The kernels are CUDA C++ (`kernels-cu/predecoder`, `kernels-cu/layers`), compiled to PTX that is committed; nothing here needs a
//! CUDA toolkit. The one kernel uses what only compute capability 9.0 has: another device is refused by name.
//!
//! | what | where |
//! |---|---|
//! | the weights, from a file | [`Network`] |
//! | a model on a device | [`GpuModel`] |
//! | which bits it sees, and what its decisions flip | [`Wiring`] |
//! | the same inside the cooperative dispatcher | [`GridHandler`] |
//! | the same as nodes of another graph | [`GpuRun`] |
//! | the same as a graph that a dispatcher launches, and that raises a flag | [`GpuModel::lane`] |
//! | how the work is spread, over which part of the device | [`Shape`], [`Share`] |

mod buffers;
mod captured;
mod grid;
mod halves;
mod kernels;
mod launch;
mod layer;
mod layers;
mod loaded;
mod model;
mod network;
mod onnx;
mod pack;
mod plan;
mod share;
mod wiring;

pub use captured::GpuRun;
pub use grid::GridHandler;
pub use layer::{HalfLayer, Layer, NetworkError};
pub use loaded::GpuError;
pub use model::GpuModel;
pub use network::{INPUTS, Network, OUTPUTS, WIDTH};
pub use plan::Shape;
pub use share::Share;
pub use wiring::{Wiring, WiringError};
