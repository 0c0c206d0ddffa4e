#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <cstring>
#include <vector>

#include "samplers/partition.h"
#include "samplers/samplers.h"
#include "samplers/window.h"
#include "shoal/core/parameter_board.h"
#include "shoal/core/step_barrier.h"

namespace shoal {

namespace {

std::size_t bytes_of(const NamedTensors& parameters) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : parameters) bytes += tensor.nbytes();
  return bytes;
}

// One behind the other.
void flatten(const NamedTensors& parameters, std::vector<std::byte>& flat) {
  auto* to = flat.data();
  for (const auto& [name, tensor] : parameters) {
    const auto t = tensor.detach().cpu().contiguous();
    std::memcpy(to, t.const_data_ptr(), t.nbytes());
    to += t.nbytes();
  }
}

void unflatten(const std::vector<std::byte>& flat, NamedTensors parameters) {
  const auto* from = flat.data();
  for (auto& [name, tensor] : parameters) {
    auto t = at::empty_like(tensor, at::MemoryFormat::Contiguous);
    std::memcpy(t.data_ptr(), from, t.nbytes());
    from += t.nbytes();
    tensor.copy_(t);
  }
}

// Every worker acts for its own environments, with parameters of its own, for a whole window; the
// agent process values what has come of it.
class ParallelCpuSampler : public Sampler {
 public:
  ParallelCpuSampler(const EnvFactory& make_env, const EnvSpec& spec, Agent& agent,
                     const SamplerOptions& o)
      : agent_(agent),
        flat_(bytes_of(agent.parameters())),
        shared_(plan_, spec, agent.spec(),
                {.horizon = o.horizon,
                 .envs = o.envs,
                 .collectors = o.groups * o.workers,
                 .ends_wait = true,
                 .resets_wait = o.reset == ResetMode::kWait}),
        barrier_memory_(plan_.add_bytes(StepBarrier::bytes(o.workers))),
        board_memory_(plan_.add_bytes(ParameterBoard::bytes(flat_.size()))),
        arena_(plan_),
        barrier_(arena_.data(barrier_memory_), o.workers, default_spin(o.workers + 1)),
        board_(arena_.data(board_memory_), flat_.size()) {
    shared_.attach(arena_);
    const auto body = [&](int worker, WorkerStatus status) { work(worker, status, make_env, o); };
    group_ = std::make_unique<WorkerGroup>(o.workers, body, worker_options(o));
    await();
    window_ = std::make_unique<Window>(shared_, agent, o, std::vector<Range>{{0, o.envs}});
    for (const auto& [name, field] : shared_.final_state)
      final_state_.add(name, view(arena_, field));
  }

  Batch collect() override {
    at::NoGradGuard no_grad;
    auto before = std::chrono::steady_clock::now();
    await();  // the environments are there, and what waited is reset
    before = count_time(times_.waiting, before);
    window_->begin();
    flatten(agent_.parameters(), flat_);
    board_.publish(flat_);
    barrier_.release();
    await();
    before = count_time(times_.waiting, before);
    window_->finish_others(final_state_);
    count_time(times_.acting, before);
    if (shared_.resets_wait) barrier_.release();
    return window_->batch();
  }

  const SamplerTimes& times() const override { return times_; }

 private:
  // In the child; never returns. `agent_` is the copy that the fork has made.
  void work(int worker, WorkerStatus status, const EnvFactory& make_env, const SamplerOptions& o) {
    at::set_num_threads(1);
    at::NoGradGuard no_grad;
    std::vector<Range> parts;
    std::vector<std::unique_ptr<Collector>> collectors;
    for (int g = 0; g < o.groups; ++g) {
      auto collector = make_collector(shared_, make_env, o, g, o.workers, worker, &status);
      if (!collector) continue;
      collectors.push_back(std::move(collector));
      parts.push_back(worker_range(o.envs, o.groups, g, o.workers, worker));
    }
    RowActor actor(shared_, agent_, o, parts);
    std::uint64_t version = 0;
    for (std::int64_t tick = 0;; tick += o.horizon) {
      next_release(worker);
      if (board_.read(flat_, version)) {
        unflatten(flat_, agent_.parameters());
        agent_.parameters_changed();
      }
      actor.set_first_tick(tick);
      for (std::int64_t t = 0; t < o.horizon; ++t) {
        for (std::size_t part = 0; part < parts.size(); ++part) {
          actor.act(t, part);
          collectors[part]->step(t);
          keep_final_states(t, parts[part]);
        }
      }
      if (!shared_.resets_wait) continue;
      next_release(worker);
      for (const auto& collector : collectors) collector->step(o.horizon);
    }
  }

  void next_release(int worker) {
    barrier_.arrive(worker);
    while (!barrier_.wait_release(worker, kPatience)) {
    }
  }

  // The states after step t of the environments whose episodes ended in it.
  void keep_final_states(std::int64_t t, const Range& envs) const {
    const auto& states = shared_.state[(t + 1) % 2];
    for (std::size_t i = 0; i < states.size(); ++i) {
      for (auto b = envs.first; b < envs.last; ++b) {
        if (shared_.episode_end(t, b).length == 0) continue;
        const auto to = arena_.element(shared_.final_state[i], t * shared_.rows.envs() + b);
        std::memcpy(to.data(), arena_.element(states[i], b).data(), to.size());
      }
    }
  }

  void await() {
    for (int w = 0; w < barrier_.workers(); ++w)
      while (!barrier_.wait(w, kPatience)) group_->check(w);
  }

  Agent& agent_;
  std::vector<std::byte> flat_;  // parameters on their way; every process has its own
  Arena::Plan plan_;
  SharedRows shared_;
  Arena::Field barrier_memory_, board_memory_;
  Arena arena_;
  StepBarrier barrier_;
  ParameterBoard board_;
  std::unique_ptr<WorkerGroup> group_;
  std::unique_ptr<Window> window_;
  NamedTensors final_state_;  // [T, B, ...]
  SamplerTimes times_;
};

}  // namespace

std::unique_ptr<Sampler> make_parallel_cpu_sampler(const EnvFactory& make_env, const EnvSpec& spec,
                                                   Agent& agent, const SamplerOptions& options) {
  return std::make_unique<ParallelCpuSampler>(make_env, spec, agent, options);
}

}  // namespace shoal
