#pragma once

#include <memory>
#include <string>
#include <vector>

#include "src/envs/mujoco/task.h"

namespace shoal {

class MujocoEnv : public Env {
 public:
  // Data shared by all environments of one task; immutable.
  struct Shared {
    MujocoModel model;
    MujocoTask task;
    EnvSpec spec;
  };
  MujocoEnv(std::shared_ptr<const Shared> shared, const EnvContext& context);

  const EnvSpec& spec() const override { return shared_->spec; }
  void reset(std::optional<std::uint64_t> seed, StepOut out) override;
  StepResult step(ArraysIn action, StepOut out) override;
  bool save(std::vector<std::byte>& bytes) const override;
  bool load(std::span<const std::byte> bytes) override;
  bool render(Image& image) override;

  // Begins an episode in the given state: qpos, then qvel.
  void start_from(std::span<const double> state, StepOut out);
  const MujocoPhysics& physics() const { return physics_; }

 private:
  // State to save in addition to the physics.
  struct Position {
    std::uint64_t rng_key, rng_counter;
    std::int64_t steps;
    MujocoTask::Place place;
  };

  void begin(StepOut out);
  void simulate(std::span<const float> action);

  std::shared_ptr<const Shared> shared_;
  const MujocoTask& task_;
  MujocoSimulation simulation_;
  MujocoPhysics physics_;
  Rng rng_;
  double step_seconds_;
  MujocoTask::Place place_{};  // after the last step: derived quantities lag behind the state, so
                               // it cannot be recomputed
  std::int64_t steps_ = 0;
};

}  // namespace shoal
