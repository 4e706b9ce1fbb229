//! `--transport hsb`: queues that a transport context names, of an adapter or of an emulated one.

use super::{Args, DispatcherArg};
use crate::usage::misuse;
use anyhow::{Context as _, Result, bail};
use ringcall_mlx5::{BlueFlame, Endpoint};
use ringcall_rdma::context::Context;
use ringcall_rdma::devx::Library;
use ringcall_rdma::doca::{DeviceCompletions, DeviceQp, DeviceReceive, QpLayout};
use ringcall_rdma::unified::{QueuesError, UnifiedQueues};
use ringcall_sim::socket_nic::AdapterQueues;

/// The device that is none.
const EMULATED: &str = "emulated";

/// Stops with one line unless the adapter is the emulated one.
pub(super) fn check(args: &Args) -> Result<()> {
    let Some(device) = &args.device else {
        return Err(misuse("--transport hsb needs --device: an mlx5 adapter's name, or `emulated`"));
    };
    if !args.slots.is_power_of_two() || args.slots > 4096 {
        return Err(misuse("--transport hsb has a queue of a power of two of --slots, 4096 at most"));
    }
    if device != EMULATED {
        let library = Library::load().with_context(|| format!("--transport hsb --device {device}"))?;
        library.open(Some(device)).with_context(|| format!("--transport hsb --device {device}"))?;
        bail!(
            "--transport hsb --device {device}: no adapter was ever served here, and queues for a GPU are not made \
             by this command yet: give --device emulated"
        );
    }
    if args.dispatcher == Some(DispatcherArg::Device) {
        return Err(misuse(
            "the emulated adapter of --transport hsb is served by the unified loop on a CPU: leave --dispatcher out",
        ));
    }
    Ok(())
}

/// The loop's end of an emulated adapter, by way of what an adapter hands out: the bytes of a context, and of the struct that it names.
pub(super) fn wire(queues: &AdapterQueues<'_>) -> Result<Endpoint<BlueFlame>, String> {
    let [context, pair] = hand_out(queues);
    over(queues, &context, &pair).map_err(|error| error.to_string())
}

fn over(queues: &AdapterQueues<'_>, context: &[u8], pair: &[u8]) -> Result<Endpoint<BlueFlame>, QueuesError> {
    let pair = QpLayout::SDK.read(pair)?;
    UnifiedQueues::new(&Context::of_any_form(context)?, &pair)?.emulated(queues.windows, queues.uar)
}

/// Context and struct of an emulated adapter.
fn hand_out(queues: &AdapterQueues<'_>) -> [Vec<u8>; 2] {
    let AdapterQueues { config, windows, uar } = queues;
    let entries = |words: usize, each: usize| u32::try_from(words / each).unwrap_or(u32::MAX);
    let completions = |window: &ringcall_gpu::shared::Words| DeviceCompletions {
        address: window.address(),
        entries: entries(window.len(), ringcall_mlx5::layout::cqe::WORDS),
    };
    let record = windows.record.address();
    let pair = DeviceQp {
        number: config.qpn,
        send: windows.send.address(),
        send_entries: entries(windows.send.len(), ringcall_mlx5::layout::wqe::WORDS),
        send_record: record + ringcall_mlx5::layout::RECORD_SEND as u64,
        doorbell: uar.address(),
        send_completions: completions(&windows.tx_completions),
        receive: Some(DeviceReceive {
            address: windows.receive.address(),
            entries: entries(windows.receive.len(), ringcall_mlx5::layout::RECEIVE_WQE_WORDS),
            record,
            completions: completions(&windows.rx_completions),
        }),
    };
    let context = Context {
        // Not followed: the struct is handed over beside it.
        qp: windows.send.address(),
        rx_data: windows.rx_data.address(),
        rx_stride: config.rx_stride.into(),
        slots: config.slots,
        tx_data: windows.tx_data.address(),
        tx_stride: config.tx_stride.into(),
        tx_mkey: config.tx_lkey.to_be(),
        frame_bytes: config.tx_stride.into(),
        ..Context::empty()
    };
    [context.to_bytes().to_vec(), QpLayout::SDK.write(&pair)]
}
