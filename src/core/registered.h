#pragma once

#include <algorithm>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "shoal/core/error.h"

namespace shoal {

// What a program has made known by name, beside what is built in.
template <class Factory>
class Registered {
 public:
  // taken: all names there are. what: "an environment". Throws Error if `name` is one of them.
  void add(const char* what, const std::string& name, Factory make,
           const std::vector<std::string>& taken) {
    require(std::ranges::find(taken, name) == taken.end(),
            "there is {} '{}' already; give yours another name", what, name);
    all_[name] = std::move(make);
  }
  // Null if there is none.
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
