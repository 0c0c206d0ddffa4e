#include "samplers/failure_reporter.h"

namespace shoal {

void FailureReporter::prepare(const SamplerOptions& options, std::vector<Logged> all, Place place) {
  first_env_ = options.first_env;
  envs_each_ = options.envs / std::ssize(all);
  seed_ = options.seed;
  stream_ = options.stream;
  all_ = std::move(all);
  place_ = std::move(place);
}

void FailureReporter::set_handler(FailureHandler handler) {
  handler_ = std::move(handler);
  if (place_ && !signals_) signals_.emplace([this](const std::string& how) { report_here(how); });
}

void FailureReporter::report_here(const std::string& error) const {
  if (!place_) return;
  const auto [env, step] = place_();
  report(error, env, step);
}

void FailureReporter::report(const std::string& error, std::int64_t env, std::int64_t step) const {
  if (env < 0 || !handler_) return;
  const auto& [log, home, windows] =
      all_[static_cast<std::size_t>((env - first_env_) / envs_each_)];
  auto failure = log->failure((env - first_env_) % envs_each_, step, *home, windows);
  failure.error = error;
  failure.env = env;
  failure.stream = stream_;
  failure.env_seed = env_seed(seed_, stream_, env);
  handler_(failure);
}

}  // namespace shoal
