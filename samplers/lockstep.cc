#include "samplers/lockstep.h"

namespace shoal {

Lockstep::Lockstep(std::unique_ptr<Stepper> stepper, const SamplerOptions& options)
    : stepper_(std::move(stepper)),
      horizon_(options.horizon),
      while_stepping_(while_stepping(options)) {}

bool Lockstep::fill(const Task& task) {
  const auto& parts = stepper_->parts();
  SplitTimer timer(task.times);
  const auto finish = [&](std::int64_t t, std::size_t part) {
    const auto ended = stepper_->finish(part);
    timer.count(while_stepping_);
    if (ended > 0) task.ended(t, parts[part]);
  };
  for (std::int64_t t = 0; t < horizon_; ++t) {
    if (task.stopped()) return false;
    for (std::size_t part = 0; part < parts.size(); ++part) {
      if (t > 0) finish(t - 1, part);
      task.actor->act(t, part);
      timer.count(&SamplerTimes::acting);
      stepper_->start(Command::kStep, t, part, task.rollout);
    }
  }
  for (std::size_t part = 0; part < parts.size(); ++part) finish(horizon_ - 1, part);
  return true;
}

void Lockstep::start_resets(std::size_t rollout) {
  resetting_ = true;
  for (std::size_t part = 0; part < parts().size(); ++part)
    stepper_->start(Command::kReset, 0, part, rollout);
}

void Lockstep::finish_resets() {
  for (std::size_t part = 0; part < parts().size() && resetting_; ++part) stepper_->finish(part);
  resetting_ = false;
}

}  // namespace shoal
