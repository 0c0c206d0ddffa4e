#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/spec.h"

namespace shoal {

// The fields of one time step of one environment.
struct RolloutSpec {
  NamedSpecs observation, action;
  NamedSpecs mask = {};  // "" -> bool [n], if the environment has an action mask
  NamedSpecs env_info = {};
  NamedSpecs agent_info = {};
};

// The fields of a step of this environment, without its infos.
RolloutSpec rollout_spec(const EnvSpec& env);

// The number of earlier rows that an observation refers to: the frames of its stacks.
std::int64_t rows_back(const EnvSpec& env);

// The storage of all samples: a ring of `count` time rows of B environments each, every field
// contiguous as [count, B, ...] in the arena. A sampler writes a rollout of T steps into it; a
// batch, a double buffer, a replay and a trajectory slot differ only in `count`.
//
// Row r holds the observation, is_first, valid and mask of time r, the action taken then, and its
// results: reward, terminated, truncated, infos. The next observation is in row r + 1.
class Rows {
 public:
  // Adds the fields to a plan; call attach() before the first access.
  Rows(Arena::Plan& plan, const RolloutSpec& spec, std::int64_t count, std::int64_t envs);
  void attach(const Arena& arena) { arena_ = &arena; }

  std::int64_t count() const { return count_; }
  std::int64_t envs() const { return envs_; }
  const RolloutSpec& spec() const { return spec_; }
  const Arena& arena() const { return *arena_; }

  // Copies all fields of rows [from, from + n) to [to, to + n), as if row by row in increasing
  // order.
  void copy(std::int64_t from, std::int64_t to, std::int64_t n) const;

  // Copies observation and mask of one environment from one row to another.
  void copy_observation(std::int64_t from, std::int64_t to, std::int64_t env) const {
    copy_observation_of(*this, from, to, env);
  }

  // The same from other rows with the same spec and number of environments.
  void copy_of(const Rows& source, std::int64_t from, std::int64_t to, std::int64_t n) const;
  void copy_observation_of(const Rows& source, std::int64_t from, std::int64_t to,
                           std::int64_t env) const;
  // Copies all fields of n rows of one environment; `source` may be *this.
  void copy_env_of(const Rows& source, std::int64_t from, std::int64_t to, std::int64_t n,
                   std::int64_t env) const;

  std::span<std::byte> element(const Arena::Field& field, std::int64_t row,
                               std::int64_t env) const {
    return arena_->element(field, row * envs_ + env);
  }
  template <class T>
  T& scalar(const Arena::Field& field, std::int64_t row, std::int64_t env) const {
    return *reinterpret_cast<T*>(element(field, row, env).data());
  }

  // The fields. bool fields hold one byte, 0 or 1.
  Named<Arena::Field> observation, action, mask, env_info, agent_info;
  Arena::Field reward, terminated, truncated, is_first, valid;

 private:
  // Calls copy(mine, its) for each field.
  template <class Copy>
  void with_fields_of(const Rows& source, const Copy& copy) const;

  RolloutSpec spec_;
  std::int64_t count_, envs_;
  const Arena* arena_ = nullptr;
};

}  // namespace shoal
