//! Ringcall for Python: the module `ringcall._ringcall`.
//!
//! `ringcall.Matching`, in `python/ringcall`, adds to [`matching`] what is simpler in Python: loading graphs of other packages
//! and drawing them.

mod batch;
mod client;
mod command;
mod convert;
mod graph;
mod load;
mod matching;
mod noise;
mod sampler;
mod solver;
mod stream;

use pyo3::prelude::*;

/// Sets the seed of the random numbers of `Matching.add_noise` and `rand_float`.
///
/// >>> import ringcall
/// >>> ringcall.set_seed(7)
/// >>> first = ringcall.rand_float(0, 1)
/// >>> ringcall.set_seed(7)
/// >>> first == ringcall.rand_float(0, 1)
/// True
#[pyfunction]
fn set_seed(seed: &Bound<'_, PyAny>) -> PyResult<()> {
    noise::set_seed(convert::natural("seed", seed)?);
    Ok(())
}

/// Seeds the random numbers from the system.
///
/// >>> import ringcall
/// >>> ringcall.randomize()
#[pyfunction]
fn randomize() {
    noise::randomize();
}

/// A random number between two.
///
/// >>> import ringcall
/// >>> 2 <= ringcall.rand_float(2, 3) <= 3
/// True
#[pyfunction]
#[pyo3(signature = (from_, to), text_signature = "(from, to)")]
fn rand_float(from_: &Bound<'_, PyAny>, to: &Bound<'_, PyAny>) -> PyResult<f64> {
    Ok(noise::rand_float(convert::float("from", from_)?, convert::float("to", to)?))
}

#[pymodule]
fn _ringcall(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<matching::MatchingGraph>()?;
    module.add_class::<sampler::ModelSampler>()?;
    module.add_class::<client::ServiceClient>()?;
    module.add_class::<stream::Stream>()?;
    module.add_class::<stream::Endless>()?;
    module.add_function(wrap_pyfunction!(set_seed, module)?)?;
    module.add_function(wrap_pyfunction!(randomize, module)?)?;
    module.add_function(wrap_pyfunction!(rand_float, module)?)?;
    module.add_function(wrap_pyfunction!(command::command, module)?)?;
    module.add_function(wrap_pyfunction!(command::call, module)?)?;
    Ok(())
}
