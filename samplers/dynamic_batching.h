#pragma once

#include <cstdint>
#include <vector>

#include "samplers/filler.h"
#include "samplers/free_running_workers.h"

namespace shoal {

// Workers run freely, and the agent acts for those that are ready in one batch. Once enough
// environments have filled the rollout, the others are cut short (Wijmans et al., "DD-PPO", ICLR
// 2020).
class DynamicBatching : public Filler {
 public:
  static std::size_t bytes(const SamplerOptions& options) {
    return FreeRunningWorkers::bytes(options.workers);
  }
  // memory: bytes() of the arena, 64-byte aligned.
  DynamicBatching(const SharedRollouts& rollouts, const SamplerContext& context, std::byte* memory);

  const std::vector<Range>& parts() const override { return workers_.envs(); }
  bool fill(const Task& task) override;
  void start_resets(std::size_t rollout) override;
  void finish_resets() override;
  void save(Command how, NamedTensors& to) override { workers_.save(how, to); }
  void give_up() override { workers_.give_up(); }
  std::int64_t restarts() const override { return workers_.restarts(); }

 private:
  void act(const Task& task);
  void gather(const Task& task);
  void cut_short(const Task& task);

  FreeRunningWorkers workers_;
  std::int64_t horizon_, enough_;  // enough_: finished environments after which others are cut
  int batch_;                      // workers per batch
  std::chrono::microseconds patience_;
  std::int64_t done_ = 0;                       // environments that have filled the rollout
  std::vector<std::int64_t> taken_;             // steps of each worker
  std::vector<BatchedInference::Place> ready_;  // workers that need actions
};

}  // namespace shoal
