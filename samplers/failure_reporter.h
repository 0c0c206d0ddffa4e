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

// Calls SamplerOptions::on_failure with the data that reproduce a failure of an environment.
class FailureReporter {
 public:
  // Environments that share a log; every log has equally many.
  struct Logged {
    const ActionLog* log;
    const SharedRollout* home;                   // holds their resets
    std::vector<const SharedRollout*> rollouts;  // the rows they are stepped in
  };

  // options: of the sampler. steps_here: this process steps environments, at first in this thread.
  void prepare(const SamplerOptions& options, std::vector<Logged> all, bool steps_here = false);
  // Environments are stepped in this thread from now on. Exceptions in other threads are not
  // reported as their failures.
  void step_in_this_thread() { stepping_thread_ = std::this_thread::get_id(); }
  // The place for the collectors of this process to update; null if it steps no environments.
  EnvPlace* place() { return steps_here_ ? &place_ : nullptr; }

  // env: index in the run; -1: no environment has failed, and nothing is reported. Never throws.
  void report(const std::string& error, std::int64_t env, std::int64_t step) const;
  void report(const WorkerError& death) const { report(death.what(), death.env, death.step); }

  // Calls body(). If it throws because of an environment, the failure is reported.
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
  // Whether this thread is calling an environment, whose failure is then reported.
  bool report_here(const std::string& error) const;
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
