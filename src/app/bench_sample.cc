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

std::int64_t collect(Sampler& sampler) {
  const auto batch = sampler.collect();
  return batch.samples.T * batch.samples.B;
}

double middle(std::vector<double> numbers) {
  std::sort(numbers.begin(), numbers.end());
  const auto n = numbers.size();
  return (numbers[(n - 1) / 2] + numbers[n / 2]) / 2;
}

double acting_alone(const EnvSpec& env, Agent& agent, const BenchOptions& options) {
  const at::NoGradGuard no_grad;
  const auto B = options.config.sampler.envs, T = options.config.sampler.horizon;
  auto shapes = acting_shapes(env, agent, B);
  return rate(options.seconds, [&] {
    for (std::int64_t t = 0; t < T; ++t, ++shapes.in.noise.tick) agent.act(shapes.in, shapes.out);
    if (agent.device().is_cuda()) shapes.out.action[0].cpu();  // wait for it
    return T * B;
  });
}

}  // namespace

double BenchResult::median() const { return middle(sampling); }

double BenchResult::bound() const {
  return share_cores ? 1 / (1 / environments + 1 / acting) : std::min(environments, acting);
}

BenchResult bench_sample(const BenchOptions& options) {
  const Config& config = options.config;
  validate(config);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto make_env = make_env_factory(config.env_id, config.env);
  const auto spec = make_env({})->spec();
  const auto agent = make_agent(config);
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
  result.share_cores = config.sampler.kind == SamplerKind::kSerial ||
                       (device.is_cpu() && config.sampler.workers + threads > cores);
  collect(*sampler);  // the first window starts processes, fills caches, and is not counted
  const CpuUse use;
  for (int run = 0; run < options.runs; ++run)
    result.sampling.push_back(rate(options.seconds, [&] { return collect(*sampler); }));
  result.other_cpu = use.others();
  collect(*no_network);
  result.environments = rate(options.seconds, [&] { return collect(*no_network); });
  result.acting = acting_alone(spec, *agent, options);
  return result;
}

std::string arithmetic(const Config& config) {
  if (config.device != "cpu") return "float32 on " + config.device;
  const auto spec = make_env_factory(config.env_id, config.env)({})->spec();
  const auto model =
      make_model(spec.observation, spec.action[0].choices.at(0), config.model, config.seed);
  const auto network = model->make_acting_network(config.agent.act_precision);
  return (network ? network->description() : "the model's own, float32") + ", CPU offers " +
         at::get_cpu_capability();
}

}  // namespace shoal::app
