#include "shoal/algos/r2d1.h"

#include <gtest/gtest.h>
#include <torch/torch.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "shoal/core/error.h"
#include "shoal/models/actor_critic.h"
#include "tests/models/recurrent_oracle.h"
#include "tests/support/message_of.h"

namespace shoal::r2d1_test {
namespace {

constexpr std::int64_t kEnvs = 3, kWidth = 3, kActions = 4, kInterval = 4, kUnits = 5;
const Progress kStart{.steps = 0, .schedule_steps = 1000};

EnvSpec toy() {
  EnvSpec spec;
  spec.id = "Toy";
  spec.observation = ArraySpec{.shape = {kWidth}};
  spec.action = ActionSpec::discrete(kActions);
  return spec;
}

struct Networks {
  std::shared_ptr<ActorCriticModel> online, target;
  std::unique_ptr<RecurrentQAgent> agent;
};

Networks make_networks(MemoryKind memory, bool dueling) {
  const auto make = [&] {
    return make_model(toy().observation, kActions,
                      {.hidden = {6}, .memory = memory, .memory_size = kUnits}, 1, toy().action);
  };
  Networks all{make(), make(), nullptr};
  all.agent = make_recurrent_q_agent(toy(), all.online, all.target, {.dueling = dueling});
  randomize(*all.online);
  randomize(*all.target);
  return all;
}

SequenceReplayOptions replay_options() {
  return {.size = 90,
          .burn_in = 3,
          .length = 6,
          .interval = kInterval,
          .n_step = 2,
          .discount = 0.9,
          .largest_batch = 8};
}

// Rollouts of random numbers, in which episodes terminate and are truncated.
void fill(SequenceReplay& replay, const NamedSpecs& state, int rollouts, float reward_scale = 5) {
  torch::manual_seed(3);
  auto first = at::ones({kEnvs}, at::kBool);
  auto row = at::randn({kEnvs, kWidth});
  for (int w = 0; w < rollouts; ++w) {
    Samples s;
    s.T = kInterval, s.B = kEnvs;
    s.observation = at::randn({kInterval + 1, kEnvs, kWidth});
    s.observation[0][0].copy_(row);
    s.action = at::randint(0, kActions, {kInterval, kEnvs}, at::kLong);
    s.reward = reward_scale * at::randn({kInterval, kEnvs});
    s.terminated = at::rand({kInterval, kEnvs}).lt(0.1);
    s.truncated = at::rand({kInterval, kEnvs}).lt(0.1).logical_and(s.terminated.logical_not());
    s.valid = at::ones({kInterval, kEnvs}, at::kBool);
    s.is_first = at::cat({first.unsqueeze(0), s.terminated.logical_or(s.truncated)});
    std::vector<at::Tensor> last;
    for (std::int64_t t = 0; t < kInterval; ++t) {
      for (std::int64_t b = 0; b < kEnvs; ++b) {
        if (!s.truncated[t][b].item<bool>()) continue;
        s.final_obs.t.push_back(t), s.final_obs.b.push_back(b);
        last.push_back(at::randn({kWidth}));
      }
    }
    s.final_obs.observation = Observed{last.empty() ? at::zeros({0, kWidth}) : at::stack(last), {}};
    for (const auto& [name, spec] : state) {
      auto shape = spec.shape;
      shape.insert(shape.begin(), kEnvs);
      s.initial_state.add(name, at::randn(shape));
    }
    first = s.is_first[kInterval];
    row = s.observation[0][kInterval];
    s.first_tick = w * kInterval;
    replay.append(s);
  }
}

double h(double x) { return std::copysign(std::sqrt(std::abs(x) + 1) - 1, x) + 1e-3 * x; }
double inverse_of_h(double y) {
  double low = -1e6, high = 1e6;
  for (int i = 0; i < 200; ++i) (h((low + high) / 2) < y ? low : high) = (low + high) / 2;
  return (low + high) / 2;
}

TEST(R2d1Test, RescalingAndItsInverse) {
  const auto x = at::cat({at::linspace(-2000, 2000, 4001), at::linspace(-0.01, 0.01, 101)});
  const auto y = rescale_value(x, 1e-3);
  for (std::int64_t i = 0; i < x.size(0); i += 97)
    EXPECT_NEAR(y[i].item<double>(), h(x[i].item<double>()),
                1e-5 * (1 + std::abs(y[i].item<double>())));
  EXPECT_LT(((unscale_value(y, 1e-3) - x).abs() / (1 + x.abs())).max().item<double>(), 1e-5);
  EXPECT_LT((rescale_value(unscale_value(x / 40, 1e-3), 1e-3) - x / 40).abs().max().item<double>(),
            1e-4);
}

// The rows of one sequence, as if it were a batch of one.
ModelIn sequence_of(const Sequences& s, std::int64_t i, std::int64_t from, std::int64_t count) {
  const auto n = s.index.size(0);
  const auto index = at::arange(from, from + count, at::kLong) * n + i;
  const auto part = [&](const at::Tensor& x) { return x.index_select(0, index); };
  ModelIn in{.observation = Observed{part(s.observation[0].data), {}},
             .state = {{"memory", s.state[0].narrow(0, i, 1).clone()}},
             .is_first = part(s.is_first),
             .time = count,
             .previous_action = {},
             .previous_reward = part(s.previous_reward)};
  in.previous_action = part(s.previous_action[0]);
  return in;
}

struct PlainLearner {
  RecurrentByHand online, target;
  bool dueling;
  double sum_of_values = 0;
  int values_learned = 0;

  at::Tensor values(RecurrentByHand& net, const ModelIn& in) const {
    const auto heads = net(in);
    if (!dueling) return heads.policy;
    return heads.value.unsqueeze(1) + heads.policy - heads.policy.mean(1, true);
  }

  // Loss of sequence i, and its priority.
  std::pair<at::Tensor, double> learn(const Sequences& s, std::int64_t i) {
    const auto n = s.index.size(0), rest = s.rows - s.burn_in;
    auto in = sequence_of(s, i, s.burn_in, rest);
    const auto warm = sequence_of(s, i, 0, s.burn_in);
    online(warm), target(warm);
    in.state[0] = online.state;
    const auto q = values(online, in);
    in.state[0] = target.state;
    const auto q_target = values(target, in).detach();
    at::Tensor loss = at::zeros({}, at::kDouble);
    double sum = 0, most = 0;
    int valid = 0;
    for (std::int64_t t = 0; t < s.length; ++t) {
      const auto k = t * n + i;
      if (!s.valid[k].item<bool>()) continue;
      ++valid;
      const auto ahead = t + s.next[k].item<std::int64_t>();
      const auto best = q[ahead].argmax().item<std::int64_t>();
      const double want =
          h(s.reward[k].item<double>() +
            s.discount[k].item<double>() * inverse_of_h(q_target[ahead][best].item<double>()));
      const auto value = q[t][s.action[0][k].item<std::int64_t>()];
      sum_of_values += value.item<double>(), ++values_learned;
      const auto error = value - want;
      loss = loss + 0.5 * error.square();
      const double size = std::abs(error.item<double>());
      sum += size, most = std::max(most, size);
    }
    return {loss / valid, 0.9 * most + 0.1 * sum / valid};
  }
};

// With an epsilon this large, a step of Adam is the gradient times rate / epsilon.
TEST(R2d1Test, AnUpdateEqualsPlainCode) {
  for (const auto memory : {MemoryKind::kLstm, MemoryKind::kGru}) {
    for (const bool dueling : {true, false}) {
      SCOPED_TRACE(fmt::format("{} {}", static_cast<int>(memory), dueling));
      auto nets = make_networks(memory, dueling);
      PlainLearner plain{RecurrentByHand(*nets.online, kActions),
                         RecurrentByHand(*nets.target, kActions), dueling};
      SequenceReplay replay(toy(), nets.online->state(), kEnvs, replay_options()),
          same(toy(), nets.online->state(), kEnvs, replay_options());
      fill(replay, nets.online->state(), 9);
      fill(same, nets.online->state(), 9);
      const auto metrics =
          make_r2d1(
              *nets.agent, replay,
              {.learning_rate = 1e5, .optimizer_epsilon = 1e6, .batch = 8, .max_grad_norm = 0})
              ->update(kStart, 1);

      const auto& batch = same.sample(8, 0.6);
      EXPECT_GT(batch.discount.ne(0).logical_and(batch.valid.logical_not()).sum().item<int>() +
                    batch.valid.logical_not().sum().item<int>(),
                0)
          << "some episodes are truncated";
      at::Tensor loss = at::zeros({}, at::kDouble);
      std::vector<float> priorities;
      for (std::int64_t i = 0; i < 8; ++i) {
        const auto [one, priority] = plain.learn(batch, i);
        loss = loss + batch.weight[i].item<double>() * one / 8;
        priorities.push_back(static_cast<float>(priority));
      }
      const auto value = std::ranges::find(metrics, "value", &Metrics::value_type::first);
      ASSERT_NE(value, metrics.end());
      EXPECT_NEAR(value->second, plain.sum_of_values / plain.values_learned, 1e-5);
      loss.backward();
      for (const auto& item : nets.online->named_parameters()) {
        const auto& before = plain.online.parameters[item.key()];
        const auto wanted =
            before.grad().defined() ? before.detach() - 0.1 * before.grad() : before.detach();
        EXPECT_LT((item.value().detach() - wanted).abs().max().item<double>(), 1e-5) << item.key();
      }
      // Both replays make equal draws afterwards only if their priorities are equal.
      same.update_priorities(batch.index, at::tensor(priorities));
      const auto one = replay.save().at("priorities"), other = same.save().at("priorities");
      EXPECT_TRUE(at::allclose(one, other, 1e-4, 1e-4));
    }
  }
}

TEST(R2d1Test, TheTargetNetworkFollowsAtItsInterval) {
  auto nets = make_networks(MemoryKind::kLstm, true);
  SequenceReplay replay(toy(), nets.online->state(), kEnvs, replay_options());
  fill(replay, nets.online->state(), 9);
  const auto algo = make_r2d1(*nets.agent, replay, {.batch = 4, .target_interval = 3});
  const auto same = [&] {
    const auto a = nets.online->parameters(), b = nets.target->parameters();
    return at::equal(a[0], b[0]);
  };
  algo->update(kStart, 2);
  EXPECT_FALSE(same());
  algo->update(kStart, 1);
  EXPECT_TRUE(same());
}

TEST(R2d1Test, EveryEnvironmentHasAnEpsilonOfItsOwn) {
  const auto agent =
      make_recurrent_q_agent(toy(), {.memory = MemoryKind::kGru}, {.epsilons = 3}, 1);
  SequenceReplay replay(toy(), agent->spec().state, kEnvs, replay_options());
  const auto algo = make_r2d1(*agent, replay, {.epsilon_end = 0.1, .epsilon_last = 0.001});
  algo->explore(kStart, false);
  EXPECT_TRUE(agent->epsilon().eq(1).all().item<bool>());
  algo->explore({.steps = 500, .schedule_steps = 1000}, true);
  EXPECT_TRUE(at::allclose(agent->epsilon(), at::tensor({0.1F, 0.01F, 0.001F})));
}

TEST(R2d1Test, ALossThatIsNotFiniteIsAnError) {
  auto nets = make_networks(MemoryKind::kLstm, true);
  SequenceReplay replay(toy(), nets.online->state(), kEnvs, replay_options());
  fill(replay, nets.online->state(), 9, std::numeric_limits<float>::infinity());
  const auto algo = make_r2d1(*nets.agent, replay, {.batch = 4});
  EXPECT_TRUE(message_of<DataError>([&] {
                algo->update({.steps = 40, .schedule_steps = 1000}, 1);
              }).starts_with("loss of the update after 40 steps is "));
}

TEST(R2d1Test, RefusesWhatMakesNoSense) {
  auto nets = make_networks(MemoryKind::kLstm, true);
  SequenceReplay replay(toy(), nets.online->state(), kEnvs, replay_options());
  EXPECT_THROW(make_r2d1(*nets.agent, replay, {.learning_rate = 0}), Error);
  EXPECT_THROW(make_r2d1(*nets.agent, replay, {.priority_eta = 2}), Error);
  EXPECT_THROW(make_r2d1(*nets.agent, replay, {.value_scale = 0}), Error);
  EXPECT_THROW(make_recurrent_q_agent(toy(), ModelOptions{}, {}, 1), Error) << "no memory";
}

}  // namespace
}  // namespace shoal::r2d1_test
