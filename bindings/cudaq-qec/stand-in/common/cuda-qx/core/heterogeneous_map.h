// SPDX-License-Identifier: Apache-2.0 OR MIT
// A stand-in of Ringcall's for CUDA-QX, for compiling and testing alone: values of any type by name.
#pragma once

#include <any>
#include <map>
#include <stdexcept>
#include <string>

namespace cudaqx {

class heterogeneous_map {
  std::map<std::string, std::any> items_;

public:
  template <typename T> void insert(const std::string &key, const T &value) { items_[key] = value; }
  bool contains(const std::string &key) const { return items_.count(key) != 0; }
  auto begin() const { return items_.begin(); }
  auto end() const { return items_.end(); }

  template <typename T> T get(const std::string &key) const {
    const auto item = items_.find(key);
    const T *value = item == items_.end() ? nullptr : std::any_cast<T>(&item->second);
    if (value == nullptr)
      throw std::runtime_error("no value of this type: " + key);
    return *value;
  }
};

} // namespace cudaqx
