#pragma once

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>

#include "shoal/samplers/sampler.h"

namespace shoal {

// The tensors may be on different devices.
inline void expect_equal(const at::Tensor& a, const at::Tensor& b, const std::string& what) {
  ASSERT_EQ(a.sizes(), b.sizes()) << what;
  const auto one = a.cpu(), other = b.cpu();
  EXPECT_TRUE(at::equal(one, other)) << what << ":\n" << one << "\nand\n" << other;
}

inline void expect_equal(const NamedTensors& a, const NamedTensors& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i) expect_equal(a[i], b[i], what + "/" + a.name(i));
}

inline void expect_near(const NamedTensors& a, const NamedTensors& b, double tolerance) {
  for (const auto& [name, x] : a) {
    const auto one = x.to(at::kDouble), other = b.at(name).cpu().to(at::kDouble);
    EXPECT_TRUE(at::allclose(one, other, tolerance, tolerance))
        << name << ": differs by up to " << (one - other).abs().max().item<double>() << " of "
        << one.abs().max().item<double>();
  }
}

inline void expect_equal(const Observations& a, const Observations& b, const std::string& what) {
  ASSERT_EQ(a.size(), b.size()) << what;
  for (std::size_t i = 0; i < a.size(); ++i)
    expect_equal(a[i].dense(), b[i].dense(), what + "/" + a.name(i));
}

inline void expect_equal(const Samples& a, const Samples& b) {
  expect_equal(a.observation, b.observation, "observation");
  expect_equal(a.observed, b.observed, "observed");
  expect_equal(a.action, b.action, "action");
  expect_equal(a.mask, b.mask, "mask");
  expect_equal(a.agent_info, b.agent_info, "agent_info");
  expect_equal(a.env_info, b.env_info, "env_info");
  expect_equal(a.initial_state, b.initial_state, "initial_state");
  expect_equal(a.reward, b.reward, "reward");
  expect_equal(a.terminated, b.terminated, "terminated");
  expect_equal(a.truncated, b.truncated, "truncated");
  expect_equal(a.valid, b.valid, "valid");
  expect_equal(a.is_first, b.is_first, "first");
  expect_equal(a.previous_reward, b.previous_reward, "previous_reward");
  expect_equal(a.previous_action, b.previous_action, "previous_action");
  expect_equal(a.bootstrap_value, b.bootstrap_value, "bootstrap_value");
  expect_equal(a.final_value, b.final_value, "final_value");
  EXPECT_EQ(a.final_obs.t, b.final_obs.t);
  EXPECT_EQ(a.final_obs.b, b.final_obs.b);
  expect_equal(a.final_obs.observation, b.final_obs.observation, "final_obs.observation");
  expect_equal(a.final_obs.mask, b.final_obs.mask, "final_obs.mask");
  expect_equal(a.final_obs.state, b.final_obs.state, "final_obs.state");
  expect_equal(a.final_obs.value, b.final_obs.value, "final_obs.value");
  EXPECT_EQ(a.first_tick, b.first_tick);
  EXPECT_EQ(a.steps, b.steps);
}

inline void expect_same_batches(const Batch& one, const Batch& other) {
  expect_equal(one.samples, other.samples);
  EXPECT_EQ(one.infos, other.infos);
  ASSERT_EQ(one.episodes.size(), other.episodes.size());
  for (std::size_t e = 0; e < one.episodes.size(); ++e) {
    EXPECT_EQ(one.episodes[e].env, other.episodes[e].env);
    EXPECT_EQ(one.episodes[e].number, other.episodes[e].number);
    EXPECT_EQ(one.episodes[e].reward, other.episodes[e].reward);
    EXPECT_EQ(one.episodes[e].length, other.episodes[e].length);
    EXPECT_EQ(one.episodes[e].score, other.episodes[e].score);
    EXPECT_EQ(one.episodes[e].info, other.episodes[e].info);
  }
}

// Parameters of a test: a sampler's kind, its workers, and its groups. kOwnPace in place of groups:
// dynamic batching with half of the environments.
using Workforce = std::tuple<SamplerKind, int, int>;
constexpr int kOwnPace = 0;

inline void employ(SamplerOptions& o, const Workforce& force) {
  const auto [kind, workers, groups] = force;
  o.kind = kind, o.workers = workers;
  o.groups = groups == kOwnPace ? 1 : groups;
  o.dynamic_batch = groups == kOwnPace ? (o.envs + 1) / 2 : 0;
}

inline std::string workforce_name(const ::testing::TestParamInfo<Workforce>& test) {
  const auto [kind, workers, groups] = test.param;
  const auto* name = kind == SamplerKind::kSerial        ? "Serial"
                     : kind == SamplerKind::kParallelCpu ? "Cpu"
                                                         : "Gpu";
  return groups == kOwnPace ? fmt::format("{}{}WorkersAtTheirOwnPace", name, workers)
                            : fmt::format("{}{}Workers{}Groups", name, workers, groups);
}

inline SamplerOptions serial(std::int64_t horizon, std::int64_t envs, std::uint64_t seed = 1) {
  return {.kind = SamplerKind::kSerial, .horizon = horizon, .envs = envs, .seed = seed};
}

inline SamplerOptions parallel(std::int64_t horizon, std::int64_t envs, int workers,
                               int groups = 1) {
  return {.kind = SamplerKind::kParallelGpu,
          .horizon = horizon,
          .envs = envs,
          .workers = workers,
          .groups = groups,
          .seed = 1};
}

}  // namespace shoal
