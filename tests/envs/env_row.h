#pragma once

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "shoal/envs/env.h"

namespace shoal {

// The memory of one environment with any number of fields.
struct Row {
  explicit Row(const EnvSpec& spec) {
    for (const auto& [name, array] : spec.observation) observations.emplace_back(array.bytes());
    for (const auto& info : spec.info) infos.emplace_back(info.array.bytes());
    for (auto& bytes : infos) info_pointers.push_back(bytes.data());
    for (const auto& [name, action] : spec.action) actions.emplace_back(action.array().bytes());
    for (auto& bytes : observations) observation_pointers.push_back(bytes.data());
    for (auto& bytes : actions) action_pointers.push_back(bytes.data());
    if (spec.action_mask) mask.resize(static_cast<std::size_t>(spec.action[0].choices[0]));
  }
  StepOut out() {
    return {.observation = ArraysOut(observation_pointers),
            .info = ArraysOut(info_pointers),
            .mask = mask.empty() ? nullptr : reinterpret_cast<bool*>(mask.data())};
  }
  ArraysIn action() { return ArraysIn(action_pointers); }
  template <class T>
  std::vector<T> observed(std::size_t i) const {
    const auto* from = reinterpret_cast<const T*>(observations[i].data());
    return {from, from + observations[i].size() / sizeof(T)};
  }
  template <class T>
  void act(std::size_t i, std::vector<T> values) {
    ASSERT_EQ(actions[i].size(), values.size() * sizeof(T));
    std::memcpy(actions[i].data(), values.data(), actions[i].size());
  }

  std::vector<std::vector<std::byte>> observations, infos, actions;
  std::vector<std::byte*> observation_pointers, info_pointers;
  std::vector<const std::byte*> action_pointers;
  std::vector<std::uint8_t> mask;
};

}  // namespace shoal
