#include "samplers/final_observations.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <cstring>
#include <numeric>

namespace shoal {

namespace {

at::Tensor make(std::int64_t capacity, const ArraySpec& spec) {
  auto shape = spec.shape;
  if (spec.stack > 1) shape.insert(shape.begin(), spec.stack);
  shape.insert(shape.begin(), capacity);
  return at::zeros(shape, at::TensorOptions().dtype(torch_dtype(spec.dtype)));
}

at::Tensor grown(const at::Tensor& old, std::int64_t capacity, const ArraySpec& spec) {
  auto larger = make(capacity, spec);
  if (old.defined()) larger.narrow(0, 0, old.size(0)).copy_(old);
  return larger;
}

at::Tensor indices(const std::vector<std::int64_t>& values) {
  return at::tensor(at::ArrayRef<std::int64_t>(values), at::kLong);
}

}  // namespace

void complete_final_mask(std::span<std::byte> mask) {
  if (std::ranges::all_of(mask, [](auto legal) { return legal == std::byte{0}; }))
    std::ranges::fill(mask, std::byte{1});
}

FinalObservationStore::FinalObservationStore(const SharedRollout& shared, const NamedSpecs& state)
    : shared_(shared), state_specs_(state) {
  for (const auto& [name, spec] : shared.rows.spec().observation) {
    observation_.add(name, {});
    frame_.add(name, {});
  }
  for (const auto& [name, spec] : shared.rows.spec().mask) mask_.add(name, {});
  for (const auto& [name, spec] : state_specs_) state_.add(name, {});
  for (const auto& [name, spec] : shared.rows.spec().action) action_.add(name, {});
  grow();
}

void FinalObservationStore::grow() {
  capacity_ = std::max<std::int64_t>(shared_.rows.envs(), 2 * capacity_);
  for (std::size_t i = 0; i < observation_.size(); ++i) {
    const auto& spec = shared_.rows.spec().observation[i];
    observation_[i] = grown(observation_[i], capacity_, spec);
    if (spec.stack > 1)
      frame_[i] = grown(frame_[i], capacity_, {.dtype = DType::kInt64, .shape = {spec.stack}});
  }
  for (std::size_t i = 0; i < mask_.size(); ++i)
    mask_[i] = grown(mask_[i], capacity_, shared_.rows.spec().mask[i]);
  for (std::size_t i = 0; i < state_.size(); ++i)
    state_[i] = grown(state_[i], capacity_, state_specs_[i]);
  for (std::size_t i = 0; i < action_.size(); ++i)
    action_[i] = grown(action_[i], capacity_, shared_.rows.spec().action[i]);
  reward_ = grown(reward_, capacity_, {});
}

void FinalObservationStore::add(std::int64_t t, std::int64_t b,
                                const Named<RolloutTensors::Mirror>& frame_index,
                                const NamedTensors& state) {
  if (static_cast<std::int64_t>(t_.size()) == capacity_) grow();
  const auto k = static_cast<std::int64_t>(t_.size());
  for (std::size_t i = 0; i < observation_.size(); ++i) copy_observation(i, t, b, frame_index);
  for (std::size_t i = 0; i < mask_.size(); ++i) copy_mask(i, t, b);
  for (std::size_t i = 0; i < state_.size(); ++i) state_[i][k].copy_(state[i][b]);
  const auto& rows = shared_.rows;
  const auto row = shared_.history + t;
  for (std::size_t i = 0; i < action_.size(); ++i) {
    const auto from = rows.element(rows.action[i], row, b);
    auto* const all = static_cast<std::byte*>(action_[i].data_ptr());
    std::memcpy(all + static_cast<std::size_t>(k) * from.size(), from.data(), from.size());
  }
  reward_.data_ptr<float>()[k] = rows.scalar<float>(rows.reward, row, b);
  if (rows.scalar<bool>(rows.truncated, row, b) && !rows.scalar<bool>(rows.terminated, row, b))
    truncated_.push_back(k);
  t_.push_back(t);
  b_.push_back(b);
}

void FinalObservationStore::copy_observation(std::size_t i, std::int64_t t, std::int64_t b,
                                             const Named<RolloutTensors::Mirror>& frame_index) {
  const auto& name = observation_.name(i);
  const auto& field = shared_.rows.observation[i];
  const auto bytes = field.element_bytes;
  const auto stack = static_cast<std::size_t>(field.spec.stack);
  const auto first = t_.size() * stack;
  auto* to = static_cast<std::byte*>(observation_[i].data_ptr()) + first * bytes;
  // The older frames are those of row t; the newest is the final observation.
  if (stack > 1) {
    auto* const place = frame_[i].data_ptr<std::int64_t>() + first;
    std::iota(place, place + stack, static_cast<std::int64_t>(first));
    const auto* frame = frame_index.at(name).host.const_data_ptr<std::int64_t>() +
                        (t * shared_.rows.envs() + b) * field.spec.stack;
    for (std::size_t s = 1; s < stack; ++s, to += bytes) {
      if (frame[s] < 0) {
        place[s - 1] = -1;  // not zeros: a normalizer would change those
      } else {
        std::memcpy(to, shared_.arena->element(field, frame[s]).data(), bytes);
      }
    }
  }
  std::memcpy(to, shared_.last.element(shared_.last.observation[i], shared_.end_row(t), b).data(),
              bytes);
}

void FinalObservationStore::copy_mask(std::size_t i, std::int64_t t, std::int64_t b) {
  const auto from = shared_.last.element(shared_.last.mask[i], shared_.end_row(t), b);
  auto* to = static_cast<std::byte*>(mask_[i].data_ptr()) + t_.size() * from.size();
  std::ranges::copy(from, to);
  complete_final_mask({to, from.size()});
}

FinalObservations FinalObservationStore::finish(Agent& agent) const {
  FinalObservations final_obs{.t = t_, .b = b_, .observation = {}, .state = {}, .value = {}};
  const auto n = final_obs.size();
  const auto device = agent.device();
  for (std::size_t i = 0; i < observation_.size(); ++i) {
    const auto stack = shared_.rows.spec().observation[i].stack;
    auto data = observation_[i].narrow(0, 0, n);
    Observed observed{stack > 1 ? data.flatten(0, 1) : data, {}};
    if (stack > 1) observed.index = frame_[i].narrow(0, 0, n);
    final_obs.observation.add(observation_.name(i), observed.to(device));
  }
  for (std::size_t i = 0; i < mask_.size(); ++i)
    final_obs.mask.add(mask_.name(i), mask_[i].narrow(0, 0, n).to(device));
  for (std::size_t i = 0; i < state_.size(); ++i)
    final_obs.state.add(state_.name(i), state_[i].narrow(0, 0, n).to(device));
  final_obs.value = at::zeros({n}, at::TensorOptions().device(device));
  if (truncated_.empty() || !agent.spec().values) return final_obs;

  const auto rows = indices(truncated_).to(device);
  const auto cut = static_cast<std::int64_t>(truncated_.size());
  NamedTensors action;
  for (std::size_t i = 0; i < action_.size(); ++i)
    action.add(action_.name(i), action_[i].narrow(0, 0, n).to(device).index_select(0, rows));
  ActIn in{.observation = select(final_obs.observation, rows),
           .state = select(final_obs.state, rows),
           .previous_action = std::move(action),
           .previous_reward = reward_.narrow(0, 0, n).to(device).index_select(0, rows),
           .is_first = at::zeros({cut}, at::TensorOptions().dtype(at::kBool).device(device)),
           .noise = {.first_env = -1}};
  auto value = at::empty({cut}, at::TensorOptions().device(device));
  agent.value(in, value);
  final_obs.value.index_copy_(0, rows, value);
  return final_obs;
}

}  // namespace shoal
