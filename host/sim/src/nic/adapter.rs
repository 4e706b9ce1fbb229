//! The NIC: one queue pair, its two completion queues, a port.

use crate::nic::completion::CompletionWriter;
use crate::nic::fault::{Fault, Queue};
use crate::nic::memory::Memory;
use crate::nic::port::{Message, Port};
use crate::nic::receive::Receiver;
use crate::nic::send::{Sender, Shared};
use crate::nic::stats::{Stats, Violations};
use ringcall_gpu::shared::Words;
use ringcall_mlx5::endpoint::Windows;
use ringcall_mlx5::layout::cqe::{Cqe, Syndrome};
use ringcall_mlx5::layout::{BLUE_FLAME_BYTES, RECEIVE_WQE_WORDS, wqe};
use ringcall_mlx5::sq::RecordMode;
use std::collections::VecDeque;

/// A NIC's configuration of its queue pair.
#[derive(Debug, Clone, Copy)]
pub struct Config {
    /// The queue pair's number.
    pub qpn: u32,
    /// Whether software writes the send counter to the doorbell record.
    pub record: RecordMode,
    /// Send requests done in one step, and messages taken in.
    pub burst: usize,
}

/// Memory that is no queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum NicError {
    /// A completion queue whose length is no power of two of 64-byte entries.
    #[error("a completion queue has a power of two of 64-byte entries, not {words} words")]
    Completions {
        /// Its length.
        words: usize,
    },
    /// A work queue whose length is no power of two of requests, or too long.
    #[error(
        "a queue of requests of {request} words has a power of two of them, below 65536, not {words} words"
    )]
    Requests {
        /// Words of a request.
        request: usize,
        /// Its length.
        words: usize,
    },
    /// A doorbell record or register that is too short.
    #[error("a doorbell record has 1 word and a register {register}, not {record} and {uar}")]
    Doorbell {
        /// Words of a register.
        register: usize,
        /// Words of the record given.
        record: usize,
        /// Words of the register given.
        uar: usize,
    },
}

/// A NIC with one queue pair.
#[derive(Debug)]
pub struct Nic<P> {
    config: Config,
    memory: Memory,
    port: P,
    receiver: Receiver,
    sender: Sender,
    stats: Stats,
    violations: Violations,
    faults: VecDeque<Fault>,
    broken: bool,
    payload: Vec<u8>,
}

fn requests(window: &Words, request: usize) -> Result<u16, NicError> {
    let words = window.len();
    let count = words / request;
    match u16::try_from(count) {
        Ok(n) if count * request == words && count.is_power_of_two() => Ok(n),
        _ => Err(NicError::Requests { request, words }),
    }
}

fn completions(window: &Words, record: Option<&Words>) -> Result<CompletionWriter, NicError> {
    CompletionWriter::new(window.clone(), record.cloned())
        .ok_or(NicError::Completions { words: window.len() })
}

impl<P: Port> Nic<P> {
    /// A NIC over the queues of an endpoint, and the register that it rings (8 words).
    ///
    /// # Errors
    /// Memory that is no queue.
    pub fn new(
        config: Config,
        windows: &Windows,
        uar: Words,
        memory: Memory,
        port: P,
    ) -> Result<Self, NicError> {
        let register = BLUE_FLAME_BYTES / 8;
        if windows.record.is_empty() || uar.len() < register {
            return Err(NicError::Doorbell { register, record: windows.record.len(), uar: uar.len() });
        }
        let rx = completions(&windows.rx_completions, windows.rx_completions_record.as_ref())?;
        let tx = completions(&windows.tx_completions, windows.tx_completions_record.as_ref())?;
        let entries = requests(&windows.receive, RECEIVE_WQE_WORDS)?;
        let receiver = Receiver::new(windows.receive.clone(), entries, windows.record.clone(), rx);
        let entries = requests(&windows.send, wqe::WORDS)?;
        let windows = [windows.send.clone(), windows.record.clone(), uar];
        let sender = Sender::new(windows, entries, config.qpn, config.record, tx);
        Ok(Self {
            config,
            memory,
            port,
            receiver,
            sender,
            stats: Stats::default(),
            violations: Violations::default(),
            faults: VecDeque::new(),
            broken: false,
            payload: Vec::new(),
        })
    }

    /// What was counted.
    #[must_use]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }

    /// The rules that software broke.
    #[must_use]
    pub fn violations(&self) -> &Violations {
        &self.violations
    }

    /// Whether the queue pair is in the error state.
    #[must_use]
    pub fn is_broken(&self) -> bool {
        self.broken
    }

    /// The port.
    pub fn port(&mut self) -> &mut P {
        &mut self.port
    }

    /// Plants a fault: it happens as soon as it can.
    pub fn plant(&mut self, fault: Fault) {
        self.faults.push_back(fault);
    }

    /// A bounded piece of work; false if there was none. Never blocks.
    pub fn step(&mut self) -> bool {
        let mut worked = self.plant_next();
        worked |= self.step_send();
        worked | self.step_receive()
    }

    /// The send side's part of a step: doorbell, then requests.
    pub fn step_send(&mut self) -> bool {
        let Self { memory, port, sender, stats, violations, .. } = self;
        let mut shared = Shared { memory, stats, violations };
        // What was read at an earlier step first: a request stays with the NIC for a while.
        let mut worked = false;
        for _ in 0..self.config.burst {
            if self.broken {
                if !sender.flush(&mut shared) {
                    break;
                }
            } else {
                match sender.execute(port, &mut shared) {
                    None => break,
                    Some(breaks) => self.broken |= breaks,
                }
            }
            worked = true;
        }
        worked | sender.look(&mut shared)
    }

    /// The receive side's part of a step: messages that came in.
    pub fn step_receive(&mut self) -> bool {
        let Self { memory, port, receiver, stats, violations, payload, .. } = self;
        let mut worked = false;
        for _ in 0..self.config.burst {
            if self.broken && receiver.credit(violations) > 0 {
                receiver.fail(Syndrome::FLUSHED, stats, violations);
                worked = true;
                continue;
            }
            let Some(message) = port.receive(payload) else { break };
            stats.rx_messages += 1;
            worked = true;
            let delivered = stats.rx_delivered;
            if self.broken {
                stats.rx_dead += 1;
            } else {
                receiver.deliver(message, payload, memory, stats, violations);
            }
            if matches!(message, Message::WriteImm { .. }) && stats.rx_delivered == delivered {
                port.undelivered();
            }
        }
        worked
    }

    /// Plants the next fault, if it can happen now.
    fn plant_next(&mut self) -> bool {
        let Some(&fault) = self.faults.front() else { return false };
        let happened = match fault {
            Fault::Stray { queue, opcode, wqe_counter } => {
                let entry = Cqe::default().with_wqe_counter(wqe_counter).with_owner(opcode, 0);
                // Room must be left for what the posted requests will complete with.
                match queue {
                    Queue::Receive => {
                        let credit = self.receiver.credit(&mut self.violations).into();
                        let completions = &mut self.receiver.completions;
                        completions.has_room_beside(credit) && completions.write(entry)
                    }
                    Queue::Send => {
                        let under_way = self.sender.under_way() as u64 + 1;
                        let completions = &mut self.sender.completions;
                        completions.has_room_beside(under_way) && completions.write(entry)
                    }
                }
            }
            Fault::FailReceive(syndrome) => {
                let possible = self.receiver.credit(&mut self.violations) > 0;
                if possible {
                    self.receiver.fail(syndrome, &mut self.stats, &mut self.violations);
                }
                possible
            }
            Fault::FailSend(syndrome) => {
                let possible = self.sender.fail_next.is_none();
                if possible {
                    self.sender.fail_next = Some(syndrome);
                }
                possible
            }
            Fault::Break => {
                self.broken = true;
                true
            }
        };
        if happened {
            self.faults.pop_front();
            self.stats.faults += 1;
        }
        happened
    }
}
