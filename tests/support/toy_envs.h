#pragma once

#include <array>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/envs/env.h"

namespace shoal::testing {

// Observation {1000 * index + step, episode}. An episode has `length` steps and ends as configured;
// the reward is the action.
struct CounterOptions {
  std::int64_t length = 5;
  bool truncates = false;  // instead of terminating
  std::int64_t life = 0;   // steps between lost lives; 0: never
};

class Counter : public Env {
 public:
  Counter(const EnvContext& context, const CounterOptions& options)
      : options_(options), base_(1000.0F * static_cast<float>(context.index)) {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t>, StepOut out) override {
    step_ = 0;
    ++episode_;
    write(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    ++step_;
    write(out);
    const bool over = step_ == options_.length;
    const bool life_lost = !over && options_.life > 0 && step_ % options_.life == 0;
    return {.reward = static_cast<float>(*action.as<std::int64_t>()),
            .terminated = (over && !options_.truncates) || life_lost,
            .truncated = over && options_.truncates,
            .life_lost = life_lost};
  }

 private:
  void write(StepOut out) const {
    auto* x = out.observation.as<float>();
    x[0] = base_ + static_cast<float>(step_);
    x[1] = static_cast<float>(episode_);
  }

  EnvSpec spec_{
      .id = "Counter", .observation = ArraySpec{.shape = {2}}, .action = ActionSpec::discrete(2)};
  CounterOptions options_;
  float base_;
  std::int64_t step_ = 0, episode_ = -1;
};

inline EnvFactory make_counter(const CounterOptions& options = {}) {
  return [options](const EnvContext& c) { return std::make_unique<Counter>(c, options); };
}

// Covers many features at once: a dictionary of a stacked image and a vector, an action mask, an
// info with the raw score, random episode lengths with both kinds of end. All depend on the seed
// and the actions. It can be saved.
class Zoo : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed) rng_ = Rng(*seed);
    length_ = 1 + rng_.integer(0, 9);
    step_ = 0;
    write(0, out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto a = *action.as<std::int64_t>();
    require(a != forbidden_, "the masked action {} was taken", a);
    write(a, out);
    const float score = static_cast<float>(a) - 0.5F;
    *out.info.as<float>() = score;
    const bool over = ++step_ >= length_;
    const bool cut = over && rng_.uniform() < 0.5;
    return {.reward = score > 0 ? 1.0F : -1.0F, .terminated = over && !cut, .truncated = cut};
  }
  bool save(std::vector<std::byte>& bytes) const override {
    const std::array<std::int64_t, 5> all{static_cast<std::int64_t>(rng_.key()),
                                          static_cast<std::int64_t>(rng_.counter()), length_, step_,
                                          forbidden_};
    bytes.resize(sizeof all);
    std::memcpy(bytes.data(), &all, sizeof all);
    return true;
  }
  bool load(std::span<const std::byte> bytes) override {
    std::array<std::int64_t, 5> all{};
    require(bytes.size() == sizeof all, "{} bytes", bytes.size());
    std::memcpy(&all, bytes.data(), sizeof all);
    rng_ = Rng(static_cast<std::uint64_t>(all[0]), static_cast<std::uint64_t>(all[1]));
    length_ = all[2], step_ = all[3], forbidden_ = all[4];
    return true;
  }

 private:
  void write(std::int64_t action, StepOut out) {
    for (int i = 0; i < 12; ++i)
      out.observation.as<std::uint8_t>(0)[i] = static_cast<std::uint8_t>(rng_.integer(0, 256));
    out.observation.as<float>(1)[0] = static_cast<float>(rng_.uniform(-1, 1));
    out.observation.as<float>(1)[1] = static_cast<float>(action);
    forbidden_ = rng_.integer(0, 3);
    for (std::int64_t a = 0; a < 3; ++a) out.mask[a] = a != forbidden_;
  }

  EnvSpec spec_{
      .id = "Zoo",
      .observation =
          {{"camera", {.dtype = DType::kUInt8, .shape = {3, 4}, .low = 0, .high = 255, .stack = 3}},
           {"body/joints", {.shape = {2}}}},
      .action = ActionSpec::discrete(3),
      .info = {{"score", {}, PerEpisode::kSum}},
      .action_mask = true};
  Rng rng_;
  std::int64_t length_ = 1, step_ = 0, forbidden_ = 0;
};

inline EnvFactory make_zoo() {
  return [](const EnvContext&) { return std::make_unique<Zoo>(); };
}

// A dictionary of one action of every kind. The rewards encode the actions, and two infos their
// results. It cannot be saved.
class Gestures : public Env {
 public:
  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (seed) rng_ = Rng(*seed);
    left_ = rng_.integer(1, 12);
    write(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto* fingers = action.as<std::int64_t>(1);
    const auto* push = action.as<float>(2);
    const auto* lights = action.as<bool>(3);
    const auto reward = static_cast<float>(*action.as<std::int64_t>(0) + fingers[0] * fingers[1]) +
                        push[0] - push[1] + (lights[0] ? 1.0F : 0.0F) - (lights[2] ? 1.0F : 0.0F);
    write(out);
    *out.info.as<float>(0) = reward;
    *out.info.as<std::int64_t>(1) = left_;
    --left_;
    return {.reward = reward, .terminated = left_ == 0};
  }

 private:
  void write(StepOut out) {
    for (int i = 0; i < 3; ++i)
      out.observation.as<float>()[i] = static_cast<float>(rng_.uniform(-1, 1));
  }

  EnvSpec spec_{
      .id = "Gestures",
      .observation = ArraySpec{.shape = {3}},
      .action = {{"walk", ActionSpec::discrete(3)},
                 {"fingers", {.kind = ActionSpec::Kind::kMultiDiscrete, .choices = {2, 4}}},
                 {"push", ActionSpec::box(2, -1, 1)},
                 {"lights", {.kind = ActionSpec::Kind::kMultiBinary, .dims = 3}}},
      .info = {{"best", {}, PerEpisode::kMax},
               {"left", {.dtype = DType::kInt64}, PerEpisode::kLast}}};
  Rng rng_;
  std::int64_t left_ = 1;
};

inline EnvFactory make_gestures() {
  return [](const EnvContext&) { return std::make_unique<Gestures>(); };
}

enum class Mishap {
  kThrow,
  kAbort,
  kExit,
  kKill,
  kHang,
  kSuspend,
  kThrowInReset,
  kThrowInConstructor
};

// Environment `index` fails at its step `at` (counted from 1).
class Unlucky : public Counter {
 public:
  Unlucky(const EnvContext& c, Mishap mishap, std::int64_t index, std::int64_t at,
          const CounterOptions& options = {.length = 1000})
      : Counter(c, options), mishap_(mishap), chosen_(c.index == index), at_(at) {
    if (chosen_ && mishap_ == Mishap::kThrowInConstructor)
      throw std::runtime_error("cannot be built");
  }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (chosen_ && mishap_ == Mishap::kThrowInReset) throw std::runtime_error("cannot be reset");
    Counter::reset(seed, out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    if (chosen_ && ++steps_ == at_) meet();
    return Counter::step(action, out);
  }

 private:
  void meet() {
    switch (mishap_) {
      case Mishap::kThrow:
        throw std::runtime_error("the wheel came off");
      case Mishap::kAbort:
        std::abort();
      case Mishap::kExit:
        std::exit(3);
      case Mishap::kKill:
        std::raise(SIGKILL);
        break;
      case Mishap::kHang:
        std::this_thread::sleep_for(std::chrono::hours(1));
        break;
      case Mishap::kSuspend:  // of all processes at once, as Ctrl-Z does; then slow, but not too
                              // slow
        ::kill(0, SIGSTOP);
        std::this_thread::sleep_for(std::chrono::milliseconds(300));
        break;
      default:
        break;
    }
  }

  Mishap mishap_;
  bool chosen_;
  std::int64_t at_, steps_ = 0;
};

}  // namespace shoal::testing
