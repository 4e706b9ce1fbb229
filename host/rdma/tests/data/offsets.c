// Prints the offset of every field that `src/command` writes or reads: name, first bit, bits; and each command's bits.
// Made with the mlx5_ifc.h of a BSD-licensed source (rdma-core, or DOCA GPUNetIO in NCCL, which has send_dbr_mode), where a
// field is an array of as many bytes as it has bits; the three changes of state, which are the same, are named modify_qp.
//
//     cc -I WHERE_IT_IS offsets.c -o offsets && ./offsets > offsets.txt
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include "mlx5_ifc.h"

#define FIELD(s, f) \
    printf(#s "." #f " %zu %zu\n", offsetof(struct mlx5_ifc_##s##_bits, f), sizeof(((struct mlx5_ifc_##s##_bits*)0)->f))
#define SIZE(s) printf(#s " %zu\n", sizeof(struct mlx5_ifc_##s##_bits))

int main(void)
{
    FIELD(create_cq_in, opcode);
    FIELD(create_cq_in, cq_context);
    FIELD(create_cq_in, cq_umem_offset);
    FIELD(create_cq_in, cq_umem_id);
    FIELD(create_cq_in, cq_umem_valid);
    FIELD(cqc, dbr_umem_valid);
    FIELD(cqc, cqe_sz);
    FIELD(cqc, cc);
    FIELD(cqc, oi);
    FIELD(cqc, dbr_umem_id);
    FIELD(cqc, log_cq_size);
    FIELD(cqc, uar_page);
    FIELD(cqc, c_eqn);
    FIELD(cqc, log_page_size);
    FIELD(cqc, dbr_addr);
    FIELD(create_qp_in, opcode);
    FIELD(create_qp_in, qpc);
    FIELD(create_qp_in, wq_umem_offset);
    FIELD(create_qp_in, wq_umem_id);
    FIELD(create_qp_in, wq_umem_valid);
    FIELD(modify_qp_in, opcode);
    FIELD(modify_qp_in, qpn);
    FIELD(modify_qp_in, qpc);
    FIELD(qpc, st);
    FIELD(qpc, pm_state);
    FIELD(qpc, pd);
    FIELD(qpc, mtu);
    FIELD(qpc, log_msg_max);
    FIELD(qpc, log_rq_size);
    FIELD(qpc, log_rq_stride);
    FIELD(qpc, log_sq_size);
    FIELD(qpc, uar_page);
    FIELD(qpc, send_dbr_mode);
    FIELD(qpc, user_index);
    FIELD(qpc, log_page_size);
    FIELD(qpc, remote_qpn);
    FIELD(qpc, primary_address_path);
    FIELD(qpc, log_ack_req_freq);
    FIELD(qpc, log_sra_max);
    FIELD(qpc, retry_count);
    FIELD(qpc, rnr_retry);
    FIELD(qpc, next_send_psn);
    FIELD(qpc, cqn_snd);
    FIELD(qpc, log_rra_max);
    FIELD(qpc, rwe);
    FIELD(qpc, min_rnr_nak);
    FIELD(qpc, next_rcv_psn);
    FIELD(qpc, cqn_rcv);
    FIELD(qpc, dbr_addr);
    FIELD(qpc, rq_type);
    FIELD(qpc, dbr_umem_valid);
    FIELD(qpc, dbr_umem_id);
    FIELD(ads, pkey_index);
    FIELD(ads, ack_timeout);
    FIELD(ads, src_addr_index);
    FIELD(ads, hop_limit);
    FIELD(ads, tclass);
    FIELD(ads, rgid_rip);
    FIELD(ads, udp_sport);
    FIELD(ads, vhca_port_num);
    FIELD(ads, rmac_47_32);
    FIELD(ads, rmac_31_0);
    FIELD(create_qp_out, status);
    FIELD(create_qp_out, syndrome);
    FIELD(create_qp_out, qpn);
    FIELD(create_cq_out, cqn);
    SIZE(create_cq_in);
    SIZE(create_qp_in);
    SIZE(modify_qp_in);
    SIZE(create_cq_out);
    SIZE(create_qp_out);
    return 0;
}
