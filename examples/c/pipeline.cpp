// A real-time pipeline in C++: requests carry the syndromes of a repetition code, four workers decode them, and a handler is told
// of each answer. With a GPU, gpu_worker_resources has a graph and its stream as well: see cudaq/qec/realtime/pipeline.h.
#include <cudaq/qec/realtime/pipeline.h>
#include <ringcall_decoder.h>

#include <atomic>
#include <cstdio>
#include <cstring>
#include <vector>

namespace realtime = cudaq::qec::realtime::experimental;

int main() {
  // Three data qubits, two checks; the observable is the first qubit's error.
  const char model[] = "error(0.1) D0 L0\nerror(0.1) D0 D1\nerror(0.1) D1\n";
  constexpr int WORKERS = 4;
  constexpr uint32_t DECODE = 0x6465636f;
  std::vector<ringcall_decoder_t *> decoders(WORKERS); // one each: workers decode at once
  for (auto &decoder : decoders)
    if (ringcall_decoder_create_from_dem(model, sizeof model - 1, RINGCALL_MATCHING_PLAIN, &decoder) != CUDAQ_OK)
      return std::fprintf(stderr, "%s\n", ringcall_last_error()), 1;

  realtime::pipeline_stage_config config;
  config.num_workers = WORKERS;
  config.slot_size = 64;
  realtime::realtime_pipeline pipeline(config);
  pipeline.set_gpu_stage([&](int worker) {
    realtime::gpu_worker_resources made; // no graph: the CPU stage alone
    made.function_id = DECODE;
    made.user_context = decoders[static_cast<size_t>(worker)];
    return made;
  });
  pipeline.set_cpu_stage([](const realtime::cpu_stage_context &c) -> size_t {
    // Request and response lie in the same slot: a header of 24 bytes, then the payload.
    auto *payload = static_cast<uint8_t *>(c.response_buffer) + sizeof(cudaq::realtime::RPCHeader);
    const uint8_t syndrome = *payload;
    uint8_t flipped = 0;
    auto *decoder = static_cast<ringcall_decoder_t *>(c.user_context);
    const auto status = ringcall_decoder_decode_bits(decoder, &syndrome, 1, &flipped, 1, nullptr);
    const cudaq::realtime::RPCResponse response = {cudaq::realtime::RPC_MAGIC_RESPONSE, status == CUDAQ_OK ? 0 : 1, 1, 0, 0};
    std::memcpy(c.response_buffer, &response, sizeof response);
    *payload = flipped;
    return sizeof response + 1;
  });
  std::atomic<int> right{0}, other{0};
  pipeline.set_completion_handler([&](const realtime::completion &c) {
    // Of the syndromes 00, 01, 10, 11 only the second is the first qubit's.
    const bool first = c.request_id % 4 == 1;
    ++(c.success && c.result_size == 1 && *static_cast<const uint8_t *>(c.result) == first ? right : other);
  });
  pipeline.start();
  auto injector = pipeline.create_injector();
  constexpr int REQUESTS = 10000;
  for (int i = 0; i < REQUESTS; ++i) {
    const uint8_t syndrome = i % 4;
    injector.submit(DECODE, &syndrome, 1, static_cast<uint64_t>(i));
  }
  pipeline.stop();
  for (auto *decoder : decoders)
    ringcall_decoder_destroy(decoder);
  std::printf("%d of %d requests decoded, %llu submissions waited for a slot\n", right.load(), REQUESTS,
              static_cast<unsigned long long>(pipeline.stats().backpressure_stalls));
  return right == REQUESTS && other == 0 ? 0 : 1;
}
