//! Description of the machine on which figures are measured.

use procfs::Current;

/// The processor's model and the number of usable cores.
pub(crate) fn describe() -> String {
    let cpu = procfs::CpuInfo::current().ok();
    let model = cpu.as_ref().and_then(|cpu| cpu.model_name(0).map(str::to_owned));
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    format!("{}, {cores} cores", model.unwrap_or_else(|| std::env::consts::ARCH.to_owned()))
}
