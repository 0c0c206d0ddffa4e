#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <memory>

#include "shoal/agents/actor_critic.h"
#include "shoal/envs/classic_control.h"
#include "tests/samplers/expect_samples.h"

// An agent with a recurrent network in every sampler: the recorded log-probabilities and values
// equal those of the network for whole sequences.
namespace shoal::memory_test {
namespace {

constexpr std::int64_t kEnvs = 6, kHorizon = 25;

std::unique_ptr<ActorCritic> remembering(MemoryKind memory) {
  return make_actor_critic(make_cart_pole()({})->spec(),
                           {.hidden = {16}, .memory = memory, .memory_size = 12}, {}, 3);
}

class MemoryTest : public ::testing::TestWithParam<Workforce> {
 protected:
  static SamplerOptions options(bool mid_batch_reset) {
    const auto [kind, workers, groups] = GetParam();
    return {.kind = kind,
            .horizon = kHorizon,
            .envs = kEnvs,
            .workers = workers,
            .groups = groups,
            .mid_batch_reset = mid_batch_reset};
  }
};

// Rows [0, time) of environment b. `last`, if defined, replaces the last observation.
EvaluateIn sequence(const Samples& s, std::int64_t b, std::int64_t time, const at::Tensor& last) {
  const auto of = [&](const at::Tensor& x) { return x.narrow(0, 0, time).select(1, b).clone(); };
  EvaluateIn in{.observation = Observed{of(s.observation[0]), {}},
                .action = at::zeros({time}, at::kLong),
                .previous_reward = of(s.previous_reward),
                .is_first = of(s.is_first),
                .state = {{"memory", s.initial_state[0].narrow(0, b, 1)}},
                .time = time};
  in.action[0]
      .narrow(0, 0, std::min(time, s.T))
      .copy_(s.action[0].narrow(0, 0, std::min(time, s.T)).select(1, b));
  in.previous_action = of(s.previous_action[0]);
  if (!last.defined()) return in;
  in.observation[0].data[time - 1].copy_(last);
  in.is_first[time - 1] = false;
  return in;
}

void expect_near(const at::Tensor& a, const at::Tensor& b, const char* what) {
  EXPECT_LT((a - b).abs().max().item<double>(), 1e-5) << what;
}

void expect_consistent(const Samples& s, ActorCritic& agent) {
  at::NoGradGuard no_grad;
  for (std::int64_t b = 0; b < s.B; ++b) {
    const auto now = agent.evaluate(sequence(s, b, s.T + 1, {}));
    const auto valid = s.valid.select(1, b);
    const auto of = [&](const char* name) {
      return s.agent_info.at(name).select(1, b).masked_select(valid);
    };
    expect_near(now.log_prob.narrow(0, 0, s.T).masked_select(valid), of("log_prob"), "log_prob");
    expect_near(now.value.narrow(0, 0, s.T).masked_select(valid), of("value"), "value");
    if (s.bootstrap_value[b].item<float>() != 0)  // 0: the environment waits
      expect_near(now.value[s.T], s.bootstrap_value[b], "bootstrap_value");
  }
  const auto& final_obs = s.final_obs;
  for (std::int64_t k = 0; k < final_obs.size(); ++k) {
    const auto i = static_cast<std::size_t>(k);
    if (!s.truncated[final_obs.t[i]][final_obs.b[i]].item<bool>()) continue;
    const auto now = agent.evaluate(
        sequence(s, final_obs.b[i], final_obs.t[i] + 2, final_obs.observation[0].data[k]));
    expect_near(now.value[-1], final_obs.value[k], "value of a truncated episode");
  }
}

TEST_P(MemoryTest, RecordsWhatTheSequencesSay) {
  for (const auto memory : {MemoryKind::kLstm, MemoryKind::kGru}) {
    for (const bool mid_batch_reset : {true, false}) {
      const auto agent = remembering(memory);
      const auto sampler = make_sampler(make_cart_pole(17), *agent, options(mid_batch_reset));
      for (int i = 0; i < 3; ++i) expect_consistent(sampler->collect().samples, *agent);
    }
  }
}

// Recurrent cells compute row by row, so results do not depend on the batch, and all samplers agree
// bit for bit.
TEST_P(MemoryTest, EqualsTheSerialSampler) {
  for (const bool mid_batch_reset : {true, false}) {
    const auto one = remembering(MemoryKind::kLstm), other = remembering(MemoryKind::kLstm);
    auto plain = serial(kHorizon, kEnvs);
    plain.mid_batch_reset = mid_batch_reset;
    const auto a = make_sampler(make_cart_pole(17), *one, plain);
    const auto b = make_sampler(make_cart_pole(17), *other, options(mid_batch_reset));
    for (int i = 0; i < 3 && !HasFailure(); ++i) expect_same_batches(a->collect(), b->collect());
  }
}

TEST_P(MemoryTest, GoesOnFromWhatWasSaved) {
  const auto one = remembering(MemoryKind::kGru), other = remembering(MemoryKind::kGru);
  const auto o = options(true);
  const auto a = make_sampler(make_cart_pole(), *one, o);
  a->collect();
  const auto b = make_sampler(make_cart_pole(), *other, o, a->save(false));
  for (int i = 0; i < 2; ++i) expect_same_batches(a->collect(), b->collect());
}

INSTANTIATE_TEST_SUITE_P(Serial, MemoryTest,
                         ::testing::Combine(::testing::Values(SamplerKind::kSerial),
                                            ::testing::Values(0), ::testing::Values(1, 2)),
                         workforce_name);
INSTANTIATE_TEST_SUITE_P(Workers, MemoryTest,
                         ::testing::Combine(::testing::Values(SamplerKind::kParallelCpu,
                                                              SamplerKind::kParallelGpu),
                                            ::testing::Values(1, 3), ::testing::Values(1, 2)),
                         workforce_name);

}  // namespace
}  // namespace shoal::memory_test
