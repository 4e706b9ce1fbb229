//! The machine that figures are measured on.

use procfs::Current;

/// What the figures were measured on.
pub(crate) fn describe() -> String {
    let cpu = procfs::CpuInfo::current().ok();
    let model = cpu.as_ref().and_then(|cpu| cpu.model_name(0).map(str::to_owned));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {cores} cores", model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
}
