/* SPDX-License-Identifier: Apache-2.0 OR MIT
 *
 * A stand-in for the DOCA SDK's header of the same name: the two structs that `send.cu` and the bindings of `ringcall-rdma` read, so that
 * both are compiled where there is no SDK. Names, types and order of members are those of the public documentation of the generation with
 * a receive queue (a queue pair of 312 bytes); no line is the SDK's. RINGCALL_DOCA_INCLUDE names a real SDK's folder instead.
 */
#ifndef RINGCALL_STAND_IN_DOCA_GPUNETIO_DEV_VERBS_DEF_H
#define RINGCALL_STAND_IN_DOCA_GPUNETIO_DEV_VERBS_DEF_H

#include <stdint.h>

/* A completion queue as a device sees it: 56 bytes. */
struct doca_gpu_dev_verbs_cq {
    uint8_t *cqe_daddr; /* entries */
    uint32_t cq_num;
    uint32_t cqe_num; /* how many entries */
    uint32_t *dbrec;
    uint64_t cqe_ci;
    uint32_t cqe_mask;
    uint8_t cqe_size;
    uint64_t cqe_rsvd;
    uint32_t mem_type;
};

/* A queue pair as a device sees it: 312 bytes. */
struct doca_gpu_dev_verbs_qp {
    uint64_t sq_rsvd_index;
    uint64_t sq_ready_index;
    uint64_t sq_wqe_pi;
    uint32_t sq_num;
    uint32_t sq_num_shift8;
    uint32_t sq_num_shift8_be;
    uint32_t sq_num_shift8_be_1ds;
    uint32_t sq_num_shift8_be_2ds;
    uint32_t sq_num_shift8_be_3ds;
    uint32_t sq_num_shift8_be_4ds;
    int32_t sq_lock;
    uint16_t sq_wqe_num;
    uint16_t sq_wqe_mask;
    uint8_t *sq_wqe_daddr;
    uint32_t *sq_dbrec;
    uint64_t *sq_db;
    uint32_t rq_num;
    uint64_t rq_wqe_pi;
    uint32_t rq_wqe_num;
    uint32_t rq_wqe_mask;
    uint8_t *rq_wqe_daddr;
    uint32_t *rq_dbrec;
    uint32_t rcv_wqe_size;
    uint64_t rq_rsvd_index;
    uint64_t rq_ready_index;
    int32_t rq_lock;
    struct doca_gpu_dev_verbs_cq cq_sq;
    struct doca_gpu_dev_verbs_cq cq_rq;
    uint32_t nic_handler;
    uint32_t mem_type;
    uint8_t need_mcst;
    uint64_t last_get;
    uint64_t last_dump;
    uint64_t last_recv;
};

#endif
