//! Three kernels in place of one: a receiver that fills a ring from a queue pair, a dispatcher of the ring, and a
//! sender of its answers.
//!
//! The ring is in the device's memory, except its request slots, which are the slots of the queue pair that a NIC
//! writes. Any [dispatcher](crate::ring) serves the ring, with any kernel and functions. Answers are sent in the
//! order in which they are ready, so a slow function delays no other request. In a [unified](crate::queue_pair)
//! dispatcher it does.
//!
//! ```no_run
//! use ringcall_launch::queue_pair::{MappedQueues, Shape};
//! use ringcall_launch::relay::{RelayDispatcher, RelayOptions};
//! use ringcall_launch::ring::{Functions, Modules};
//! # use ringcall_cuda::driver::Context;
//! # fn serve(context: &std::sync::Arc<Context>, shape: Shape) -> Result<(), Box<dyn std::error::Error>> {
//! # let (handlers, ptx) = ([] as [ringcall_handler::Handler; 0], "");
//! // `shape.config.record` is `RecordMode::NotWritten`: both kernels work one queue pair.
//! let queues = MappedQueues::allocate(context, shape)?;
//! let functions = Functions::new().handlers(&handlers);
//! let modules = Modules::new().ptx("my handlers", ptx);
//! let options = RelayOptions::default();
//! let dispatcher = RelayDispatcher::wire(queues.pair(), None, functions, modules, options)?.start()?;
//! let stopped = dispatcher.stop(std::time::Duration::from_millis(50));
//! assert!(stopped.report.is_clean());
//! # Ok(())
//! # }
//! ```

mod agent;
mod linked;
mod stop;

pub use linked::RelayKernels;
pub use stop::{RelayReport, RelayStopped};

use crate::queue_pair::{Claimed, QueuePair};
use crate::ring::{
    Addresses, DeviceDispatcher, DeviceError, DeviceRing, DispatcherOptions, Functions, KernelKind, Modules,
    Running as DispatcherRunning, Snapshot, Watch, Wired as DispatcherWired,
};
use agent::{Agent, AgentKernel, Events, Launched};
use ringcall_cuda::driver::{DeviceBuffer, Kernel, Module};
use ringcall_dispatcher::queue_pair::single::Extent;
use ringcall_dispatcher::relay::CREDITS_PER_SLOT;
use ringcall_mlx5::Event;
use ringcall_mlx5::endpoint::Config;
use ringcall_mlx5::rq::Buffers;
use ringcall_mlx5::sq::RecordMode;
use ringcall_protocol::Geometry;
use std::sync::Arc;

/// Options of three kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RelayOptions {
    /// The dispatcher between the two others.
    pub dispatcher: DispatcherOptions,
    /// Lengths of requests.
    pub extent: Extent,
}

impl Default for RelayOptions {
    fn default() -> Self {
        Self { dispatcher: DispatcherOptions::new(KernelKind::regular()), extent: Extent::Received }
    }
}

/// Not running.
#[derive(Debug)]
pub struct Wired {
    dispatcher: DeviceDispatcher<DispatcherWired>,
}

/// Running. The receiver is dropped first.
#[derive(Debug)]
pub struct Running {
    receiving: Launched,
    dispatcher: DeviceDispatcher<DispatcherRunning>,
    sending: Launched,
}

/// Three kernels on the queues of a NIC, before or after they run.
///
/// If running kernels are dropped without a [`stop`](RelayDispatcher::stop), the drop tells them to end and waits at
/// most a tenth of a second for each. Everything that a kernel uses which still runs then is kept until the process
/// ends.
#[derive(Debug)]
#[must_use]
pub struct RelayDispatcher<State = Wired> {
    receiver: Agent,
    sender: Agent,
    /// Requests that dispatchers with other functions answered before this one.
    answered_before: u64,
    state: State,
}

/// Refuses queue pairs that the two kernels cannot use.
fn check(receive: &Config, send: &Config, one: bool) -> Result<(), DeviceError> {
    let shape = |why: String| Err(DeviceError::Shape(why));
    if one && receive.record != RecordMode::NotWritten {
        return shape(
            "two kernels work one queue pair, and its doorbell record has one writer: give two queue pairs, or one whose NIC \
             keeps the send counter itself (RecordMode::NotWritten)"
                .to_owned(),
        );
    }
    if receive.buffers != Buffers::Credits {
        return shape(
            "a ring is filled by writes with immediate: a send would choose a slot by itself".to_owned(),
        );
    }
    if receive.depth < CREDITS_PER_SLOT * receive.slots {
        return shape(format!(
            "{} receive requests for {} slots: each slot needs {CREDITS_PER_SLOT}, for its request and the next",
            receive.depth, receive.slots
        ));
    }
    for stride in [receive.rx_stride, receive.tx_stride, send.tx_stride] {
        if !stride.is_multiple_of(16) {
            return shape(format!("slots around three kernels are multiples of 16 bytes, not {stride}"));
        }
    }
    Ok(())
}

/// Queue pairs that three kernels have claimed, and the memory of the ring between them.
struct Between<'a> {
    receive: &'a QueuePair,
    sending: &'a QueuePair,
    claims: Vec<Claimed>,
    memory: Arc<[DeviceBuffer; 3]>,
    addresses: Addresses,
}

impl<'a> Between<'a> {
    /// Checks and claims the queue pairs and allocates the ring.
    fn new(receive: &'a QueuePair, send: Option<&'a QueuePair>) -> Result<Self, DeviceError> {
        let claims = [Some(receive), send].into_iter().flatten().map(QueuePair::claim);
        let claims = claims.collect::<Result<_, _>>()?;
        let sending = send.unwrap_or(receive);
        let (context, config) = (&receive.context, &receive.config);
        check(config, &sending.config, send.is_none())?;
        let entries = sending.addresses.send_entries;
        if entries < config.slots {
            return Err(DeviceError::Shape(format!(
                "{entries} entries in the send queue for {} slots: each slot's answer needs one",
                config.slots
            )));
        }
        let slots = config.slots as usize;
        let zeroed = |bytes: usize| DeviceBuffer::zeroed(context, bytes);
        let responses = slots * sending.config.tx_stride as usize;
        let memory = Arc::new([zeroed(slots * 8)?, zeroed(slots * 8)?, zeroed(responses)?]);
        let [rx_flags, tx_flags, tx_data] = memory.each_ref().map(|buffer| buffer.address().0);
        let addresses = Addresses { rx_flags, tx_flags, rx_data: receive.addresses.rx_data, tx_data };
        Ok(Self { receive, sending, claims, memory, addresses })
    }

    /// The ring, for its dispatcher.
    fn ring(&self) -> Result<DeviceRing, DeviceError> {
        let Self { receive, sending, addresses, .. } = *self;
        let (config, Addresses { rx_data, tx_data, .. }) = (&receive.config, addresses);
        let stride = sending.config.tx_stride;
        Ok(DeviceRing {
            context: Arc::clone(&receive.context),
            geometry: Geometry::new(config.slots, config.rx_stride, stride, rx_data, rx_data, tx_data)?,
            addresses,
            rx_peer: rx_data,
            host: None,
            _owner: Arc::new((receive.clone(), Arc::clone(&self.memory))),
        })
    }

    /// Allocates receiver and sender around the ring's dispatcher; from here on the queue pairs are theirs.
    fn with(
        self,
        [receiver, sender]: [(Kernel, Option<Module>); 2],
        dispatcher: DeviceDispatcher<DispatcherWired>,
        extent: Extent,
    ) -> Result<RelayDispatcher<Wired>, DeviceError> {
        let Self { receive, sending, claims, memory, addresses } = self;
        let agent = |kernel, loaded, pair: &QueuePair| {
            let owner = Arc::new((receive.clone(), sending.clone(), Arc::clone(&memory)));
            Agent::new(kernel, loaded, pair, receive, extent, addresses, owner)
        };
        let receiver = agent(AgentKernel::Receive, receiver, receive)?;
        let sender = agent(AgentKernel::Send, sender, sending)?;
        claims.into_iter().for_each(Claimed::for_ever);
        Ok(RelayDispatcher { receiver, sender, answered_before: 0, state: Wired { dispatcher } })
    }
}

impl RelayDispatcher<Wired> {
    /// Links, loads and allocates everything that three kernels need. Requests come from `receive`; answers go to
    /// `send`, or to `receive` if `send` is `None`.
    ///
    /// # Errors
    /// A queue pair that was wired before, or one for both directions whose doorbell record is written. Fewer than two
    /// receive requests for each slot, or fewer entries of the send queue than slots. Strides that are not multiples of
    /// 16. The errors of [`DeviceDispatcher::wire`]. No memory.
    #[allow(clippy::needless_pass_by_value)] // builders end here
    pub fn wire(
        receive: &QueuePair,
        send: Option<&QueuePair>,
        functions: Functions,
        modules: Modules,
        options: RelayOptions,
    ) -> Result<Self, DeviceError> {
        let between = Between::new(receive, send)?;
        let dispatcher =
            DeviceDispatcher::wire_to(between.ring()?, &functions, &modules, options.dispatcher)?;
        let module = Modules::load_relay(&receive.context)?;
        let loaded = |kernel: AgentKernel| -> Result<_, DeviceError> {
            Ok((module.kernel(kernel.entry())?, Some(module.clone())))
        };
        let kernels = [loaded(AgentKernel::Receive)?, loaded(AgentKernel::Send)?];
        between.with(kernels, dispatcher, options.extent)
    }

    /// Launches the kernels, and waits until all of them poll. The first start posts the receive requests.
    ///
    /// # Errors
    /// A queue pair is dead, a launch fails, or a kernel refuses the queues or does not begin within a second. Then the
    /// kernels end as soon as they begin, and everything that they use is kept until the process ends.
    pub fn start(self) -> Result<RelayDispatcher<Running>, DeviceError> {
        let Self { receiver, sender, answered_before, state: Wired { dispatcher } } = self;
        for agent in [&receiver, &sender] {
            agent.check_alive()?;
        }
        // The dispatcher first: its resets wait for other kernels.
        let dispatcher = dispatcher.start()?;
        let sending = sender.launch()?;
        let receiving = receiver.launch()?;
        let state = Running { receiving, dispatcher, sending };
        Ok(RelayDispatcher { receiver, sender, answered_before, state })
    }
}

impl RelayDispatcher<Running> {
    /// Whether one of the kernels has ended by itself, well or not: a [`stop`](Self::stop) says how. Never blocks.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.receiver.has_ended() || self.state.dispatcher.has_ended() || self.sender.has_ended()
    }

    /// A handle with which any thread can watch the kernels.
    #[must_use]
    pub fn watch(&self) -> RelayWatch {
        RelayWatch {
            dispatcher: self.state.dispatcher.watch(),
            events: [self.receiver.events(), self.sender.events()],
        }
    }

    /// All counters of requests, now. Never blocks, never touches a stream.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.state.dispatcher.counters()
    }
}

impl RelayDispatcher<Wired> {
    /// All counters of requests, as they were when the kernels ended.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.state.dispatcher.counters()
    }
}

impl<State> RelayDispatcher<State> {
    /// How often something happened on the queues, as of the last turn. Never blocks, never touches a stream.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        self.receiver.events().count(event) + self.sender.events().count(event)
    }
}

/// Reads the counters of three kernels from any thread, also after they have ended.
#[derive(Debug, Clone)]
pub struct RelayWatch {
    dispatcher: Watch,
    events: [Events; 2],
}

impl RelayWatch {
    /// All counters of requests, now. Never blocks, never touches a stream.
    #[must_use]
    pub fn counters(&self) -> Snapshot {
        self.dispatcher.counters()
    }

    /// How often something happened on the queues, as of the last turn.
    #[must_use]
    pub fn event(&self, event: Event) -> u64 {
        self.events.iter().map(|events| events.count(event)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ringcall_mlx5::endpoint::ResponsePath;

    const CONFIG: Config = Config {
        qpn: 1,
        slots: 24,
        rx_stride: 64,
        tx_stride: 64,
        tx_lkey: 1,
        tx_base: 0,
        depth: 48,
        buffers: Buffers::Credits,
        sequence: false,
        reply: ResponsePath::Send,
        record: RecordMode::NotWritten,
    };

    #[test]
    fn queue_pairs_that_two_kernels_cannot_work_are_refused_by_name() {
        assert!(check(&CONFIG, &CONFIG, true).is_ok());
        let refused = |config: Config, one| check(&config, &config, one).expect_err("refused").to_string();
        let written = Config { record: RecordMode::Written, ..CONFIG };
        assert!(check(&written, &written, false).is_ok());
        assert!(refused(written, true).contains("has one writer"));
        assert!(refused(Config { depth: 47, ..CONFIG }, true).contains("47 receive requests for 24 slots"));
        assert!(refused(Config { tx_stride: 72, ..CONFIG }, true).contains("not 72"));
        let buffers = Buffers::Slots { lkey: 1, base: 0, stride: 64 };
        assert!(refused(Config { buffers, ..CONFIG }, true).contains("writes with immediate"));
    }
}
