#include <gtest/gtest.h>
#include <torch/torch.h>

#include <memory>
#include <vector>

#include "shoal/agents/actor_critic.h"
#include "shoal/agents/q_agent.h"
#include "shoal/agents/qpg_agent.h"
#include "shoal/agents/recurrent_q_agent.h"

namespace shoal::acting_parameters_test {
namespace {

constexpr std::int64_t kRows = 40, kWidth = 4;

EnvSpec env_with(const ActionSpec& action) {
  return {.id = "Toy", .observation = ArraySpec{.shape = {kWidth}}, .action = action};
}

NamedTensors empty(const NamedSpecs& specs) {
  NamedTensors out;
  for (const auto& [name, spec] : specs) {
    auto shape = spec.shape;
    shape.insert(shape.begin(), kRows);
    out.add(name, at::zeros(shape, at::TensorOptions().dtype(torch_dtype(spec.dtype))));
  }
  return out;
}

NamedTensors act(Agent& agent, const ActionSpec& action, std::int64_t tick) {
  ActIn in{.observation = Observed{at::randn({kRows, kWidth}), {}},
           .state = empty(agent.spec().state),
           .previous_action = empty({{"", action.array()}}),
           .previous_reward = at::zeros({kRows}),
           .is_first = at::ones({kRows}, at::kBool),
           .noise = {.seed = 5, .tick = tick}};
  ActOut out{.action = empty({{"", action.array()}}),
             .agent_info = empty(agent.spec().info),
             .state = empty(agent.spec().state)};
  agent.act(in, out);
  return out.action;
}

// A trained agent and a fresh one, which receives the acting parameters of the former, act the
// same.
void expect_enough(Agent& learns, Agent& acts, const ActionSpec& action) {
  const torch::NoGradGuard no_grad;
  torch::manual_seed(1);
  for (const auto& [name, x] : learns.parameters())
    if (x.is_floating_point()) x.add_(at::rand_like(x) * 0.3);
  learns.parameters_changed();
  const auto from = learns.acting_parameters(), to = acts.acting_parameters();
  ASSERT_EQ(from.size(), to.size());
  for (std::size_t i = 0; i < from.size(); ++i) to[i].copy_(from[i]);
  acts.parameters_changed();
  for (std::int64_t tick = 0; tick < 5; ++tick) {
    torch::manual_seed(2);
    const auto want = act(learns, action, tick);
    torch::manual_seed(2);
    EXPECT_TRUE(at::equal(act(acts, action, tick)[0], want[0])) << tick;
  }
}

TEST(ActingParametersTest, AreEnoughToAct) {
  const auto choices = ActionSpec::discrete(3), numbers = ActionSpec::box(2, -1, 1);
  const auto both = [&](const ActionSpec& action, const auto& make) {
    const auto learns = make(), acts = make();
    expect_enough(*learns, *acts, action);
  };
  for (const bool stochastic : {true, false})
    both(numbers, [&] {
      return make_qpg_agent(env_with(numbers), {.stochastic = stochastic, .hidden = {8}}, 1);
    });
  for (const bool noisy : {true, false})
    both(choices, [&] {
      return make_q_agent(env_with(choices), ModelOptions{}, {.noisy = noisy, .epsilons = kRows},
                          1);
    });
  both(choices, [&] {
    return make_recurrent_q_agent(env_with(choices), {.memory = MemoryKind::kLstm},
                                  {.epsilons = kRows}, 1);
  });
  both(numbers, [&] {
    return make_actor_critic(env_with(numbers), ModelOptions{}, {.normalize_observation = true}, 1);
  });
}

// Neither critics nor target networks are sent.
TEST(ActingParametersTest, LeaveOutWhatOnlyLearns) {
  const auto control = make_qpg_agent(env_with(ActionSpec::box(2, -1, 1)), {}, 1);
  const auto values = make_q_agent(env_with(ActionSpec::discrete(3)), ModelOptions{}, {}, 1);
  for (const auto& [name, x] : control->acting_parameters())
    EXPECT_EQ(name.find("critic"), std::string::npos);
  for (const auto& [name, x] : values->acting_parameters())
    EXPECT_EQ(name.find("target"), std::string::npos);
}

}  // namespace
}  // namespace shoal::acting_parameters_test
