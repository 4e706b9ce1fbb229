/* The decoder from C++: owned handles, and threads with clones, with one decoder for all, and with a decoder that is
 * destroyed. */
#include "program.h"
#include "ringcall_decoder.h"
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

struct Destroy {
  void operator()(ringcall_decoder_t *decoder) const { EXPECT_OK(ringcall_decoder_destroy(decoder)); }
  void operator()(ringcall_decoder_stream_t *stream) const { EXPECT_OK(ringcall_decoder_stream_destroy(stream)); }
};
using Decoder = std::unique_ptr<ringcall_decoder_t, Destroy>;
using Stream = std::unique_ptr<ringcall_decoder_stream_t, Destroy>;

static Decoder clone(const Decoder &decoder) {
  ringcall_decoder_t *raw = nullptr;
  EXPECT_OK(ringcall_decoder_clone(decoder.get(), &raw));
  return Decoder(raw);
}

/* A bit that is measured over and over: each detector compares two measurements; 70 observables, of which the last is
 * meant. */
constexpr uint32_t DETECTORS = 12, OBSERVABLES = 70;
static std::string model() {
  std::string text = "error(0.02) D0\n";
  for (uint32_t i = 0; i + 1 < DETECTORS; ++i)
    text += "error(0.0" + std::to_string(1 + i % 7) + ") D" + std::to_string(i) + " D" + std::to_string(i + 1) + "\n";
  text += "error(0.03) D" + std::to_string(DETECTORS - 1) + " L0 L69\n";
  for (uint32_t i = 0; i < DETECTORS; ++i)
    text += "detector(0, " + std::to_string(i / 3) + ") D" + std::to_string(i) + "\n";
  return text;
}

struct Answer {
  uint8_t observables[9];
  double weight;
  bool operator==(const Answer &other) const {
    return memcmp(observables, other.observables, sizeof observables) == 0 && weight == other.weight;
  }
};

static Answer decode(const Decoder &decoder, uint32_t syndrome) {
  const uint8_t bits[2] = {uint8_t(syndrome), uint8_t(syndrome >> 8)};
  Answer answer;
  EXPECT_OK(ringcall_decoder_decode_bits(decoder.get(), bits, sizeof bits, answer.observables,
                                         sizeof answer.observables, &answer.weight));
  return answer;
}

int main() {
  const std::string text = model();
  ringcall_decoder_t *raw = nullptr;
  EXPECT_OK(ringcall_decoder_create_from_dem(text.data(), text.size(), RINGCALL_MATCHING_PLAIN, &raw));
  Decoder decoder(raw);
  ringcall_decoder_info_t info;
  EXPECT_OK(ringcall_decoder_get_info(raw, &info));
  static_assert(sizeof info == 24, "as Rust lays it out");
  EXPECT(info.num_detectors == DETECTORS && info.num_observables == OBSERVABLES && info.observable_bytes == 9);

  std::vector<Answer> answers;
  for (uint32_t syndrome = 0; syndrome < 1u << DETECTORS; ++syndrome) {
    answers.push_back(decode(decoder, syndrome));
    const uint8_t *const flips = answers.back().observables;
    const bool flipped = flips[0] == 1;
    EXPECT((flips[8] == 0x20) == flipped && (flipped || flips[8] == 0));
    for (int i = 1; i < 8; ++i)
      EXPECT(flips[i] == 0);
  }

  /* Every syndrome, three detectors a round. */
  ringcall_decoder_stream_t *raw_stream = nullptr;
  EXPECT_OK(ringcall_decoder_stream_create(decoder.get(), nullptr, 0, &raw_stream));
  const Stream stream(raw_stream);
  for (uint32_t syndrome = 0; syndrome < 1u << DETECTORS; ++syndrome) {
    Answer answer;
    int done = 0;
    for (uint32_t round = 0; !done; ++round) {
      std::vector<uint32_t> fired;
      for (uint32_t i = 3 * round; i < 3 * round + 3; ++i)
        if (syndrome >> i & 1)
          fired.insert(fired.begin(), i);
      EXPECT_OK(ringcall_decoder_stream_push_round(stream.get(), fired.data(), fired.size(), answer.observables,
                                                   sizeof answer.observables, &answer.weight, &done));
      EXPECT(done == (round == 3));
    }
    EXPECT(answer.weight == answers[syndrome].weight);
  }

  /* A clone for each thread; then all with one. Clones outlive what they are clones of. */
  for (const bool shared : {false, true}) {
    std::vector<std::thread> threads;
    for (uint32_t thread = 0; thread < 4; ++thread)
      threads.emplace_back([&, thread] {
        const Decoder own = shared ? nullptr : clone(decoder);
        for (uint32_t i = 0; i < 1u << DETECTORS; ++i) {
          const uint32_t syndrome = (i * 1021 + thread * 997) % (1u << DETECTORS);
          EXPECT(decode(shared ? decoder : own, syndrome) == answers[syndrome]);
        }
      });
    for (std::thread &thread : threads)
      thread.join();
  }
  const Decoder copy = clone(decoder);
  decoder.reset();
  EXPECT(decode(copy, 5) == answers[5]);

  /* Destroyed while others decode: their calls end well or are refused. */
  std::atomic<bool> started{false};
  ringcall_decoder_t *const ending = clone(copy).release();
  std::thread user([&] {
    for (;;) {
      const uint8_t bits[2] = {5, 0};
      Answer answer;
      const cudaq_status_t status = ringcall_decoder_decode_bits(ending, bits, sizeof bits, answer.observables,
                                                                 sizeof answer.observables, &answer.weight);
      if (status != CUDAQ_OK) {
        EXPECT(status == CUDAQ_ERR_INVALID_ARG && strstr(ringcall_last_error(), "destroyed before") != NULL);
        return;
      }
      EXPECT(answer == answers[5]);
      started = true;
    }
  });
  while (!started)
    std::this_thread::yield();
  EXPECT_OK(ringcall_decoder_destroy(ending));
  user.join();
  return 0;
}
