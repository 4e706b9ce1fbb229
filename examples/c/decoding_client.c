/*
 * A client of a decoding server over UDP: sends the measurements of one decode, and prints the corrections.
 *
 *   decoding_client HOST PORT DECODER OBSERVABLES MEASUREMENTS...
 *
 * HOST and PORT are those of the decoder's ring (`ring<id>=` in the server's first line), MEASUREMENTS texts of 0 and 1, one for
 * each round: `decoding_client 127.0.0.1 4000 0 1 010 110`. Without arguments it says so and ends.
 */
#define _POSIX_C_SOURCE 200809L
#include "ringcall_decoding_client.h"

#include <arpa/inet.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FRAME_BYTES = 1024, TIMEOUT_MS = 2000 };

/* Waits for the answer to one request; answers to others are refusals or are passed over. Returns 0 without one. */
static int wait_for(int socket, uint32_t request_id, uint8_t *frame, ringcall_decoding_answer_t *answer) {
  struct pollfd readable = {.fd = socket, .events = POLLIN};
  while (poll(&readable, 1, TIMEOUT_MS) > 0) {
    const ssize_t bytes = recv(socket, frame, FRAME_BYTES, 0);
    if (bytes < 0)
      return 0;
    if (!ringcall_decoding_read(frame, (size_t)bytes, answer))
      continue;
    if (answer->request_id == request_id)
      return 1;
    if (answer->status != RINGCALL_DECODING_OK)
      fprintf(stderr, "request %u: status %d\n", (unsigned)answer->request_id, (int)answer->status);
  }
  return 0;
}

int main(int argc, char **argv) {
  if (argc < 6) {
    printf("usage: %s HOST PORT DECODER OBSERVABLES MEASUREMENTS...\n", argv[0]);
    return 0;
  }
  struct sockaddr_in server = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(argv[2]))};
  const int socket_fd = socket(AF_INET, SOCK_DGRAM, 0);
  if (socket_fd < 0 || inet_pton(AF_INET, argv[1], &server.sin_addr) != 1 ||
      connect(socket_fd, (const struct sockaddr *)&server, sizeof server) != 0) {
    fprintf(stderr, "no way to %s:%s\n", argv[1], argv[2]);
    return 1;
  }
  const int64_t decoder = atoll(argv[3]), observables = atoll(argv[4]);
  uint8_t frame[FRAME_BYTES];
  ringcall_decoding_answer_t answer = {0};
  uint32_t id = 1;

  size_t bytes = ringcall_decoding_reset(frame, sizeof frame, id, decoder);
  if (send(socket_fd, frame, bytes, 0) < 0 || !wait_for(socket_fd, id, frame, &answer) || answer.status != 0) {
    fprintf(stderr, "reset_decoder: %s %d\n", answer.request_id ? "status" : "no answer", (int)answer.status);
    return 1;
  }
  for (int i = 5; i < argc; ++i) {
    uint8_t bits[FRAME_BYTES] = {0};
    const size_t count = strlen(argv[i]);
    for (size_t bit = 0; bit < count && bit < 8 * sizeof bits; ++bit)
      bits[bit / 8] |= (uint8_t)((argv[i][bit] == '1') << (bit % 8));
    bytes = ringcall_decoding_enqueue(frame, sizeof frame, ++id, decoder, bits, count);
    if (bytes == 0 || send(socket_fd, frame, bytes, 0) < 0) {
      fprintf(stderr, "%zu measurements could not be sent\n", count);
      return 1;
    }
  }
  bytes = ringcall_decoding_get_corrections(frame, sizeof frame, ++id, decoder, observables, 1);
  if (send(socket_fd, frame, bytes, 0) < 0 || !wait_for(socket_fd, id, frame, &answer)) {
    fprintf(stderr, "get_corrections: no answer\n");
    return 1;
  }
  if (answer.status != RINGCALL_DECODING_OK) {
    fprintf(stderr, "get_corrections: status %d\n", (int)answer.status);
    return 1;
  }
  for (int64_t i = 0; i < observables; ++i)
    putchar('0' + ringcall_decoding_correction(&answer, (size_t)i));
  putchar('\n');
  close(socket_fd);
  return 0;
}
