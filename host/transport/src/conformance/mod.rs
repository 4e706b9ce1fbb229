//! Conformance suite for transports (feature `testing`).
//!
//! [`check`] runs every [case](CASES) against a [`Subject`], which starts the transport on a ring and makes clients
//! that speak its wire. A case simulates the network (loss, duplicates, reordering, garbage) and, if a dispatcher has
//! to misbehave, the dispatcher. Nothing depends on time but generous deadlines against hanging.

mod faults;
mod foreign;
mod frames;
mod stops;
mod subjects;
mod trouble;

pub use faults::{Faults, Faulty, Passed};
pub use subjects::{alone, beside, datagrams, serve};

use crate::{RingFilling, TransportAddress, TransportError};
use foreign::Foreign;
use ringcall::dispatcher::Wired;
use ringcall::{FunctionTable, HostDispatcher, Ring, RingConfig};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::{FunctionId, Status};
use std::time::{Duration, Instant};

/// A transport under test.
pub trait Subject {
    /// Starts the transport on `ring`, at address `at` if given (that of an earlier start). A given dispatcher serves
    /// the ring and is stopped after the transport; without one, the suite is the dispatcher.
    ///
    /// # Errors
    /// The transport's error.
    fn start(
        &self,
        ring: &Ring,
        at: Option<&TransportAddress>,
        dispatcher: Option<HostDispatcher<Wired>>,
    ) -> Result<Box<dyn RingFilling>, TransportError>;

    /// A client of a service, with an address of its own.
    fn client(&self, service: &TransportAddress) -> Box<dyn FrameClient>;

    /// The ring on which to start the transport: a new one if the transport cannot attach to any ring.
    ///
    /// # Errors
    /// The transport's error.
    fn ring(&self, slots: u32, slot_bytes: u32) -> Result<Ring, String> {
        Ring::allocate(RingConfig { slots, slot_bytes }).map_err(text)
    }

    /// Whether a service has one client at a time, whose connection begins when the client is made. Cases with several
    /// clients at once are then left out, and a restarted service gets a new client.
    fn takes_one_client(&self) -> bool {
        false
    }

    /// Whether a request for a page in use overwrites the earlier request, as an adapter writes. Cases whose client
    /// does that are then left out.
    fn overwrites_pages(&self) -> bool {
        false
    }

    /// Whether clients name slots, so that a full ring refuses requests instead of holding them back.
    fn names_slots(&self) -> bool {
        false
    }
}

/// A client that sends and receives whole frames and keeps no records.
pub trait FrameClient {
    /// Sends a request.
    fn send(&mut self, frame: &[u8]);
    /// Sends bytes unchanged, as one packet.
    fn send_raw(&mut self, bytes: &[u8]);
    /// The next answer; `None` after `timeout`.
    fn receive(&mut self, timeout: Duration) -> Option<Vec<u8>>;
}

/// A case's result: the error says what went wrong.
pub type CaseResult = Result<(), String>;

/// A property that every transport has to have.
#[derive(Clone, Copy)]
pub struct Case {
    /// Its name.
    pub name: &'static str,
    /// Runs it.
    pub run: fn(&dyn Subject) -> CaseResult,
}

/// Every case.
pub const CASES: &[Case] = &[
    Case { name: "answers are exact", run: frames::answers_are_exact },
    Case { name: "each client gets its own answers", run: frames::each_client_gets_its_own_answers },
    Case { name: "loss, duplicates and other orders", run: frames::faults_are_survived },
    Case { name: "garbage", run: frames::garbage_is_counted_and_hurts_nobody },
    Case { name: "frames that do not fit", run: frames::frames_that_do_not_fit_are_refused },
    Case { name: "a request without an answer", run: trouble::no_answer_stalls_no_other },
    Case { name: "answers in another order", run: trouble::answers_in_any_order },
    Case { name: "error marks and wrong answers", run: trouble::bad_answers_are_reported },
    Case { name: "back-pressure", run: trouble::a_full_ring_holds_back },
    Case { name: "a client restarts", run: trouble::a_client_restarts },
    Case { name: "a stop in a burst", run: stops::a_stop_in_a_burst_adds_up },
    Case { name: "a stop drains", run: stops::a_stop_drains },
    Case { name: "the service restarts", run: stops::the_service_restarts },
];

/// Runs every case.
///
/// # Errors
/// The first case that failed, and why.
pub fn check(subject: &dyn Subject) -> CaseResult {
    CASES.iter().try_for_each(|case| (case.run)(subject).map_err(|why| format!("{}: {why}", case.name)))
}

/// Only against hanging: nothing is timed.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The function of the suite's service, which adds one to each byte.
const FUNCTION: &str = "rpc_increment";

macro_rules! ensure {
    ($condition:expr, $($why:tt)+) => {
        if !$condition {
            return Err(format!($($why)+));
        }
    };
}
use ensure;

/// Reports that a case does not apply to a transport.
#[allow(clippy::print_stdout, clippy::unnecessary_wraps)] // says what was skipped, as a case's outcome
fn left_out(why: &str) -> CaseResult {
    println!("skipped: this case does not apply: {why}");
    Ok(())
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

fn incrementer(ring: &Ring) -> Result<HostDispatcher<Wired>, String> {
    let table = FunctionTable::builder()
        .host_call(FUNCTION, |request: &[u8], result: &mut [u8]| {
            result.iter_mut().zip(request).for_each(|(out, byte)| *out = byte.wrapping_add(1));
            Ok(request.len())
        })
        .build(ring)
        .map_err(text)?;
    HostDispatcher::builder(ring, table).build().map_err(text)
}

/// The transport with a dispatcher that increments.
fn service(subject: &dyn Subject, ring: &Ring) -> Result<Box<dyn RingFilling>, String> {
    subject.start(ring, None, Some(incrementer(ring)?)).map_err(text)
}

/// The transport with the suite as dispatcher.
fn bare(subject: &dyn Subject, ring: &Ring) -> Result<(Box<dyn RingFilling>, Foreign), String> {
    Ok((subject.start(ring, None, None).map_err(text)?, Foreign::new(ring)))
}

fn request(id: u32, payload: &[u8]) -> Vec<u8> {
    let id_and_time = (id, u64::from(id) << 32 | 5);
    let header =
        RequestHeader::new(FunctionId::of(FUNCTION).0, payload.len() as u32, id_and_time.0, id_and_time.1);
    [&header.to_bytes()[..], payload].concat()
}

#[derive(Debug, PartialEq, Eq)]
struct CallerReply {
    id: u32,
    status: Status,
    result: Vec<u8>,
}

/// The next answer, which must be exactly as long as it says and echo its request's time stamp.
fn reply(client: &mut dyn FrameClient) -> Result<CallerReply, String> {
    let frame = client.receive(TIMEOUT).ok_or("no answer came")?;
    let header = ResponseHeader::from_bytes(&frame).and_then(ResponseHeader::check_magic).map_err(text)?;
    ensure!(
        frame.len() == HEADER_BYTES + header.result_len as usize,
        "an answer of {} bytes says that its result has {}",
        frame.len(),
        header.result_len
    );
    Ok(CallerReply { id: header.request_id, status: header.status(), result: frame[HEADER_BYTES..].to_vec() })
}

fn incremented(id: u32, payload: &[u8]) -> CallerReply {
    let result = payload.iter().map(|byte| byte.wrapping_add(1)).collect();
    CallerReply { id, status: Status::OK, result }
}

fn refused(id: u32, status: Status) -> CallerReply {
    CallerReply { id, status, result: Vec::new() }
}

fn equal<T: PartialEq + std::fmt::Debug>(what: &str, got: &T, expected: &T) -> CaseResult {
    if got == expected { Ok(()) } else { Err(format!("{what}: {got:?}, expected {expected:?}")) }
}

/// A complete call: when it returns, every frame sent before it has been received.
fn call(client: &mut dyn FrameClient, id: u32, payload: &[u8]) -> CaseResult {
    client.send(&request(id, payload));
    equal("answer", &reply(client)?, &incremented(id, payload))
}

/// Waits until `is` returns true, with a deadline.
fn until(what: &str, mut is: impl FnMut() -> bool) -> CaseResult {
    let begin = Instant::now();
    while !is() {
        ensure!(begin.elapsed() < TIMEOUT, "never: {what}");
        std::thread::yield_now();
    }
    Ok(())
}

/// Stops the service, and checks that every frame is accounted for.
fn stop(service: Box<dyn RingFilling>, deadline: Duration) -> Result<crate::TransportStopReport, String> {
    let report = service.stop(deadline);
    ensure!(!report.stuck, "the transport is stuck: {report}");
    equal("frames and slots unaccounted for", &report.stats.balance(), &(0, 0))?;
    equal("requests still under way after the stop", &report.stats.under_way, &0)?;
    Ok(report)
}
