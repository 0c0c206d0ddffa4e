#include "samplers/dynamic_batching.h"

#include <algorithm>
#include <cmath>

namespace shoal {

DynamicBatching::DynamicBatching(const SharedRollouts& rollouts, const SamplerContext& context,
                                 std::byte* memory)
    : workers_(rollouts, context, memory), horizon_(context.options.horizon) {
  const auto& o = context.options;
  enough_ = static_cast<std::int64_t>(std::ceil(o.preempt_share * static_cast<double>(o.envs)));
  batch_ = static_cast<int>(
      std::min<std::int64_t>((o.dynamic_batch * o.workers + o.envs - 1) / o.envs, o.workers));
  patience_ = std::chrono::microseconds(o.dynamic_batch_timeout_us);
}

bool DynamicBatching::fill(const Task& task) {
  done_ = 0;
  taken_.assign(parts().size(), 0);
  ready_.clear();
  for (std::size_t w = 0; w < parts().size(); ++w) ready_.push_back({0, w});
  for (;;) {
    if (done_ >= enough_) cut_short(task);
    if (!ready_.empty()) act(task);
    if (workers_.under_way() == 0) {
      workers_.end_rollout();
      return true;
    }
    if (task.stopped()) return false;
    gather(task);
  }
}

void DynamicBatching::act(const Task& task) {
  SplitTimer timer(task.times);
  task.actor->act(ready_);
  timer.count(&SamplerTimes::acting);
  for (const auto& [t, part] : ready_)
    workers_.start(Command::kStep, t, static_cast<int>(part), task.rollout);
  workers_.go();
  ready_.clear();
}

void DynamicBatching::gather(const Task& task) {
  SplitTimer timer(task.times);
  for (const int worker : workers_.gather(batch_, patience_)) {
    const auto w = static_cast<std::size_t>(worker);
    const auto& envs = parts()[w];
    task.ended(taken_[w], envs);
    if (++taken_[w] < horizon_)
      ready_.push_back({taken_[w], w});
    else
      done_ += envs.size();
  }
  timer.count(&SamplerTimes::waiting);
}

void DynamicBatching::cut_short(const Task& task) {
  for (const auto& [t, part] : ready_) {
    task.actor->tensors().cut_short(t, parts()[part]);
    task.ended(t - 1, parts()[part]);
  }
  ready_.clear();
}

void DynamicBatching::start_resets(std::size_t rollout) {
  for (int w = 0; w < static_cast<int>(parts().size()); ++w)
    workers_.start(Command::kReset, 0, w, rollout);
  workers_.go();
}

void DynamicBatching::finish_resets() {
  while (workers_.under_way() > 0) workers_.gather(workers_.under_way(), BatchGate::kNoLimit);
}

}  // namespace shoal
