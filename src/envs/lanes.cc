#include "src/envs/lanes.h"

#include <algorithm>
#include <utility>

#include "shoal/core/error.h"

namespace shoal {

Lanes::Lanes(std::int64_t first, std::vector<std::uint64_t> seeds, Stream stream)
    : first_(first), seeds_(std::move(seeds)), stream_(stream) {}

void Lanes::Arrays::add(std::int64_t envs, std::size_t each) {
  bytes.emplace_back(each * static_cast<std::size_t>(envs));
  first.push_back(bytes.back().data());
}

void Lanes::Arrays::copy(std::int64_t envs, std::int64_t lane, const ArraysOut& to) const {
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const auto each = bytes[i].size() / static_cast<std::size_t>(envs);
    std::copy_n(first[i] + at(lane) * each, each, to.as<std::byte>(i));
  }
}

void Lanes::open(const BatchEnvFactory& make_batch) {
  if (batch_) return;
  batch_ = make_batch({.seeds = seeds_, .first = first_, .stream = stream_});
  spec_ = batch_->spec();
  traits_ = batch_->traits();
  for (const auto& [name, array] : spec_.observation) {
    observation_.add(size(), array.bytes());
    final_observation_.add(size(), array.bytes());
  }
  for (const auto& info : spec_.info) info_.add(size(), info.array.bytes());
  if (spec_.action_mask)
    for (auto* mask : {&mask_, &final_mask_})
      mask->resize(at(size() * spec_.action[0].choices.at(0)));
  reward_.resize(at(size()));
  for (auto* flags : {&terminated_, &truncated_, &waits_, &waited_, &fresh_})
    flags->resize(at(size()));
}

BatchOut Lanes::memory() {
  const auto flags = [](std::vector<std::uint8_t>& bytes) {
    return bytes.empty() ? nullptr : reinterpret_cast<bool*>(bytes.data());
  };
  return {.observation = ArraysOut(observation_.first),
          .info = ArraysOut(info_.first),
          .mask = flags(mask_),
          .reward = reward_.data(),
          .terminated = flags(terminated_),
          .truncated = flags(truncated_),
          .final_observation = ArraysOut(final_observation_.first),
          .final_mask = flags(final_mask_),
          .waits = traits_.waits ? flags(waits_) : nullptr};
}

void Lanes::step_into(ArraysIn action, BatchOut out) {
  out.waits = traits_.waits ? reinterpret_cast<bool*>(waits_.data()) : nullptr;
  batch_->step(action, out);
}

void Lanes::step(ArraysIn action) {
  waited_ = waits_;
  batch_->step(action, memory());
  ++steps_;
  for (std::size_t i = 0; i < fresh_.size(); ++i)
    fresh_[i] = waits_[i] == 0 && (terminated_[i] | truncated_[i] | waited_[i]) != 0 ? 1 : 0;
}

void Lanes::reset(std::span<const std::uint64_t> seeds) {
  require(size() % traits_.multiple == 0,
          "{}: found a batch of {}, expected a multiple of {} environments, which are stepped "
          "together",
          spec_.id, size(), traits_.multiple);
  batch_->reset(seeds, memory());
  std::ranges::fill(waits_, std::uint8_t{0});
  std::ranges::fill(fresh_, std::uint8_t{1});
}

void Lanes::read(std::int64_t lane, const Arrays& observation,
                 const std::vector<std::uint8_t>& mask, const StepOut& to) const {
  observation.copy(size(), lane, to.observation);
  const auto choices = mask.size() / at(size());
  if (to.mask != nullptr)
    std::copy_n(mask.data() + at(lane) * choices, choices,
                reinterpret_cast<std::uint8_t*>(to.mask));
}

bool Lanes::take_first(std::int64_t lane, const StepOut& to) {
  if (std::exchange(fresh_[at(lane)], std::uint8_t{0}) == 0) return false;
  read(lane, observation_, mask_, to);
  return true;
}

StepResult Lanes::take_step(std::int64_t lane, const StepOut& to) const {
  const StepResult result{.reward = reward_[at(lane)],
                          .terminated = terminated_[at(lane)] != 0,
                          .truncated = truncated_[at(lane)] != 0};
  info_.copy(size(), lane, to.info);
  if (result.episode_over())
    read(lane, final_observation_, final_mask_, to);
  else
    read(lane, observation_, mask_, to);
  return result;
}

std::vector<std::span<std::byte>> Lanes::first_of(std::int64_t lane) {
  std::vector<std::span<std::byte>> parts;
  const auto add = [&](std::span<std::byte> all) {
    const auto each = all.size() / at(size());
    parts.push_back(all.subspan(at(lane) * each, each));
  };
  for (auto& field : observation_.bytes) add(field);
  add(std::as_writable_bytes(std::span(mask_)));
  return parts;
}

bool Lane::save(std::vector<std::byte>& bytes) const {
  if (batch().waits || !lanes_->env().save(lane_, bytes)) return false;
  const bool unread = lanes_->fresh_[Lanes::at(lane_)] != 0;
  if (unread)
    for (const auto part : lanes_->first_of(lane_))
      bytes.insert(bytes.end(), part.begin(), part.end());
  bytes.push_back(std::byte{unread});
  return true;
}

bool Lane::load(std::span<const std::byte> bytes) {
  const bool unread = !bytes.empty() && bytes.back() != std::byte{0};
  const auto parts = unread ? lanes_->first_of(lane_) : std::vector<std::span<std::byte>>{};
  std::size_t size = 1;
  for (const auto part : parts) size += part.size();
  require(bytes.size() >= size, "{}: expected a saved state of at least {} bytes, found {}",
          spec().id, size, bytes.size());
  const auto state = bytes.first(bytes.size() - size);
  auto from = bytes.subspan(state.size());
  for (const auto part : parts) {
    std::ranges::copy(from.first(part.size()), part.begin());
    from = from.subspan(part.size());
  }
  lanes_->fresh_[Lanes::at(lane_)] = unread ? 1 : 0;
  return lanes_->env().load(lane_, state);
}

void Lane::reset(std::optional<std::uint64_t> seed, StepOut out) {
  if (alone_ && seed) lanes_->reset({&*seed, 1});
  if (lanes_->take_first(lane_, out)) return;
  require(alone_,
          "{}: found a reset within an episode, by a wrapper such as env.time_limit; the "
          "environments of a batch end their episodes themselves",
          spec().id);
  if (lanes_->waits(lane_))
    wait_for_episode();
  else
    lanes_->reset({});
  lanes_->take_first(lane_, out);
}

// The environment ignores the actions.
void Lane::wait_for_episode() {
  std::vector<std::vector<std::byte>> zeros;
  std::vector<const std::byte*> action;
  for (const auto& [name, array] : spec().action)
    action.push_back(zeros.emplace_back(array.array().bytes()).data());
  while (lanes_->waits(lane_)) lanes_->step(ArraysIn(action));
}

StepResult Lane::step(ArraysIn action, StepOut out) {
  if (alone_) lanes_->step(action);
  require(std::exchange(read_, lanes_->steps_) != lanes_->steps_,
          "{}: found a second action in one step, by a wrapper such as env.action_repeat; the "
          "environments of a batch take one action together",
          spec().id);
  return lanes_->take_step(lane_, out);
}

EnvFactory make_batched(BatchEnvFactory make_batch) {
  return [make_batch = std::move(make_batch)](const EnvContext& context) {
    const bool alone = context.lanes == nullptr;
    auto lanes =
        alone ? std::make_shared<Lanes>(context.index, std::vector{context.seed}, context.stream)
              : context.lanes;
    lanes->open(make_batch);
    return std::make_unique<Lane>(lanes, alone ? 0 : lanes->lane_of(context.index), alone);
  };
}

}  // namespace shoal
