#include "samplers/rollout.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/tensor.h>
#include <ATen/ops/zeros.h>

#include <string>

#include "samplers/saved_state.h"
#include "shoal/data/saved.h"

namespace shoal {

Rollout::Rollout(const SharedRollout& shared, Agent& agent, const SamplerOptions& options,
                 std::vector<Range> parts)
    : shared_(shared),
      agent_(agent),
      on_host_(options.host_rollouts),
      greedy_(options.greedy),
      T_(shared.horizon),
      B_(shared.rows.envs()),
      H_(shared.history),
      parts_(std::move(parts)),
      tensors_(shared, agent.device()),
      episode_number_(static_cast<std::size_t>(B_), 0),
      finals_(shared, agent.spec().state) {
  make_samples();
  for (const auto& info : shared.infos) info_names_.push_back(info.name);
  for (const auto& [name, field] : shared.final_state)
    final_state_.add(name, view(*shared.arena, field));
}

at::Tensor Rollout::rollout(const RolloutTensors::Mirror& m, std::int64_t rows,
                            std::int64_t shift) const {
  return side(m).narrow(0, H_ + shift, rows);
}

NamedTensors Rollout::rollout(const Named<RolloutTensors::Mirror>& fields, std::int64_t rows,
                              std::int64_t shift) const {
  NamedTensors out;
  for (const auto& [name, m] : fields) out.add(name, rollout(m, rows, shift));
  return out;
}

void Rollout::make_samples() {
  const auto& x = tensors_;
  Samples s;
  s.T = T_;
  s.B = B_;
  s.observation = rollout(x.observation, T_ + 1);
  for (const auto& [name, m] : x.observation) {
    if (x.frame_index.contains(name)) {
      s.observed.add(name, {side(m).flatten(0, 1), side(x.frame_index.at(name)).flatten(0, 1)});
    } else {
      s.observed.add(name, {s.observation.at(name).flatten(0, 1), {}});
    }
  }
  s.action = rollout(x.action, T_);
  s.mask = rollout(x.mask, T_ + 1);
  s.agent_info = rollout(x.agent_info, T_);
  s.env_info = rollout(x.env_info, T_);
  for (const auto& [name, m] : x.state[0]) s.initial_state.add(name, side(m).clone());
  s.reward = rollout(x.reward, T_);
  s.terminated = rollout(x.terminated, T_);
  s.truncated = rollout(x.truncated, T_);
  s.valid = rollout(x.valid, T_);
  s.is_first = rollout(x.is_first, T_ + 1);
  s.previous_reward = rollout(x.reward, T_ + 1, -1);
  s.previous_action = rollout(x.action, T_ + 1, -1);
  const auto there = at::TensorOptions().device(on_host_ ? at::Device(at::kCPU) : x.device);
  s.bootstrap_value = at::zeros({B_}, there);
  s.final_value = at::zeros({T_, B_}, there);
  s.first_tick = samples_.first_tick;
  s.policy_version = samples_.policy_version;
  samples_ = std::move(s);
  last_inputs_.clear();
  for (const auto& envs : parts_) {
    last_inputs_.push_back(x.inputs(T_, envs));
    last_inputs_.back().greedy = greedy_;
  }
}

void Rollout::advance() {
  if (advanced_) return;
  advanced_ = true;
  if (shared_.may_wait) align_ends();
  shared_.rows.copy(T_, 0, H_ + 1);
  if (shared_.may_wait) begin_anew();
  samples_.first_tick += T_;
  ++samples_.policy_version;
  const auto& state = tensors_.state;
  for (std::size_t i = 0; i < state[0].size() && T_ % 2 == 1; ++i) {
    state[0][i].device.copy_(state[1][i].device);
    state[0][i].host.copy_(state[1][i].host);  // for workers that act
  }
}

bool Rollout::follow_agent() {
  if (agent_.device() == tensors_.device) return false;
  tensors_ = RolloutTensors(shared_, agent_.device());
  make_samples();
  return true;
}

void Rollout::begin() {
  if (follow_agent()) device_has_rows_ = false;
  advance();
  advanced_ = false;
  if (tensors_.mirrored) agent_.before_rollout(greedy_);
  enter(state_after(-1));
}

void Rollout::read(const Numbers& numbers, const NamedTensors& initial_state) {
  follow_agent();
  device_has_rows_ = false;
  samples_.first_env = numbers.first_env;
  samples_.first_tick = numbers.first_tick;
  samples_.policy_version = numbers.policy_version;
  enter(initial_state);
  finish(/*filled_elsewhere=*/true);
}

// Provides the rows that precede the first step, and the initial state.
void Rollout::enter(const NamedTensors& initial_state) {
  finals_.clear();
  episodes_.clear();
  // The first rows of environments that waited are on the host only.
  tensors_.enter(/*carried=*/device_has_rows_ && !shared_.may_wait);
  device_has_rows_ = true;
  for (std::size_t i = 0; i < initial_state.size(); ++i)
    samples_.initial_state[i].copy_(initial_state[i]);
}

void Rollout::save(NamedTensors& to) {
  device_has_rows_ = false;
  save_rows(shared_, to);
  for (const auto& [name, m] : tensors_.state[0])
    to.add("state/" + name, m.device.to(at::kCPU, /*non_blocking=*/false, /*copy=*/true));
  to.add("episode_numbers", at::tensor(episode_number_));
  to.add("clock", at::tensor({samples_.first_tick, samples_.policy_version}));
}

void Rollout::save_given_up(std::int64_t first_env, NamedTensors& to) {
  for (std::int64_t b = 0; b < B_; ++b)
    to.add("env/" + std::to_string(first_env + b), at::empty({0}, at::kByte));
  samples_.first_tick += T_;
  save(to);
}

void Rollout::restore(const NamedTensors& saved) {
  auto numbers = at::empty({B_}, at::kLong), clock = at::empty({2}, at::kLong);
  shoal::restore(saved, "", {{"episode_numbers", numbers}, {"clock", clock}});
  const auto* first = numbers.const_data_ptr<std::int64_t>();
  episode_number_.assign(first, first + B_);
  samples_.first_tick = clock[0].item<std::int64_t>();
  samples_.policy_version = clock[1].item<std::int64_t>();
}

// Moves the last rows of environments that were cut short to the end of the rollout.
void Rollout::align_ends() {
  const auto& rows = shared_.rows;
  for (std::int64_t b = 0; b < B_; ++b) {
    auto& taken = shared_.taken_by(b);
    if (taken >= T_) continue;
    rows.copy_env_of(rows, taken, T_, H_ + 1, b);
    rows.scalar<bool>(rows.valid, H_ + T_, b) = true;
    taken = T_;
  }
}

// Environments that waited in the last rollout begin this one with the spare row.
void Rollout::begin_anew() {
  const auto& rows = shared_.rows;
  for (std::int64_t b = 0; b < B_; ++b) {
    if (!shared_.leaves_row(H_, b)) continue;
    shared_.taken_by(b) = T_;
    rows.copy_observation(shared_.spare_row(), H_, b);
    rows.scalar<bool>(rows.is_first, H_, b) = true;
    rows.scalar<bool>(rows.valid, H_, b) = true;
  }
}

NamedTensors Rollout::state_after(std::int64_t t) const {
  NamedTensors out;
  for (const auto& [name, m] : tensors_.state[(t + 1) % 2]) out.add(name, m.device);
  return out;
}

void Rollout::record_ends(std::int64_t t, const Range& envs, const NamedTensors& state) {
  for (auto b = envs.first; b < envs.last; ++b) {
    auto& end = shared_.episode_end(t, b);
    if (end.length == 0) continue;
    if (end.length != EpisodeEnd::kGoesOn) record_episode(end, t, b);
    end.length = 0;
    finals_.add(t, b, tensors_.frame_index, state);
  }
}

void Rollout::record_all_ends() {
  for (std::int64_t t = 0; t < T_; ++t) {
    NamedTensors state;
    for (const auto& [name, all] : final_state_) state.add(name, all[t]);
    for (const auto& envs : parts_) record_ends(t, envs, state);
  }
}

void Rollout::record_episode(const EpisodeEnd& end, std::int64_t t, std::int64_t b) {
  const auto infos = shared_.reduced(t, b);
  episodes_.push_back({.env = b,
                       .t = t,
                       .number = episode_number_[static_cast<std::size_t>(b)]++,
                       .length = end.length,
                       .nonzero_rewards = end.nonzero_rewards,
                       .reward = end.reward,
                       .discounted_reward = end.discounted_reward,
                       .score = end.score,
                       .info = {infos.begin(), infos.end()}});
}

void Rollout::upload_all() {
  auto& x = tensors_;
  const Range all{0, B_};
  for (std::int64_t t = 0; t < T_; ++t) x.stack_frames(t, all, /*has_ends=*/true);
  x.upload_stacks(0, 1, all);  // enter() has uploaded the rest of row 0
  x.upload_inputs(1, T_ - 1, all);
  for (const auto* fields : {&x.action, &x.agent_info})
    for (const auto& [name, m] : *fields) x.upload(m, H_, T_);
  for (const auto* states : {&x.state[0], &x.state[1]})
    for (const auto& [name, m] : *states) x.upload(m, 0, B_);
}

// Copies the results of the agent, which are on the device only, to the host.
void Rollout::bring_back() {
  for (const auto& [name, m] : tensors_.agent_info)
    m.host.narrow(0, H_, T_).copy_(m.device.narrow(0, H_, T_));
  auto& final_obs = samples_.final_obs;
  for (auto& observed : final_obs.observation) observed.second = observed.second.to(at::kCPU);
  for (auto* fields : {&final_obs.mask, &final_obs.state})
    for (auto& [name, field] : *fields) field = field.to(at::kCPU);
  final_obs.value = final_obs.value.to(at::kCPU);
}

void Rollout::value_last_row() {
  for (std::size_t part = 0; part < parts_.size(); ++part) {
    const auto& envs = parts_[part];
    tensors_.stack_frames(T_, envs);
    tensors_.upload_inputs(T_, 1, envs);
    if (!agent_.spec().values) continue;
    const auto own = part_of(samples_.bootstrap_value, envs);
    auto value = own.device() == tensors_.device ? own : at::empty_like(own, tensors_.device);
    agent_.value(last_inputs_[part], value);
    tensors_.blank_waiting(T_, envs, {value});
    if (!value.is_same(own)) own.copy_(value);
  }
}

void Rollout::finish(bool filled_elsewhere) {
  auto& x = tensors_;
  if (filled_elsewhere) upload_all();
  if (shared_.ends_wait) record_all_ends();
  value_last_row();
  samples_.final_obs = finals_.finish(agent_);
  if (on_host_ && x.mirrored) bring_back();
  samples_.final_value.zero_();
  if (const auto& final_obs = samples_.final_obs; final_obs.size() > 0) {
    auto place = at::empty({final_obs.size()}, at::kLong);
    for (std::int64_t k = 0; k < final_obs.size(); ++k)
      place.data_ptr<std::int64_t>()[k] =
          final_obs.t[static_cast<std::size_t>(k)] * B_ + final_obs.b[static_cast<std::size_t>(k)];
    samples_.final_value.flatten().index_copy_(0, place.to(final_obs.value.device()),
                                               final_obs.value);
  }
  if (!on_host_) {
    for (const auto& [name, m] : x.env_info) x.upload(m, H_, T_);
    for (const auto* m : {&x.terminated, &x.truncated, &x.valid}) x.upload(*m, H_, T_);
  }
  x.wait();  // afterwards the environments may write to the rows again
  samples_.steps =
      shared_.may_wait ? x.valid.host.narrow(0, H_, T_).sum().item<std::int64_t>() : T_ * B_;
}

}  // namespace shoal
