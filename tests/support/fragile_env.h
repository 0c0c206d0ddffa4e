#pragma once

#include <array>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

#include "shoal/core/rng.h"
#include "shoal/envs/env.h"

namespace shoal::testing {

enum class Breakage {
  kNone,
  kThrow,
  kSegfault,
  kExit,
  kExitWith0,
  kHang,
  kThrowInReset,
  kThrowInConstructor,
  kThrowInFirstReset,
  kThrowInSave
};

struct FragileOptions {
  Breakage how = Breakage::kThrow;
  std::int64_t index = 5;  // the environment that fails
  std::int64_t at = 35;    // its step since the last reset with a seed, counted from 1
  bool saves = true;
  std::chrono::microseconds step{0};  // a step takes so long on every machine
};

// Observation {position, noise, steps}. The position and the length of an episode depend on the
// actions and on random numbers. One of the environments fails.
class Fragile : public Env {
 public:
  Fragile(const EnvContext& context, const FragileOptions& options)
      : options_(options), breaks_(context.index == options.index) {
    if (breaks_ && options.how == Breakage::kThrowInConstructor)
      throw std::runtime_error("there is no wheel");
  }

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override {
    if (breaks_ && options_.how == Breakage::kThrowInReset && !seed && s_.steps >= options_.at)
      throw std::runtime_error("the wheel came off while it was put on");
    if (breaks_ && options_.how == Breakage::kThrowInFirstReset)
      throw std::runtime_error("the wheel does not fit");
    if (seed) s_ = {}, rng_ = Rng(*seed);
    s_.position = rng_.uniform();
    s_.left = 1 + rng_.integer(0, 9);
    write(out);
  }
  StepResult step(ArraysIn action, StepOut out) override {
    const auto end = std::chrono::steady_clock::now() + options_.step;
    while (std::chrono::steady_clock::now() < end) {
    }
    if (++s_.steps == options_.at && breaks_) come_to_grief();
    s_.position += rng_.uniform() * static_cast<double>(1 + *action.as<std::int64_t>());
    --s_.left;
    write(out);
    const bool over = s_.left == 0;
    return {.reward = static_cast<float>(s_.position),
            .terminated = over && s_.steps % 2 == 0,
            .truncated = over && s_.steps % 2 == 1};
  }
  bool save(std::vector<std::byte>& bytes) const override {
    if (!options_.saves) return false;
    if (breaks_ && options_.how == Breakage::kThrowInSave)
      throw std::runtime_error("the wheel cannot be described");
    const Saved all{s_, rng_.key(), rng_.counter()};
    const auto* first = reinterpret_cast<const std::byte*>(&all);
    bytes.assign(first, first + sizeof all);
    return true;
  }
  bool load(std::span<const std::byte> bytes) override {
    Saved all;
    if (!options_.saves || bytes.size() != sizeof all) return false;
    std::memcpy(&all, bytes.data(), sizeof all);
    s_ = all.state;
    rng_ = Rng(all.key, all.counter);
    return true;
  }
  bool render(Image& image) override {
    image = {.height = 2, .width = 2, .rgb = std::vector<std::uint8_t>(12)};
    image.rgb[0] = static_cast<std::uint8_t>(s_.steps);
    return true;
  }

 private:
  struct State {
    double position = 0;
    std::int64_t steps = 0, left = 1;
  };
  struct Saved {
    State state;
    std::uint64_t key, counter;
  };

  void write(StepOut out) {
    auto* to = out.observation.as<float>();
    to[0] = static_cast<float>(s_.position);
    to[1] = static_cast<float>(rng_.uniform());
    to[2] = static_cast<float>(s_.steps);
  }
  void come_to_grief() const {
    switch (options_.how) {
      case Breakage::kThrow:
        throw std::runtime_error("the wheel came off");
      case Breakage::kSegfault:
        std::raise(SIGSEGV);
        break;
      case Breakage::kExit:
        std::exit(3);
      case Breakage::kExitWith0:
        std::exit(0);
      case Breakage::kHang:
        std::this_thread::sleep_for(std::chrono::hours(1));
        break;
      default:
        break;
    }
  }

  EnvSpec spec_{
      .id = "Fragile", .observation = ArraySpec{.shape = {3}}, .action = ActionSpec::discrete(2)};
  FragileOptions options_;
  bool breaks_;
  State s_;
  Rng rng_;
};

inline EnvFactory make_fragile(const FragileOptions& options) {
  return [options](const EnvContext& c) { return std::make_unique<Fragile>(c, options); };
}

}  // namespace shoal::testing
