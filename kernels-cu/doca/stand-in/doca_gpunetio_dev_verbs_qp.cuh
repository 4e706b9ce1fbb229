// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// A stand-in for the DOCA SDK's header of the same name: the signatures of the four functions that `send.cu` calls, by the public
// documentation, with bodies that do the least. It compiles `send.cu` where there is no SDK, and sends nothing.
#ifndef RINGCALL_STAND_IN_DOCA_GPUNETIO_DEV_VERBS_QP_CUH
#define RINGCALL_STAND_IN_DOCA_GPUNETIO_DEV_VERBS_QP_CUH

#include "doca_gpunetio_dev_verbs_def.h"

enum doca_gpu_dev_verbs_resource_sharing_mode { DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU };
enum doca_gpu_dev_verbs_sync_scope { DOCA_GPUNETIO_VERBS_SYNC_SCOPE_GPU };
enum doca_gpu_dev_verbs_nic_handler { DOCA_GPUNETIO_VERBS_NIC_HANDLER_AUTO };

struct doca_gpu_dev_verbs_wqe {
    uint8_t bytes[64];
};

template <doca_gpu_dev_verbs_resource_sharing_mode mode = DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU>
__device__ static inline uint64_t doca_gpu_dev_verbs_reserve_wq_slots(struct doca_gpu_dev_verbs_qp *qp, uint32_t count)
{
    const uint64_t index = qp->sq_rsvd_index;
    qp->sq_rsvd_index = index + count;
    return index;
}

__device__ static inline struct doca_gpu_dev_verbs_wqe *doca_gpu_dev_verbs_get_wqe_ptr(struct doca_gpu_dev_verbs_qp *qp,
                                                                                     uint16_t wqe_idx)
{
    return reinterpret_cast<struct doca_gpu_dev_verbs_wqe *>(qp->sq_wqe_daddr) + (wqe_idx & qp->sq_wqe_mask);
}

template <doca_gpu_dev_verbs_resource_sharing_mode mode = DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU>
__device__ static inline void doca_gpu_dev_verbs_mark_wqes_ready(struct doca_gpu_dev_verbs_qp *qp, uint64_t from, uint64_t to)
{
    if (qp->sq_ready_index == from)
        qp->sq_ready_index = to + 1;
}

template <doca_gpu_dev_verbs_resource_sharing_mode mode = DOCA_GPUNETIO_VERBS_RESOURCE_SHARING_MODE_GPU,
          doca_gpu_dev_verbs_sync_scope scope = DOCA_GPUNETIO_VERBS_SYNC_SCOPE_GPU,
          doca_gpu_dev_verbs_nic_handler handler = DOCA_GPUNETIO_VERBS_NIC_HANDLER_AUTO>
__device__ static inline void doca_gpu_dev_verbs_submit(struct doca_gpu_dev_verbs_qp *qp, uint64_t index)
{
    qp->sq_wqe_pi = index;
}

#endif
