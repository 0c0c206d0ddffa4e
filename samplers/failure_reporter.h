#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "samplers/action_log.h"
#include "samplers/collector.h"
#include "samplers/fatal_signals.h"
#include "shoal/core/error.h"
#include "shoal/core/stop.h"

namespace shoal {

// Gives SamplerOptions::on_failure what repeats the failure of an environment of a sampler.
class FailureReporter {
 public:
  // Environments that have a log together, equally many for each log.
  struct Logged {
    const ActionLog* log;
    const SharedRollout* home;                   // where their resets are
    std::vector<const SharedRollout*> rollouts;  // where they are stepped
  };

  // options: of the sampler. steps_here: this process steps environments, so far in this thread.
  void prepare(const SamplerOptions& options, std::vector<Logged> all, bool steps_here = false);
  // Environments are stepped in this thread from now on. Failures of others are none of theirs.
  void step_in_this_thread() { stepping_thread_ = std::this_thread::get_id(); }
  // Where collectors of this process write what they are in; null: it steps none.
  EnvPlace* place() { return steps_here_ ? &place_ : nullptr; }

  // Nothing, unless an environment (a number among all of the run; -1: none) has failed. Throws
  // nothing.
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
  EnvFailure find(std::int64_t env, std::int64_t step) const;

  FailureHandler handler_;
  std::vector<Logged> all_;
  bool steps_here_ = false;
  EnvPlace place_;  // of the stepping thread
  std::atomic<std::thread::id> stepping_thread_;
  std::optional<FatalSignals> signals_;
  std::int64_t first_env_ = 0, envs_each_ = 1;
  std::uint64_t seed_ = 0;
  Stream stream_ = Stream::kTrain;
};

}  // namespace shoal
