//! An endpoint as the transport behind hooks: the functions that receive and send, with the state between
//! calls.

use crate::linked::Polled;
use crate::queue_pair::single::Extent;
use ringcall_gpu::hint;
use ringcall_gpu::shared::{Bytes, Words};
use ringcall_mlx5::QueueError;
use ringcall_mlx5::doorbell::Doorbell;
use ringcall_mlx5::endpoint::{Arrived, Config, Endpoint, Frame, Poll, TxSlot, Windows};
use ringcall_mlx5::wait::{Bound, Shutdown, WaitEnd};
use ringcall_wire::header::{HEADER_BYTES, RequestHeader, ResponseHeader};
use ringcall_wire::unified::control;

/// Polls between two polls of the stop word, where nothing comes.
const TURNS_PER_STOP_CHECK: u32 = 16;
/// The end waits so long for room for a last response, and so long for the last responses to be sent.
const LAST: Bound = Bound { between: 64, turns: 16_384 };

/// A queue pair behind hooks. One request is under way at a time: from [`poll`](Self::poll) to [`publish`](Self::publish).
#[derive(Debug)]
pub struct Transport<D> {
    endpoint: Endpoint<D>,
    extent: Extent,
    rx_data: Bytes,
    tx_data: Bytes,
    pending: Option<(Arrived, TxSlot)>,
}

impl<D: Doorbell> Transport<D> {
    /// A transport over memory that [`CompletionQueue::prepare`](ringcall_mlx5::CompletionQueue::prepare) has been over, with its
    /// receive requests posted. The windows' stop word is not used.
    ///
    /// # Errors
    /// As for [`Endpoint::new`].
    pub fn new(config: Config, extent: Extent, windows: Windows, doorbell: D) -> Result<Self, QueueError> {
        let (rx_data, tx_data) = (windows.rx_data.clone(), windows.tx_data.clone());
        let endpoint = Endpoint::new(config, windows, doorbell)?;
        Ok(Self { endpoint, extent, rx_data, tx_data, pending: None })
    }

    /// The endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint<D> {
        &self.endpoint
    }

    /// Waits for a request and room for its response, until `stop` says so and nothing is there, or the queue pair is dead.
    ///
    /// `stop` gives the stop word: [`STOP_NO`](control::STOP_NO) continues; [`STOP_NOW`](control::STOP_NOW)
    /// waits for nothing; with anything else requests that have arrived are served and responses are sent
    /// before the end, as long as the NIC takes any.
    ///
    /// A message that is shorter than its header says is made to say so itself: the next reader of the slot
    /// knows only how long a slot is.
    pub fn poll(&mut self, stop: impl Fn() -> u64, mut relax: impl FnMut()) -> Polled {
        // A request that was never answered owes its receive request.
        if let Some((arrived, _)) = self.pending.take() {
            self.endpoint.release(arrived);
        }
        let Some((arrived, slot)) = self.next(&stop, &mut relax) else {
            self.drain(&stop, relax);
            return Polled::Shutdown;
        };
        let config = self.endpoint.config();
        let window = |data: &Bytes, index: u32, stride: u32| {
            data.slice(index as usize * stride as usize, stride as usize).ok()
        };
        let request = window(&self.rx_data, arrived.slot(), config.rx_stride);
        let response = window(&self.tx_data, slot.index(), config.tx_stride);
        let (Some(request), Some(response)) = (request, response) else {
            self.endpoint.release(arrived);
            return Polled::Unusable;
        };
        if self.extent == Extent::Received {
            cut_short(&request, arrived.bytes());
        }
        self.pending = Some((arrived, slot));
        Polled::Ready { request, response }
    }

    /// Waits for a request and room for its response; `None`: it is to stop, or dead.
    fn next(&mut self, stop: &impl Fn() -> u64, mut relax: impl FnMut()) -> Option<(Arrived, TxSlot)> {
        let mut polls = 0_u32;
        let mut last = false;
        let arrived = loop {
            match self.endpoint.poll() {
                Poll::Arrived(arrived) => break arrived,
                Poll::Dead(_) => return None,
                Poll::Discarded(_) | Poll::Empty => (),
            }
            if last {
                return None;
            }
            // What came before the stop is served: one poll more.
            last = polls.is_multiple_of(TURNS_PER_STOP_CHECK) && stop() != control::STOP_NO;
            polls = polls.wrapping_add(1);
            hint::spin();
            relax();
        };
        let Some(slot) = self.room(stop, relax) else {
            self.endpoint.release(arrived);
            return None;
        };
        Some((arrived, slot))
    }

    /// Waits for room for a response; once it is to stop, for so long only.
    fn room(&mut self, stop: &impl Fn() -> u64, mut relax: impl FnMut()) -> Option<TxSlot> {
        let mut left = LAST.turns * u64::from(LAST.between / TURNS_PER_STOP_CHECK);
        loop {
            for _ in 0..TURNS_PER_STOP_CHECK {
                if let Some(slot) = self.endpoint.try_reserve() {
                    return Some(slot);
                }
                hint::spin();
                relax();
            }
            if self.endpoint.dead().is_some() {
                return None;
            }
            match stop() {
                control::STOP_NO => (),
                control::STOP_NOW => return None,
                _ => left = left.checked_sub(1)?,
            }
        }
    }

    /// Sends the response of the pending request, as long as its header says. A frame that is not that request's sends
    /// nothing: the request is counted as unanswered.
    pub fn publish(&mut self, response: u64) {
        let Some((arrived, slot)) = self.pending.take() else { return };
        let stride = self.endpoint.config().tx_stride as usize;
        let at = slot.index() as usize * stride;
        let header = self.tx_data.read_words(at).map(ResponseHeader::from_words);
        match header {
            Some(header) if self.tx_data.address() + at as u64 == response => {
                let len = (HEADER_BYTES as u32).saturating_add(header.result_len);
                // Refused and counted by the endpoint, if it is longer than a slot.
                let _ = self.endpoint.respond(arrived, slot, Frame::InSlot(len));
            }
            _ => self.endpoint.release(arrived),
        }
    }

    /// Waits until the NIC is done with every response, or long enough, or until it is not to wait.
    fn drain(&mut self, stop: &impl Fn() -> u64, mut relax: impl FnMut()) {
        // That it stops is no reason to wait for nothing: a window without a stop word.
        let Ok(none) = self.rx_data.slice(0, 0) else { return };
        let none = Shutdown::new(none.words().clone());
        let turn = Bound { turns: 1, ..LAST };
        for _ in 0..LAST.turns {
            if stop() == control::STOP_NOW
                || self.endpoint.drain(&none, turn, &mut relax) != Err(WaitEnd::Exhausted)
            {
                return;
            }
        }
    }

    /// Leaves the cursors and the syndrome where a host reads them.
    pub fn report(&self, block: &Words) {
        use core::sync::atomic::Ordering::Relaxed;
        let send = self.endpoint.send_queue();
        block.store(control::POSTED, send.posted(), Relaxed);
        block.store(control::DONE, send.done(), Relaxed);
        let dead = self.endpoint.dead().map_or(0, |syndrome| syndrome.0.into());
        block.store(control::DEAD, dead, Relaxed);
    }
}

/// Makes a header agree with the `bytes` that were received.
fn cut_short(request: &Bytes, bytes: u32) {
    let Some(payload) = bytes.checked_sub(HEADER_BYTES as u32) else {
        // No header: what lies there is another request's.
        request.write_words(0, [0_u64; 3]);
        return;
    };
    let Some(mut header) = request.read_words(0).map(RequestHeader::from_words) else { return };
    if header.arg_len > payload && header.has_magic() {
        header.arg_len = u32::MAX;
        request.write_words(0, header.to_words());
    }
}
