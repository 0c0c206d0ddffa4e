#include "shoal/samplers/vector_env.h"

#include <ATen/ops/cat.h>

#include <algorithm>
#include <array>
#include <span>
#include <utility>

#include "samplers/final_observations.h"
#include "samplers/rollout_tensors.h"
#include "samplers/sampler_context.h"
#include "samplers/shared_rollout.h"
#include "samplers/stepper.h"
#include "shoal/core/error.h"
#include "shoal/envs/wrapper.h"

namespace shoal {
namespace {

constexpr std::array<const char*, 3> kFlags{"terminated", "truncated", "began an episode"};

// An environment whose first reset has a given seed. next_step: resets are steps of their own. The
// flags are then infos, because a collector would reset in the same step; a lost life marks the row
// behind a reset as the first of an episode.
class Member : public Wrapper {
 public:
  Member(std::unique_ptr<Env> env, std::uint64_t seed, bool next_step)
      : Wrapper(std::move(env)), first_seed_(seed), next_step_(next_step) {
    if (!next_step) return;
    flags_ = spec_.info.size();
    for (const char* name : kFlags)
      spec_.info.push_back({.name = name, .array = {.dtype = DType::kBool}});
  }

  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    over_ = false;
    env_->reset(seed ? std::exchange(first_seed_, std::nullopt).value_or(*seed) : seed, out);
  }

  StepResult step(ArraysIn action, StepOut out) override {
    if (!next_step_) return env_->step(action, out);
    if (std::exchange(over_, false)) return reset_now(out);
    const auto result = env_->step(action, out);
    over_ = result.episode_over();
    if (over_ && out.mask != nullptr)
      complete_final_mask(std::as_writable_bytes(
          std::span(out.mask, static_cast<std::size_t>(spec_.action[0].choices[0]))));
    set_flags(out, result, /*began=*/false);
    return {.reward = result.reward,
            .terminated = result.terminated && !over_,
            .life_lost = result.life_lost};
  }

 private:
  StepResult reset_now(StepOut out) {
    env_->reset(std::nullopt, out);
    for (std::size_t i = 0; i < flags_; ++i)
      std::fill_n(out.info.as<std::byte>(i), spec_.info[i].array.bytes(), std::byte{0});
    set_flags(out, {}, /*began=*/true);
    return {.terminated = true, .life_lost = true};
  }

  void set_flags(const StepOut& out, const StepResult& result, bool began) const {
    *out.info.as<bool>(flags_) = result.terminated;
    *out.info.as<bool>(flags_ + 1) = result.truncated;
    *out.info.as<bool>(flags_ + 2) = began;
  }

  std::optional<std::uint64_t> first_seed_;
  bool next_step_, over_ = false;
  std::size_t flags_ = 0;  // the index of the first one among the infos
};

EnvFactory members(const EnvFactory& make_env, const VectorEnvOptions& o) {
  require(std::ssize(o.seeds) == o.envs, "found {} seeds for {} environments, expected one each",
          o.seeds.size(), o.envs);
  return [=](const EnvContext& context) {
    const auto seed = o.seeds[static_cast<std::size_t>(context.index)];
    auto alone = context;  // a batch would begin episodes on its own
    alone.lanes = nullptr;
    return std::make_unique<Member>(make_env(alone), seed, o.next_step);
  };
}

SamplerOptions sampler_options(const VectorEnvOptions& o) {
  return {.kind = o.workers == 0 ? SamplerKind::kSerial : SamplerKind::kParallelGpu,
          .horizon = o.rows,
          .envs = o.envs,
          .workers = std::max(o.workers, 1),
          .step_limit = o.step_limit,
          .reset_limit = o.reset_limit,
          .pin = o.pin};
}

class SharedVectorEnv : public VectorEnv {
 public:
  SharedVectorEnv(const EnvFactory& make_env, const VectorEnvOptions& options)
      : next_step_(options.next_step),
        make_env_(members(make_env, options)),
        options_(sampler_options(options)),
        context_(checked_context(make_env_, options_, none_)),
        shared_(
            plan_, context_.spec, {},
            {.horizon = options_.horizon, .envs = options_.envs, .collectors = options_.workers}),
        memory_(plan_.add_bytes(ParallelStepper::bytes(options_))),
        arena_(plan_) {
    shared_.attach(arena_);
    if (options_.kind == SamplerKind::kSerial)
      stepper_ = std::make_unique<SerialStepper>(SharedRollouts{&shared_}, context_);
    else
      stepper_ = std::make_unique<ParallelStepper>(SharedRollouts{&shared_}, context_,
                                                   arena_.data(memory_));
    tensors_ = std::make_unique<RolloutTensors>(shared_, at::kCPU);
    make_rows();
  }

  const EnvSpec& spec() const override { return context_.spec; }
  const Rows& rows() const override { return rows_; }
  std::int64_t row() const override { return shared_.history + t_; }

  void start() override {
    check_actions();
    if (t_ == shared_.horizon) {
      shared_.rows.copy(t_, 0, shared_.history + 1);
      t_ = 0;
    }
    for (std::size_t part = 0; part < stepper_->parts().size(); ++part)
      stepper_->start(Command::kStep, t_, part, 0);
  }

  std::vector<std::int64_t> finish() override {
    std::int64_t count = 0;
    for (std::size_t part = 0; part < stepper_->parts().size(); ++part)
      count += stepper_->finish(part);
    std::vector<std::int64_t> ended;
    for (std::int64_t b = 0; b < options_.envs && count > 0; ++b)
      if (std::exchange(shared_.episode_end(t_, b).length, 0) > 0) ended.push_back(b);
    ++t_;
    return ended;
  }

  void reset(std::span<const std::int64_t> envs,
             std::span<const std::optional<std::uint64_t>> seeds) override {
    require(seeds.size() == envs.size(), "seeds: found {} for {} environments", seeds.size(),
            envs.size());
    const auto& rows = shared_.rows;
    for (std::size_t i = 0; i < envs.size(); ++i) {
      rows.scalar<bool>(rows.valid, row(), envs[i]) = false;
      shared_.seeded_reset(envs[i]) = {
          .seed = seeds[i].value_or(0), .tick = seeds[i] ? 0 : -1, .random_steps = 0};
    }
    for (std::size_t part = 0; part < stepper_->parts().size(); ++part) {
      stepper_->start(Command::kBegin, t_, part, 0);
      stepper_->finish(part);
    }
  }

  NamedTensors observation() override { return observation(t_); }

  NamedTensors final_observation() override {
    auto finals = observation(t_ - 1);
    for (std::size_t i = 0; i < finals.size(); ++i) {
      const auto last = view(arena_, shared_.last.observation[i])[0];
      finals[i] =
          spec().observation[i].stack == 1
              ? last
              : at::cat({finals[i].narrow(1, 1, finals[i].size(1) - 1), last.unsqueeze(1)}, 1);
    }
    return finals;
  }

 private:
  void make_rows() {
    const auto hosts = [](const Named<RolloutTensors::Mirror>& fields) {
      NamedTensors all;
      for (const auto& [name, mirror] : fields) all.add(name, mirror.host);
      return all;
    };
    const auto& t = *tensors_;
    rows_.observation = hosts(t.observation);
    rows_.action = hosts(t.action);
    rows_.mask = hosts(t.mask);
    rows_.reward = t.reward.host;
    rows_.terminated = t.terminated.host;
    rows_.truncated = t.truncated.host;
    for (const auto& [name, mirror] : t.env_info) {
      if (next_step_ && name == kFlags[0])
        rows_.terminated = mirror.host;
      else if (next_step_ && name == kFlags[1])
        rows_.truncated = mirror.host;
      else if (next_step_ && name == kFlags[2])
        rows_.began = mirror.host;
      else
        rows_.env_info.add(name, mirror.host);
    }
  }

  NamedTensors observation(std::int64_t t) {
    const Range all{0, options_.envs};
    tensors_->stack_frames(t, all);
    const auto in = tensors_->inputs(t, all);
    NamedTensors dense;
    for (const auto& [name, observed] : in.observation) dense.add(name, observed.dense());
    return dense;
  }

  // Environments do not check them.
  void check_actions() const {
    for (std::size_t i = 0; i < spec().action.size(); ++i) {
      const auto& choices = spec().action[i].choices;
      for (std::int64_t b = 0; b < options_.envs; ++b) {
        const auto* action = reinterpret_cast<const std::int64_t*>(
            shared_.rows.element(shared_.rows.action[i], row(), b).data());
        for (std::size_t k = 0; k < choices.size(); ++k)
          require(action[k] >= 0 && action[k] < choices[k],
                  "environment {}: found the action {}, expected 0 to {}", b, action[k],
                  choices[k] - 1);
      }
    }
  }

  bool next_step_;
  EnvFactory make_env_;
  SamplerOptions options_;
  NamedTensors none_;
  SamplerContext context_;
  Arena::Plan plan_;
  SharedRollout shared_;
  Arena::Field memory_;
  Arena arena_;
  std::unique_ptr<Stepper> stepper_;
  std::unique_ptr<RolloutTensors> tensors_;
  Rows rows_;
  std::int64_t t_ = 0;
};

}  // namespace

std::unique_ptr<VectorEnv> make_vector_env(const EnvFactory& make_env,
                                           const VectorEnvOptions& options) {
  return std::make_unique<SharedVectorEnv>(make_env, options);
}

}  // namespace shoal
