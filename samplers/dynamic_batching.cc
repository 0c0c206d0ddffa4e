#include "samplers/dynamic_batching.h"

#include <algorithm>
#include <cmath>

namespace shoal {

DynamicBatching::DynamicBatching(FreeRunningWorkers& workers, const SamplerOptions& o)
    : workers_(workers),
      horizon_(o.horizon),
      enough_(static_cast<std::int64_t>(std::ceil(o.preempt_share * static_cast<double>(o.envs)))),
      batch_(static_cast<int>(
          std::min<std::int64_t>((o.dynamic_batch * o.workers + o.envs - 1) / o.envs, o.workers))),
      patience_(o.dynamic_batch_timeout_us) {}

bool DynamicBatching::fill(const SharedRollout& rollout, std::size_t rows, BatchedInference& actor,
                           const std::function<bool()>& stopped) {
  const auto& envs = workers_.envs();
  std::int64_t done = 0;
  taken_.assign(envs.size(), 0);
  ready_.clear();
  for (std::size_t w = 0; w < envs.size(); ++w) ready_.push_back({0, w});
  for (;;) {
    if (done >= enough_) cut_short(rollout, actor);
    if (!ready_.empty()) {
      const auto before = std::chrono::steady_clock::now();
      actor.act(ready_);
      count_time(acting_, before);
      for (const auto& [t, part] : ready_) workers_.start(t, static_cast<int>(part), rows);
      workers_.go();
      ready_.clear();
    }
    if (workers_.under_way() == 0) {
      workers_.end_rollout();
      return true;
    }
    if (stopped()) return false;
    for (const int worker : workers_.gather(batch_, patience_)) {
      const auto w = static_cast<std::size_t>(worker);
      rollout.keep_final_states(taken_[w], envs[w].first, envs[w].last);
      if (++taken_[w] < horizon_)
        ready_.push_back({taken_[w], w});
      else
        done += envs[w].size();
    }
  }
}

void DynamicBatching::cut_short(const SharedRollout& rollout, BatchedInference& actor) {
  for (const auto& [t, part] : ready_) {
    const auto& envs = workers_.envs()[part];
    actor.cut_short(t, part);
    rollout.keep_final_states(t - 1, envs.first, envs.last);
  }
  ready_.clear();
}

void DynamicBatching::start_resets(std::size_t rows) {
  for (int w = 0; w < static_cast<int>(workers_.envs().size()); ++w)
    workers_.start(horizon_, w, rows);
  workers_.go();
}

void DynamicBatching::finish() {
  while (workers_.under_way() > 0) workers_.gather(workers_.under_way(), BatchGate::kNoLimit);
}

}  // namespace shoal
