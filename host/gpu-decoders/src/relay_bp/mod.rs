//! Relay-BP on a GPU: one shot by a cluster of blocks, or by several that race, with the answers of `ringcall-bp` to the bit.
//!
//! A request is a shot's detectors, bit-packed; an [`Answer`] is the observables that the error found flips, with what the decode came
//! to. Time to answer is bounded by the iterations of the [configuration](ringcall_bp::BpConfig), by a [deadline](Bounds::deadline) and by a
//! [flag](CancelFlag) that the host raises. A decode that does not converge says so and gives its best guess.
//!
//! The kernel is CUDA C++ (`kernels-cu/relay`), compiled to PTX that is committed; nothing here needs a CUDA toolkit. It uses what compute
//! capability 9.0 and later have: an older device is refused by name.
//!
//! | what | where |
//! |---|---|
//! | a decoder inside the cooperative dispatcher | [`GridHandler`] |
//! | a decoder as a captured graph, for one thread each | [`GpuModel`] |
//! | bytes of answers | [`AnswerLayout`] |
//! | which graphs fit | [`ringcall_bp::kernel`] |

mod answer;
mod cancel;
mod error;
mod grid;
mod launch;
mod loaded;
mod model;
mod params;
mod shapes;

pub use answer::{Answer, AnswerLayout, Ended};
pub use cancel::CancelFlag;
pub use error::GpuError;
pub use grid::GridHandler;
pub use loaded::Bounds;
pub use model::GpuModel;
