// Sends through the DOCA SDK's own device functions, for those who must use them: a unified kernel's response, handed to
// `doca_gpu_dev_verbs_*` in place of the queues of ringcall-mlx5.
//
// Compiles where the SDK's headers are (GPUNetIO, with doca_gpunetio_dev_verbs_qp.cuh); this repository has a stand-in of them alone.
// Only functions that both known generations have with these arguments are called, all with their default modes.
//
//     nvcc -rdc=true -ptx -arch=compute_90 -I $DOCA/include send.cu

#if !__has_include(<doca_gpunetio_dev_verbs_qp.cuh>)
#error "the DOCA SDK's headers are needed: give -I with the folder of doca_gpunetio_dev_verbs_qp.cuh"
#endif

#include <cstdint>
#include <doca_gpunetio_dev_verbs_qp.cuh>

namespace {

constexpr std::uint32_t send_opcode = 0x0A;
constexpr std::uint32_t inline_flag = 0x80000000u;
// What fits after the control segment and an inline header, of 64 bytes.
constexpr std::uint32_t most_inline = 44;
// Completion mode of the control segment: always.
constexpr std::uint32_t signalled = 2u << 2;

__device__ std::uint32_t big(std::uint32_t value)
{
    return __byte_perm(value, 0, 0x0123);
}

}  // namespace

// Posts one send of `len` bytes and rings. `frame` is the response in registered memory, at `address` in the terms of the
// region whose key is `mkey` (big-endian, as it stands in a request). Returns 0, or -1 for a length that cannot be sent.
//
// One thread of one kernel sends on a queue pair. It asks for a completion if `signal` is not 0; the caller knows from
// those which send slots it may write again. The SDK waits for room in the queue, without a bound, and learns of room by
// completions: at least one request in a queue's length is signalled, or a full queue is waited for for ever.
extern "C" __device__ int ringcall_doca_send(void* qp_address, const void* frame, std::uint64_t address, std::uint32_t mkey,
                                             std::uint32_t len, int signal)
{
    if (len == 0 || (len & inline_flag) != 0)
        return -1;
    auto* qp = static_cast<doca_gpu_dev_verbs_qp*>(qp_address);
    const std::uint64_t index = doca_gpu_dev_verbs_reserve_wq_slots(qp, 1);
    auto* request = reinterpret_cast<std::uint32_t*>(doca_gpu_dev_verbs_get_wqe_ptr(qp, static_cast<std::uint16_t>(index)));
    const bool fits = len <= most_inline;
    // In units of 16 bytes: the control segment, and the data segment or the inline bytes with their header.
    const std::uint32_t size = fits ? 1 + (4 + len + 15) / 16 : 2;
    request[0] = big((static_cast<std::uint32_t>(index & 0xFFFF) << 8) | send_opcode);
    request[1] = big((qp->sq_num << 8) | size);
    request[2] = big(signal != 0 ? signalled : 0);
    request[3] = 0;
    if (fits) {
        request[4] = big(inline_flag | len);
        auto* to = reinterpret_cast<std::uint8_t*>(request + 5);
        const auto* from = static_cast<const std::uint8_t*>(frame);
        for (std::uint32_t i = 0; i < len; ++i)
            to[i] = from[i];
    } else {
        request[4] = big(len);
        request[5] = mkey;
        request[6] = big(static_cast<std::uint32_t>(address >> 32));
        request[7] = big(static_cast<std::uint32_t>(address));
    }
    doca_gpu_dev_verbs_mark_wqes_ready(qp, index, index);
    doca_gpu_dev_verbs_submit(qp, index + 1);
    return 0;
}
