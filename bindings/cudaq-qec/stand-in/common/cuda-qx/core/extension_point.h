// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-QX, for compiling and testing alone: makers of objects by name.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

namespace cudaqx {

template <typename Base, typename... Arguments> class extension_point {
  using maker = std::function<std::unique_ptr<Base>(Arguments...)>;

protected:
  // In the library that stands for CUDA-Q QEC, one for all plug-ins.
  static std::pair<std::mutex &, std::map<std::string, maker> &> get_registry();

public:
  static std::unique_ptr<Base> get(const std::string &name, Arguments... arguments) {
    auto [mutex, makers] = get_registry();
    const std::lock_guard<std::mutex> guard(mutex);
    const auto found = makers.find(name);
    if (found == makers.end())
      throw std::runtime_error("there is no extension " + name);
    return found->second(std::forward<Arguments>(arguments)...);
  }

  static bool is_registered(const std::string &name) {
    auto [mutex, makers] = get_registry();
    const std::lock_guard<std::mutex> guard(mutex);
    return makers.count(name) != 0;
  }

  static void unregister(const std::string &name) {
    auto [mutex, makers] = get_registry();
    const std::lock_guard<std::mutex> guard(mutex);
    makers.erase(name);
  }
};

} // namespace cudaqx

#define CUDAQ_EXTENSION_CUSTOM_CREATOR_FUNCTION(TYPE, ...)                                                               \
  static bool register_type() {                                                                                          \
    auto [mutex, makers] = get_registry();                                                                               \
    const std::lock_guard<std::mutex> guard(mutex);                                                                      \
    makers[#TYPE] = TYPE::create;                                                                                        \
    return true;                                                                                                         \
  }                                                                                                                      \
  static const bool registered_;                                                                                         \
  __VA_ARGS__

#define CUDAQ_REGISTER_TYPE(TYPE)                                                                                        \
  const bool TYPE::registered_ = TYPE::register_type();                                                                  \
  __attribute__((destructor)) void stand_in_unregister_##TYPE() { TYPE::unregister(#TYPE); }
