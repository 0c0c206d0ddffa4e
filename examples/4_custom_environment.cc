// An environment of your own: a ball falls down a shaft, and a paddle must be under it when it
// lands. After some seconds of training, the program prints one game as a strip of pictures.
//
//   build/release/bin/examples/4_custom_environment [steps]
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>

#include "shoal/agents/actor_critic.h"
#include "shoal/algos/ppo.h"
#include "shoal/envs/check_env.h"
#include "shoal/samplers/sampler.h"

constexpr std::int64_t kWidth = 7, kHeight = 8;

// [environment]
class Catch : public shoal::Env {
 public:
  const shoal::EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t> seed, shoal::StepOut out) override {
    if (seed) rng_ = shoal::Rng(*seed);
    x_ = rng_.integer(0, kWidth), y_ = 0, drift_ = rng_.integer(-1, 2), paddle_ = kWidth / 2;
    write(out);
  }
  shoal::StepResult step(shoal::ArraysIn action, shoal::StepOut out) override {
    if (x_ + drift_ < 0 || x_ + drift_ >= kWidth) drift_ = -drift_;
    x_ += drift_, ++y_;
    paddle_ = std::clamp(paddle_ + *action.as<std::int64_t>() - 1, std::int64_t{0}, kWidth - 1);
    write(out);
    const bool landed = y_ == kHeight - 1;
    return {.reward = landed && x_ == paddle_ ? 1.0F : 0.0F, .terminated = landed};
  }

 private:
  void write(shoal::StepOut out) const {  // directly to the row that the agent reads
    auto* observation = out.observation.as<float>();
    for (const auto number : {x_, y_, drift_, paddle_}) *observation++ = static_cast<float>(number);
  }
  shoal::EnvSpec spec_{.id = "Catch",
                       .observation = shoal::ArraySpec{.shape = {4}},
                       .action = shoal::ActionSpec::discrete(3)};  // left, stay, right
  shoal::Rng rng_;
  std::int64_t x_ = 0, y_ = 0, drift_ = 0, paddle_ = 0;
};
// [environment]

void show(const shoal::Samples& game) {
  const auto* seen = game.observation[0].const_data_ptr<float>();  // [T+1, 1, 4]
  const auto last = game.final_obs.observation[0].dense();  // row T already shows the next game
  for (int y = 0; y < kHeight; ++y, fmt::print("\n"))
    for (int t = 0; t < kHeight; ++t) {
      const float* o = t < game.T ? seen + 4 * t : last.const_data_ptr<float>();
      for (int x = 0; x < kWidth; ++x)
        fmt::print("{}", o[0] == x && o[1] == y ? 'o' : o[3] == x && y == kHeight - 1 ? '=' : '.');
      fmt::print("  ");
    }
}

int main(int argc, char** argv) {
  const std::int64_t steps = argc > 1 ? std::atoll(argv[1]) : 100'000;
  at::set_num_threads(1);
  // [check]
  const auto make_env = [](const shoal::EnvContext&) { return std::make_unique<Catch>(); };
  for (const auto& mistake : shoal::check_env(make_env)) fmt::print(stderr, "{}\n", mistake);
  // [check]
  const auto agent = shoal::make_actor_critic(Catch().spec(), {}, {}, 1);
  const auto sampler = shoal::make_sampler(make_env, *agent, {.horizon = 28, .envs = 32});
  const auto algo = shoal::make_ppo(*agent, {.learning_rate = 1e-3, .clip = 0.2});

  for (shoal::Progress progress{.schedule_steps = steps}; progress.steps < steps;) {
    const shoal::Batch batch = sampler->collect();
    algo->update(batch.samples, progress);
    progress.steps += batch.samples.steps;
    fmt::print(stderr, "\r{:>7} steps: {:3.0f} % caught", progress.steps,
               100 * batch.samples.reward.sum().item<double>() /
                   static_cast<double>(batch.episodes.size()));
  }
  fmt::print(stderr, "\n\n");
  const shoal::SamplerOptions test{.horizon = kHeight - 1, .envs = 1, .workers = 1, .greedy = true};
  show(shoal::make_sampler(make_env, *agent, test)->collect().samples);
}
