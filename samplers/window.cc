#include "samplers/window.h"

#include <ATen/ATen.h>

namespace shoal {

Window::Window(const SharedRows& shared, Agent& agent, const SamplerOptions& options)
    : shared_(shared),
      agent_(agent),
      options_(options),
      T_(shared.horizon),
      B_(shared.rows.envs()),
      H_(shared.history),
      // Not the seed itself: evaluation must not see the noise of training.
      noise_seed_(env_seed(options.seed, options.stream, -1)),
      device_(agent.device()),
      episode_number_(static_cast<std::size_t>(B_), 0),
      finals_(shared, agent.spec().state) {
  for (int g = 0; g < options.groups; ++g) groups_.push_back(group_range(B_, options.groups, g));
  make_mirrors();
  make_samples();
}

void Window::Mirror::copy_rows(std::int64_t from, std::int64_t n) const {
  if (!host.is_same(device))
    device.narrow(0, from, n).copy_(host.narrow(0, from, n), /*non_blocking=*/true);
}

void Window::Mirror::copy_part(std::int64_t row, const Range& envs) const {
  if (!host.is_same(device))
    device[row]
        .narrow(0, envs.first, envs.size())
        .copy_(host[row].narrow(0, envs.first, envs.size()), /*non_blocking=*/true);
}

Window::Mirror Window::mirror(const Arena::Field& field) const {
  auto host = view(*shared_.arena, field);
  return {host, device_.is_cpu() ? host : host.to(device_)};
}

Named<Window::Mirror> Window::mirror(const Named<Arena::Field>& fields) const {
  Named<Mirror> out;
  for (const auto& [name, field] : fields) out.add(name, mirror(field));
  return out;
}

void Window::make_mirrors() {
  const auto& rows = shared_.rows;
  observation_ = mirror(rows.observation);
  action_ = mirror(rows.action);
  mask_ = mirror(rows.mask);
  env_info_ = mirror(rows.env_info);
  agent_info_ = mirror(rows.agent_info);
  reward_ = mirror(rows.reward);
  terminated_ = mirror(rows.terminated);
  truncated_ = mirror(rows.truncated);
  first_ = mirror(rows.first);
  frame_index_ = {};
  for (const auto& [name, spec] : rows.spec().observation) {
    if (spec.stack == 1) continue;
    auto host = at::full({T_ + 1, B_, spec.stack}, -1, at::kLong);
    frame_index_.add(name, {host, device_.is_cpu() ? host : host.to(device_)});
  }
  for (auto& state : state_) {
    state = {};
    for (const auto& [name, spec] : agent_.spec().state) {
      auto shape = spec.shape;
      shape.insert(shape.begin(), B_);
      state.add(
          name,
          at::zeros(shape, at::TensorOptions().dtype(torch_dtype(spec.dtype)).device(device_)));
    }
  }
  steps_.clear();
  for (std::int64_t t = 0; t <= T_; ++t)
    for (const auto& envs : groups_) steps_.push_back(make_step(t, envs));
}

at::Tensor Window::window(const Mirror& m, std::int64_t rows, std::int64_t shift) const {
  return m.device.narrow(0, H_ + shift, rows);
}

NamedTensors Window::window(const Named<Mirror>& fields, std::int64_t rows,
                            std::int64_t shift) const {
  NamedTensors out;
  for (const auto& [name, m] : fields) out.add(name, window(m, rows, shift));
  return out;
}

void Window::make_samples() {
  Samples s;
  s.T = T_;
  s.B = B_;
  s.observation = window(observation_, T_ + 1);
  for (const auto& [name, m] : observation_) {
    if (frame_index_.contains(name)) {
      s.observed.add(name, {m.device.flatten(0, 1), frame_index_.at(name).device.flatten(0, 1)});
    } else {
      s.observed.add(name, {s.observation.at(name).flatten(0, 1), {}});
    }
  }
  s.action = window(action_, T_);
  s.mask = window(mask_, T_ + 1);
  s.agent_info = window(agent_info_, T_);
  s.env_info = window(env_info_, T_);
  for (const auto& [name, t] : state_[0]) s.initial_state.add(name, t.clone());
  s.reward = window(reward_, T_);
  s.terminated = window(terminated_, T_);
  s.truncated = window(truncated_, T_);
  s.valid = at::ones_like(s.terminated);
  s.first = window(first_, T_ + 1);
  s.previous_reward = window(reward_, T_ + 1, -1);
  s.previous_action = window(action_, T_ + 1, -1);
  s.bootstrap_value = at::zeros({B_}, at::TensorOptions().device(device_));
  s.final_value = at::zeros({T_, B_}, at::TensorOptions().device(device_));
  s.first_tick = samples_.first_tick;
  s.policy_version = samples_.policy_version;
  samples_ = std::move(s);
}

Window::Step Window::make_step(std::int64_t t, const Range& envs) const {
  auto part = [&envs](const at::Tensor& of_all) {
    return of_all.narrow(0, envs.first, envs.size());
  };
  auto row = [&](const Named<Mirror>& fields, std::int64_t shift = 0) {
    NamedTensors out;
    for (const auto& [name, m] : fields) out.add(name, part(m.device[H_ + t + shift]));
    return out;
  };
  auto parts = [&](const NamedTensors& of_all) {
    NamedTensors out;
    for (const auto& [name, tensor] : of_all) out.add(name, part(tensor));
    return out;
  };
  Step step;
  for (const auto& [name, m] : observation_) {
    if (frame_index_.contains(name)) {
      step.in.observation.add(name,
                              {m.device.flatten(0, 1), part(frame_index_.at(name).device[t])});
    } else {
      step.in.observation.add(name, {part(m.device[H_ + t]), {}});
    }
  }
  step.in.mask = row(mask_);
  step.in.state = parts(state_[t % 2]);
  step.in.previous_action = row(action_, -1);
  step.in.previous_reward = part(reward_.device[H_ + t - 1]);
  step.in.first = part(first_.device[H_ + t]);
  step.in.noise.seed = noise_seed_;
  step.in.noise.first_env = envs.first;
  step.in.greedy = options_.greedy;
  step.out.action = row(action_);
  step.out.agent_info = row(agent_info_);
  step.out.state = parts(state_[(t + 1) % 2]);
  return step;
}

void Window::begin() {
  if (agent_.device() != device_) {  // moved since the last window
    device_ = agent_.device();
    make_mirrors();
    make_samples();
  }
  finals_.clear();
  episodes_.clear();
  if (started_) {
    shared_.rows.copy(T_, 0, H_ + 1);
    for (auto* fields : {&observation_, &action_, &mask_, &agent_info_, &env_info_})
      for (const auto& [name, m] : *fields) m.copy_rows(0, H_ + 1);
    for (const auto* m : {&reward_, &terminated_, &truncated_, &first_}) m->copy_rows(0, H_ + 1);
    samples_.first_tick += T_;
    ++samples_.policy_version;
    if (T_ % 2 == 1)
      for (std::size_t i = 0; i < state_[0].size(); ++i) state_[0][i].copy_(state_[1][i]);
  }
  started_ = true;
  for (std::size_t i = 0; i < state_[0].size(); ++i) samples_.initial_state[i].copy_(state_[0][i]);
}

// Which stored frames make the observations of row t: going back in time until the episode's first
// one.
void Window::stack_frames(std::int64_t t, const Range& envs) {
  const auto* first = first_.host.const_data_ptr<bool>();
  for (auto& [name, m] : frame_index_) {
    const auto stack = m.host.size(2);
    auto* index = m.host.data_ptr<std::int64_t>() + (t * B_ + envs.first) * stack;
    for (auto b = envs.first; b < envs.last; ++b, index += stack) {
      auto frame = (H_ + t) * B_ + b;
      bool blank = false;
      for (auto s = stack - 1; s >= 0; --s, frame -= B_) {
        index[s] = blank ? -1 : frame;
        blank = blank || first[frame];
      }
    }
  }
}

Window::Step& Window::prepare(std::int64_t t, int group) {
  const auto g = static_cast<std::size_t>(group);
  const auto& envs = groups_[g];
  stack_frames(t, envs);
  auto& step = steps_[static_cast<std::size_t>(t) * groups_.size() + g];
  step.in.noise.tick = samples_.first_tick + t;
  if (device_.is_cpu()) return step;
  for (const auto* fields : {&observation_, &mask_})
    for (const auto& [name, m] : *fields) m.copy_part(H_ + t, envs);
  for (const auto& [name, m] : frame_index_) m.copy_part(t, envs);
  first_.copy_part(H_ + t, envs);
  reward_.copy_part(H_ + t - 1, envs);
  return step;
}

void Window::act(std::int64_t t, int group) {
  auto& step = prepare(t, group);
  agent_.act(step.in, step.out);
  if (device_.is_cpu()) return;
  const auto& envs = groups_[static_cast<std::size_t>(group)];
  for (const auto& [name, m] : action_)  // waits for the device
    m.host[H_ + t].narrow(0, envs.first, envs.size()).copy_(step.out.action.at(name));
}

void Window::record_ends(std::int64_t t, int group) {
  const auto& rows = shared_.rows;
  NamedTensors frames;
  for (const auto& [name, m] : frame_index_) frames.add(name, m.host);
  const auto& envs = groups_[static_cast<std::size_t>(group)];
  for (auto b = envs.first; b < envs.last; ++b) {
    if (!rows.scalar<bool>(rows.first, H_ + t + 1, b)) continue;
    auto& end = shared_.episode_end(b);
    if (end.length == 0) continue;  // a lost life: the game goes on
    auto& number = episode_number_[static_cast<std::size_t>(b)];
    episodes_.push_back({.env = b,
                         .number = number++,
                         .length = end.length,
                         .reward = end.reward,
                         .score = end.score});
    end.length = 0;
    finals_.add(t, b, frames, state_[(t + 1) % 2]);
  }
}

void Window::finish() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    auto value = samples_.bootstrap_value.narrow(0, groups_[g].first, groups_[g].size());
    agent_.value(prepare(T_, static_cast<int>(g)).in, value);
  }
  samples_.finals = finals_.finish(agent_);
  samples_.final_value.zero_();
  if (const auto& finals = samples_.finals; finals.size() > 0) {
    auto place = at::empty({finals.size()}, at::kLong);
    for (std::int64_t k = 0; k < finals.size(); ++k)
      place.data_ptr<std::int64_t>()[k] =
          finals.t[static_cast<std::size_t>(k)] * B_ + finals.b[static_cast<std::size_t>(k)];
    samples_.final_value.flatten().index_copy_(0, place.to(device_), finals.value);
  }
  if (device_.is_cpu()) return;
  for (const auto& [name, m] : env_info_) m.copy_rows(H_, T_);
  for (const auto* m : {&terminated_, &truncated_}) m->copy_rows(H_, T_);
}

}  // namespace shoal
