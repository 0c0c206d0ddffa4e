#include "src/app/bench_sample.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <chrono>
#include <memory>

#include "shoal/core/worker_group.h"
#include "shoal/runners/device.h"
#include "src/app/bench_agents.h"
#include "src/app/cpu_use.h"

namespace shoal::app {
namespace {

using Clock = std::chrono::steady_clock;

// Repeats work(), which returns how many steps it took, for some seconds; steps a second.
template <class Work>
double rate(double seconds, Work work) {
  const auto start = Clock::now();
  std::int64_t steps = 0;
  for (double elapsed = 0;;) {
    steps += work();
    elapsed = std::chrono::duration<double>(Clock::now() - start).count();
    if (elapsed >= seconds) return static_cast<double>(steps) / elapsed;
  }
}

std::int64_t collect(Sampler& sampler) { return sampler.collect().samples.steps; }

// The actions of a window.
std::int64_t act(Agent& agent, ActingReplay& replay) {
  const at::NoGradGuard no_grad;
  auto& [observations, in, out] = replay;
  for (const auto& observation : observations) {
    in.observation = observation;
    agent.act(in, out);
    ++in.noise.tick;
  }
  if (agent.device().is_cuda()) out.action[0].cpu();  // wait for it
  return static_cast<std::int64_t>(observations.size()) * out.action[0].size(0);
}

}  // namespace

double BenchResult::median() const { return middle(sampling); }

double BenchResult::bound() const { return middle(bounds); }

double BenchResult::share() const {
  std::vector<double> shares;
  for (std::size_t i = 0; i < bounds.size(); ++i) shares.push_back(sampling[i] / bounds[i]);
  return middle(shares);
}

BenchResult bench_sample(const BenchOptions& options) {
  const Config& config = options.config;
  validate(config);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto make_env = make_env_factory(config.env_id, config.env);
  const auto spec = make_env({})->spec();
  const auto agent = make_agent(config, spec);
  TableAgent table(spec, config.sampler.envs);
  auto sampler = make_sampler(make_env, *agent, training_sampler(config));
  auto no_network = make_sampler(make_env, table, training_sampler(config));

  const int cores = static_cast<int>(allowed_cores().size());
  const int threads = config.threads > 0 ? config.threads : cores;
  const auto device = parse_device(config.device);
  open_device(device);
  agent->to(device);
  at::set_num_threads(threads);

  BenchResult result;
  result.share_cores = config.sampler.kind != SamplerKind::kParallelGpu ||
                       (device.is_cpu() && config.sampler.workers + threads > cores);
  // The first windows start processes, fill caches, and are not counted.
  collect(*no_network);
  auto replay = acting_replay(sampler->collect().samples, spec, *agent);
  act(*agent, replay);
  const CpuUse use;
  std::vector<double> environments, acting;
  for (int run = 0; run < options.runs; ++run) {
    result.sampling.push_back(rate(options.seconds, [&] { return collect(*sampler); }));
    // Beside every run, since a machine that others use too changes its speed meanwhile.
    const double seconds = options.seconds / 2;
    environments.push_back(rate(seconds, [&] { return collect(*no_network); }));
    acting.push_back(rate(seconds, [&] { return act(*agent, replay); }));
    result.bounds.push_back(result.share_cores ? 1 / (1 / environments.back() + 1 / acting.back())
                                               : std::min(environments.back(), acting.back()));
  }
  result.other_cpu = use.others();
  result.environments = middle(environments);
  result.acting = middle(acting);
  return result;
}

std::string arithmetic(const Config& config) {
  if (config.device != "cpu") return "float32 on " + config.device;
  const auto spec = make_env_factory(config.env_id, config.env)({})->spec();
  const auto model =
      make_model(spec.observation, policy_size(spec, config.agent), config.model, config.seed);
  const auto network = model->make_acting_network(config.agent.act_precision);
  return (network ? network->description() : "the model's own, float32") + ", CPU offers " +
         at::get_cpu_capability();
}

}  // namespace shoal::app
