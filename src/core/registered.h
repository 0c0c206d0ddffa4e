#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {

// Factories that a program has registered by name, in addition to the built-in ones.
template <class Factory>
class Registered {
 public:
  // taken: all existing names. what: e.g. "an environment". Throws Error if `name` is taken.
  void add(const char* what, const std::string& name, Factory make,
           const std::vector<std::string>& taken) {
    require(std::ranges::find(taken, name) == taken.end(),
            "{} '{}' already exists; use another name", what, name);
    all_[name] = std::move(make);
  }
  // Null if the name is not registered.
  const Factory* find(const std::string& name) const {
    const auto found = all_.find(name);
    return found == all_.end() ? nullptr : &found->second;
  }
  void append_names(std::vector<std::string>& names) const {
    for (const auto& [name, make] : all_) names.push_back(name);
  }

 private:
  std::map<std::string, Factory> all_;
};

}  // namespace shoal
