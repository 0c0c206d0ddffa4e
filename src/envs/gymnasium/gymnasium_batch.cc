#include "src/envs/gymnasium/gymnasium_batch.h"

#include "shoal/core/error.h"

namespace shoal {

void GymnasiumBatch::open() {
  if (env_) return;
  env_ = open_gymnasium_vector(task_, envs_);
  require_same_spaces(task_, gymnasium_library().vector_description(env_.get()), description_);
}

void GymnasiumBatch::check(int result) const {
  require(result != 0, "{}: {}", task_.name(), failure_.text());
}

shoal_gymnasium_vector_out GymnasiumBatch::pointers(const BatchOut& out) {
  observation_.resize(spec_.observation.size());
  final_observation_.resize(observation_.size());
  info_.resize(spec_.info.size());
  for (std::size_t i = 0; i < observation_.size(); ++i) {
    observation_[i] = out.observation.as<std::uint8_t>(i);
    final_observation_[i] = out.final_observation.as<std::uint8_t>(i);
  }
  for (std::size_t i = 0; i < info_.size(); ++i) info_[i] = out.info.as<float>(i);
  const auto bytes = [](bool* flags) { return reinterpret_cast<std::uint8_t*>(flags); };
  return {.observation = observation_.data(),
          .mask = bytes(out.mask),
          .info = info_.data(),
          .reward = out.reward,
          .terminated = bytes(out.terminated),
          .truncated = bytes(out.truncated),
          .final_observation = final_observation_.data(),
          .final_mask = bytes(out.final_mask),
          .waits = bytes(out.waits)};
}

void GymnasiumBatch::reset(std::span<const std::uint64_t> seeds, const BatchOut& out) {
  open();
  std::vector<std::uint64_t> kept(seeds.begin(), seeds.end());
  for (auto& seed : kept) seed &= kGymnasiumSeedBits;
  check(gymnasium_library().vector_reset(env_.get(), kept.empty() ? nullptr : kept.data(),
                                         pointers(out), failure_.out()));
}

void GymnasiumBatch::step(ArraysIn action, const BatchOut& out) {
  action_.resize(spec_.action.size());
  for (std::size_t i = 0; i < action_.size(); ++i) action_[i] = action.as<std::uint8_t>(i);
  check(gymnasium_library().vector_step(env_.get(), action_.data(), pointers(out), failure_.out()));
}

}  // namespace shoal
