// SPDX-License-Identifier: Apache-2.0 OR MIT
//
// The plug-in as CUDA-Q QEC uses it: loaded, asked for by name, decoding. The first argument is the library.

#include "cudaq/qec/decoder.h"

#include <cstdio>
#include <cstdlib>
#include <dlfcn.h>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

using cudaq::qec::decoder;
using cudaq::qec::sparse_binary_matrix;
using bits = std::vector<double>;

#define CHECK(what)                                                                                                      \
  do {                                                                                                                   \
    if (!(what)) {                                                                                                       \
      std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #what);                                                    \
      std::exit(1);                                                                                                      \
    }                                                                                                                    \
  } while (0)

// Three errors on two detectors in a row; the last one flips the observable. The second is likelier than the others.
static const sparse_binary_matrix checks = sparse_binary_matrix::from_nested_csc(2, 3, {{0}, {1, 0}, {1}});
static const sparse_binary_matrix flips = sparse_binary_matrix::from_nested_csc(1, 3, {{}, {}, {0}});
static const std::vector<double> rates{0.01, 0.2, 0.01};

template <typename Make> static std::string refusal(Make make) {
  try {
    make();
  } catch (const std::exception &error) {
    return error.what();
  }
  return "";
}

static bool says(const std::string &text, const char *word) { return text.find(word) != std::string::npos; }

#if __has_include("cudaq/qec/decoder_init.h")
using cudaq::qec::decode_result_type;
using cudaq::qec::decoder_init;

static std::unique_ptr<decoder> make(bool observables, const cudaqx::heterogeneous_map &more = {}) {
  const auto measurements = sparse_binary_matrix::from_nested_csc(2, 4, {{0}, {0}, {1}, {1}});
  const auto output = observables ? decode_result_type::observables : decode_result_type::errors;
  return decoder::get("ringcall", decoder_init(checks, flips, rates, measurements), output, more);
}

static void check_interface() {
  const decoder_init bare(checks);
  CHECK(says(refusal([&] { decoder::get("ringcall", bare, decode_result_type::observables, {}); }), "the model has none"));
  CHECK(decoder::get("ringcall", bare, std::nullopt, {})->decode(bits{1, 1}).result == bits({0, 1, 0}));
  cudaqx::heterogeneous_map correlated;
  correlated.insert("matching", std::string("correlated"));
  CHECK(says(refusal([&] { make(true, correlated); }), "needs a model"));
  decoder_init text(checks, flips, rates);
  text.stand_in_text("error(0.01) D0\nerror(0.2) D0 D1\nerror(0.01) D1 L0\n");
  const auto twice = decoder::get("ringcall", text, decode_result_type::observables, correlated);
  CHECK(twice->decode(bits{0, 1}).result == bits{1} && twice->decode(bits{1, 1}).result == bits{0});
  const decoder_init few(checks, flips, {0.1});
  CHECK(says(refusal([&] { decoder::get("ringcall", few, std::nullopt, {}); }), "1 error rates"));
}
#else
static std::unique_ptr<decoder> make(bool observables, const cudaqx::heterogeneous_map &more = {}) {
  cudaqx::heterogeneous_map params = more;
  params.insert("error_rate_vec", rates);
  if (observables) {
    cudaqx::tensor<std::uint8_t> matrix({1, 3});
    matrix.at({0, 2}) = 1;
    params.insert("O", matrix);
  }
  auto made = decoder::get("ringcall", checks, params);
  if (!observables)
    made->set_O_sparse({{2}});
  made->set_D_sparse({{0, 1}, {2, 3}});
  return made;
}

static void check_interface() {
  cudaqx::heterogeneous_map params;
  CHECK(decoder::get("ringcall", checks, params)->decode(bits{1, 1}).result == bits({0, 1, 0}));
  params.insert("error_rate_vec", std::vector<double>{0.1});
  CHECK(says(refusal([&] { decoder::get("ringcall", checks, params); }), "1 error rates"));
  params.insert("error_rate_vec", std::vector<double>{0.1, 1.5, 0.1});
  CHECK(says(refusal([&] { decoder::get("ringcall", checks, params); }), "1.5"));
  cudaqx::heterogeneous_map flat;
  flat.insert("O", cudaqx::tensor<std::uint8_t>({3}));
  CHECK(says(refusal([&] { decoder::get("ringcall", checks, flat); }), "O must have"));
  cudaqx::heterogeneous_map correlated;
  correlated.insert("matching", std::string("correlated"));
  CHECK(says(refusal([&] { decoder::get("ringcall", checks, correlated); }), "plain"));
}
#endif

int main(int count, char **arguments) {
  CHECK(count == 2 && !decoder::is_registered("ringcall"));
  void *library = dlopen(arguments[1], RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    std::fprintf(stderr, "%s\n", dlerror());
    return 1;
  }
  CHECK(decoder::is_registered("ringcall"));

  // Answers as errors, and as observables.
  auto errors = make(false), observables = make(true);
  CHECK(errors->get_block_size() == 3 && errors->get_syndrome_size() == 2);
  CHECK(says(errors->get_version(), "ringcall"));
  const std::vector<std::pair<bits, bits>> cases{
      {{0, 0}, {0, 0, 0}}, {{1, 0}, {1, 0, 0}}, {{0, 1}, {0, 0, 1}}, {{1, 1}, {0, 1, 0}}, {{0.7, 0.2}, {1, 0, 0}}};
  std::vector<bits> syndromes;
  for (const auto &[syndrome, answer] : cases) {
    const auto found = errors->decode(syndrome), flipped = observables->decode(syndrome);
    CHECK(found.converged && found.result == answer);
    CHECK(flipped.converged && flipped.result == bits{answer[2]});
    syndromes.push_back(syndrome);
  }
  const auto batch = errors->decode_batch(syndromes);
  CHECK(batch.size() == cases.size() && errors->decode_batch({}).empty());
  for (std::size_t i = 0; i < cases.size(); i++)
    CHECK(batch[i].converged && batch[i].result == cases[i].second);
  cudaqx::tensor<std::uint8_t> hard({2});
  hard.at({1}) = 1;
  CHECK(errors->decode(hard).result == bits({0, 0, 1}));

  // Measurements as they come in: detectors are pairs of them, and corrections add up.
  for (auto *each : {errors.get(), observables.get()}) {
    CHECK(!each->enqueue_syndrome({0, 0}) && each->enqueue_syndrome({1, 0}));
    CHECK(each->get_num_observables() == 1 && each->get_obs_corrections()[0] == 1);
    CHECK(each->enqueue_syndrome({1, 0, 0, 1}) && each->get_obs_corrections()[0] == 1);
    CHECK(each->enqueue_syndrome({0, 0, 0, 1}) && each->get_obs_corrections()[0] == 0);
  }

  // What is wrong is said, and leaves the decoder as it was.
  CHECK(says(refusal([&] { errors->decode(bits{1}); }), "1 values"));
  CHECK(says(refusal([&] { errors->decode(bits{1, std::numeric_limits<double>::quiet_NaN()}); }), "not a number"));
  CHECK(errors->decode(bits{1, 0}).result == bits({1, 0, 0}));
  cudaqx::heterogeneous_map unknown, kind;
  unknown.insert("speed", 9);
  kind.insert("matching", std::string("fast"));
  CHECK(says(refusal([&] { make(false, unknown); }), "speed") && says(refusal([&] { make(false, kind); }), "fast"));

  // Detectors that no errors explain: not converged, and the shots around it are decoded.
#if __has_include("cudaq/qec/decoder_init.h")
  const decoder_init closed(sparse_binary_matrix::from_nested_csc(2, 1, {{0, 1}}));
  auto pair = decoder::get("ringcall", closed, std::nullopt, {});
  const decoder_init heavy(sparse_binary_matrix::from_nested_csc(3, 1, {{0, 1, 2}}));
  CHECK(says(refusal([&] { decoder::get("ringcall", heavy, std::nullopt, {}); }), "column 0"));
#else
  auto pair = decoder::get("ringcall", sparse_binary_matrix::from_nested_csc(2, 1, {{0, 1}}), {});
  const auto heavy = sparse_binary_matrix::from_nested_csc(3, 1, {{0, 1, 2}});
  CHECK(says(refusal([&] { decoder::get("ringcall", heavy, {}); }), "column 0"));
#endif
  const auto mixed = pair->decode_batch({{1, 1}, {1, 0}, {0, 1}, {1, 1}});
  CHECK(mixed[0].converged && !mixed[1].converged && !mixed[2].converged && mixed[3].converged);
  CHECK(mixed[1].result == bits{0} && mixed[3].result == bits{1});

  check_interface();
  errors.reset();
  observables.reset();
  pair.reset();
  CHECK(dlclose(library) == 0);
  std::puts("ok");
  return 0;
}
