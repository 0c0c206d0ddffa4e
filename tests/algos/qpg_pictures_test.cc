#include <gtest/gtest.h>
#include <torch/torch.h>

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shoal/algos/sac.h"
#include "shoal/algos/td3.h"
#include "tests/algos/qpg_oracle.h"
#include "tests/support/picture_control.h"

// SAC and TD3 with a model that reads pictures, beside the textbook form of the same updates: dense
// pictures, plain operations, `backward`, torch::optim::Adam.
namespace shoal::qpg_pictures_test {
namespace {

using qpg_oracle::kBatch, qpg_oracle::kDims, qpg_oracle::metric, qpg_oracle::noise_of;

constexpr std::int64_t kSize = 7;

EnvSpec picture_env() { return testing::BrightColumn(kSize, kDims).spec(); }

std::unique_ptr<QpgAgent> make_agent(bool stochastic, std::uint64_t seed = 3) {
  return make_qpg_agent(picture_env(), {.name = testing::small_cnn(), .hidden = {24}},
                        {.stochastic = stochastic}, seed);
}

std::unique_ptr<StepReplay> make_replay() {
  auto replay = std::make_unique<StepReplay>(
      picture_env(), 2,
      StepReplayOptions{.size = 120, .n_step = 2, .discount = 0.9, .prioritized = true});
  auto rollout = qpg_oracle::make_rollout();
  rollout.observation = at::randint(0, 256, {rollout.T + 1, rollout.B, kSize, kSize}, at::kByte);
  rollout.final_obs.observation =
      Observed{at::empty({0, kSize, kSize}, at::kByte), at::empty({0, 2}, at::kLong)};
  replay->append(rollout);
  return replay;
}

NamedTensors copied(const NamedTensors& tensors) {
  NamedTensors out;
  for (const auto& [name, tensor] : tensors) out.add(name, tensor.detach().clone());
  return out;
}
void copy_into(const NamedTensors& from, const NamedTensors& to) {
  torch::NoGradGuard no_grad;
  for (const auto& [name, tensor] : from) to.at(name).copy_(tensor);
}

class Textbook {
 public:
  Textbook(QpgAgent& agent, double rate) : stochastic_(agent.stochastic()) {
    std::vector<at::Tensor> critics, policy;
    for (const auto& [name, tensor] : agent.parameters()) {
      auto& own = w_[name] = tensor.detach().clone();
      if (name.starts_with("critics/")) critics.push_back(own.set_requires_grad(true));
      if (name.starts_with("policy/")) policy.push_back(own.set_requires_grad(true));
    }
    critic_adam_ = std::make_unique<torch::optim::Adam>(critics, rate);
    policy_adam_ = std::make_unique<torch::optim::Adam>(policy, rate);
  }

  struct Losses {
    double critic = 0, policy = 0;
    at::Tensor error;
  };
  Losses learn(const Transitions& batch, const QpgUpdate& u) {
    const auto s = batch.observation[0].dense(), next = batch.next_observation[0].dense();
    at::Tensor wanted;
    {
      torch::NoGradGuard no_grad;
      const auto [a, log_prob] = next_action(next, u);
      wanted = batch.reward +
               batch.discount * (values("target/critics", next, a).amin(0) - u.alpha * log_prob);
    }
    const auto error = values("critics", s, (batch.action[0] + 0.5) / 1.5) - wanted;
    const auto critic_loss = (batch.weight * error.square() / 2).mean(1).sum();
    step(*critic_adam_, critic_loss);
    const auto [a, log_prob] = stochastic_ ? draw(model("policy/model", s), noise_of(u, false))
                                           : Drawn{model("policy/model", s).tanh(), {}};
    const auto all = values("critics", s, a);
    const auto policy_loss =
        stochastic_ ? (u.alpha * log_prob - all.amin(0)).mean() : -all[0].mean();
    step(*policy_adam_, policy_loss);
    torch::NoGradGuard no_grad;
    for (auto& [name, tensor] : w_)
      if (name.starts_with("target/"))
        tensor.copy_(u.tau * w_.at(name.substr(7)) + (1 - u.tau) * tensor);
    return {critic_loss.item<double>(), policy_loss.item<double>(), error.detach().abs().mean(0)};
  }

  const std::map<std::string, at::Tensor>& weights() const { return w_; }

 private:
  struct Drawn {
    at::Tensor action, log_prob;
  };

  static void step(torch::optim::Adam& adam, const at::Tensor& loss) {
    adam.zero_grad();
    loss.backward();
    adam.step();
  }
  at::Tensor linear(const std::string& name, const at::Tensor& x) const {
    return at::matmul(x, w_.at(name + ".weight").t()) + w_.at(name + ".bias");
  }
  at::Tensor model(const std::string& name, const at::Tensor& pictures) const {
    const auto x =
        at::conv2d(pictures / 255.0, w_.at(name + ".conv.weight"), w_.at(name + ".conv.bias"), 2);
    return linear(name + ".policy", x.relu().flatten(1));
  }
  // [critics, N]
  at::Tensor values(const std::string& name, const at::Tensor& pictures,
                    const at::Tensor& action) const {
    const auto raw = model(name + "/encoder", pictures);
    const auto off = raw - raw.mean(1, true);
    const auto features = (off / (off.square().mean(1, true) + 1e-5).sqrt()).tanh();
    std::vector<at::Tensor> all;
    const auto in = features.size(1) + kDims;
    for (const auto& head : w_.at(name + "/heads").unbind(0)) {
      const auto parts = head.split_with_sizes({24 * in, 24, 24, 1});
      const auto hidden =
          (at::matmul(at::cat({features, action}, 1), parts[0].view({24, in}).t()) + parts[1])
              .relu();
      all.push_back(at::matmul(hidden, parts[2]) + parts[3]);
    }
    return at::stack(all);
  }
  static Drawn draw(const at::Tensor& out, const at::Tensor& z) {
    const auto mean = out.narrow(1, 0, kDims).to(at::kDouble);
    const auto log_std = out.narrow(1, kDims, kDims).clamp(-20, 2).to(at::kDouble);
    const auto a = (mean + log_std.exp() * z).tanh();
    const auto gaussian = -z.square() / 2 - log_std - 0.5 * std::log(2 * M_PI);
    return {a.to(at::kFloat), (gaussian - (1 - a.square()).log()).sum(1).to(at::kFloat)};
  }
  Drawn next_action(const at::Tensor& next, const QpgUpdate& u) const {
    if (stochastic_) return draw(model("policy/model", next), noise_of(u, true));
    const auto noise = (noise_of(u, true) * u.target_noise).clamp(-u.target_clip, u.target_clip);
    return {(model("target/policy/model", next).tanh() + noise).clamp(-1, 1), at::zeros({})};
  }

  bool stochastic_;
  std::map<std::string, at::Tensor> w_;
  std::unique_ptr<torch::optim::Adam> critic_adam_, policy_adam_;
};

using MakeAlgo = std::function<std::unique_ptr<OffPolicyAlgo>(QpgAgent&, StepReplay&)>;

void expect_textbook(bool stochastic, const MakeAlgo& make, QpgUpdate update) {
  const auto agent = make_agent(stochastic);
  Textbook textbook(*agent, 1e-2);
  const auto replay = make_replay(), theirs = make_replay();
  const auto algo = make(*agent, *replay);
  for (update.number = 0; update.number < 6; ++update.number) {
    const auto metrics = algo->update({}, 1);
    const auto& batch = theirs->sample(kBatch, 1);
    const auto losses = textbook.learn(batch, update);
    theirs->update_priorities(batch.index, losses.error + 1e-6);
    EXPECT_NEAR(metric(metrics, "critic_loss"), losses.critic, 1e-4);
    EXPECT_NEAR(metric(metrics, "policy_loss"), losses.policy, 1e-5);
    const auto found = agent->parameters();
    for (const auto& [name, tensor] : textbook.weights())
      ASSERT_LT((found.at(name) - tensor).abs().max().item<double>(), 5e-5)
          << name << ", update " << update.number;
  }
}

TEST(QpgPicturesTest, SacUpdatesEqualTheTextbookOnes) {
  expect_textbook(true,
                  [](QpgAgent& agent, StepReplay& replay) {
                    return make_sac(agent, replay,
                                    {.learning_rate = 1e-2,
                                     .batch = kBatch,
                                     .tau = 0.1,
                                     .alpha = 0.3,
                                     .learn_alpha = false,
                                     .beta_start = 1,
                                     .seed = 5});
                  },
                  {.tau = 0.1, .alpha = 0.3, .seed = 5});
}

TEST(QpgPicturesTest, Td3UpdatesEqualTheTextbookOnes) {
  expect_textbook(false,
                  [](QpgAgent& agent, StepReplay& replay) {
                    return make_td3(agent, replay,
                                    {.critic_rate = 1e-2,
                                     .policy_rate = 1e-2,
                                     .batch = kBatch,
                                     .tau = 0.1,
                                     .policy_interval = 1,
                                     .beta_start = 1,
                                     .seed = 5});
                  },
                  {.tau = 0.1, .target_noise = 0.2, .target_clip = 0.5, .seed = 5});
}

TEST(QpgPicturesTest, GoesOnFromItsState) {
  const auto whole = make_agent(false), again = make_agent(false, 4);
  const auto replay = make_replay(), other = make_replay();
  const Td3Options options{.critic_rate = 1e-2, .policy_rate = 1e-2, .batch = kBatch};
  const auto td3 = make_td3(*whole, *replay, options);
  td3->update({}, 3);
  const auto parameters = copied(whole->parameters()), state = copied(td3->state()),
             steps = copied(replay->save());
  td3->update({}, 3);
  const auto resumed = make_td3(*again, *other, options);
  copy_into(parameters, again->parameters());
  copy_into(state, resumed->state());
  other->restore(steps);
  resumed->update({}, 3);
  qpg_oracle::expect_equal(whole->parameters(), again->parameters());
  qpg_oracle::expect_equal(td3->state(), resumed->state());
}

}  // namespace
}  // namespace shoal::qpg_pictures_test
