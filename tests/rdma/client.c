/* A verbs program that asks a service of `ringcall serve`: each request is an RDMA WRITE with immediate into a page of the service's
 * window, each answer a SEND. It starts the service itself, since a verbs program cannot choose its queue pair's number and answers
 * are addressed to that number: the command finds it in the variable QPN. The command's first line is the endpoint.
 *
 *   client REQUESTS PAYLOAD_BYTES WINDOW PATH_MTU FIRST_PSN KEY_XOR -- SHELL_COMMAND
 *
 * The function is rpc_increment: every byte of the payload plus one. Prints one line:
 *   right=N wrong=N refused=N lost=N stray=N
 * then the service's output. Exit status: 0 when every request was right, wrong nowhere or lost; the caller reads the line. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MUST(condition)                                                                      \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "client.c:%d: %s\n", __LINE__, #condition);                            \
      exit(70);                                                                              \
    }                                                                                        \
  } while (0)

enum { HEADER = 24, CHUNK = 16384, DEPTH = 64, WAIT_MS = 3000 };
static const uint32_t REQUEST = 0x43555152, RESPONSE = 0x43555153, RPC_INCREMENT = 0x191b6322;

static double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static unsigned long field(const char *line, const char *key) {
  char pattern[32];
  snprintf(pattern, sizeof pattern, " %s=", key);
  const char *found = strstr(line, pattern);
  MUST(found);
  return strtoul(found + strlen(pattern), NULL, 0);
}

/* The byte at `index` of the payload of request `id`. */
static uint8_t byte_of(uint32_t id, int index) { return (uint8_t)(id * 31 + (uint32_t)index); }

static enum ibv_mtu mtu_of(int bytes) {
  switch (bytes) {
  case 256: return IBV_MTU_256;
  case 512: return IBV_MTU_512;
  case 1024: return IBV_MTU_1024;
  case 2048: return IBV_MTU_2048;
  default: return IBV_MTU_4096;
  }
}

static struct {
  int busy;
  uint32_t id;
  double sent;
} pages[DEPTH];

int main(int argc, char **argv) {
  MUST(argc == 9);
  const int requests = atoi(argv[1]), payload = atoi(argv[2]), window = atoi(argv[3]), mtu = atoi(argv[4]);
  const uint32_t first_psn = (uint32_t)strtoul(argv[5], NULL, 0), key_xor = (uint32_t)strtoul(argv[6], NULL, 0);

  int count;
  struct ibv_device **devices = ibv_get_device_list(&count);
  MUST(devices && count > 0);
  struct ibv_context *context = ibv_open_device(devices[0]);
  MUST(context);
  struct ibv_pd *domain = ibv_alloc_pd(context);
  struct ibv_cq *completions = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
  MUST(domain && completions);
  char *out = aligned_alloc(4096, (size_t)CHUNK * DEPTH), *in = aligned_alloc(4096, (size_t)CHUNK * DEPTH);
  MUST(out && in);
  struct ibv_mr *out_region = ibv_reg_mr(domain, out, (size_t)CHUNK * DEPTH, 0);
  struct ibv_mr *in_region = ibv_reg_mr(domain, in, (size_t)CHUNK * DEPTH, IBV_ACCESS_LOCAL_WRITE);
  MUST(out_region && in_region);
  struct ibv_qp_init_attr create = {.send_cq = completions,
                                    .recv_cq = completions,
                                    .qp_type = IBV_QPT_UC,
                                    .cap = {.max_send_wr = DEPTH, .max_recv_wr = DEPTH, .max_send_sge = 1, .max_recv_sge = 1}};
  struct ibv_qp *pair = ibv_create_qp(domain, &create);
  MUST(pair);

  char number[16];
  snprintf(number, sizeof number, "%u", pair->qp_num);
  setenv("QPN", number, 1);
  int ends[2];
  MUST(!pipe(ends));
  const pid_t child = fork();
  MUST(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    close(ends[0]);
    close(ends[1]);
    execl("/usr/bin/bash", "bash", "-c", argv[8], (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *service = fdopen(ends[0], "r");
  char line[1024];
  MUST(fgets(line, sizeof line, service));
  const uint32_t service_pair = (uint32_t)field(line, "qp"), key = (uint32_t)field(line, "rkey") ^ key_xor;
  const unsigned long base = field(line, "base"), page_bytes = field(line, "page_size");
  MUST(window <= DEPTH && (unsigned long)window <= field(line, "pages"));
  MUST((unsigned long)(HEADER + payload) <= page_bytes && HEADER + payload <= CHUNK);
  char address[64];
  const char *ip = strstr(line, " ip=");
  MUST(ip && sscanf(ip, " ip=%63s", address) == 1);
  union ibv_gid gid = {.raw = {[10] = 0xFF, [11] = 0xFF}};
  MUST(inet_pton(AF_INET, address, gid.raw + 12) == 1);

  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1};
  MUST(!ibv_modify_qp(pair, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  struct ibv_qp_attr receive = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = mtu_of(mtu),
      .dest_qp_num = service_pair,
      .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 64}}};
  MUST(!ibv_modify_qp(pair, &receive, IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN));
  struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS, .sq_psn = first_psn};
  MUST(!ibv_modify_qp(pair, &send, IBV_QP_STATE | IBV_QP_SQ_PSN));

  struct ibv_recv_wr *bad_receive;
  for (int i = 0; i < DEPTH; i++) {
    struct ibv_sge piece = {(uintptr_t)(in + (size_t)i * CHUNK), CHUNK, in_region->lkey};
    struct ibv_recv_wr request = {.wr_id = (uint64_t)i, .sg_list = &piece, .num_sge = 1};
    MUST(!ibv_post_recv(pair, &request, &bad_receive));
  }

  int right = 0, wrong = 0, refused = 0, lost = 0, stray = 0;
  uint32_t next = 0;
  while (right + wrong + refused + lost < requests) {
    for (int page = 0; page < window && next < (uint32_t)requests; page++) {
      if (pages[page].busy)
        continue;
      char *frame = out + (size_t)page * CHUNK;
      const uint32_t header[6] = {REQUEST, RPC_INCREMENT, (uint32_t)payload, next, 7, 9};
      memcpy(frame, header, HEADER);
      for (int i = 0; i < payload; i++)
        frame[HEADER + i] = (char)byte_of(next, i);
      struct ibv_sge piece = {(uintptr_t)frame, (uint32_t)(HEADER + payload), out_region->lkey};
      struct ibv_send_wr *bad_send;
      struct ibv_send_wr request = {
          .wr_id = (uint64_t)page,
          .sg_list = &piece,
          .num_sge = 1,
          .opcode = IBV_WR_RDMA_WRITE_WITH_IMM,
          .send_flags = IBV_SEND_SIGNALED,
          .imm_data = htonl((uint32_t)page),
          .wr = {.rdma = {.remote_addr = base + (unsigned long)page * page_bytes, .rkey = key}}};
      MUST(!ibv_post_send(pair, &request, &bad_send));
      pages[page].busy = 1;
      pages[page].id = next++;
      pages[page].sent = now();
    }
    struct ibv_wc done;
    const int polled = ibv_poll_cq(completions, 1, &done);
    MUST(polled >= 0);
    if (polled == 0) {
      for (int page = 0; page < window; page++)
        if (pages[page].busy && now() - pages[page].sent > WAIT_MS * 1e-3) {
          pages[page].busy = 0;
          lost++;
        }
      continue;
    }
    MUST(done.status == IBV_WC_SUCCESS);
    if (done.opcode == IBV_WC_RDMA_WRITE)
      continue;
    const uint8_t *answer = (const uint8_t *)in + done.wr_id * CHUNK;
    uint32_t header[6];
    memcpy(header, answer, HEADER);
    int page = 0;
    while (page < window && !(pages[page].busy && pages[page].id == header[3]))
      page++;
    if (page == window || header[0] != RESPONSE) {
      stray++;
    } else {
      int good = done.byte_len == (uint32_t)(HEADER + payload) && header[2] == (uint32_t)payload && header[4] == 7 && header[5] == 9;
      for (int i = 0; good && i < payload; i++)
        good = answer[HEADER + i] == (uint8_t)(byte_of(header[3], i) + 1);
      if (header[1])
        refused++;
      else if (good)
        right++;
      else
        wrong++;
      pages[page].busy = 0;
    }
    struct ibv_sge piece = {(uintptr_t)answer, CHUNK, in_region->lkey};
    struct ibv_recv_wr again = {.wr_id = done.wr_id, .sg_list = &piece, .num_sge = 1};
    MUST(!ibv_post_recv(pair, &again, &bad_receive));
  }
  printf("right=%d wrong=%d refused=%d lost=%d stray=%d\n", right, wrong, refused, lost, stray);
  fflush(stdout);
  kill(child, SIGTERM);
  while (fgets(line, sizeof line, service))
    fputs(line, stdout);
  int status;
  MUST(waitpid(child, &status, 0) == child);
  printf("service exit=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return right == requests ? 0 : 1;
}
