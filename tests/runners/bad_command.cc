// The `shoal` command with environments of its own: episodes of ten steps of CartPole, one of whose
// numbers is not finite in the 100th step that an environment takes in training, or in the 20th in
// an evaluation.
#include <cmath>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <utility>

#include "shoal/app/command_line.h"
#include "shoal/envs/classic_control.h"
#include "shoal/envs/registry.h"
#include "shoal/envs/wrapper.h"
#include "shoal/envs/wrappers.h"

namespace {

struct BadStep {
  bool observation;  // or else the reward
  shoal::Stream stream;
  std::int64_t step;
};

class Bad : public shoal::Wrapper {
 public:
  Bad(std::unique_ptr<shoal::Env> env, const BadStep& bad) : Wrapper(std::move(env)), bad_(bad) {}

  shoal::StepResult step(shoal::ArraysIn action, shoal::StepOut out) override {
    auto result = Wrapper::step(action, out);
    if (++taken_ != bad_.step) return result;
    if (bad_.observation)
      out.observation.as<float>()[2] = std::numeric_limits<float>::quiet_NaN();
    else
      result.reward = HUGE_VALF;
    return result;
  }

 private:
  std::span<std::byte> memory() override { return std::as_writable_bytes(std::span(&taken_, 1)); }

  BadStep bad_;
  std::int64_t taken_ = 0;
};

void add(const char* name, const BadStep& bad) {
  const auto make_env = shoal::with_time_limit(shoal::make_cart_pole(), 10);
  shoal::register_env(
      name, [make_env, bad](const shoal::EnvContext& context) -> std::unique_ptr<shoal::Env> {
        if (context.stream != bad.stream) return make_env(context);
        return std::make_unique<Bad>(make_env(context), bad);
      });
}

}  // namespace

int main(int argc, char** argv) {
  add("BadObservation-v0", {true, shoal::Stream::kTrain, 100});
  add("BadReward-v0", {false, shoal::Stream::kTrain, 100});
  add("BadEvaluation-v0", {false, shoal::Stream::kEval, 20});
  return shoal::run_command_line(argc, argv);
}
