#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "shoal/samplers/async_sampler.h"
#include "tests/samplers/expect_samples.h"
#include "tests/support/message_of.h"
#include "tests/support/toy_agents.h"
#include "tests/support/toy_envs.h"

namespace shoal {
namespace {

namespace async_test {

using testing::make_counter;
using testing::make_zoo;
using testing::ToyAgent;

at::Tensor columns(const at::Tensor& all, std::int64_t first, std::int64_t n) {
  return all.narrow(1, first, n).clone();
}

NamedTensors columns(const NamedTensors& all, std::int64_t first, std::int64_t n) {
  NamedTensors out;
  for (const auto& [name, x] : all) out.add(name, columns(x, first, n));
  return out;
}

// What a window holds of some of its environments, as copies.
struct Part {
  Samples samples;
  std::vector<Episode> episodes;
};

Part part_of(const Batch& batch, std::int64_t first, std::int64_t n) {
  const auto& s = batch.samples;
  Part out;
  auto& x = out.samples;
  x.T = s.T, x.B = n, x.first_tick = s.first_tick;
  x.observation = columns(s.observation, first, n);
  for (const auto& [name, o] : s.observed) {
    const auto all = o.dense();
    auto shape = all.sizes().vec();
    shape.insert(shape.begin(), s.T + 1);
    shape[1] = s.B;
    x.observed.add(name, {columns(all.view(shape), first, n).flatten(0, 1), {}});
  }
  x.action = columns(s.action, first, n);
  x.mask = columns(s.mask, first, n);
  x.agent_info = columns(s.agent_info, first, n);
  x.env_info = columns(s.env_info, first, n);
  for (const auto& [name, state] : s.initial_state)
    x.initial_state.add(name, state.narrow(0, first, n).clone());
  x.reward = columns(s.reward, first, n);
  x.terminated = columns(s.terminated, first, n);
  x.truncated = columns(s.truncated, first, n);
  x.valid = columns(s.valid, first, n);
  x.steps = x.valid.sum().item<std::int64_t>();
  x.first = columns(s.first, first, n);
  x.previous_reward = columns(s.previous_reward, first, n);
  x.previous_action = columns(s.previous_action, first, n);
  x.bootstrap_value = s.bootstrap_value.narrow(0, first, n).clone();
  x.final_value = columns(s.final_value, first, n);
  std::vector<std::int64_t> rows;
  for (std::size_t k = 0; k < s.finals.t.size(); ++k) {
    if (s.finals.b[k] < first || s.finals.b[k] >= first + n) continue;
    rows.push_back(static_cast<std::int64_t>(k));
    x.finals.t.push_back(s.finals.t[k]);
    x.finals.b.push_back(s.finals.b[k] - first);
  }
  const auto kept = at::tensor(rows, at::kLong);
  for (const auto& [name, o] : select(s.finals.observation, kept))
    x.finals.observation.add(name, {o.dense().clone(), {}});
  x.finals.state = select(s.finals.state, kept);
  x.finals.value = s.finals.value.index_select(0, kept);
  for (const auto& e : batch.episodes)
    if (e.env >= first && e.env < first + n) out.episodes.push_back(e);
  return out;
}

class AsyncTest : public ::testing::TestWithParam<Workforce> {};

// What a policy that never changes collects does not depend on who collects it, and when: window by
// window, and worker by worker, it is what the serial sampler has of these environments.
TEST_P(AsyncTest, CollectsWhatTheSerialSamplerDoes) {
  const auto [kind, workers, groups] = GetParam();
  const int writers = kind == SamplerKind::kParallelCpu ? workers : 1;
  constexpr std::int64_t kT = 7, kB = 6;
  constexpr int kWindows = 12;  // several times as many as there are slots
  for (const auto reset : {ResetMode::kAtOnce, ResetMode::kWait}) {
    SCOPED_TRACE(reset == ResetMode::kWait ? "resets wait" : "resets at once");
    auto o = serial(kT, kB);
    o.reset = reset;
    o.decorrelation = 5;
    ToyAgent agent(3), actor(3), other(3);
    const auto plain = make_sampler(make_zoo(), other, o);
    o.kind = kind, o.workers = workers, o.groups = groups;
    const auto async = make_async_sampler(make_zoo(), agent, actor, o);
    std::vector<std::vector<Part>> expected;  // [windows][writers]
    for (int i = 0; i < kWindows * writers && !HasFailure(); ++i) {
      const auto batch = async->collect();
      const auto n = kB / writers;
      const auto window = static_cast<std::size_t>(batch.samples.first_tick / kT);
      while (expected.size() <= window) {
        const auto all = plain->collect();
        auto& parts = expected.emplace_back();
        for (int w = 0; w < writers; ++w) parts.push_back(part_of(all, w * n, n));
      }
      const auto writer = batch.samples.first_env / n;
      SCOPED_TRACE(fmt::format("window {} of writer {}", window, writer));
      auto& want = expected[window].at(static_cast<std::size_t>(writer));
      expect_same_batches({want.samples, want.episodes, batch.infos}, batch);
      want.samples.first_tick = -1;  // it must not come twice
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Samplers, AsyncTest,
                         ::testing::Values(Workforce{SamplerKind::kSerial, 1, 1},
                                           Workforce{SamplerKind::kSerial, 1, 2},
                                           Workforce{SamplerKind::kParallelGpu, 2, 1},
                                           Workforce{SamplerKind::kParallelGpu, 3, 2},
                                           Workforce{SamplerKind::kParallelCpu, 1, 1},
                                           Workforce{SamplerKind::kParallelCpu, 3, 2}),
                         workforce_name);

}  // namespace async_test
}  // namespace
}  // namespace shoal
