#include "shoal/core/rows.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "shoal/core/error.h"

namespace shoal {

namespace {

// Rows are contiguous, so one memmove equals copying row by row in increasing order, unless the
// target overlaps the source from above: only then does the order matter.
void copy_field(std::byte* base, std::size_t row_bytes, std::size_t from, std::size_t to,
                std::size_t n) {
  if (to <= from || to >= from + n) {
    std::memmove(base + to * row_bytes, base + from * row_bytes, n * row_bytes);
    return;
  }
  for (std::size_t i = 0; i < n; ++i)
    std::memcpy(base + (to + i) * row_bytes, base + (from + i) * row_bytes, row_bytes);
}

}  // namespace

RolloutSpec rollout_spec(const EnvSpec& env) {
  RolloutSpec spec{.observation = env.observation, .action = {}};
  for (const auto& [name, action] : env.action) spec.action.add(name, action.array());
  if (env.action_mask)
    spec.mask = ArraySpec{.dtype = DType::kBool, .shape = {env.action[0].choices.at(0)}};
  return spec;
}

std::int64_t rows_back(const EnvSpec& env) {
  std::int64_t rows = 0;
  for (const auto& [name, spec] : env.observation)
    rows = std::max<std::int64_t>(rows, spec.stack - 1);
  return rows;
}

Rows::Rows(Arena::Plan& plan, const RolloutSpec& spec, std::int64_t count, std::int64_t envs)
    : spec_(spec), count_(count), envs_(envs) {
  require(count >= 1 && envs >= 1,
          "rows for {} time steps of {} environments; expected at least 1 of each", count, envs);
  const auto add = [&](const ArraySpec& array) { return plan.add({count, envs}, array); };
  const auto add_all = [&](const NamedSpecs& specs, Named<Arena::Field>& fields) {
    for (const auto& [name, array] : specs) fields.add(name, add(array));
  };
  add_all(spec.observation, observation);
  add_all(spec.action, action);
  add_all(spec.mask, mask);
  add_all(spec.env_info, env_info);
  add_all(spec.agent_info, agent_info);
  reward = add({.dtype = DType::kFloat32});
  for (auto* flag : {&terminated, &truncated, &is_first, &valid})
    *flag = add({.dtype = DType::kBool, .low = 0, .high = 1});
}

template <class Copy>
void Rows::with_fields_of(const Rows& source, const Copy& copy) const {
  for (const auto group :
       {&Rows::observation, &Rows::action, &Rows::mask, &Rows::env_info, &Rows::agent_info})
    for (std::size_t i = 0; i < (this->*group).size(); ++i)
      copy((this->*group)[i], (source.*group)[i]);
  for (const auto field :
       {&Rows::reward, &Rows::terminated, &Rows::truncated, &Rows::is_first, &Rows::valid})
    copy(this->*field, source.*field);
}

void Rows::copy(std::int64_t from, std::int64_t to, std::int64_t n) const {
  assert(arena_ != nullptr && n >= 0 && from >= 0 && to >= 0);
  assert(from + n <= count_ && to + n <= count_);
  with_fields_of(*this, [&](const Arena::Field& field, const Arena::Field&) {
    const auto row_bytes = static_cast<std::size_t>(envs_) * field.element_bytes;
    copy_field(arena_->data(field), row_bytes, static_cast<std::size_t>(from),
               static_cast<std::size_t>(to), static_cast<std::size_t>(n));
  });
}

void Rows::copy_of(const Rows& source, std::int64_t from, std::int64_t to, std::int64_t n) const {
  assert(envs_ == source.envs_ && from + n <= source.count_ && to + n <= count_);
  with_fields_of(source, [&](const Arena::Field& mine, const Arena::Field& other) {
    const auto row_bytes = static_cast<std::size_t>(envs_) * mine.element_bytes;
    std::memcpy(element(mine, to, 0).data(), source.element(other, from, 0).data(),
                static_cast<std::size_t>(n) * row_bytes);
  });
}

void Rows::copy_env_of(const Rows& source, std::int64_t from, std::int64_t to, std::int64_t n,
                       std::int64_t env) const {
  assert(env < envs_ && env < source.envs_ && from + n <= source.count_ && to + n <= count_);
  with_fields_of(source, [&](const Arena::Field& mine, const Arena::Field& other) {
    for (std::int64_t i = 0; i < n; ++i) {
      const auto k = to > from ? n - 1 - i : i;  // overlapping rows are read before they are
                                                 // overwritten
      const auto bytes = source.element(other, from + k, env);
      std::memmove(element(mine, to + k, env).data(), bytes.data(), bytes.size());
    }
  });
}

void Rows::copy_observation_of(const Rows& source, std::int64_t from, std::int64_t to,
                               std::int64_t env) const {
  for (const auto group : {&Rows::observation, &Rows::mask}) {
    for (std::size_t i = 0; i < (this->*group).size(); ++i) {
      const auto bytes = source.element((source.*group)[i], from, env);
      std::memcpy(element((this->*group)[i], to, env).data(), bytes.data(), bytes.size());
    }
  }
}

}  // namespace shoal
