//! BTH opcodes: operation, part of a message, and following headers.
//!
//! The numbers are those of the InfiniBand architecture specification, volume 1, section 9.2.1: three bits of service
//! (RC 0, UC 1) and five of operation. This module knows the SENDs and RDMA WRITEs of both services, the RC
//! acknowledgement, and RoCE v2's congestion notification.

/// A packet's operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Verb {
    /// Data for the next buffer of the receiver.
    Send,
    /// Data for an address of the receiver's memory.
    Write,
    /// Acknowledges packets of a reliable connection.
    Acknowledge,
    /// Congestion notification packet.
    Congestion,
}

/// A packet's part of its message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Part {
    /// The first of several.
    First,
    /// Neither first nor last.
    Middle,
    /// The last of several.
    Last,
    /// The whole message in one packet.
    Only,
}

/// Transport service of a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Service {
    /// Reliable connection: packets are acknowledged and sent again if lost.
    Rc,
    /// Unreliable connection: packets arrive in order or are dropped, and are never sent again.
    Uc,
    /// No connection.
    None,
}

macro_rules! opcodes {
    ($($variant:ident = $code:literal, $service:ident $verb:ident $part:ident $immediate:literal, $name:literal;)*) => {
        /// A BTH opcode.
        ///
        /// ```
        /// use ringcall_roce::Opcode;
        ///
        /// let opcode = Opcode::from_code(0x2B).expect("known");
        /// assert_eq!(opcode, Opcode::UcWriteOnlyImmediate);
        /// assert!(opcode.has_reth() && opcode.has_immediate());
        /// assert_eq!(Opcode::from_code(0x3F), None);
        /// ```
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum Opcode {
            $(#[doc = concat!($name, ".")] $variant = $code,)*
        }

        impl Opcode {
            /// Every opcode known here.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// The opcode of this number, if it is known.
            #[must_use]
            pub const fn from_code(code: u8) -> Option<Self> {
                match code {
                    $($code => Some(Self::$variant),)*
                    _ => None,
                }
            }

            /// The number on the wire.
            #[must_use]
            pub const fn code(self) -> u8 {
                self as u8
            }

            /// The opcode's name in the specification.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// The transport service of the opcode.
            #[must_use]
            pub const fn service(self) -> Service {
                match self { $(Self::$variant => Service::$service,)* }
            }

            /// The opcode's operation.
            #[must_use]
            pub const fn verb(self) -> Verb {
                match self { $(Self::$variant => Verb::$verb,)* }
            }

            /// The opcode's part of a message.
            #[must_use]
            pub const fn part(self) -> Part {
                match self { $(Self::$variant => Part::$part,)* }
            }

            /// Whether an immediate follows the BTH.
            #[must_use]
            pub const fn has_immediate(self) -> bool {
                match self { $(Self::$variant => $immediate,)* }
            }
        }
    };
}

opcodes! {
    RcSendFirst = 0x00, Rc Send First false, "RC SEND FIRST";
    RcSendMiddle = 0x01, Rc Send Middle false, "RC SEND MIDDLE";
    RcSendLast = 0x02, Rc Send Last false, "RC SEND LAST";
    RcSendLastImmediate = 0x03, Rc Send Last true, "RC SEND LAST with immediate";
    RcSendOnly = 0x04, Rc Send Only false, "RC SEND ONLY";
    RcSendOnlyImmediate = 0x05, Rc Send Only true, "RC SEND ONLY with immediate";
    RcWriteFirst = 0x06, Rc Write First false, "RC RDMA WRITE FIRST";
    RcWriteMiddle = 0x07, Rc Write Middle false, "RC RDMA WRITE MIDDLE";
    RcWriteLast = 0x08, Rc Write Last false, "RC RDMA WRITE LAST";
    RcWriteLastImmediate = 0x09, Rc Write Last true, "RC RDMA WRITE LAST with immediate";
    RcWriteOnly = 0x0A, Rc Write Only false, "RC RDMA WRITE ONLY";
    RcWriteOnlyImmediate = 0x0B, Rc Write Only true, "RC RDMA WRITE ONLY with immediate";
    RcAcknowledge = 0x11, Rc Acknowledge Only false, "RC ACKNOWLEDGE";
    UcSendFirst = 0x20, Uc Send First false, "UC SEND FIRST";
    UcSendMiddle = 0x21, Uc Send Middle false, "UC SEND MIDDLE";
    UcSendLast = 0x22, Uc Send Last false, "UC SEND LAST";
    UcSendLastImmediate = 0x23, Uc Send Last true, "UC SEND LAST with immediate";
    UcSendOnly = 0x24, Uc Send Only false, "UC SEND ONLY";
    UcSendOnlyImmediate = 0x25, Uc Send Only true, "UC SEND ONLY with immediate";
    UcWriteFirst = 0x26, Uc Write First false, "UC RDMA WRITE FIRST";
    UcWriteMiddle = 0x27, Uc Write Middle false, "UC RDMA WRITE MIDDLE";
    UcWriteLast = 0x28, Uc Write Last false, "UC RDMA WRITE LAST";
    UcWriteLastImmediate = 0x29, Uc Write Last true, "UC RDMA WRITE LAST with immediate";
    UcWriteOnly = 0x2A, Uc Write Only false, "UC RDMA WRITE ONLY";
    UcWriteOnlyImmediate = 0x2B, Uc Write Only true, "UC RDMA WRITE ONLY with immediate";
    Congestion = 0x81, None Congestion Only false, "CNP";
}

/// Opcodes of messages by service (unreliable, reliable), operation (SEND, WRITE) and part: first, middle, last, last
/// with immediate, only, only with immediate.
const OF_MESSAGES: [[[Opcode; 6]; 2]; 2] = {
    use Opcode::*;
    [
        [
            [UcSendFirst, UcSendMiddle, UcSendLast, UcSendLastImmediate, UcSendOnly, UcSendOnlyImmediate],
            [
                UcWriteFirst,
                UcWriteMiddle,
                UcWriteLast,
                UcWriteLastImmediate,
                UcWriteOnly,
                UcWriteOnlyImmediate,
            ],
        ],
        [
            [RcSendFirst, RcSendMiddle, RcSendLast, RcSendLastImmediate, RcSendOnly, RcSendOnlyImmediate],
            [
                RcWriteFirst,
                RcWriteMiddle,
                RcWriteLast,
                RcWriteLastImmediate,
                RcWriteOnly,
                RcWriteOnlyImmediate,
            ],
        ],
    ]
};

impl Opcode {
    /// The opcode for one packet of a message. Only the last packet of a message has an immediate.
    #[must_use]
    pub(crate) const fn of(is_reliable: bool, is_write: bool, part: Part, has_immediate: bool) -> Self {
        let part = match part {
            Part::First => 0,
            Part::Middle => 1,
            Part::Last => 2 + has_immediate as usize,
            Part::Only => 4 + has_immediate as usize,
        };
        OF_MESSAGES[is_reliable as usize][is_write as usize][part]
    }

    /// Whether an RDMA extended transport header (address and length of the WRITE) follows.
    #[must_use]
    pub const fn has_reth(self) -> bool {
        matches!(self.verb(), Verb::Write) && matches!(self.part(), Part::First | Part::Only)
    }

    /// Whether an acknowledge extended transport header follows.
    #[must_use]
    pub const fn has_aeth(self) -> bool {
        matches!(self.verb(), Verb::Acknowledge)
    }

    /// Bytes of the extended headers between the BTH and the payload.
    #[must_use]
    pub const fn extension_bytes(self) -> usize {
        (if self.has_reth() { 16 } else { 0 })
            + (if self.has_immediate() { 4 } else { 0 })
            + (if self.has_aeth() { 4 } else { 0 })
    }
}

impl std::fmt::Display for Opcode {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
