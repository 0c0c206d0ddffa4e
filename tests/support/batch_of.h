#pragma once

#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "shoal/envs/batch_env.h"
#include "src/envs/classic/cart_pole.h"

namespace shoal::testing {

struct BatchOfOptions {
  bool waits = false;  // the step behind the end of an episode only resets the environment
  std::int64_t multiple = 1;
};

// The environments of a factory as a batch.
class BatchOf : public BatchEnv {
 public:
  BatchOf(const EnvFactory& make_env, const BatchContext& c, const BatchOfOptions& options)
      : options_(options), over_(static_cast<std::size_t>(c.envs())) {
    for (std::int64_t i = 0; i < c.envs(); ++i)
      envs_.push_back(make_env({.seed = c.seeds[static_cast<std::size_t>(i)],
                                .index = c.first + i,
                                .stream = c.stream}));
    spec_ = envs_[0]->spec();
    for (const auto& info : spec_.info)
      discarded_.push_back(no_infos_.emplace_back(info.array.bytes()).data());
    observation_.resize(spec_.observation.size());
    info_.resize(spec_.info.size());
    action_.resize(spec_.action.size());
  }

  const EnvSpec& spec() const override { return spec_; }
  BatchTraits traits() const override {
    return {.multiple = options_.multiple, .waits = options_.waits};
  }
  void reset(std::span<const std::uint64_t> seeds, const BatchOut& out) override {
    for (std::size_t i = 0; i < envs_.size(); ++i) {
      over_[i] = false;
      envs_[i]->reset(seeds.empty() ? std::nullopt : std::optional(seeds[i]),
                      at(i, out, /*infos=*/false));
    }
  }
  void step(ArraysIn action, const BatchOut& out) override {
    for (std::size_t i = 0; i < envs_.size(); ++i) step(i, action, out);
  }
  bool save(std::int64_t env, std::vector<std::byte>& bytes) const override {
    return envs_[static_cast<std::size_t>(env)]->save(bytes);
  }
  bool load(std::int64_t env, std::span<const std::byte> bytes) override {
    return envs_[static_cast<std::size_t>(env)]->load(bytes);
  }

 private:
  void step(std::size_t i, ArraysIn action, const BatchOut& out) {
    if (options_.waits) out.waits[i] = false;
    if (over_[i]) {
      over_[i] = false;
      out.terminated[i] = out.truncated[i] = true;  // nobody reads them
      envs_[i]->reset(std::nullopt, at(i, out, /*infos=*/false));
      return;
    }
    for (std::size_t f = 0; f < action_.size(); ++f)
      action_[f] = action.as<std::byte>(f) + i * spec_.action[f].array().bytes();
    StepResult result;
    try {
      result = envs_[i]->step(ArraysIn(action_), at(i, out, /*infos=*/true));
    } catch (const std::runtime_error& e) {
      if (std::strstr(e.what(), "came off") != nullptr)
        throw BatchEnvError(static_cast<std::int64_t>(i), e.what());
      throw;
    }
    out.reward[i] = result.reward;
    out.terminated[i] = result.terminated;
    out.truncated[i] = result.truncated;
    if (result.episode_over()) end(i, out);
  }
  void end(std::size_t i, const BatchOut& out) {
    const auto seen = at(i, out, /*infos=*/false);
    for (std::size_t f = 0; f < observation_.size(); ++f) {
      const auto bytes = spec_.observation[f].bytes();
      std::memcpy(out.final_observation.as<std::byte>(f) + i * bytes,
                  seen.observation.as<std::byte>(f), bytes);
    }
    if (out.mask != nullptr) std::memcpy(out.final_mask + i * choices(), seen.mask, choices());
    if (options_.waits)
      over_[i] = out.waits[i] = true;
    else
      envs_[i]->reset(std::nullopt, seen);
  }
  std::size_t choices() const { return static_cast<std::size_t>(spec_.action[0].choices[0]); }
  StepOut at(std::size_t i, const BatchOut& out, bool infos) {
    for (std::size_t f = 0; f < observation_.size(); ++f)
      observation_[f] = out.observation.as<std::byte>(f) + i * spec_.observation[f].bytes();
    for (std::size_t f = 0; f < info_.size() && infos; ++f)
      info_[f] = out.info.as<std::byte>(f) + i * spec_.info[f].array.bytes();
    return {ArraysOut(observation_), ArraysOut(infos ? info_ : discarded_),
            out.mask == nullptr ? nullptr : out.mask + i * choices()};
  }

  BatchOfOptions options_;
  std::vector<std::unique_ptr<Env>> envs_;
  EnvSpec spec_;
  std::vector<char> over_;
  std::vector<std::vector<std::byte>> no_infos_;
  std::vector<std::byte*> observation_, info_, discarded_;
  std::vector<const std::byte*> action_;
};

inline EnvFactory make_batch_of(const EnvFactory& make_env, const BatchOfOptions& options = {}) {
  return make_batched([=](const BatchContext& context) {
    return std::make_unique<BatchOf>(make_env, context, options);
  });
}

// CartPoles without a class for each of them.
class CartPoles : public BatchEnv {
 public:
  explicit CartPoles(const BatchContext& c) {
    for (const auto seed : c.seeds) poles_.push_back({.rng = Rng(seed)});
  }

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::span<const std::uint64_t> seeds, const BatchOut& out) override {
    for (std::size_t i = 0; i < poles_.size(); ++i) {
      if (!seeds.empty()) poles_[i].rng = Rng(seeds[i]);
      start(i, out);
    }
  }
  void step(ArraysIn action, const BatchOut& out) override {
    auto* observation = out.observation.as<float>();
    for (std::size_t i = 0; i < poles_.size(); ++i) {
      auto& pole = poles_[i];
      const auto* const own = action.as<std::byte>() + i * sizeof(std::int64_t);
      const auto outcome = CartPole::advance(pole.state, ArraysIn({&own, 1}));
      out.reward[i] = static_cast<float>(outcome.reward);
      out.terminated[i] = outcome.terminated;
      out.truncated[i] = ++pole.steps >= 500 && !outcome.terminated;
      CartPole::observe(pole.state, observation + 4 * i);
      if (!out.terminated[i] && !out.truncated[i]) continue;
      CartPole::observe(pole.state, out.final_observation.as<float>() + 4 * i);
      start(i, out);
    }
  }

 private:
  void start(std::size_t i, const BatchOut& out) {
    poles_[i].state = CartPole::start(poles_[i].rng);
    poles_[i].steps = 0;
    CartPole::observe(poles_[i].state, out.observation.as<float>() + 4 * i);
  }

  struct Pole {
    Rng rng;
    CartPole::State state{};
    int steps = 0;
  };
  EnvSpec spec_ = CartPole::spec();
  std::vector<Pole> poles_;
};

inline EnvFactory make_cart_poles() {
  return make_batched([](const BatchContext& c) { return std::make_unique<CartPoles>(c); });
}

}  // namespace shoal::testing
