//! Offset and width of each command field: `(first bit, bits)`, as in the public mlx5_ifc.h. A test compares them with
//! that file.

use super::bits::BitField;

macro_rules! fields {
    ($($constant:ident = $name:literal $at:literal $bits:literal;)*) => {
        $(pub(super) const $constant: BitField = BitField::new($at, $bits);)*
        /// Every field, by its name in mlx5_ifc.h.
        #[cfg(test)]
        pub(super) const ALL: &[(&str, BitField)] = &[$(($name, $constant),)*];
    };
}

pub(super) const COMMAND_BYTES: usize = 272;
pub(super) const ANSWER_BYTES: usize = 16;
/// Where a completion queue's context begins in its command, in bits.
pub(super) const CQ_CONTEXT: usize = 128;
/// Where a queue pair's context begins in its commands, in bits.
pub(super) const QP_CONTEXT: usize = 192;
/// Where the primary address path begins in a queue pair's context, in bits.
pub(super) const PRIMARY_PATH: usize = 192;

fields! {
    OPCODE = "create_cq_in.opcode" 0 16;
    CQ_UMEM_OFFSET = "create_cq_in.cq_umem_offset" 640 64;
    CQ_UMEM_ID = "create_cq_in.cq_umem_id" 704 32;
    CQ_UMEM_VALID = "create_cq_in.cq_umem_valid" 736 1;
    CQC_RECORD_UMEM_VALID = "cqc.dbr_umem_valid" 6 1;
    CQC_ENTRY_SIZE = "cqc.cqe_sz" 8 3;
    CQC_COLLAPSED = "cqc.cc" 11 1;
    CQC_OVERRUN_IGNORE = "cqc.oi" 14 1;
    CQC_RECORD_UMEM_ID = "cqc.dbr_umem_id" 32 32;
    CQC_LOG_SIZE = "cqc.log_cq_size" 99 5;
    CQC_UAR_PAGE = "cqc.uar_page" 104 24;
    CQC_EVENT_QUEUE = "cqc.c_eqn" 184 8;
    CQC_LOG_PAGE_SIZE = "cqc.log_page_size" 195 5;
    CQC_RECORD_ADDRESS = "cqc.dbr_addr" 448 64;
    WQ_UMEM_OFFSET = "create_qp_in.wq_umem_offset" 2048 64;
    WQ_UMEM_ID = "create_qp_in.wq_umem_id" 2112 32;
    WQ_UMEM_VALID = "create_qp_in.wq_umem_valid" 2144 1;
    MODIFY_QPN = "modify_qp_in.qpn" 72 24;
    SERVICE = "qpc.st" 8 8;
    PATH_STATE = "qpc.pm_state" 19 2;
    PROTECTION_DOMAIN = "qpc.pd" 40 24;
    MTU = "qpc.mtu" 64 3;
    LOG_MESSAGE_MAX = "qpc.log_msg_max" 67 5;
    LOG_RQ_SIZE = "qpc.log_rq_size" 73 4;
    LOG_RQ_STRIDE = "qpc.log_rq_stride" 77 3;
    LOG_SQ_SIZE = "qpc.log_sq_size" 81 4;
    UAR_PAGE = "qpc.uar_page" 104 24;
    SEND_RECORD_MODE = "qpc.send_dbr_mode" 128 2;
    USER_INDEX = "qpc.user_index" 136 24;
    LOG_PAGE_SIZE = "qpc.log_page_size" 163 5;
    REMOTE_QPN = "qpc.remote_qpn" 168 24;
    LOG_ACK_FREQUENCY = "qpc.log_ack_req_freq" 896 4;
    LOG_READS_OUT = "qpc.log_sra_max" 904 3;
    RETRY_COUNT = "qpc.retry_count" 909 3;
    NO_CREDIT_RETRY = "qpc.rnr_retry" 912 3;
    NEXT_SEND_PSN = "qpc.next_send_psn" 968 24;
    SEND_CQN = "qpc.cqn_snd" 1000 24;
    LOG_READS_IN = "qpc.log_rra_max" 1160 3;
    REMOTE_WRITE = "qpc.rwe" 1169 1;
    MIN_NO_CREDIT_TIMER = "qpc.min_rnr_nak" 1187 5;
    NEXT_RECEIVE_PSN = "qpc.next_rcv_psn" 1192 24;
    RECEIVE_CQN = "qpc.cqn_rcv" 1256 24;
    RECORD_ADDRESS = "qpc.dbr_addr" 1280 64;
    RQ_TYPE = "qpc.rq_type" 1381 3;
    RECORD_UMEM_VALID = "qpc.dbr_umem_valid" 1667 1;
    RECORD_UMEM_ID = "qpc.dbr_umem_id" 1824 32;
    PATH_PKEY_INDEX = "ads.pkey_index" 16 16;
    PATH_ACK_TIMEOUT = "ads.ack_timeout" 64 5;
    PATH_GID_INDEX = "ads.src_addr_index" 72 8;
    PATH_HOP_LIMIT = "ads.hop_limit" 88 8;
    PATH_TRAFFIC_CLASS = "ads.tclass" 100 8;
    PATH_UDP_PORT = "ads.udp_sport" 272 16;
    PATH_PORT = "ads.vhca_port_num" 296 8;
    PATH_MAC_HIGH = "ads.rmac_47_32" 304 16;
    PATH_MAC_LOW = "ads.rmac_31_0" 320 32;
    ANSWER_STATUS = "create_qp_out.status" 0 8;
    ANSWER_SYNDROME = "create_qp_out.syndrome" 32 32;
    ANSWER_NUMBER = "create_qp_out.qpn" 72 24;
}

/// Where the peer's address begins in an address path, in bits: 16 bytes.
pub(super) const PATH_GID: usize = 128;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_offset_is_that_of_the_public_header() {
        let text = include_str!("../../tests/data/offsets.txt");
        let theirs = |name: &str| {
            let line = text.lines().find(|line| line.split(' ').next() == Some(name));
            let numbers: Vec<usize> =
                line.unwrap_or_else(|| panic!("{name}")).split(' ').skip(1).flat_map(str::parse).collect();
            numbers
        };
        for (name, field) in ALL {
            assert_eq!(theirs(name), [field.at, field.bits], "{name}");
        }
        for (name, at) in [
            ("create_cq_in.cq_context", CQ_CONTEXT),
            ("create_qp_in.qpc", QP_CONTEXT),
            ("modify_qp_in.qpc", QP_CONTEXT),
            ("qpc.primary_address_path", PRIMARY_PATH),
            ("ads.rgid_rip", PATH_GID),
        ] {
            assert_eq!(theirs(name)[0], at, "{name}");
        }
        for name in ["create_cq_in", "create_qp_in", "modify_qp_in"] {
            assert_eq!(theirs(name), [COMMAND_BYTES * 8], "{name}");
        }
        for name in ["create_cq_out", "create_qp_out"] {
            assert_eq!(theirs(name), [ANSWER_BYTES * 8], "{name}");
        }
        for same in ["create_qp_in.opcode", "modify_qp_in.opcode"] {
            assert_eq!(theirs(same), [OPCODE.at, OPCODE.bits]);
        }
        assert_eq!(theirs("create_cq_out.cqn"), [ANSWER_NUMBER.at, ANSWER_NUMBER.bits]);
    }
}
