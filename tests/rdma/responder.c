/* A verbs program that serves `ringcall emulate`: each request is an RDMA WRITE with immediate into one of its pages, each answer a SEND.
 * It starts the client itself, since the client must know its queue pair: the command finds the endpoint's line in the variable ENDPOINT.
 *
 *   responder uc|rc REMOTE_QP REMOTE_IP PATH_MTU FIRST_PSN RECEIVES -- SHELL_COMMAND
 *
 * RECEIVES is how many receive requests are posted: with fewer than requests under way, a reliable client is told "receiver not ready".
 * The function is rpc_increment. Prints the client's output, then one line:
 *   served=N bad=N failed=N client exit=N */
#include "verbs.h"

enum { PAGE = 4096 };

int main(int argc, char **argv) {
  MUST(argc == 9);
  const int reliable = !strcmp(argv[1], "rc"), mtu = atoi(argv[4]), receives = atoi(argv[6]);
  const uint32_t remote = (uint32_t)strtoul(argv[2], NULL, 0), psn = (uint32_t)strtoul(argv[5], NULL, 0);
  struct ibv_context *context = open_device();
  struct ibv_pd *domain = ibv_alloc_pd(context);
  struct ibv_cq *completions = ibv_create_cq(context, 4 * DEPTH, NULL, NULL, 0);
  MUST(domain && completions);
  char *pages = aligned_alloc(4096, (size_t)PAGE * DEPTH), *answers = aligned_alloc(4096, (size_t)PAGE * DEPTH);
  MUST(pages && answers);
  struct ibv_mr *window = ibv_reg_mr(domain, pages, (size_t)PAGE * DEPTH, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
  struct ibv_mr *out = ibv_reg_mr(domain, answers, (size_t)PAGE * DEPTH, 0);
  MUST(window && out);
  struct ibv_qp *pair = make_pair(domain, completions, reliable, receives);
  for (int i = 0; i < receives; i++)
    post_receive(pair, 0, NULL, 0, 0);
  connect_pair(pair, reliable, argv[3], remote, mtu, psn, 12);

  char endpoint[256];
  snprintf(endpoint, sizeof endpoint, "transport=roce port=4791 qp=%#x rkey=%#x base=%#lx pages=%d page_size=%d ip=10.0.0.2", pair->qp_num,
           window->rkey, (unsigned long)(uintptr_t)pages, DEPTH, PAGE);
  setenv("ENDPOINT", endpoint, 1);
  const pid_t child = fork();
  MUST(child >= 0);
  if (child == 0) {
    execl("/usr/bin/bash", "bash", "-c", argv[8], (char *)NULL);
    _exit(127);
  }
  int status = 0, served = 0, bad = 0, failed = 0;
  for (unsigned turn = 0;; turn++) {
    struct ibv_wc done;
    const int polled = ibv_poll_cq(completions, 1, &done);
    MUST(polled >= 0);
    if (polled == 0) {
      if (turn % 64 == 0 && waitpid(child, &status, WNOHANG) == child)
        break;
      continue;
    }
    if (done.status != IBV_WC_SUCCESS) {
      failed++;
      continue;
    }
    if (done.opcode != IBV_WC_RECV_RDMA_WITH_IMM)
      continue;
    const uint32_t page = ntohl(done.imm_data) & 0xFFF;
    post_receive(pair, 0, NULL, 0, 0);
    uint32_t header[6];
    /* The completion's length is the last message's; a request may be several. */
    if (page >= DEPTH) {
      bad++;
      continue;
    }
    const char *request = pages + (size_t)page * PAGE;
    char *answer = answers + (size_t)page * PAGE;
    memcpy(header, request, HEADER);
    if (header[0] != REQUEST || header[1] != RPC_INCREMENT || header[2] > PAGE - HEADER) {
      bad++;
      continue;
    }
    const uint32_t reply[6] = {RESPONSE, 0, header[2], header[3], header[4], header[5]};
    memcpy(answer, reply, HEADER);
    for (uint32_t i = 0; i < header[2]; i++)
      answer[HEADER + i] = (char)(request[HEADER + i] + 1);
    struct ibv_sge piece = {(uintptr_t)answer, HEADER + header[2], out->lkey};
    struct ibv_send_wr send = {.sg_list = &piece, .num_sge = 1, .opcode = IBV_WR_SEND, .send_flags = IBV_SEND_SIGNALED}, *bad_send;
    if (ibv_post_send(pair, &send, &bad_send))
      failed++;
    else
      served++;
  }
  printf("served=%d bad=%d failed=%d client exit=%d\n", served, bad, failed, WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
  return 0;
}
