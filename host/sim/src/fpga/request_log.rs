//! Log of sent requests and received answers.

use crate::fpga::config::PlayerConfig;
use crate::fpga::report::{Latency, Report};
use crate::fpga::windows::{Checker, Exchange};
use hdrhistogram::Histogram;
use ringcall_wire::{HEADER_BYTES, RequestHeader, ResponseHeader};
use std::collections::{HashMap, VecDeque};

/// A request without an answer.
#[derive(Debug)]
struct Open {
    page: u32,
    request: RequestHeader,
    sent_ns: u64,
    /// Harmed on purpose.
    harmed: bool,
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Answered,
    Lost,
    Unanswered,
}

/// Requests that are over and still remembered; a power of two.
const MEMORY: usize = 1 << 16;
/// Numbers of unanswered requests that are kept.
const KEPT_IDS: usize = 100;

/// Requests in flight, and results of finished requests.
#[derive(Debug)]
pub(crate) struct RequestLog {
    open: HashMap<u32, Open>,
    /// In the order of sending, which is the order of deadlines; those answered since are skipped.
    deadlines: VecDeque<(u64, u32)>,
    free: VecDeque<u32>,
    /// What each page's request had after its header.
    arguments: Vec<Vec<u8>>,
    over: Vec<Option<(u32, u64, End)>>,
    timeout_ns: u64,
    latency: Histogram<u64>,
    pub(crate) report: Report,
}

impl RequestLog {
    pub(crate) fn new(config: &PlayerConfig) -> Self {
        let pages = config.in_flight;
        // From a nanosecond to an hour, three digits: bounds that the library takes.
        let latency = Histogram::new_with_bounds(1, 3_600_000_000_000, 3)
            .or_else(|_| Histogram::new(3))
            .unwrap_or_else(|_| unreachable!("three digits are within 0 to 5"));
        Self {
            open: HashMap::with_capacity(pages as usize),
            deadlines: VecDeque::with_capacity(MEMORY),
            free: (0..pages).collect(),
            arguments: vec![Vec::new(); pages as usize],
            over: vec![None; MEMORY],
            timeout_ns: u64::try_from(config.timeout.as_nanos()).unwrap_or(u64::MAX),
            latency,
            report: Report::default(),
        }
    }

    /// Whether nothing is in flight.
    pub(crate) fn is_settled(&self) -> bool {
        self.open.is_empty()
    }

    pub(crate) fn has_room(&self) -> bool {
        !self.free.is_empty()
    }

    pub(crate) fn is_open(&self, id: u32) -> bool {
        self.open.contains_key(&id)
    }

    /// When the next request is given up.
    pub(crate) fn next_deadline(&self) -> Option<u64> {
        self.deadlines.front().map(|(deadline, _)| *deadline)
    }

    /// Takes a page for a request. `None`: all are in flight.
    pub(crate) fn enter(&mut self, request: RequestHeader, arguments: &[u8], now: u64) -> Option<u32> {
        let page = self.free.pop_front()?;
        let kept = &mut self.arguments[page as usize];
        kept.clear();
        kept.extend_from_slice(arguments);
        let id = request.request_id;
        self.open.insert(id, Open { page, request, sent_ns: now, harmed: false });
        self.deadlines.push_back((now.saturating_add(self.timeout_ns), id));
        self.report.sent += 1;
        Some(page)
    }

    /// A packet of the request, or its answer, was lost on purpose.
    pub(crate) fn harm(&mut self, id: u32) {
        if let Some(open) = self.open.get_mut(&id) {
            open.harmed = true;
        }
    }

    fn close(&mut self, open: &Open, end: End) {
        let RequestHeader { request_id, ptp_timestamp, .. } = open.request;
        self.over[request_id as usize % MEMORY] = Some((request_id, ptp_timestamp, end));
        self.free.push_back(open.page);
    }

    /// Gives up requests that are due.
    pub(crate) fn expire(&mut self, now: u64) {
        while let Some(&(deadline, id)) = self.deadlines.front() {
            let sent_ns = deadline.saturating_sub(self.timeout_ns);
            let waiting = self.open.get(&id).is_some_and(|open| open.sent_ns == sent_ns);
            if waiting && deadline > now {
                return;
            }
            self.deadlines.pop_front();
            if let Some(open) = waiting.then(|| self.open.remove(&id)).flatten() {
                let end = if open.harmed { End::Lost } else { End::Unanswered };
                if open.harmed {
                    self.report.lost += 1;
                } else {
                    self.report.unanswered += 1;
                    if self.report.unanswered_ids.len() < KEPT_IDS {
                        self.report.unanswered_ids.push(id);
                    }
                }
                self.close(&open, end);
            }
        }
    }

    /// Gives up everything: no answer will come.
    pub(crate) fn give_up(&mut self) {
        self.expire(u64::MAX);
    }

    /// The number in an answer, if it is one.
    pub(crate) fn read(answer: &[u8]) -> Option<(ResponseHeader, &[u8])> {
        let header = ResponseHeader::from_bytes(answer).ok()?.check_magic().ok()?;
        let result = answer.get(HEADER_BYTES..)?.get(..header.result_len as usize)?;
        Some((header, result))
    }

    /// An answer has come.
    pub(crate) fn settle<C: Checker + ?Sized>(
        &mut self,
        response: ResponseHeader,
        result: &[u8],
        now: u64,
        checker: &mut C,
    ) {
        let id = response.request_id;
        let over = self.over[id as usize % MEMORY].filter(|(other, ..)| *other == id);
        // A number that is used again: the time tells whose answer it is.
        let earlier = over.filter(|(_, time, _)| *time == response.ptp_timestamp);
        let open = if earlier.is_none() { self.open.remove(&id) } else { None };
        let Some(open) = open else {
            match over.map(|(.., end)| end) {
                Some(End::Answered) => self.report.duplicate_answers += 1,
                Some(End::Unanswered) => self.report.late += 1,
                Some(End::Lost) => self.report.answered_though_lost += 1,
                None => self.report.unexpected += 1,
            }
            return;
        };
        self.latency.saturating_record(now.saturating_sub(open.sent_ns).max(1));
        self.report.answered_though_lost += u64::from(open.harmed);
        let arguments = &self.arguments[open.page as usize];
        if response.ptp_timestamp != open.request.ptp_timestamp {
            self.report.wrong_time += 1;
        } else if checker.check(&Exchange { request: open.request, arguments, response, result }) {
            self.report.correct += 1;
        } else if response.status().is_protocol_error() {
            self.report.refuse(response.status());
        } else {
            self.report.wrong_content += 1;
        }
        self.close(&open, End::Answered);
    }

    /// The figures so far.
    pub(crate) fn summary(&self, elapsed_ns: u64) -> Report {
        let elapsed_s = elapsed_ns as f64 / 1e9;
        let answered = self.report.answered();
        Report {
            latency_ns: Latency::of(&self.latency),
            elapsed_s,
            throughput_per_s: if elapsed_ns == 0 { 0.0 } else { answered as f64 / elapsed_s },
            ..self.report.clone()
        }
    }
}
