#include "shoal/envs/wrappers.h"

#include <algorithm>
#include <cmath>

#include "shoal/core/error.h"
#include "shoal/envs/wrapper.h"
#include "src/envs/wrappers/wrap.h"

namespace shoal {
namespace {

// The environments of a batch end their episodes themselves, and take their actions together. One
// that is stepped on its own may be a batch of one.
EnvFactory without_batches(EnvFactory make_env, const char* setting) {
  return [make_env = std::move(make_env), setting](const EnvContext& context) {
    auto env = make_env(context);
    require(context.lanes == nullptr || env->batch().multiple == 0,
            "{}: found a wrapper such as {}, but its environments are stepped in batches; leave it "
            "out, or give the environment itself such an option",
            env->spec().id, setting);
    return env;
  };
}

class TimeLimit : public Wrapper {
 public:
  TimeLimit(std::unique_ptr<Env> env, std::int64_t limit)
      : Wrapper(std::move(env)), limit_(limit) {}

  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    steps_ = 0;
    Wrapper::reset(seed, out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    auto result = Wrapper::step(action, out);
    if (++steps_ < limit_) return result;
    result.truncated = !result.terminated;
    result.life_lost = false;  // the game does not continue
    return result;
  }

 private:
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&steps_, 1)); }
  std::int64_t limit_, steps_ = 0;
};

// Combines an info with its previous value, as the info is reduced over an episode.
template <class T>
void reduce(PerEpisode how, const std::byte* before, std::byte* now, std::int64_t count) {
  const auto* old = reinterpret_cast<const T*>(before);
  auto* to = reinterpret_cast<T*>(now);
  for (std::int64_t i = 0; i < count; ++i)
    to[i] = how == PerEpisode::kSum ? static_cast<T>(old[i] + to[i]) : std::max(old[i], to[i]);
}

void reduce(const InfoSpec& info, const std::byte* before, std::byte* now) {
  const auto count = info.array.count();
  switch (info.array.dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return reduce<std::uint8_t>(info.reduce, before, now, count);
    case DType::kInt32:
      return reduce<std::int32_t>(info.reduce, before, now, count);
    case DType::kInt64:
      return reduce<std::int64_t>(info.reduce, before, now, count);
    case DType::kFloat32:
      return reduce<float>(info.reduce, before, now, count);
    case DType::kFloat64:
      return reduce<double>(info.reduce, before, now, count);
  }
}

class ActionRepeat : public Wrapper {
 public:
  ActionRepeat(std::unique_ptr<Env> env, int times) : Wrapper(std::move(env)), times_(times) {
    for (const auto& info : spec_.info) before_.emplace_back(info.array.bytes());
    spec_.fps /= times;
  }

  StepResult step(ArraysIn action, StepOut out) override {
    StepResult result;
    float reward = 0;
    for (int i = 0; i < times_; ++i) {
      if (i > 0) keep_infos(out);
      result = Wrapper::step(action, out);
      reward += result.reward;
      if (i > 0) add_infos(out);
      if (result.terminated || result.truncated) break;
    }
    result.reward = reward;
    return result;
  }

 private:
  bool adds_up(std::size_t i) const {
    return spec_.info[i].reduce == PerEpisode::kSum || spec_.info[i].reduce == PerEpisode::kMax;
  }
  void keep_infos(const StepOut& out) {
    for (std::size_t i = 0; i < before_.size(); ++i)
      if (adds_up(i)) std::copy_n(out.info.as<std::byte>(i), before_[i].size(), before_[i].data());
  }
  void add_infos(const StepOut& out) const {
    for (std::size_t i = 0; i < before_.size(); ++i)
      if (adds_up(i)) reduce(spec_.info[i], before_[i].data(), out.info.as<std::byte>(i));
  }

  int times_;
  std::vector<std::vector<std::byte>> before_;  // each info's value after the previous step
};

class Stack : public Wrapper {
 public:
  Stack(std::unique_ptr<Env> env, int frames) : Wrapper(std::move(env)) {
    for (auto& [name, array] : spec_.observation) {
      require(array.stack == 1, "{}: observation '{}' is already a stack of {}; expected no stack",
              spec_.id, name, array.stack);
      array.stack = frames;
    }
  }
};

// Writes the reward as one more info after the environment's own.
class Score : public Wrapper {
 public:
  explicit Score(std::unique_ptr<Env> env) : Wrapper(std::move(env)), index_(spec_.info.size()) {
    spec_.info.push_back({.name = "score", .array = ArraySpec{}, .reduce = PerEpisode::kSum});
  }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    *out.info.as<float>(index_) = 0;
    Wrapper::reset(seed, out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto result = Wrapper::step(action, out);
    *out.info.as<float>(index_) = result.reward;
    return result;
  }

 private:
  std::size_t index_;
};

// Applies a function to each reward.
template <class Change>
class ChangedReward : public Wrapper {
 public:
  ChangedReward(std::unique_ptr<Env> env, Change change)
      : Wrapper(std::move(env)), change_(change) {}
  StepResult step(ArraysIn action, StepOut out) override {
    auto result = Wrapper::step(action, out);
    result.reward = change_(result.reward);
    return result;
  }

 private:
  Change change_;
};

class NormalizedReward : public Wrapper {
 public:
  NormalizedReward(std::unique_ptr<Env> env, double discount, double epsilon)
      : Wrapper(std::move(env)), discount_(discount), epsilon_(epsilon) {
    require(spec_.statistics_bytes == 0,
            "{}: the environment already keeps statistics; expected none", spec_.id);
    spec_.statistics_bytes = sizeof memory_.statistics;
  }

  std::span<std::byte> statistics() override {
    return std::as_writable_bytes(std::span(&memory_.statistics, 1));
  }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed) memory_ = {};
    Wrapper::reset(seed, out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    auto result = Wrapper::step(action, out);
    auto& [sum, m] = memory_;
    sum = result.reward + (result.terminated ? 0 : discount_ * sum);
    // Welford, "Note on a method for calculating corrected sums of squares and products", 1962.
    m.count += 1;
    const double off = sum - m.mean;
    m.mean += off / m.count;
    m.squares += off * (sum - m.mean);
    result.reward = static_cast<float>(result.reward / std::sqrt(m.squares / m.count + epsilon_));
    return result;
  }

 private:
  // Equivalent to 0.0001 observations with variance 1, so that the first rewards are not divided by
  // 0.
  struct Statistics {
    double count = 1e-4, mean = 0, squares = 1e-4;
  };
  struct Memory {
    double sum = 0;  // discounted sum of rewards
    Statistics statistics;
  };
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&memory_, 1)); }

  double discount_, epsilon_;
  Memory memory_;
};

template <class Change>
EnvFactory change_reward(EnvFactory make_env, Change change) {
  return wrap<ChangedReward<Change>>(with_score(std::move(make_env)), change);
}

}  // namespace

EnvFactory with_time_limit(EnvFactory make_env, std::int64_t steps) {
  require(steps > 0, "a time limit of {} steps; expected at least 1", steps);
  return wrap<TimeLimit>(without_batches(std::move(make_env), "env.time_limit"), steps);
}

EnvFactory with_action_repeat(EnvFactory make_env, int times) {
  require(times > 0, "an action repeat of {}; expected at least 1", times);
  return wrap<ActionRepeat>(without_batches(std::move(make_env), "env.action_repeat"), times);
}

EnvFactory with_stack(EnvFactory make_env, int frames) {
  require(frames > 0, "a stack of {} observations; expected at least 1", frames);
  return wrap<Stack>(std::move(make_env), frames);
}

EnvFactory with_clipped_reward(EnvFactory make_env, double low, double high) {
  require(low < high, "cannot clip rewards to the empty range [{}, {}]; expected low < high", low,
          high);
  return change_reward(std::move(make_env), [low, high](float reward) {
    return static_cast<float>(std::clamp<double>(reward, low, high));
  });
}

EnvFactory with_scaled_reward(EnvFactory make_env, double scale) {
  require(std::isfinite(scale) && scale != 0,
          "cannot scale rewards by {}; expected a finite number other than 0", scale);
  return change_reward(std::move(make_env),
                       [scale](float reward) { return static_cast<float>(reward * scale); });
}

EnvFactory with_normalized_reward(EnvFactory make_env, double discount, double epsilon) {
  require(discount >= 0 && discount <= 1, "a reward discount of {}; expected a number in [0, 1]",
          discount);
  require(epsilon > 0, "epsilon is {}; expected a positive number", epsilon);
  return wrap<NormalizedReward>(with_score(std::move(make_env)), discount, epsilon);
}

EnvFactory with_score(EnvFactory make_env) {
  return [make_env = std::move(make_env)](const EnvContext& context) -> std::unique_ptr<Env> {
    auto env = make_env(context);
    const auto& infos = env->spec().info;
    const bool has = std::ranges::any_of(infos, [](const auto& i) { return i.name == "score"; });
    if (has) return env;
    return std::make_unique<Score>(std::move(env));
  };
}

}  // namespace shoal
