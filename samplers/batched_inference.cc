#include "samplers/batched_inference.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <exception>

#include "src/compute/accelerator.h"

namespace shoal {

namespace {

// Joins several inputs to one batch. rows: the environment and tick of each of its rows.
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
    const auto& o = first.observation[i];  // all stacks index the same frames
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

BatchedInference::BatchedInference(RolloutTensors& tensors, Agent& agent,
                                   const SamplerOptions& sampler, std::vector<Range> parts,
                                   const Options& options)
    : tensors_(tensors),
      shared_(*tensors.shared),
      agent_(agent),
      // Derived from the stream, too: evaluation must not repeat the noise of training.
      noise_seed_(env_seed(sampler.seed, sampler.stream, -1)),
      greedy_(sampler.greedy),
      first_env_(sampler.first_env + options.first_env),
      host_reads_(options.host_reads),
      parts_(std::move(parts)),
      made_for_(tensors.device) {
  make_steps();
}

BatchedInference::~BatchedInference() {
  try {
    tensors_.wait();
  } catch (const std::exception&) {  // an earlier wait() has already thrown the error
  }
}

void BatchedInference::make_steps() {
  made_for_ = tensors_.device;
  steps_.clear();
  keys_.assign(parts_.size(), {});
  for (std::size_t i = 0; i < parts_.size() && accelerator(tensors_.device) != nullptr; ++i) {
    auto keys = at::empty({parts_[i].size(), 2}, at::kLong);
    keys.select(1, 0).copy_(at::arange(parts_[i].size()).add_(first_env_ + parts_[i].first));
    keys.select(1, 1).fill_(first_tick_);
    keys_[i] = keys.to(tensors_.device, /*non_blocking=*/false, /*copy=*/true);
  }
  for (std::int64_t t = 0; t < shared_.horizon; ++t)
    for (std::size_t part = 0; part < parts_.size(); ++part) steps_.push_back(make_step(t, part));
}

void BatchedInference::begin(std::int64_t tick, bool device_has_first_row) {
  first_tick_ = tick;
  device_has_first_row_ = device_has_first_row;
  const bool changed = tensors_.mirrored && parameters_.have_changed(agent_.parameters());
  if (changed || made_for_ != tensors_.device) make_steps();
  for (const auto& keys : keys_)
    if (keys.defined()) keys.select(1, 1).fill_(tick);
}

BatchedInference::Step BatchedInference::make_step(std::int64_t t, std::size_t part) const {
  const auto& envs = parts_[part];
  const auto& x = tensors_;
  Step step;
  step.in = x.inputs(t, envs);
  step.in.noise = {.seed = noise_seed_, .tick = 0, .first_env = first_env_ + envs.first};
  step.in.noise.env_tick = keys_[part];
  step.in.greedy = greedy_;
  const auto row = shared_.history + t;
  for (const auto& [name, m] : x.action) step.out.action.add(name, part_of(m.device[row], envs));
  for (const auto& [name, m] : x.agent_info)
    step.out.agent_info.add(name, part_of(m.device[row], envs));
  for (const auto& [name, m] : x.state[static_cast<std::size_t>((t + 1) % 2)])
    step.out.state.add(name, part_of(m.device, envs));
  return step;
}

void BatchedInference::upload_inputs(std::int64_t t, std::size_t part) {
  if (t == 0 && device_has_first_row_)
    tensors_.upload_stacks(0, 1, parts_[part]);
  else
    tensors_.upload_inputs(t, 1, parts_[part]);
}

ActIn& BatchedInference::prepare(std::int64_t t, std::size_t part) {
  tensors_.stack_frames(t, parts_[part]);
  upload_inputs(t, part);
  auto& in = step(t, part).in;
  in.noise.tick = first_tick_ + t;
  return in;
}

void BatchedInference::act(std::int64_t t, std::size_t part) {
  if (tensors_.mirrored) return act_on_device(t, part);
  auto& in = prepare(t, part);
  agent_.act(in, step(t, part).out);
  blank_waiting(t, part);
}

// All device work of a step, from the upload of its rows to the download of the actions, is one
// captured graph for each row of the rollout.
void BatchedInference::act_on_device(std::int64_t t, std::size_t part) {
  auto& s = step(t, part);
  if (!s.in.noise.env_tick.defined()) s.in.noise.tick = first_tick_ + t;
  tensors_.stack_frames(t, parts_[part]);
  const auto before = tensors_.uploaded;
  const auto work = [this, &s, t, part] {
    upload_inputs(t, part);
    agent_.act(s.in, s.out);
    blank_waiting(t, part);
    download(t, part);
    if (s.in.noise.env_tick.defined()) s.in.noise.env_tick.select(1, 1).add_(1);
  };
  // Not captured: waiting environments, which only the host knows; copies of memory that is not
  // pinned; and acting beside another thread, because a capture would prevent the learner from
  // drawing random numbers on the device.
  constexpr std::size_t kMostGraphs = 2048;
  if (shared_.may_wait || host_reads_ || !tensors_.pins || steps_.size() > kMostGraphs) {
    work();
  } else {
    s.captured.run(tensors_.device, work);
    if (!s.captured.is_captured()) s.bytes = tensors_.uploaded - before;
    tensors_.uploaded = before + s.bytes;  // a replayed graph does not count its uploads
  }
  tensors_.wait();
}

void BatchedInference::download(std::int64_t t, std::size_t part) {
  for (const auto& [name, m] : tensors_.action)
    tensors_.download(m, shared_.history + t, parts_[part]);
  for (const auto& [name, m] : tensors_.agent_info)
    if (host_reads_) tensors_.download(m, shared_.history + t, parts_[part]);
  if (!host_reads_ && shared_.final_state.empty()) return;
  for (const auto& [name, m] : tensors_.state[static_cast<std::size_t>((t + 1) % 2)])
    tensors_.download(m, parts_[part]);
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

void BatchedInference::blank_waiting(std::int64_t t, std::size_t part) {
  const auto& out = step(t, part).out;
  tensors_.blank_waiting(t, parts_[part], out.action);
  tensors_.blank_waiting(t, parts_[part], out.agent_info);
}

}  // namespace shoal
