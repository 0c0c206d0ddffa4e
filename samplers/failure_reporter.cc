#include "samplers/failure_reporter.h"

#include <ATen/core/Tensor.h>

#include "src/core/print.h"

namespace shoal {

namespace {

// An action that is not finite was rejected before the step: the agent failed, not the environment.
bool last_action_is_finite(const EnvFailure& failure) {
  for (const auto& [name, all] : failure.actions)
    if (all.is_floating_point() && !all[failure.steps() - 1].isfinite().all().item<bool>())
      return false;
  return true;
}

}  // namespace

void FailureReporter::prepare(const SamplerOptions& options, std::vector<Logged> all,
                              bool steps_here) {
  handler_ = options.on_failure;
  first_env_ = options.first_env;
  envs_each_ = options.envs / std::ssize(all);
  seed_ = options.seed;
  stream_ = options.stream;
  all_ = std::move(all);
  steps_here_ = steps_here;
  step_in_this_thread();
  if (steps_here && handler_)
    signals_.emplace([this](const std::string& how) { return report_here(how); });
}

// The check of the thread also holds in the process that FatalSignals forks: its thread has the
// same id.
bool FailureReporter::report_here(const std::string& error) const {
  if (!steps_here_ || stepping_thread_ != std::this_thread::get_id() || place_.env < 0)
    return false;
  report(error, place_.env, place_.step);
  return true;
}

EnvFailure FailureReporter::find(std::int64_t env, std::int64_t step) const {
  const auto& [log, home, rollouts] =
      all_[static_cast<std::size_t>((env - first_env_) / envs_each_)];
  auto failure = log->failure((env - first_env_) % envs_each_, step, *home, rollouts);
  failure.env = env;
  failure.stream = stream_;
  failure.env_seed = env_seed(seed_, stream_, env);
  return failure;
}

void FailureReporter::report(const std::string& error, std::int64_t env, std::int64_t step) const {
  if (env < 0 || !handler_) return;
  try {
    auto failure = find(env, step);
    if (failure.in_step && !last_action_is_finite(failure)) return;
    failure.error = error;
    handler_(failure);
  } catch (const std::exception& e) {
    print_error("cannot record the failure of environment {}: {}\n", env, e.what());
  }
}

}  // namespace shoal
