#pragma once

#include <memory>
#include <utility>

#include "samplers/filler.h"
#include "samplers/stepper.h"

namespace shoal {

// All environments of a group step together: a step begins when all actions are available, and ends
// when all environments have taken it. While one group steps, the agent acts for the other.
class Lockstep : public Filler {
 public:
  Lockstep(std::unique_ptr<Stepper> stepper, const SamplerOptions& options);

  const std::vector<Range>& parts() const override { return stepper_->parts(); }
  bool fill(const Task& task) override;
  void start_resets(std::size_t rollout) override;
  void finish_resets() override;
  void save(Command how, NamedTensors& to) override { stepper_->save(how, to); }
  void give_up() override { stepper_->give_up(); }
  std::int64_t restarts() const override { return stepper_->restarts(); }

 private:
  std::unique_ptr<Stepper> stepper_;
  std::int64_t horizon_;
  double SamplerTimes::*while_stepping_;
  bool resetting_ = false;
};

}  // namespace shoal
