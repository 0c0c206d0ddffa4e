#pragma once

#include <ATen/ATen.h>

#include "shoal/agents/agent.h"
#include "shoal/core/rng.h"

namespace shoal::testing {

// An agent without a network. Its action is drawn from the noise key and the mask. Its value
// depends on the observation and on a state, the sum of the observations of the episode. Rows are
// independent.
class ToyAgent : public Agent {
 public:
  explicit ToyAgent(std::int64_t choices) : choices_(choices) {}

  const AgentSpec& spec() const override { return spec_; }

  void act(const ActIn& in, ActOut& out) override {
    const auto sum = total(in);
    out.state[0].copy_(sum);
    out.agent_info.at("value").copy_(sum);
    auto* action = out.action[0].data_ptr<std::int64_t>();
    for (std::int64_t i = 0; i < sum.size(0); ++i) {
      const auto [env, tick] = row(in.noise, i);
      const auto random =
          philox(in.noise.seed, static_cast<std::uint64_t>(tick), static_cast<std::uint64_t>(env));
      action[i] = random[0] % choices_;
      while (!in.mask.empty() && !in.mask[0][i][action[i]].item<bool>())
        action[i] = (action[i] + 1) % choices_;
    }
  }

  void value(const ActIn& in, at::Tensor& value) override { value.copy_(total(in)); }
  NamedTensors parameters() override { return {}; }
  void to(at::Device) override {}
  at::Device device() const override { return at::kCPU; }

 private:
  static NoiseKey::Row row(const NoiseKey& key, std::int64_t i) {
    if (!key.env_tick.defined()) return key.row(i);
    const auto* row = key.env_tick.const_data_ptr<std::int64_t>() + 2 * i;
    return {row[0], row[1]};
  }
  // The state, reset where an episode starts, plus the sum of the whole observation.
  static at::Tensor total(const ActIn& in) {
    auto sum = at::where(in.is_first, 0, in.state[0]);
    for (const auto& [name, o] : in.observation)
      sum = sum + o.dense().flatten(1).to(at::kFloat).sum(1);
    return sum;
  }

  std::int64_t choices_;
  AgentSpec spec_{.info = {{"value", ArraySpec{}}}, .state = {{"sum", ArraySpec{}}}};
};

}  // namespace shoal::testing
