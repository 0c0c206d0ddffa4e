#include "src/envs/mujoco/mujoco_env.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

#include "shoal/core/error.h"

namespace shoal {

MujocoEnv::MujocoEnv(std::shared_ptr<const Shared> shared, const EnvContext& context)
    : shared_(std::move(shared)),
      task_(shared_->task),
      simulation_(start_simulation(shared_->model)),
      physics_{shared_->model.constants(), *mujoco_library().arrays(simulation_.get())},
      rng_(context.seed),
      step_seconds_(physics_.model.timestep * task_.frame_skip) {}

void MujocoEnv::reset(std::optional<std::uint64_t> seed, StepOut out) {
  if (seed) rng_ = Rng(*seed);
  mujoco_library().reset(simulation_.get());
  task_.start(physics_, rng_);
  begin(out);
}

void MujocoEnv::start_from(std::span<const double> state, StepOut out) {
  mujoco_library().reset(simulation_.get());
  const auto qpos = physics_.qpos(), qvel = physics_.qvel();
  std::ranges::copy(state.first(qpos.size()), qpos.begin());
  std::ranges::copy(state.last(qvel.size()), qvel.begin());
  begin(out);
}

void MujocoEnv::begin(StepOut out) {
  mujoco_library().forward(simulation_.get());
  steps_ = 0;
  place_ = task_.place(physics_);
  task_.observe(physics_, out.observation.as<float>());
  MujocoInfos infos(out.info);
  task_.report(physics_, infos);
  infos.fill_with_zeros();
}

void MujocoEnv::simulate(std::span<const float> action) {
  std::ranges::copy(action, physics_.now.ctrl);
  mujoco_library().step(simulation_.get(), task_.frame_skip);
  if (task_.contact_forces) mujoco_library().contact_forces(simulation_.get());
}

StepResult MujocoEnv::step(ArraysIn action, StepOut out) {
  MujocoTask::Step step{.action = {action.as<float>(), physics_.model.nu}, .velocity = {}};
  const MujocoTask::Place before = place_;
  simulate(step.action);
  place_ = task_.place(physics_);
  for (std::size_t i = 0; i < place_.size(); ++i)
    step.velocity[i] = (place_[i] - before[i]) / step_seconds_;
  task_.observe(physics_, out.observation.as<float>());
  MujocoInfos infos(out.info);
  task_.report(physics_, infos);
  const MujocoTask::Outcome outcome = task_.judge(physics_, step, infos);
  return {.reward = static_cast<float>(outcome.reward),
          .terminated = outcome.terminated,
          .truncated = ++steps_ >= task_.time_limit && !outcome.terminated};
}

bool MujocoEnv::save(std::vector<std::byte>& bytes) const {
  const Position position{rng_.key(), rng_.counter(), steps_, place_};
  std::vector<double> state(physics_.model.state);
  mujoco_library().save(simulation_.get(), state.data());
  bytes.resize(sizeof position + state.size() * sizeof(double));
  std::memcpy(bytes.data(), &position, sizeof position);
  std::memcpy(bytes.data() + sizeof position, state.data(), state.size() * sizeof(double));
  return true;
}

bool MujocoEnv::load(std::span<const std::byte> bytes) {
  Position position;
  std::vector<double> state(physics_.model.state);
  const std::size_t expected = sizeof position + state.size() * sizeof(double);
  require(bytes.size() == expected, "{}: expected a saved state of {} bytes, found {}", spec().id,
          expected, bytes.size());
  std::memcpy(&position, bytes.data(), sizeof position);
  std::memcpy(state.data(), bytes.data() + sizeof position, state.size() * sizeof(double));
  mujoco_library().load(simulation_.get(), state.data());
  rng_ = Rng(position.rng_key, position.rng_counter);
  steps_ = position.steps;
  place_ = position.place;
  return true;
}

bool MujocoEnv::render(Image& image) {
  constexpr int kPixels = 480;  // height and width, as in Gymnasium
  image.height = image.width = kPixels;
  image.rgb.resize(std::size_t{3} * kPixels * kPixels);
  std::array<char, 512> text{};
  const int failed = mujoco_library().render(simulation_.get(), kPixels, kPixels, image.rgb.data(),
                                             {text.data(), text.size()});
  require(failed == 0, "{} cannot be drawn: {}", spec().id, text.data());
  return true;
}

}  // namespace shoal
