/* A transport from a shared library, loaded and served through this library: bridge LIBRARY ARGUMENTS...
 * With --unified among the arguments the dispatcher's thread drives it; else it fills its ring. */
#include "cudaq/realtime/cpu_transport/udp_wrapper.h"
#include "cudaq/realtime/daemon/bridge/bridge_interface.h"
#include "cudaq/realtime/daemon/bridge/cpu_dataplane.h"
#include "program.h"
#include <arpa/inet.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

enum { CLIENTS = 2, UNDER_WAY = 3, ROUNDS = 50 };

/* A socket whose peer is what the provider's line names. */
static int client_of(const char *line, int number) {
  const char *path = strstr(line, " path="), *port = strstr(line, " port=");
  int client;
  if (path != NULL) {
    struct sockaddr_un to = {.sun_family = AF_UNIX}, own = {.sun_family = AF_UNIX};
    snprintf(to.sun_path, sizeof to.sun_path, "%s", path + 6);
    EXPECT((size_t)snprintf(own.sun_path, sizeof own.sun_path, "%s.%d", path + 6, number) < sizeof own.sun_path);
    unlink(own.sun_path);
    client = socket(AF_UNIX, SOCK_DGRAM, 0);
    EXPECT(bind(client, (struct sockaddr *)&own, sizeof own) == 0);
    EXPECT(connect(client, (struct sockaddr *)&to, sizeof to) == 0);
  } else {
    EXPECT(port != NULL);
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)atoi(port + 6))};
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    client = socket(AF_INET, SOCK_DGRAM, 0);
    EXPECT(connect(client, (struct sockaddr *)&to, sizeof to) == 0);
  }
  struct timeval grace = {.tv_sec = 20};
  EXPECT(setsockopt(client, SOL_SOCKET, SO_RCVTIMEO, &grace, sizeof grace) == 0);
  return client;
}

static void send_one(int client, uint8_t mark, uint32_t id) {
  uint8_t frame[sizeof(RPCHeader) + 64];
  RPCHeader header = {RPC_MAGIC_REQUEST, INCREMENT, 1 + id % 64, id, id * 3};
  memcpy(frame, &header, sizeof header);
  memset(frame + sizeof header, mark, header.arg_len);
  EXPECT(send(client, frame, sizeof header + header.arg_len, 0) == (ssize_t)(sizeof header + header.arg_len));
}

static uint32_t receive_one(int client, uint8_t mark) {
  uint8_t frame[512];
  ssize_t length = recv(client, frame, sizeof frame, 0);
  EXPECT(length >= (ssize_t)sizeof(RPCResponse));
  RPCResponse header;
  memcpy(&header, frame, sizeof header);
  EXPECT(header.magic == RPC_MAGIC_RESPONSE && header.status == 0 && header.ptp_timestamp == header.request_id * 3);
  EXPECT(header.result_len == 1 + header.request_id % 64);
  EXPECT(length >= (ssize_t)(sizeof header + header.result_len));
  for (uint32_t i = 0; i < header.result_len; ++i)
    EXPECT(frame[sizeof header + i] == (uint8_t)(mark + 1));
  return header.request_id;
}

/* Several clients, several requests under way: each gets its own answers, all of them, once. */
static void ask_all(const char *line) {
  int clients[CLIENTS];
  for (int c = 0; c < CLIENTS; ++c)
    clients[c] = client_of(line, c);
  for (uint32_t round = 0; round < ROUNDS; ++round) {
    for (int c = 0; c < CLIENTS; ++c)
      for (uint32_t i = 0; i < UNDER_WAY; ++i)
        send_one(clients[c], (uint8_t)(10 * c), round * UNDER_WAY + i);
    for (int c = 0; c < CLIENTS; ++c) {
      uint32_t seen = 0;
      for (uint32_t i = 0; i < UNDER_WAY; ++i) {
        uint32_t id = receive_one(clients[c], (uint8_t)(10 * c));
        EXPECT(id / UNDER_WAY == round);
        seen |= 1u << id % UNDER_WAY;
      }
      EXPECT(seen == (1u << UNDER_WAY) - 1);
    }
  }
  for (int c = 0; c < CLIENTS; ++c)
    close(clients[c]);
}

static void refusals(const char *library, int argc, char **argv) {
  cudaq_realtime_bridge_handle_t bridge = NULL;
  EXPECT_INVALID(cudaq_bridge_create_from_library(NULL, library, argc, argv));
  EXPECT_INVALID(cudaq_bridge_create_from_library(&bridge, NULL, argc, argv));
  EXPECT_INVALID(cudaq_bridge_create_from_library(&bridge, library, -1, argv));
  EXPECT(cudaq_bridge_create_from_library(&bridge, "/no/such/library.so", argc, argv) == CUDAQ_ERR_INTERNAL);
  EXPECT(bridge == NULL && strstr(ringcall_bridge_last_error(), "/no/such/library.so") != NULL);
  EXPECT_INVALID(cudaq_bridge_create(&bridge, (cudaq_realtime_transport_provider_t)7, argc, argv));
  EXPECT_INVALID(cudaq_bridge_launch(NULL));
  EXPECT_INVALID(cudaq_bridge_destroy((void *)library));
  EXPECT(cpu_udp_create_transceiver(7, 4) == NULL && cpu_udp_bind(NULL, 0) == 0);
}

int main(int argc, char **argv) {
  EXPECT(argc >= 2);
  const char *library = argv[1];
  int unified = 0;
  for (int i = 2; i < argc; ++i)
    unified |= strcmp(argv[i], "--unified") == 0;
  refusals(library, argc - 2, argv + 2);

  cudaq_realtime_bridge_handle_t bridge = NULL;
  EXPECT_OK(cudaq_bridge_create_from_library(&bridge, library, argc - 2, argv + 2));
  char line[256];
  EXPECT_INVALID(cudaq_bridge_get_endpoint_info(bridge, line, 3));
  EXPECT_OK(cudaq_bridge_get_endpoint_info(bridge, line, sizeof line));
  uint32_t slots = 0, slot_size = 0;
  EXPECT_OK(cudaq_bridge_get_ring_geometry(bridge, &slots, &slot_size));

  cudaq_dispatch_manager_t *manager;
  cudaq_dispatcher_t *dispatcher;
  cudaq_dispatcher_config_t config = host_config(slots, slot_size);
  config.kernel_type = unified ? CUDAQ_KERNEL_UNIFIED : CUDAQ_KERNEL_REGULAR;
  cudaq_function_entry_t entry;
  increment_entry(&entry);
  cudaq_function_table_t table = {&entry, 1};
  volatile int shutdown = 0;
  uint64_t stats = 0;
  EXPECT_OK(cudaq_dispatch_manager_create(&manager));
  EXPECT_OK(cudaq_dispatcher_create(manager, &config, &dispatcher));
  EXPECT_OK(cudaq_dispatcher_set_function_table(dispatcher, &table));
  EXPECT_OK(cudaq_dispatcher_set_control(dispatcher, &shutdown, &stats));

  cudaq_ringbuffer_t ring;
  cudaq_cpu_dataplane_t plane;
  memset(&ring, 0, sizeof ring);
  memset(&plane, 0, sizeof plane);
  if (unified) {
    EXPECT(cudaq_bridge_get_transport_context(bridge, RING_BUFFER, &ring) == CUDAQ_ERR_UNSUPPORTED);
    EXPECT_OK(cudaq_bridge_get_cpu_dataplane(bridge, &plane));
    EXPECT_OK(cudaq_dispatcher_set_cpu_dataplane(dispatcher, &plane));
  } else {
    EXPECT(cudaq_bridge_get_cpu_dataplane(bridge, &plane) == CUDAQ_ERR_UNSUPPORTED);
    EXPECT_OK(cudaq_bridge_get_transport_context(bridge, RING_BUFFER, &ring));
    EXPECT_OK(cudaq_dispatcher_set_ringbuffer(dispatcher, &ring));
  }
  EXPECT_OK(cudaq_bridge_connect(bridge));
  EXPECT_OK(cudaq_bridge_launch(bridge));
  EXPECT_OK(cudaq_dispatcher_start(dispatcher));
  ask_all(line);
  EXPECT_OK(cudaq_dispatcher_stop(dispatcher));
  EXPECT(stats == CLIENTS * UNDER_WAY * ROUNDS);
  EXPECT_OK(cudaq_bridge_disconnect(bridge));
  EXPECT_OK(cudaq_dispatcher_destroy(dispatcher));
  EXPECT_OK(cudaq_dispatch_manager_destroy(manager));
  EXPECT_OK(cudaq_bridge_destroy(bridge));
  EXPECT_INVALID(cudaq_bridge_destroy(bridge));
  puts("ok");
  return 0;
}
