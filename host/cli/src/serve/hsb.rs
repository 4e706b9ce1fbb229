//! `--transport hsb`: queues that a transport context names, of an adapter or of an emulated one.

use super::plugin::Over;
use super::{Args, TransportArg};
use crate::usage::misuse;
use anyhow::Result;
use ringcall_launch::queue_pair::{MappedQueues, QueuePair};
use ringcall_mlx5::sq::RecordMode;
use ringcall_mlx5::{BlueFlame, Endpoint, endpoint};
use ringcall_rdma::context::Context;
use ringcall_rdma::doca::QpLayout;
use ringcall_rdma::unified::{QueuesError, UnifiedQueues, addresses_of, pair_at};
use ringcall_sim::socket_nic::AdapterQueues;
use ringcall_wire::unified::UnifiedParams;

/// The name of the emulated device.
const EMULATED: &str = "emulated";

/// Refuses a missing device, and queue sizes that no adapter has.
pub(super) fn check(args: &Args) -> Result<()> {
    if args.device.is_none() {
        return Err(misuse("--transport hsb needs --device: an mlx5 adapter's name, or `emulated`"));
    }
    if !args.slots.is_power_of_two() || args.slots > 4096 {
        return Err(misuse("--transport hsb has a queue of a power of two of --slots, 4096 at most"));
    }
    Ok(())
}

/// The name of a real adapter, if one is given.
pub(super) fn adapter(args: &Args) -> Option<&str> {
    let hsb = args.transport == Over::Own(TransportArg::Hsb);
    args.device.as_deref().filter(|device| hsb && *device != EMULATED)
}

/// The endpoint of a loop over an emulated adapter's queues, made from what an adapter hands out: the bytes of a
/// context, and of the struct that it names.
pub(super) fn wire(queues: &AdapterQueues<'_>) -> Result<Endpoint<BlueFlame>, String> {
    let [context, pair] = hand_out(queues);
    over(queues, &context, &pair).map_err(|error| error.to_string())
}

fn over(queues: &AdapterQueues<'_>, context: &[u8], pair: &[u8]) -> Result<Endpoint<BlueFlame>, QueuesError> {
    let pair = QpLayout::SDK.read(pair)?;
    UnifiedQueues::new(&Context::of_any_form(context)?, &pair)?.emulated(queues.windows, queues.uar)
}

/// The queue pair of an emulated adapter for a device's kernels, made in the same way; `queues` are in memory that the
/// device maps.
pub(super) fn pair(
    device: &std::sync::Arc<ringcall_cuda::driver::Context>,
    queues: &MappedQueues,
    record: RecordMode,
) -> Result<QueuePair> {
    let [context, pair] = hand_out_addresses(queues.pair().config(), queues.pair().addresses());
    let made = UnifiedQueues::new(&Context::of_any_form(&context)?, &QpLayout::SDK.read(&pair)?)?;
    made.check_device(device.device().ordinal(), |address| device.device_of(address))?;
    // A context does not say whether the adapter keeps the send counter by itself.
    let config = endpoint::Config { record, ..made.config };
    Ok(queues.pair_of(config, &made.addresses)?)
}

/// Context and struct of an emulated adapter.
fn hand_out(queues: &AdapterQueues<'_>) -> [Vec<u8>; 2] {
    hand_out_addresses(&queues.config, &addresses_of(queues.windows, queues.uar))
}

/// Context and struct of queues with these addresses.
fn hand_out_addresses(config: &endpoint::Config, at: &UnifiedParams) -> [Vec<u8>; 2] {
    let context = Context {
        // Unused, because the struct is passed along with the context.
        qp: at.send,
        rx_data: at.rx_data,
        rx_stride: config.rx_stride.into(),
        slots: config.slots,
        tx_data: at.tx_data,
        tx_stride: config.tx_stride.into(),
        tx_mkey: config.tx_lkey.to_be(),
        frame_bytes: config.tx_stride.into(),
        ..Context::empty()
    };
    [context.to_bytes().to_vec(), QpLayout::SDK.write(&pair_at(config.qpn, at))]
}
