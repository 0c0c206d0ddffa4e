#include <gtest/gtest.h>
#include <torch/torch.h>

#include "shoal/algos/dqn.h"
#include "shoal/algos/r2d1.h"
#include "shoal/core/error.h"
#include "shoal/samplers/async_sampler.h"

// The action mask of the final observation of a truncated episode, from an environment to the
// target of an update.
namespace shoal::final_mask_test {
namespace {

constexpr std::int64_t kEnvs = 2, kHorizon = 4;

constexpr float kFirstReward = 8;

// Episodes are truncated after three steps. In the first one only action 1 is legal and earns
// kFirstReward, later only action 0, which earns nothing: the masks of a final observation and of
// the first one after it differ.
class Corridor : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t>, StepOut out) override {
    steps_ = 0;
    write(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const bool first = steps_++ == 0;
    require(*action.as<std::int64_t>() == (first ? 1 : 0), "an illegal action was taken");
    write(out);
    return {.reward = first ? kFirstReward : 0, .truncated = steps_ == 3};
  }

 private:
  void write(StepOut out) const {
    *out.observation.as<float>() = 1;
    out.mask[0] = steps_ > 0, out.mask[1] = steps_ == 0;
  }
  EnvSpec spec_{.id = "Corridor",
                .observation = ArraySpec{.shape = {1}},
                .action = ActionSpec::discrete(2),
                .action_mask = true};
  int steps_ = 0;
};

EnvFactory make_corridor() {
  return [](const EnvContext&) { return std::make_unique<Corridor>(); };
}
const EnvSpec kSpec = Corridor().spec();

// Estimates the return of action 0 as 0 and that of action 1 as `value`, in every state. This is
// right where they are legal.
template <class T>
std::unique_ptr<T> estimating(float value, std::unique_ptr<T> agent) {
  torch::NoGradGuard no_grad;
  at::Tensor bias;
  for (auto& parameter : agent->learnable()) {
    parameter.zero_();
    if (parameter.sizes() == at::IntArrayRef({2})) bias = parameter;
  }
  bias[1] = value;
  agent->parameters_changed();
  agent->update_target(1);
  return agent;
}
auto q_agent() {
  return estimating(kFirstReward, make_q_agent(kSpec, ModelOptions{.hidden = {4}}, {}, 1));
}
auto recurrent_agent() {
  const auto value = rescale_value(at::tensor(kFirstReward), R2d1Options().value_scale);
  return estimating(
      value.item<float>(),
      make_recurrent_q_agent(kSpec, {.hidden = {4}, .memory = MemoryKind::kGru, .memory_size = 4},
                             {.dueling = false}, 1));
}

double td_error(const Metrics& metrics) {
  for (const auto& [name, value] : metrics)
    if (name == "td_error") return value;
  throw std::out_of_range("td_error");
}

NamedTensors copy_of(const NamedTensors& tensors) {
  NamedTensors copy;
  for (const auto& [name, tensor] : tensors) copy.add(name, tensor.clone());
  return copy;
}

struct Way {
  std::string name;
  SamplerOptions options = {};
  bool asynchronous = false;
};
std::vector<Way> ways() {
  using enum SamplerKind;
  std::vector<Way> all = {
      {"serial", {.kind = kSerial}},
      {"resets wait", {.kind = kSerial, .mid_batch_reset = false}},
      {"workers act", {.kind = kParallelCpu}},
      {"workers step", {.kind = kParallelGpu, .groups = 2}},
      {"own pace", {.kind = kParallelGpu, .dynamic_batch = 1}},
      {"a thread", {.kind = kSerial}, true},
      {"a thread and workers", {.kind = kParallelGpu}, true},
      {"a worker", {.kind = kParallelCpu, .workers = 1}, true},
  };
  for (auto& way : all) way.options.horizon = kHorizon, way.options.envs = kEnvs;
  return all;
}

template <class Agent>
std::unique_ptr<Sampler> sampler_of(const Way& way, Agent& agent, Agent& actor) {
  if (way.asynchronous) return make_async_sampler(make_corridor(), agent, actor, way.options);
  return make_sampler(make_corridor(), agent, way.options);
}

TEST(FinalMaskTest, DqnsTargetOfATruncatedStepIsOfALegalAction) {
  at::set_num_threads(1);
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name);
    const auto agent = q_agent(), actor = q_agent();
    const auto sampler = sampler_of(way, *agent, *actor);
    const StepReplayOptions options{.size = 200, .n_step = 2};
    StepReplay replay(kSpec, kEnvs, options), loaded(kSpec, kEnvs, options);
    for (int rollout = 0; rollout < 10; ++rollout) replay.append(sampler->collect().samples);
    loaded.restore(copy_of(replay.save()));
    for (auto* from : {&replay, &loaded}) {
      const auto dqn = make_dqn(*agent, *from, {.learning_rate = 1e-12, .batch = 64});
      EXPECT_LT(td_error(dqn->update({.steps = 1, .schedule_steps = 10}, 2)), 1e-5);
    }
  }
}

TEST(FinalMaskTest, R2d1sTargetOfATruncatedStepIsOfALegalAction) {
  at::set_num_threads(1);
  for (const auto& way : ways()) {
    SCOPED_TRACE(way.name);
    const auto agent = recurrent_agent(), actor = recurrent_agent();
    const auto sampler = sampler_of(way, *agent, *actor);
    const SequenceReplayOptions options{
        .size = 200, .burn_in = 1, .length = 5, .interval = kHorizon, .n_step = 2};
    const auto& state = agent->spec().state;
    SequenceReplay replay(kSpec, state, kEnvs, options), loaded(kSpec, state, kEnvs, options);
    for (int rollout = 0; rollout < 10; ++rollout) replay.append(sampler->collect().samples);
    loaded.restore(copy_of(replay.save()));
    for (auto* from : {&replay, &loaded}) {
      const auto r2d1 = make_r2d1(*agent, *from, {.learning_rate = 1e-12, .batch = 16});
      EXPECT_LT(td_error(r2d1->update({.steps = 1, .schedule_steps = 10}, 2)), 1e-5);
    }
  }
}

// An environment may leave the mask unset at the end of an episode.
class Silent : public Corridor {
 public:
  StepResult step(ArraysIn action, StepOut out) override {
    const auto result = Corridor::step(action, out);
    if (result.truncated) out.mask[0] = false;
    return result;
  }
};

TEST(FinalMaskTest, WhereNothingIsAllowedAllIsLegal) {
  at::set_num_threads(1);
  const auto agent = q_agent();
  const auto sampler =
      make_sampler([](const EnvContext&) { return std::make_unique<Silent>(); }, *agent,
                   {.kind = SamplerKind::kSerial, .horizon = kHorizon, .envs = kEnvs});
  const auto& final_obs = sampler->collect().samples.final_obs;
  ASSERT_EQ(final_obs.size(), kEnvs);
  EXPECT_TRUE(final_obs.mask[0].all().item<bool>());
}

}  // namespace
}  // namespace shoal::final_mask_test
