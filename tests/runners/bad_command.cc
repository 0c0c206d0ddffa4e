// The `shoal` command with environments that return numbers that are not finite. Episodes are ten
// steps of CartPole. One number is not finite in the 100th training step of an environment, or in
// the 20th step of an evaluation. From the 100th step on, the rewards of HugeReward and
// HugePendulum are finite but their squares are not.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "shoal/cli/command_line.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/registry.h"
#include "shoal/envs/wrapper.h"
#include "shoal/envs/wrappers.h"

namespace {

struct BadStep {
  float reward;  // 0: the observation is bad
  shoal::Stream stream;
  std::int64_t step;
  bool lasts = false;
  std::optional<std::int64_t> index = {};  // index of the only bad environment; none: all
};

class Bad : public shoal::Wrapper {
 public:
  Bad(std::unique_ptr<shoal::Env> env, const BadStep& bad) : Wrapper(std::move(env)), bad_(bad) {}

  shoal::StepResult step(shoal::ArraysIn action, shoal::StepOut out) override {
    auto result = Wrapper::step(action, out);
    ++taken_;
    if (bad_.lasts ? taken_ < bad_.step : taken_ != bad_.step) return result;
    if (bad_.reward == 0)
      out.observation.as<float>()[2] = std::numeric_limits<float>::quiet_NaN();
    else
      result.reward = bad_.reward;
    return result;
  }

 private:
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&taken_, 1)); }

  BadStep bad_;
  std::int64_t taken_ = 0;
};

void add(const char* name, const BadStep& bad,
         const shoal::EnvFactory& whole = shoal::make_cart_pole()) {
  const auto make_env = shoal::with_time_limit(whole, 10);
  shoal::register_env(
      name, [make_env, bad](const shoal::EnvContext& context) -> std::unique_ptr<shoal::Env> {
        if (context.stream != bad.stream || bad.index.value_or(context.index) != context.index)
          return make_env(context);
        return std::make_unique<Bad>(make_env(context), bad);
      });
}

}  // namespace

int main(int argc, char** argv) {
  add("BadObservation-v0", {0, shoal::Stream::kTrain, 100});
  add("BadOfOneRank-v0", {.reward = 0, .stream = shoal::Stream::kTrain, .step = 100, .index = 0});
  add("BadReward-v0", {HUGE_VALF, shoal::Stream::kTrain, 100});
  add("BadEvaluation-v0", {HUGE_VALF, shoal::Stream::kEval, 20});
  add("HugeReward-v0", {1e36F, shoal::Stream::kTrain, 100, /*lasts=*/true});
  add("HugePendulum-v0", {1e36F, shoal::Stream::kTrain, 100, /*lasts=*/true},
      shoal::make_pendulum());
  return shoal::run_command_line(argc, argv);
}
