//! Windows of requests: the payloads that a player sends, and the right answers.

use ringcall_wire::{FunctionId, HEADER_BYTES, RequestHeader, ResponseHeader, names};

/// Requests to play.
pub trait Windows {
    /// Puts the next request in place of what `window` holds: header, payload, and padding if the sender pads. The player
    /// writes the time into the header, and the number unless told otherwise. `false`: there are no more.
    fn next(&mut self, window: &mut Vec<u8>) -> bool;
}

impl<F: FnMut(&mut Vec<u8>) -> bool> Windows for F {
    fn next(&mut self, window: &mut Vec<u8>) -> bool {
        self(window)
    }
}

/// A request and its answer.
#[derive(Clone, Copy, Debug)]
pub struct Exchange<'a> {
    /// The request's header, as it was sent.
    pub request: RequestHeader,
    /// What followed it in the window, padding included.
    pub arguments: &'a [u8],
    /// The answer's header; its magic, number and time are right.
    pub response: ResponseHeader,
    /// The result: as many bytes as the header says.
    pub result: &'a [u8],
}

/// Says which answers are right.
pub trait Checker {
    /// Whether the answer is right, status and content.
    fn check(&mut self, exchange: &Exchange<'_>) -> bool;

    /// Sees every answer's bytes as they come, with the time in the player's format, before anything is checked.
    fn capture(&mut self, answer: &[u8], time: u64) {
        let _ = (answer, time);
    }
}

impl<F: FnMut(&Exchange<'_>) -> bool> Checker for F {
    fn check(&mut self, exchange: &Exchange<'_>) -> bool {
        self(exchange)
    }
}

/// Windows that were recorded or written beforehand, in order.
#[derive(Clone, Debug)]
pub struct Recorded {
    windows: Vec<Vec<u8>>,
    repeat: bool,
    next: usize,
}

impl Recorded {
    /// Each once, or again and again.
    #[must_use]
    pub const fn new(windows: Vec<Vec<u8>>, repeat: bool) -> Self {
        Self { windows, repeat, next: 0 }
    }
}

impl Windows for Recorded {
    fn next(&mut self, window: &mut Vec<u8>) -> bool {
        if self.next == self.windows.len() && self.repeat {
            self.next = 0;
        }
        let Some(source) = self.windows.get(self.next) else { return false };
        self.next += 1;
        window.clear();
        window.extend_from_slice(source);
        true
    }
}

/// Calls of `rpc_increment`: the answer is the payload with one added to each byte.
#[derive(Clone, Debug)]
pub struct Increment {
    left: u64,
    payload_bytes: u32,
    number: u64,
}

impl Increment {
    /// So many calls, with payloads of so many bytes.
    #[must_use]
    pub const fn new(calls: u64, payload_bytes: u32) -> Self {
        Self { left: calls, payload_bytes, number: 0 }
    }

    /// Whether an answer is the request's payload with one added to each byte.
    #[must_use]
    pub fn check(exchange: &Exchange<'_>) -> bool {
        let arguments = exchange.arguments.get(..exchange.request.arg_len as usize);
        exchange.response.status().is_ok()
            && arguments.is_some_and(|arguments| {
                arguments.iter().map(|byte| byte.wrapping_add(1)).eq(exchange.result.iter().copied())
            })
    }
}

impl Windows for Increment {
    fn next(&mut self, window: &mut Vec<u8>) -> bool {
        if self.left == 0 {
            return false;
        }
        self.left -= 1;
        // The player writes number and time.
        let function = FunctionId::of(names::RPC_INCREMENT);
        let header = RequestHeader::new(function.0, self.payload_bytes, 0, 0);
        window.clear();
        window.extend_from_slice(&header.to_bytes());
        let number = self.number;
        window.extend((0..u64::from(self.payload_bytes)).map(|k| (number.wrapping_mul(31) + k) as u8));
        self.number += 1;
        debug_assert_eq!(window.len(), HEADER_BYTES + self.payload_bytes as usize);
        true
    }
}
