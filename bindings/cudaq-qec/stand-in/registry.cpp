// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-Q QEC's library, for compiling and testing alone: the one list of decoders.

#include "cudaq/qec/decoder.h"

namespace cudaqx {

// The arguments are those of `decoder`'s base, whichever interface it is of.
template <typename Base, typename... Arguments>
std::pair<std::mutex &, std::map<std::string, std::function<std::unique_ptr<Base>(Arguments...)>> &>
extension_point<Base, Arguments...>::get_registry() {
  // Never destroyed: libraries that are closed at the end take themselves off the list.
  static auto *mutex = new std::mutex();
  static auto *makers = new std::map<std::string, std::function<std::unique_ptr<Base>(Arguments...)>>();
  return {*mutex, *makers};
}

#if __has_include("cudaq/qec/decoder_init.h")
template class extension_point<cudaq::qec::decoder, cudaq::qec::decoder_init, std::optional<cudaq::qec::decode_result_type>,
                               const heterogeneous_map &>;
#else
template class extension_point<cudaq::qec::decoder, const cudaq::qec::sparse_binary_matrix &, const heterogeneous_map &>;
#endif

} // namespace cudaqx
