#include "cli/acting_alone.h"

#include <ATen/Parallel.h>
#include <ATen/core/grad_mode.h>

#include <utility>

#include "cli/rate.h"
#include "shoal/ipc/worker_group.h"

namespace shoal::cli {

int acting_processes(const SamplerOptions& sampler) {
  return sampler.kind == SamplerKind::kParallelCpu ? sampler.workers : 1;
}

std::vector<Range> acting_batches(const SamplerOptions& sampler, bool asynchronous, int process) {
  const auto processes = acting_processes(sampler);
  const auto envs = asynchronous ? sampler.envs / processes : sampler.envs;
  std::vector<Range> batches;
  for (int g = 0; g < sampler.groups; ++g) {
    const auto batch = asynchronous ? group_range(envs, sampler.groups, g)
                                    : worker_range(envs, sampler.groups, g, processes, process);
    if (!batch.empty()) batches.push_back(batch);
  }
  return batches;
}

std::int64_t ActingAlone::Work::act() {
  const at::NoGradGuard no_grad;
  std::int64_t steps = 0;
  for (std::size_t t = 0; t < batches.front().observations.size(); ++t) {
    for (auto& [observations, in, out] : batches) {
      in.observation = observations[t];
      agent.act(in, out);
      ++in.noise.tick;
      steps += out.action[0].size(0);
    }
  }
  if (agent.device().is_cuda()) batches.back().out.action[0].cpu();  // wait for it
  return steps;
}

ActingAlone::ActingAlone(const Samples& rollout, const EnvSpec& env, Agent& agent,
                         const SamplerOptions& sampler, bool asynchronous, int threads)
    : processes_(acting_processes(sampler)),
      threads_(threads),
      barrier_memory_(plan_.add_bytes(StepBarrier::bytes(processes_))),
      rates_(plan_.add_bytes(64 * static_cast<std::size_t>(processes_))) {
  const auto work_of = [&](int process) {
    Work work{agent, {}};
    for (const auto& envs : acting_batches(sampler, asynchronous, process))
      work.batches.push_back(acting_replay(rollout, envs, env, agent));
    return work;
  };
  if (sampler.kind != SamplerKind::kParallelCpu) {
    here_.push_back(work_of(0));
    here_.front().act();  // fills caches
    return;
  }
  arena_ = std::make_unique<Arena>(plan_);
  barrier_ = std::make_unique<StepBarrier>(arena_->data(barrier_memory_), processes_, /*spin=*/0);
  group_ = std::make_unique<WorkerGroup>(
      processes_, [&](int process, WorkerStatus) { serve(process, work_of(process)); });
  await();
}

void ActingAlone::serve(int process, Work work) const {
  at::set_num_threads(1);
  work.act();  // fills caches
  for (auto& rate = of_process(process);;) {
    barrier_->arrive(process);
    while (!barrier_->wait_release(process, kPatience)) {
    }
    rate = cli::rate(rate, [&] { return work.act(); });
  }
}

double& ActingAlone::of_process(int process) const {
  return *reinterpret_cast<double*>(arena_->data(rates_) + std::ptrdiff_t{64} * process);
}

void ActingAlone::await() {
  for (int process = 0; process < processes_; ++process)
    while (!barrier_->wait(process, kPatience)) group_->check();
}

double ActingAlone::rate(double seconds) {
  if (!group_) {
    const auto before = at::get_num_threads();
    at::set_num_threads(threads_);
    const auto found = cli::rate(seconds, [this] { return here_.front().act(); });
    at::set_num_threads(before);
    return found;
  }
  for (int process = 0; process < processes_; ++process) of_process(process) = seconds;
  barrier_->release();
  await();
  double sum = 0;
  for (int process = 0; process < processes_; ++process) sum += of_process(process);
  return sum;
}

}  // namespace shoal::cli
