/* What a unified kernel is launched with. The first two forms are the CUDA-Q Realtime host API's; the third says its size. */
#ifndef RINGCALL_HSB_CONTEXT_H
#define RINGCALL_HSB_CONTEXT_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct ringcall_context48 {
    void* gpu_dev_qp;
    uint8_t* rx_ring_data;
    uint64_t rx_ring_stride_sz;
    uint32_t rx_ring_mkey; /* big-endian */
    uint32_t rx_ring_stride_num;
    uint64_t frame_size;
    int32_t use_bf;
    uint32_t reserved;
} ringcall_context48;

/* The name that the specification's wiring example has for it. It names no response slots, since the reference answers from the request's
 * slot. Ringcall's kernels do not: with an adapter of its own (ringcall_hsb.h) they know where its response slots are, and with another
 * they want one of the other two forms. */
typedef ringcall_context48 HSB_doca_transport_ctx;

typedef struct ringcall_context72 {
    void* gpu_dev_qp;
    uint8_t* rx_ring_data;
    uint64_t rx_ring_stride_sz;
    uint32_t rx_ring_stride_num;
    uint32_t reserved_28;
    uint8_t* tx_ring_data;
    uint64_t tx_ring_stride_sz;
    uint32_t tx_ring_mkey; /* big-endian */
    uint32_t reserved_52;
    uint64_t frame_size;
    int32_t use_bf;
    uint32_t reserved_68;
} ringcall_context72;

#define RINGCALL_CONTEXT_MAGIC UINT64_C(0x31494e5558544352) /* "RCTXUNI1" */
#define RINGCALL_CONTEXT_VERSION 1u

typedef struct ringcall_context {
    uint64_t magic;
    uint32_t bytes; /* sizeof(ringcall_context), as its maker knows it */
    uint32_t version;
    uint64_t qp;
    uint64_t rx_data;
    uint64_t rx_stride;
    uint32_t slots;
    uint32_t rx_mkey; /* big-endian; 0: not known */
    uint64_t tx_data;
    uint64_t tx_stride;
    uint32_t tx_mkey; /* big-endian */
    uint32_t blue_flame;
    uint64_t frame_bytes;
} ringcall_context;

#ifdef __cplusplus
}
#endif

#endif
