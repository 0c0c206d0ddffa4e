#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "samplers/gated_workers.h"
#include "samplers/row_actor.h"

namespace shoal {

// Fills windows with workers that go at their own pace, acting for whoever is there, as one batch;
// and cuts short what is left of a window when enough of it is done (Wijmans et al., "DD-PPO", ICLR
// 2020).
class DynamicFill {
 public:
  DynamicFill(GatedWorkers& workers, const SamplerOptions& options);

  // Fills a window that has begun; its rows are number `rows` of those that the workers know. The
  // actor's parts are the workers' environments. False if stopped() in the middle.
  bool fill(const SharedRows& window, std::size_t rows, RowActor& actor,
            const std::function<bool()>& stopped);
  double acting() const { return acting_; }  // seconds that choosing actions has taken so far
  // If environments may wait: has those that do reset, and waits until they are.
  void start_resets(std::size_t rows);
  void finish();

 private:
  void cut_short(const SharedRows& window, RowActor& actor);

  GatedWorkers& workers_;
  std::int64_t horizon_, enough_;  // enough_: environments that are done when others are cut short
  int batch_;                      // workers to act for at once
  std::chrono::microseconds patience_;
  double acting_ = 0;
  std::vector<std::int64_t> taken_;     // steps of each worker
  std::vector<RowActor::Place> ready_;  // workers that need actions
};

}  // namespace shoal
