// A transport behind the unified kernel's hooks, as an integrator writes one: a pair of rings of flags in mapped memory.
// Request flag 0: free; anything else: the slot holds a request. Response flag likewise. Slots are taken in turn.

#include <cstdint>

namespace {

struct Ring { // what the host fills, in memory that the device reads and writes
    volatile std::uint64_t* rx_flags;
    volatile std::uint64_t* tx_flags;
    std::uint8_t* rx_data;
    std::uint8_t* tx_data;
    std::uint32_t slots;
    std::uint32_t rx_stride;
    std::uint32_t tx_stride;
    std::uint32_t next; // the slot looked at next; stays from one start to the next
};

struct Session {
    Ring* ring;
    volatile int* shutdown;
};

static_assert(sizeof(Ring) == 48 && sizeof(Session) <= 256);

} // namespace

extern "C" __device__ void* cudaq_dev_transport_attach(void* storage, void* ctx, volatile int* shutdown)
{
    auto* ring = static_cast<Ring*>(ctx);
    if (ring == nullptr || ring->slots == 0)
        return nullptr;
    auto* session = static_cast<Session*>(storage);
    session->ring = ring;
    session->shutdown = shutdown;
    return session;
}

extern "C" __device__ int cudaq_dev_rx_poll(void* session, void** request, void** response)
{
    auto* self = static_cast<Session*>(session);
    Ring* ring = self->ring;
    const std::uint32_t slot = ring->next;
    for (unsigned looks = 0;; ++looks) {
        if (ring->rx_flags[slot] != 0 && ring->tx_flags[slot] == 0)
            break;
        if (looks % 16 == 0 && *self->shutdown != 0)
            return 1;
    }
    __threadfence_system();
    *request = ring->rx_data + std::uint64_t{slot} * ring->rx_stride;
    *response = ring->tx_data + std::uint64_t{slot} * ring->tx_stride;
    return 0;
}

extern "C" __device__ void cudaq_dev_tx_publish(void* session, void* response)
{
    Ring* ring = static_cast<Session*>(session)->ring;
    const std::uint32_t slot = ring->next;
    ring->next = slot + 1 < ring->slots ? slot + 1 : 0;
    // The request's flag before the response's: a client that sees the response may write the slot again.
    ring->rx_flags[slot] = 0;
    __threadfence_system();
    ring->tx_flags[slot] = reinterpret_cast<std::uint64_t>(response);
}
