#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "samplers/action_log.h"
#include "samplers/fatal_signals.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"

namespace shoal {

// Gives a handler what repeats the failure of an environment of a sampler.
class FailureReporter {
 public:
  // Environments that have a log together, equally many for each log.
  struct Logged {
    const ActionLog* log;
    const SharedRows* home;                  // where their resets are
    std::vector<const SharedRows*> windows;  // where they are stepped
  };
  // The environment that this process is in, as report() takes it, and the step.
  using Place = std::function<std::pair<std::int64_t, std::int64_t>()>;

  // options: of the sampler. place: where this process steps environments itself.
  void prepare(const SamplerOptions& options, std::vector<Logged> all, Place place = {});
  void set_handler(FailureHandler handler);

  // Nothing, unless an environment (a number among all of the run; -1: none) has failed.
  void report(const std::string& error, std::int64_t env, std::int64_t step) const;
  void report(const WorkerError& death) const { report(death.what(), death.env, death.step); }

  // body(), and reports the environment because of which it throws.
  template <class Body>
  auto watch(const Body& body) const {
    try {
      return body();
    } catch (const WorkerError& death) {
      report(death);
      throw;
    } catch (const Interrupted&) {  // no environment has failed
      throw;
    } catch (const std::exception& e) {
      report_here(e.what());
      throw;
    }
  }

 private:
  void report_here(const std::string& error) const;

  FailureHandler handler_;
  std::vector<Logged> all_;
  Place place_;
  std::optional<FatalSignals> signals_;
  std::int64_t first_env_ = 0, envs_each_ = 1;
  std::uint64_t seed_ = 0;
  Stream stream_ = Stream::kTrain;
};

}  // namespace shoal
