//! SIGINT and SIGTERM: during set-up they end the process at once; while a command runs, the first one asks it to
//! finish in order, and a second one ends the process.

use anyhow::{Context, Result};
use ringcall_gpu::atomic::DeviceU64;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Handle;
use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, mpsc};
use std::time::Duration;

/// The exit status of a command that a signal ended.
pub(crate) fn status(signal: usize) -> u8 {
    128_u8.saturating_add(u8::try_from(signal).unwrap_or(0))
}

/// A request to a command to finish early.
pub(crate) trait Interrupt {
    /// Marks the end of set-up. From now on the command asks about ten times a second; with `grace`, it may stay busy
    /// for so long after the request.
    fn begin(&self, grace: Option<Duration>);

    /// The signal's number, once one has come.
    fn received(&self) -> Option<usize>;

    /// Sets the last act of a command that is still busy when its grace period ends.
    fn at_the_end_of_time(&self, _: Last) {}

    /// Marks the command's regular end. Does not return if the grace period was over before: the process ends.
    fn came_to_an_end(&self) {}
}

/// The last act before the process ends.
pub(crate) type Last = Box<dyn FnOnce() + Send>;

impl Interrupt for Signals {
    fn begin(&self, grace: Option<Duration>) {
        match grace {
            Some(grace) => self.run_bounded(grace),
            None => self.run(),
        }
    }

    fn received(&self) -> Option<usize> {
        Self::received(self)
    }

    fn at_the_end_of_time(&self, last: Last) {
        *self.shared.last() = End::Open(Some(last));
    }

    fn came_to_an_end(&self) {
        let mut end = self.shared.last();
        if matches!(*end, End::Open(_)) {
            *end = End::Open(None);
            return;
        }
        drop(end);
        loop {
            std::thread::park();
        }
    }
}

/// A signal ends the running command at once.
const AT_ONCE: u64 = 2;

/// Who ends the command.
enum End {
    /// The command itself, unless its grace period ends: then this act runs.
    Open(Option<Last>),
    OutOfTime,
}

/// Listens for signals on a thread of its own.
pub(crate) struct Signals {
    shared: Arc<Shared>,
    handle: Handle,
}

struct Shared {
    received: DeviceU64,
    /// 0 during set-up; 1 if the command finishes in order after a signal.
    running: DeviceU64,
    /// The grace period in milliseconds, or 0.
    grace_ms: DeviceU64,
    end: Mutex<End>,
    /// Not 0 if a hang-up has come, which asks a service to read its configuration again.
    reload: DeviceU64,
}

impl Signals {
    /// Starts listening, once in a process. Until [`run`](Self::run) is called, a signal ends the process at once.
    pub(crate) fn listen() -> Result<Self> {
        let mut signals =
            signal_hook::iterator::Signals::new([SIGINT, SIGTERM]).context("cannot listen for signals")?;
        let handle = signals.handle();
        let shared = Arc::new(Shared {
            received: DeviceU64::new(0),
            running: DeviceU64::new(0),
            grace_ms: DeviceU64::new(0),
            end: Mutex::new(End::Open(None)),
            reload: DeviceU64::new(0),
        });
        let state = Arc::clone(&shared);
        std::thread::Builder::new()
            .name("ringcall-signals".to_owned())
            .spawn(move || signals.forever().for_each(|signal| state.take(signal)))
            .context("cannot listen for signals")?;
        Ok(Self { shared, handle })
    }

    /// From now on a hang-up no longer ends the process, and can be [taken](Self::take_reload): for a service.
    pub(crate) fn keep_hang_ups(&self) -> Result<()> {
        self.handle.add_signal(SIGHUP).context("cannot listen for signals")
    }

    /// Whether a hang-up has come since the last call.
    pub(crate) fn take_reload(&self) -> bool {
        let came = self.shared.reload.load(Ordering::Relaxed) != 0;
        if came {
            self.shared.reload.store(0, Ordering::Relaxed);
        }
        came
    }

    /// Marks the end of set-up: from now on the first signal asks the command to finish.
    pub(crate) fn run(&self) {
        self.shared.running.store(1, Ordering::Release);
    }

    /// Marks the end of set-up for a command with nothing to finish: a signal still ends the process at once.
    pub(crate) fn run_to_the_signal(&self) {
        self.shared.running.store(AT_ONCE, Ordering::Release);
    }

    /// As [`run`](Self::run), for a command whose files are complete at any moment and which may be busy for long: the
    /// process ends `grace` after a signal at the latest.
    pub(crate) fn run_bounded(&self, grace: Duration) {
        self.shared.grace_ms.store(u64::try_from(grace.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
        self.run();
    }

    /// The signal's number, once one has come.
    pub(crate) fn received(&self) -> Option<usize> {
        Some(self.shared.received.load(Ordering::Relaxed) as usize).filter(|&signal| signal != 0)
    }
}

impl Shared {
    fn last(&self) -> MutexGuard<'_, End> {
        self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(self: &Arc<Self>, signal: i32) {
        if signal == SIGHUP {
            return self.reload.store(1, Ordering::Relaxed);
        }
        let running = self.running.load(Ordering::Acquire);
        let during = if running == 0 {
            "during set-up"
        } else if running == AT_ONCE || self.received.load(Ordering::Relaxed) != 0 {
            "before it had finished"
        } else {
            self.received.store(u64::from(signal.unsigned_abs()), Ordering::Relaxed);
            let grace = self.grace_ms.load(Ordering::Relaxed);
            if grace != 0 {
                let shared = Arc::clone(self);
                let ended = std::thread::Builder::new().spawn(move || {
                    std::thread::sleep(Duration::from_millis(grace));
                    let last = std::mem::replace(&mut *shared.last(), End::OutOfTime);
                    if let End::Open(Some(last)) = last {
                        last();
                    }
                    end(signal, "before it had finished");
                });
                drop(ended);
            }
            return;
        };
        end(signal, during);
    }
}

/// How long writing the last message may take, and then the flush of standard output. It takes long only if standard
/// error is not being read, or if a thread holds standard output while its reader does not read.
const LAST_WORDS_TIMEOUT: Duration = Duration::from_secs(2);
const FLUSH_TIMEOUT: Duration = Duration::from_millis(200);

/// Ends the process: unfinished files are removed, the last message and earlier output are written, and no exit handler
/// or destructor runs. Those of libraries destroy objects that other threads, which run to the last moment, still use.
fn end(signal: i32, during: &str) -> ! {
    crate::output::discard();
    let words = format!("ringcall: stopped by signal {signal} {during}");
    let (done, written) = mpsc::channel();
    let writer = std::thread::Builder::new().spawn(move || {
        say(&words);
        let _ = done.send(());
        // Output that cannot be written now is lost.
        let _ = std::io::stdout().flush();
        let _ = done.send(());
    });
    if writer.is_ok() && written.recv_timeout(LAST_WORDS_TIMEOUT).is_ok() {
        let _ = written.recv_timeout(FLUSH_TIMEOUT);
    }
    signal_hook::low_level::exit(128 + signal)
}

fn say(words: &str) {
    let mut out = std::io::stderr();
    // Clears the rest of a progress bar's line.
    let line = if out.is_terminal() { "\r\x1b[K" } else { "" };
    let _ = out.write_all(format!("{line}{words}\n").as_bytes());
}
