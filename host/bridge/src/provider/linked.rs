//! A [`Wire`] as a provider in both modes of the interface.

use super::hooks::Hooks;
use super::{Args, ProviderTransport};
use crate::Refused;
use ringcall::external::BadRequests;
use ringcall::{Ring, RingConfig};
use ringcall_gpu::shared::Region;
use ringcall_protocol::ring::RingWindows;
use ringcall_protocol::{RingMemory, SharedRing};
use ringcall_transport::{
    Link, RingFilling, ThreadOptions, Threaded, TransportAddress, TransportStats, TransportWatch,
    UnifiedTransport, Wire,
};
use std::fmt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// Makes a wire from a provider's arguments; [`Linked`] is the provider.
pub trait LinkedWire: 'static {
    /// The name, for messages.
    const NAME: &'static str;

    /// The type of the wire.
    type Wire: Wire + 'static;

    /// The default ring: 8 slots of 256 bytes, as in the reference's providers.
    const SHAPE: RingConfig = RingConfig { slots: 8, slot_bytes: 256 };

    /// Allocates the ring. By default it is in ordinary host memory, and `--pinned-rings` is refused.
    ///
    /// # Errors
    /// An invalid shape, not enough memory, or a kind of memory that this provider does not have.
    fn memory(args: &Args, config: RingConfig) -> Result<Ring, Refused> {
        if args.flag("--pinned-rings") {
            return Err(Refused::unsupported(
                "--pinned-rings: this provider's rings are ordinary host memory",
            ));
        }
        Ring::allocate(config).map_err(|error| Refused::invalid(error.to_string()))
    }

    /// Makes the wire, at the address of `before` if that is given.
    ///
    /// # Errors
    /// Invalid arguments, or the operating system's error.
    fn bind(args: &Args, ring: RingConfig, before: Option<&TransportAddress>) -> Result<Self::Wire, Refused>;
}

/// The arguments common to every [`Linked`].
///
/// | argument | meaning | default |
/// |---|---|---|
/// | `--num-slots=N` | slots of the ring | [`LinkedWire::SHAPE`] |
/// | `--slot-size=BYTES` | bytes of a slot, header included: a multiple of 8, at least 24 | the same |
/// | `--unified` | no threads: the user polls and publishes by the data plane's hooks | threads fill the ring |
/// | `--stop-ms=MS` | how long `disconnect` waits for requests in flight | 1000 |
/// | `--core=N` | the core to which the thread is pinned | none |
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LinkedArguments {
    /// Slots and their bytes.
    pub ring: RingConfig,
    /// Whether the user polls and publishes.
    pub unified: bool,
    /// How long a disconnection waits.
    pub stop: Duration,
    /// The thread's core.
    pub core: Option<usize>,
}

impl LinkedArguments {
    /// Reads the arguments.
    ///
    /// # Errors
    /// A value that is not a number.
    pub fn read(args: &Args, default: RingConfig) -> Result<Self, Refused> {
        let core = args.value("--core").map(|_| args.number("--core", 0)).transpose()?;
        Ok(Self {
            ring: RingConfig {
                slots: args.number("--num-slots", default.slots)?,
                slot_bytes: args.number("--slot-size", default.slot_bytes)?,
            },
            unified: args.flag("--unified"),
            stop: Duration::from_millis(args.number("--stop-ms", 1000)?),
            core,
        })
    }
}

/// A provider made of a wire.
///
/// - **Ring buffer** (without `--unified`): `launch` starts a thread that fills the ring and sends its answers.
///   `disconnect` stops it; `connect` then binds the same address again, on the same ring.
/// - **Data plane** (with `--unified`): no thread. The hooks work from creation on, even without `connect` and
///   `launch`. Slots are given out in the order in which they become free, each with the address of the peer that
///   asked; a request that the user drops is answered `ABANDONED`. Requests in flight at `disconnect` are answered
///   `SHUTTING_DOWN`, and `connect` then begins with every slot free and every response flag 0.
///
/// All promises of [`Link`] hold: frames are checked before they get a slot, no request stalls another, and every frame
/// is accounted for.
pub struct Linked<P: LinkedWire> {
    args: Args,
    shape: LinkedArguments,
    inner: Ring,
    /// The same slots with the user's flags; equal to `inner` if a thread fills the ring.
    outer: SharedRing,
    state: Mutex<State<P::Wire>>,
    known: Mutex<(TransportAddress, TransportWatch)>,
}

enum State<W: Wire> {
    Bound(Box<Link<W>>),
    Running(Box<Threaded>),
    /// With `--unified`, launched or not.
    Polled {
        hooks: Box<Hooks<W>>,
        launched: bool,
    },
    Stopped,
}

impl<W: Wire> State<W> {
    fn name(&self) -> &'static str {
        match self {
            Self::Bound(_) | Self::Polled { launched: false, .. } => "not launched",
            Self::Running(_) | Self::Polled { .. } => "launched",
            Self::Stopped => "disconnected",
        }
    }

    /// Ready to be launched; with `--unified`, the user may begin to poll.
    fn begin(link: Link<W>, shape: LinkedArguments, inner: &Ring, outer: &SharedRing) -> Self {
        if !shape.unified {
            return Self::Bound(Box::new(link));
        }
        let hooks = Hooks::new(link, inner.shared().clone(), outer.clone());
        Self::Polled { hooks: Box::new(hooks), launched: false }
    }

    fn refuse<T>(&self, call: &str) -> Result<T, Refused> {
        Err(Refused::invalid(format!("{call}: it is {}", self.name())))
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn attach<P: LinkedWire>(
    args: &Args,
    ring: RingConfig,
    memory: &Ring,
    before: Option<&TransportAddress>,
) -> Result<Link<P::Wire>, Refused> {
    let bad_requests = BadRequests::from_environment().map_err(Refused::invalid)?;
    let link = Link::attach(P::bind(args, ring, before)?, memory)?;
    Ok(link.drop_bad_requests(bad_requests == BadRequests::Drop))
}

impl<P: LinkedWire> ProviderTransport for Linked<P> {
    const NAME: &'static str = P::NAME;

    fn create(args: &Args) -> Result<Self, Refused> {
        let shape = LinkedArguments::read(args, P::SHAPE)?;
        let inner = P::memory(args, shape.ring)?;
        let outer =
            if shape.unified { with_flags_of_its_own(inner.shared())? } else { inner.shared().clone() };
        let link = attach::<P>(args, shape.ring, &inner, None)?;
        let known = Mutex::new((link.endpoint().clone(), link.watch()));
        let state = Mutex::new(State::begin(link, shape, &inner, &outer));
        Ok(Self { args: args.clone(), shape, inner, outer, state, known })
    }

    fn ring(&self) -> Result<SharedRing, Refused> {
        if self.shape.unified {
            return Err(Refused::unsupported("with --unified nobody fills a ring: take the data plane"));
        }
        Ok(self.outer.clone())
    }

    fn dataplane(&self) -> Result<SharedRing, Refused> {
        if !self.shape.unified {
            return Err(Refused::unsupported(
                "without --unified a thread fills the ring: take the ring buffer",
            ));
        }
        Ok(self.outer.clone())
    }

    fn connect(&self) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        match &*state {
            State::Bound(_) | State::Polled { launched: false, .. } => Ok(()),
            State::Stopped => {
                let mut known = lock(&self.known);
                let link = attach::<P>(&self.args, self.shape.ring, &self.inner, Some(&known.0))?;
                *known = (link.endpoint().clone(), link.watch());
                *state = State::begin(link, self.shape, &self.inner, &self.outer);
                Ok(())
            }
            other => other.refuse("connect"),
        }
    }

    fn launch(&self) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Stopped) {
            State::Polled { hooks, launched: false } => {
                *state = State::Polled { hooks, launched: true };
                Ok(())
            }
            State::Bound(link) => {
                let options = ThreadOptions { core: self.shape.core, ..ThreadOptions::default() };
                let threaded = Threaded::start(*link, &options)?;
                if !threaded.pin().took() {
                    // The thread serves even if it is not pinned, and the interface has no field to report that.
                    eprintln!("ringcall: {}", threaded.pin());
                }
                *state = State::Running(Box::new(threaded));
                Ok(())
            }
            other => {
                *state = other;
                state.refuse("launch")
            }
        }
    }

    fn disconnect(&self) -> Result<(), Refused> {
        self.stop(self.shape.stop)
    }

    fn stop(&self, deadline: Duration) -> Result<(), Refused> {
        let mut state = lock(&self.state);
        match std::mem::replace(&mut *state, State::Stopped) {
            State::Bound(_) => Ok(()),
            State::Running(threaded) => {
                let report = threaded.stop(deadline);
                if report.stuck { Err(Refused::internal("the thread does not end")) } else { Ok(()) }
            }
            State::Polled { hooks, .. } => {
                hooks.end();
                Ok(())
            }
            State::Stopped => State::<P::Wire>::Stopped.refuse("disconnect"),
        }
    }

    fn endpoint_info(&self) -> Result<String, Refused> {
        let endpoint = &lock(&self.known).0;
        let ip = endpoint.address.ip();
        // The reference's line has no address, and stands for this one.
        Ok(if ip == std::net::Ipv4Addr::LOCALHOST {
            endpoint.to_string()
        } else {
            format!("{endpoint} ip={ip}")
        })
    }

    fn geometry(&self) -> Result<(u32, u32), Refused> {
        Ok((self.shape.ring.slots, self.shape.ring.slot_bytes))
    }

    fn rx_poll(&self) -> Option<u32> {
        match &mut *lock(&self.state) {
            State::Polled { hooks, .. } => hooks.poll(),
            _ => None,
        }
    }

    fn tx_publish(&self, slot: u32) -> Result<(), Refused> {
        match &mut *lock(&self.state) {
            State::Polled { hooks, .. } => hooks.publish(slot),
            other => other.refuse("tx_publish"),
        }
    }

    fn stats(&self) -> Option<TransportStats> {
        let watch = lock(&self.known).1.clone();
        Some(watch.stats())
    }

    fn close(&self) -> Result<(), Refused> {
        match &mut *lock(&self.state) {
            State::Polled { hooks, .. } => hooks.link.close(),
            other => return other.refuse("close"),
        }
        Ok(())
    }

    fn wait(&self, at_most: Duration) -> bool {
        match &mut *lock(&self.state) {
            State::Polled { hooks, .. } => hooks.link.doze(at_most),
            _ => false,
        }
    }
}

/// The same slots with other flags.
fn with_flags_of_its_own(ring: &SharedRing) -> Result<SharedRing, Refused> {
    let geometry = ring.geometry();
    let slots = geometry.slots();
    let flags = || {
        let region = Region::zeroed(slots as usize * 8)?;
        region.words(0, slots as usize)
    };
    let windows = RingWindows {
        rx_flags: flags().map_err(|e| Refused::internal(e.to_string()))?,
        tx_flags: flags().map_err(|e| Refused::internal(e.to_string()))?,
        ..ring.windows()
    };
    SharedRing::new(slots, geometry.rx_stride(), geometry.tx_stride(), windows, None)
        .map_err(|e| Refused::internal(e.to_string()))
}

impl<P: LinkedWire> fmt::Debug for Linked<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Linked").field("name", &P::NAME).field("shape", &self.shape).finish_non_exhaustive()
    }
}
