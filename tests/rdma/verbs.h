/* What the verbs programs of this folder have in common. */
#include <arpa/inet.h>
#include <infiniband/verbs.h>
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
      fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition);                        \
      exit(70);                                                                              \
    }                                                                                        \
  } while (0)

enum { HEADER = 24, CHUNK = 16384, DEPTH = 64 };
static const uint32_t REQUEST = 0x43555152, RESPONSE = 0x43555153, RPC_INCREMENT = 0x191b6322;

static inline double now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec + time.tv_nsec * 1e-9;
}

static inline enum ibv_mtu mtu_of(int bytes) {
  switch (bytes) {
  case 256: return IBV_MTU_256;
  case 512: return IBV_MTU_512;
  case 1024: return IBV_MTU_1024;
  case 2048: return IBV_MTU_2048;
  default: return IBV_MTU_4096;
  }
}

/* The first device, opened. */
static inline struct ibv_context *open_device(void) {
  int count;
  struct ibv_device **devices = ibv_get_device_list(&count);
  MUST(devices && count > 0);
  struct ibv_context *context = ibv_open_device(devices[0]);
  MUST(context);
  return context;
}

/* A queue pair in the state INIT whose window a peer may write. */
static inline struct ibv_qp *make_pair(struct ibv_pd *domain, struct ibv_cq *completions, int reliable, int receives) {
  struct ibv_qp_init_attr create = {
      .send_cq = completions,
      .recv_cq = completions,
      .qp_type = reliable ? IBV_QPT_RC : IBV_QPT_UC,
      .cap = {.max_send_wr = DEPTH, .max_recv_wr = (uint32_t)receives, .max_send_sge = 1, .max_recv_sge = 1}};
  struct ibv_qp *pair = ibv_create_qp(domain, &create);
  MUST(pair);
  struct ibv_qp_attr init = {.qp_state = IBV_QPS_INIT, .port_num = 1, .qp_access_flags = IBV_ACCESS_REMOTE_WRITE};
  MUST(!ibv_modify_qp(pair, &init, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS));
  return pair;
}

/* Connects a queue pair to one of another machine. Of a reliable one both sides begin at the packet sequence number `psn`. */
static inline void connect_pair(struct ibv_qp *pair, int reliable, const char *ip, uint32_t remote, int mtu, uint32_t psn,
                                int rnr_timer) {
  union ibv_gid gid = {.raw = {[10] = 0xFF, [11] = 0xFF}};
  MUST(inet_pton(AF_INET, ip, gid.raw + 12) == 1);
  struct ibv_qp_attr receive = {
      .qp_state = IBV_QPS_RTR,
      .path_mtu = mtu_of(mtu),
      .dest_qp_num = remote,
      .rq_psn = reliable ? psn : 0,
      .max_dest_rd_atomic = 1,
      .min_rnr_timer = (uint8_t)rnr_timer,
      .ah_attr = {.is_global = 1, .port_num = 1, .grh = {.dgid = gid, .sgid_index = 1, .hop_limit = 64}}};
  const int receive_mask = IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN;
  MUST(!ibv_modify_qp(pair, &receive, receive_mask | (reliable ? IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER : 0)));
  /* 4.096 us * 2^14: 67 ms; 6 tries: rdma_rxe takes 7 for endlessly many. */
  struct ibv_qp_attr send = {.qp_state = IBV_QPS_RTS, .sq_psn = psn, .timeout = 14, .retry_cnt = 6, .rnr_retry = 7, .max_rd_atomic = 1};
  const int reliable_mask = IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC;
  MUST(!ibv_modify_qp(pair, &send, IBV_QP_STATE | IBV_QP_SQ_PSN | (reliable ? reliable_mask : 0)));
}

static inline void post_receive(struct ibv_qp *pair, uint64_t id, void *memory, uint32_t bytes, uint32_t key) {
  struct ibv_sge piece = {(uintptr_t)memory, bytes, key};
  struct ibv_recv_wr request = {.wr_id = id, .sg_list = &piece, .num_sge = bytes > 0}, *bad;
  MUST(!ibv_post_recv(pair, &request, &bad));
}
