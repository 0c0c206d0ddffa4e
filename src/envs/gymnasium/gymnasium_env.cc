#include "src/envs/gymnasium/gymnasium_env.h"

#include "shoal/core/error.h"

namespace shoal {

void GymnasiumEnv::open() {
  if (env_) return;
  env_ = open_gymnasium(task_);
  require_same_spaces(task_, gymnasium_library().description(env_.get()), description_);
}

void GymnasiumEnv::check(int result) const {
  require(result != 0, "gymnasium:{}: {}", task_.id, failure_.text());
}

shoal_gymnasium_out GymnasiumEnv::pointers(const StepOut& out) {
  observation_.resize(spec_.observation.size());
  for (std::size_t i = 0; i < observation_.size(); ++i)
    observation_[i] = out.observation.as<std::uint8_t>(i);
  info_.resize(spec_.info.size());
  for (std::size_t i = 0; i < info_.size(); ++i) info_[i] = out.info.as<float>(i);
  return {observation_.data(), reinterpret_cast<std::uint8_t*>(out.mask), info_.data()};
}

void GymnasiumEnv::reset(std::optional<std::uint64_t> seed, StepOut out) {
  open();
  const std::uint64_t kept = seed.value_or(0) & kGymnasiumSeedBits;
  check(
      gymnasium_library().reset(env_.get(), seed ? &kept : nullptr, pointers(out), failure_.out()));
}

StepResult GymnasiumEnv::step(ArraysIn action, StepOut out) {
  action_.resize(spec_.action.size());
  for (std::size_t i = 0; i < action_.size(); ++i) action_[i] = action.as<std::uint8_t>(i);
  shoal_gymnasium_step result{};
  check(
      gymnasium_library().step(env_.get(), action_.data(), pointers(out), &result, failure_.out()));
  return {.reward = static_cast<float>(result.reward),
          .terminated = result.terminated != 0,
          .truncated = result.truncated != 0};
}

bool GymnasiumEnv::save(std::vector<std::byte>& bytes) const {
  if (!env_) return false;
  std::size_t size = 0;
  const auto* state =
      reinterpret_cast<const std::byte*>(gymnasium_library().save(env_.get(), &size));
  bytes.assign(state, state + size);
  return size > 0;
}

bool GymnasiumEnv::load(std::span<const std::byte> bytes) {
  open();
  check(gymnasium_library().load(env_.get(), reinterpret_cast<const std::uint8_t*>(bytes.data()),
                                 bytes.size(), failure_.out()));
  return true;
}

bool GymnasiumEnv::render(Image& image) {
  if (!task_.renders) return false;
  open();
  const auto* rgb =
      gymnasium_library().picture(env_.get(), &image.height, &image.width, failure_.out());
  check(static_cast<int>(rgb != nullptr));
  image.rgb.assign(rgb, rgb + std::ptrdiff_t{3} * image.height * image.width);
  return true;
}

}  // namespace shoal
