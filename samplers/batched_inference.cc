#include "samplers/batched_inference.h"

#include <ATen/ATen.h>

#include <exception>

#include "src/compute/accelerator.h"

namespace shoal {

namespace {

at::Tensor part_of(const at::Tensor& of_all, const Range& envs) {
  return of_all.narrow(0, envs.first, envs.size());
}

// One batch of several, whose rows are the environments and ticks of `rows`.
ActIn joined(const std::vector<const ActIn*>& ins, std::span<const NoiseKey::Row> rows) {
  const auto& first = *ins[0];
  std::vector<at::Tensor> pieces;
  const auto join = [&](const auto& piece_of) {
    pieces.clear();
    for (const auto* in : ins) pieces.push_back(piece_of(*in));
    return at::cat(pieces);
  };
  const auto join_all = [&](NamedTensors ActIn::*field) {
    NamedTensors out;
    for (std::size_t i = 0; i < (first.*field).size(); ++i)
      out.add((first.*field).name(i), join([&](const ActIn& in) { return (in.*field)[i]; }));
    return out;
  };
  ActIn all;
  for (std::size_t i = 0; i < first.observation.size(); ++i) {
    const auto& o = first.observation[i];  // stacks refer to the same frames
    all.observation.add(
        first.observation.name(i),
        o.stacked()
            ? Observed{o.data, join([&](const ActIn& in) { return in.observation[i].index; })}
            : Observed{join([&](const ActIn& in) { return in.observation[i].data; }), {}});
  }
  all.mask = join_all(&ActIn::mask);
  all.state = join_all(&ActIn::state);
  all.previous_action = join_all(&ActIn::previous_action);
  all.previous_reward = join([](const ActIn& in) { return in.previous_reward; });
  all.is_first = join([](const ActIn& in) { return in.is_first; });
  all.noise = {.seed = first.noise.seed, .first_env = -1, .rows = rows};
  if (first.noise.env_tick.defined())
    all.noise.env_tick = join([](const ActIn& in) { return in.noise.env_tick; });
  all.greedy = first.greedy;
  return all;
}

}  // namespace

BatchedInference::BatchedInference(const SharedRollout& shared, Agent& agent,
                                   const SamplerOptions& options, std::vector<Range> parts,
                                   std::int64_t rows_begin, bool host_reads)
    : shared_(shared),
      agent_(agent),
      // Not the seed itself: evaluation must not see the noise of training.
      noise_seed_(env_seed(options.seed, options.stream, -1)),
      greedy_(options.greedy),
      rows_begin_(options.first_env + rows_begin),
      host_reads_(host_reads),
      parts_(std::move(parts)),
      tensors_(shared, agent.device()) {
  make_steps();
}

BatchedInference::~BatchedInference() {
  try {
    tensors_.wait();
  } catch (const std::exception&) {  // whoever asked the device last has been told
  }
}

bool BatchedInference::follow_agent() {
  if (agent_.device() == tensors_.device) return false;
  tensors_ = RolloutTensors(shared_, agent_.device());
  make_steps();
  return true;
}

void BatchedInference::make_steps() {
  steps_.clear();
  keys_.assign(parts_.size(), {});
  for (std::size_t i = 0; i < parts_.size() && accelerator(tensors_.device) != nullptr; ++i) {
    auto keys = at::empty({parts_[i].size(), 2}, at::kLong);
    keys.select(1, 0).copy_(at::arange(parts_[i].size()).add_(rows_begin_ + parts_[i].first));
    keys.select(1, 1).fill_(first_tick_);
    keys_[i] = keys.to(tensors_.device, /*non_blocking=*/false, /*copy=*/true);
  }
  for (std::int64_t t = 0; t <= shared_.horizon; ++t)
    for (std::size_t part = 0; part < parts_.size(); ++part) {
      steps_.push_back(make_step(t, parts_[part]));
      steps_.back().in.noise.env_tick = keys_[part];
    }
}

void BatchedInference::begin(std::int64_t tick, bool device_has_first_row) {
  first_tick_ = tick;
  device_has_first_row_ = device_has_first_row;
  if (tensors_.mirrored && parameters_.have_changed(agent_.parameters())) make_steps();
  for (const auto& keys : keys_)
    if (keys.defined()) keys.select(1, 1).fill_(tick);
}

BatchedInference::Step BatchedInference::make_step(std::int64_t t, const Range& envs) const {
  const auto row = shared_.history + t;
  auto part = [&envs](const at::Tensor& of_all) { return part_of(of_all, envs); };
  auto parts = [&](const Named<RolloutTensors::Mirror>& fields, std::int64_t at_row) {
    NamedTensors out;
    for (const auto& [name, m] : fields) out.add(name, part(m.device[at_row]));
    return out;
  };
  auto states = [&](const Named<RolloutTensors::Mirror>& fields) {
    NamedTensors out;
    for (const auto& [name, m] : fields) out.add(name, part(m.device));
    return out;
  };
  const auto& x = tensors_;
  Step step;
  for (const auto& [name, m] : x.observation) {
    if (x.frame_index.contains(name)) {
      step.in.observation.add(name,
                              {m.device.flatten(0, 1), part(x.frame_index.at(name).device[t])});
    } else {
      step.in.observation.add(name, {part(m.device[row]), {}});
    }
  }
  step.in.mask = parts(x.mask, row);
  step.in.state = states(x.state[t % 2]);
  step.in.previous_action = parts(x.action, row - 1);
  step.in.previous_reward = part(x.reward.device[row - 1]);
  step.in.is_first = part(x.is_first.device[row]);
  step.in.noise = {.seed = noise_seed_, .tick = 0, .first_env = rows_begin_ + envs.first};
  step.in.greedy = greedy_;
  step.out.action = parts(x.action, row);
  step.out.agent_info = parts(x.agent_info, row);
  step.out.state = states(x.state[(t + 1) % 2]);
  return step;
}

ActIn& BatchedInference::prepare(std::int64_t t, std::size_t part) {
  tensors_.stack_frames(t, parts_[part]);
  auto& in = step(t, part).in;
  in.noise.tick = first_tick_ + t;
  upload(t, part);
  return in;
}

// What acting needs of a row, and learning after it.
void BatchedInference::upload(std::int64_t t, std::size_t part) {
  if (!tensors_.mirrored) return;
  const auto& envs = parts_[part];
  const auto row = shared_.history + t;
  for (const auto& [name, m] : tensors_.frame_index) tensors_.upload(m, t, envs);
  if (t == 0 && device_has_first_row_) return;
  for (const auto* fields : {&tensors_.observation, &tensors_.mask})
    for (const auto& [name, m] : *fields) tensors_.upload(m, row, envs);
  tensors_.upload(tensors_.is_first, row, envs);
  tensors_.upload(tensors_.reward, row - 1, envs);
}

void BatchedInference::act(std::int64_t t, std::size_t part) {
  if (tensors_.mirrored) return act_on_device(t, part);
  auto& in = prepare(t, part);
  agent_.act(in, step(t, part).out);
  blank_waiting(t, part);
}

// All that a step asks of the device, from the copy of its rows to that of the actions, is one
// recording for each row of the rollout.
void BatchedInference::act_on_device(std::int64_t t, std::size_t part) {
  auto& s = step(t, part);
  tensors_.stack_frames(t, parts_[part]);
  if (!s.in.noise.env_tick.defined()) s.in.noise.tick = first_tick_ + t;
  const auto before = tensors_.uploaded;
  const auto work = [this, &s, t, part] {
    upload(t, part);
    agent_.act(s.in, s.out);
    blank_waiting(t, part);
    download(t, part);
    if (s.in.noise.env_tick.defined()) s.in.noise.env_tick.select(1, 1).add_(1);
  };
  // Who waits is known to the host alone, and memory that is not pinned cannot be recorded. While a
  // thread records, another one could not draw random numbers there, as one that learns may.
  constexpr std::size_t kMostRecordings = 2048;
  if (shared_.may_wait || host_reads_ || !tensors_.pins || steps_.size() > kMostRecordings) {
    work();
  } else {
    s.recorded.run(tensors_.device, work);
    if (!s.recorded.is_captured()) s.bytes = tensors_.uploaded - before;
    tensors_.uploaded = before + s.bytes;  // a recording counts nothing
  }
  tensors_.wait();
}

void BatchedInference::download(std::int64_t t, std::size_t part) {
  for (const auto& [name, m] : tensors_.action)
    tensors_.download(m, shared_.history + t, parts_[part]);
  for (const auto& [name, m] : tensors_.agent_info)
    if (host_reads_) tensors_.download(m, shared_.history + t, parts_[part]);
  if (!host_reads_ && shared_.final_state.empty()) return;
  for (const auto& [name, m] : tensors_.state[(t + 1) % 2]) tensors_.download(m, parts_[part]);
}

void BatchedInference::act(std::span<const Place> places) {
  if (places.size() == 1) return act(places[0].t, places[0].part);
  noise_rows_.clear();
  std::vector<const ActIn*> ins;
  for (const auto& [t, part] : places) {
    const auto& in = *ins.emplace_back(&prepare(t, part));
    for (std::int64_t i = 0; i < parts_[part].size(); ++i) noise_rows_.push_back(in.noise.row(i));
  }
  const auto in = joined(ins, noise_rows_);
  const auto n = static_cast<std::int64_t>(noise_rows_.size());
  const auto like = [n](const NamedTensors& tensors) {
    NamedTensors all;
    for (const auto& [name, x] : tensors) {
      auto shape = x.sizes().vec();
      shape[0] = n;
      all.add(name, at::empty(shape, x.options()));
    }
    return all;
  };
  const auto& sample = step(places[0].t, places[0].part).out;
  ActOut out{.action = like(sample.action),
             .agent_info = like(sample.agent_info),
             .state = like(sample.state)};
  agent_.act(in, out);
  std::int64_t first = 0;
  for (const auto& [t, part] : places) {
    const auto size = parts_[part].size();
    auto& own = step(t, part).out;
    for (const auto fields : {&ActOut::action, &ActOut::agent_info, &ActOut::state})
      for (std::size_t i = 0; i < (out.*fields).size(); ++i)
        (own.*fields)[i].copy_((out.*fields)[i].narrow(0, first, size));
    blank_waiting(t, part);
    download(t, part);
    if (keys_[part].defined()) keys_[part].select(1, 1).add_(1);
    first += size;
  }
  tensors_.wait();
}

void BatchedInference::cut_short(std::int64_t t, std::size_t part) {
  auto& x = tensors_;
  const auto& envs = parts_[part];
  const auto T = shared_.horizon, now = shared_.history + t;
  shared_.cut_short(t, envs.first, envs.last);
  for (auto row = t; row < T; ++row) x.stack_frames(row, envs);
  if (!x.mirrored) return;
  for (const auto& [name, m] : x.frame_index) x.upload(m, t, T - t, envs);
  for (const auto* fields : {&x.observation, &x.mask, &x.action, &x.agent_info})
    for (const auto& [name, m] : *fields) x.upload(m, now, T - t, envs);
  x.upload(x.is_first, now, T - t, envs);
  x.upload(x.reward, now - 1, T - t + 1, envs);
  if ((T - t) % 2 == 0) return;
  for (std::size_t i = 0; i < x.state[0].size(); ++i)
    part_of(x.state[T % 2][i].device, envs).copy_(part_of(x.state[t % 2][i].device, envs));
}

void BatchedInference::blank_waiting(std::int64_t t, std::size_t part) {
  const auto& out = step(t, part).out;
  blank_waiting(t, parts_[part], out.action);
  blank_waiting(t, parts_[part], out.agent_info);
}

void BatchedInference::blank_waiting(std::int64_t t, const Range& envs,
                                     const NamedTensors& tensors) const {
  if (!shared_.may_wait) return;
  const auto valid = part_of(tensors_.valid.host[shared_.history + t], envs);
  if (valid.all().item<bool>()) return;
  const auto waits = valid.logical_not().to(tensors_.device);
  for (const auto& [name, tensor] : tensors) {
    std::vector<std::int64_t> shape(static_cast<std::size_t>(tensor.dim()), 1);
    shape[0] = envs.size();
    tensor.masked_fill_(waits.view(shape), 0);
  }
}

}  // namespace shoal
