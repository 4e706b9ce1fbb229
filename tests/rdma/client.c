/* A verbs program that asks a service of `ringcall serve`: each request is an RDMA WRITE with immediate into a page of the service's
 * window, each answer a SEND. It starts the service itself, since a verbs program cannot choose its queue pair's number and answers
 * are addressed to that number: the command finds it in the variable QPN. The command's first line is the endpoint.
 *
 *   client uc|rc REQUESTS PAYLOAD_BYTES WINDOW PATH_MTU FIRST_PSN KEY_XOR -- SHELL_COMMAND
 *
 * Where the endpoint's line names a rendezvous, queue pair and key are asked for there, and ours are told.
 * The function is rpc_increment: every byte of the payload plus one. Prints one line:
 *   right=N wrong=N refused=N lost=N stray=N failed=N
 * then the service's output. `failed` is the status of the completion that broke a reliable connection, 0 for none. Exit status: 0 when every request was right, wrong nowhere or lost; the caller reads the line. */
#include "verbs.h"
#include <signal.h>

enum { WAIT_MS = 3000 };

static unsigned long field(const char *line, const char *key) {
  char pattern[32];
  snprintf(pattern, sizeof pattern, " %s=", key);
  const char *found = strstr(line, pattern);
  MUST(found);
  return strtoul(found + strlen(pattern), NULL, 0);
}

/* The byte at `index` of the payload of request `id`. */
static uint8_t byte_of(uint32_t id, int index) { return (uint8_t)(id * 31 + (uint32_t)index); }

/* Tells the service at the rendezvous of its line our queue pair and address, and hears its own. */
static void meet(const char *entry, uint32_t ours, uint32_t *pair, uint32_t *key) {
  char ip[64];
  unsigned short port;
  MUST(sscanf(entry, " rendezvous=%63[0-9.]:%hu", ip, &port) == 2);
  struct sockaddr_in service = {.sin_family = AF_INET, .sin_port = htons(port)};
  MUST(inet_pton(AF_INET, ip, &service.sin_addr) == 1);
  const int connection = socket(AF_INET, SOCK_STREAM, 0);
  MUST(connection >= 0 && !connect(connection, (struct sockaddr *)&service, sizeof service));
  uint32_t words[3] = {htonl(ours), 0, 0};
  MUST(inet_pton(AF_INET, "10.0.0.2", &words[2]) == 1);
  MUST(write(connection, words, sizeof words) == sizeof words);
  MUST(recv(connection, words, sizeof words, MSG_WAITALL) == sizeof words);
  close(connection);
  *pair = ntohl(words[0]);
  *key = ntohl(words[1]);
}

static struct {
  int busy;
  uint32_t id;
  double sent;
} pages[DEPTH];

int main(int argc, char **argv) {
  MUST(argc == 10);
  const int reliable = !strcmp(argv[1], "rc"), requests = atoi(argv[2]), payload = atoi(argv[3]), window = atoi(argv[4]),
            mtu = atoi(argv[5]);
  const uint32_t first_psn = (uint32_t)strtoul(argv[6], NULL, 0), key_xor = (uint32_t)strtoul(argv[7], NULL, 0);

  struct ibv_context *context = open_device();
  struct ibv_pd *domain = ibv_alloc_pd(context);
  struct ibv_cq *completions = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
  MUST(domain && completions);
  char *out = aligned_alloc(4096, (size_t)CHUNK * DEPTH), *in = aligned_alloc(4096, (size_t)CHUNK * DEPTH);
  MUST(out && in);
  struct ibv_mr *out_region = ibv_reg_mr(domain, out, (size_t)CHUNK * DEPTH, 0);
  struct ibv_mr *in_region = ibv_reg_mr(domain, in, (size_t)CHUNK * DEPTH, IBV_ACCESS_LOCAL_WRITE);
  MUST(out_region && in_region);
  struct ibv_qp *pair = make_pair(domain, completions, reliable, DEPTH);

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
    execl("/usr/bin/bash", "bash", "-c", argv[9], (char *)NULL);
    _exit(127);
  }
  close(ends[1]);
  FILE *service = fdopen(ends[0], "r");
  char line[1024];
  MUST(fgets(line, sizeof line, service));
  uint32_t service_pair = (uint32_t)field(line, "qp"), key = (uint32_t)field(line, "rkey") ^ key_xor;
  const unsigned long base = field(line, "base"), page_bytes = field(line, "page_size");
  MUST(window <= DEPTH && (unsigned long)window <= field(line, "pages"));
  MUST((unsigned long)(HEADER + payload) <= page_bytes && HEADER + payload <= CHUNK);
  char address[64];
  const char *ip = strstr(line, " ip=");
  MUST(ip && sscanf(ip, " ip=%63s", address) == 1);
  const char *meeting = strstr(line, " rendezvous=");
  if (meeting)
    meet(meeting, pair->qp_num, &service_pair, &key);
  connect_pair(pair, reliable, address, service_pair, mtu, first_psn, 12);
  for (int i = 0; i < DEPTH; i++)
    post_receive(pair, (uint64_t)i, in + (size_t)i * CHUNK, CHUNK, in_region->lkey);

  int right = 0, wrong = 0, refused = 0, lost = 0, stray = 0, failed = 0;
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
    if (done.status != IBV_WC_SUCCESS) {
      failed = done.status;
      break;
    }
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
    post_receive(pair, done.wr_id, (void *)(uintptr_t)answer, CHUNK, in_region->lkey);
  }
  printf("right=%d wrong=%d refused=%d lost=%d stray=%d failed=%d\n", right, wrong, refused, lost, stray, failed);
  fflush(stdout);
  kill(child, SIGTERM);
  while (fgets(line, sizeof line, service))
    fputs(line, stdout);
  int status;
  MUST(waitpid(child, &status, 0) == child);
  printf("service exit=%d\n", WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return right == requests ? 0 : 1;
}
