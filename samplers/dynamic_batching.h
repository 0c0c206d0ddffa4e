#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "samplers/batched_inference.h"
#include "samplers/free_running_workers.h"

namespace shoal {

// Fills rollouts with workers that go at their own pace, acting for whoever is there, as one batch;
// and cuts short what is left of a rollout when enough of it is done (Wijmans et al., "DD-PPO",
// ICLR 2020).
class DynamicBatching {
 public:
  DynamicBatching(FreeRunningWorkers& workers, const SamplerOptions& options);

  // Fills a rollout that has begun; its rows are number `rows` of those that the workers know. The
  // actor's parts are the workers' environments. False if stopped() in the middle.
  bool fill(const SharedRollout& rollout, std::size_t rows, BatchedInference& actor,
            const std::function<bool()>& stopped);
  double acting() const { return acting_; }  // seconds that choosing actions has taken so far
  // If environments may wait: has those that do reset, and waits until they are.
  void start_resets(std::size_t rows);
  void finish();

 private:
  void cut_short(const SharedRollout& rollout, BatchedInference& actor);

  FreeRunningWorkers& workers_;
  std::int64_t horizon_, enough_;  // enough_: environments that are done when others are cut short
  int batch_;                      // workers to act for at once
  std::chrono::microseconds patience_;
  double acting_ = 0;
  std::vector<std::int64_t> taken_;             // steps of each worker
  std::vector<BatchedInference::Place> ready_;  // workers that need actions
};

}  // namespace shoal
