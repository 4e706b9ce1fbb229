/* The ring helpers, with nobody on the other side. */
#include "program.h"

int main(void) {
  enum { SLOTS = 5, SLOT = 96 };
  cudaq_ringbuffer_t ring = make_ring(SLOTS, SLOT);
  const uint8_t payload[13] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13};
  for (uint32_t slot = 0; slot < SLOTS; ++slot) {
    EXPECT(cudaq_host_ringbuffer_slot_available(&ring, slot) == 1);
    memset(ring.rx_data_host + slot * SLOT, 0x55, SLOT);
    EXPECT_OK(cudaq_host_ringbuffer_write_rpc_request(&ring, slot, 7 + slot, payload, sizeof payload, 100 + slot,
                                                      0x1122334455667788ull));
    /* Written, not signalled. */
    EXPECT(ring.rx_flags_host[slot] == 0 && cudaq_host_ringbuffer_slot_available(&ring, slot) == 1);
    RPCHeader header;
    memcpy(&header, ring.rx_data_host + slot * SLOT, sizeof header);
    EXPECT(header.magic == CUDAQ_RPC_MAGIC_REQUEST && header.function_id == 7 + slot);
    EXPECT(header.arg_len == 13 && header.request_id == 100 + slot);
    EXPECT(header.ptp_timestamp == 0x1122334455667788ull);
    EXPECT(memcmp(ring.rx_data_host + slot * SLOT + 24, payload, sizeof payload) == 0);
    /* What follows the payload is as it was. */
    EXPECT(ring.rx_data_host[slot * SLOT + 24 + 13] == 0x55);
    cudaq_host_ringbuffer_signal_slot(&ring, slot);
    EXPECT(ring.rx_flags_host[slot] == (uint64_t)(uintptr_t)(ring.rx_data_host + slot * SLOT));
    EXPECT(cudaq_host_ringbuffer_slot_available(&ring, slot) == 0);
  }
  const struct {
    uint64_t flag;
    cudaq_tx_status_t status;
    int error;
  } states[] = {{0, CUDAQ_TX_EMPTY, -7},
                {CUDAQ_TX_FLAG_IN_FLIGHT, CUDAQ_TX_IN_FLIGHT, -7},
                {CUDAQ_TX_FLAG_ERROR_TAG << 48 | 700, CUDAQ_TX_ERROR, 700},
                {CUDAQ_TX_FLAG_ERROR_TAG << 48 | 0xFFFF, CUDAQ_TX_ERROR, 0xFFFF},
                {0x7f0000001000, CUDAQ_TX_READY, -7},
                {1, CUDAQ_TX_READY, -7}};
  for (size_t i = 0; i < sizeof states / sizeof states[0]; ++i) {
    int error = -7;
    ring.tx_flags_host[3] = states[i].flag;
    EXPECT(cudaq_host_ringbuffer_poll_tx_flag(&ring, 3, &error) == states[i].status && error == states[i].error);
    EXPECT(cudaq_host_ringbuffer_poll_tx_flag(&ring, 3, NULL) == states[i].status);
  }
  ring.rx_flags_host[3] = 0;
  EXPECT(cudaq_host_ringbuffer_slot_available(&ring, 3) == 0);
  cudaq_host_ringbuffer_clear_slot(&ring, 3);
  EXPECT(cudaq_host_ringbuffer_slot_available(&ring, 3) == 1);
  free_ring(&ring);
  puts("ok");
  return 0;
}
