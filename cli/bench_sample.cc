#include "cli/bench_sample.h"

#include <ATen/Parallel.h>
#include <ATen/Version.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "cli/acting_alone.h"
#include "cli/bench_agents.h"
#include "cli/bench_line.h"
#include "cli/cpu_use.h"
#include "cli/rate.h"
#include "runners/fix_sampler.h"
#include "shoal/models/actor_critic.h"
#include "shoal/runners/device.h"
#include "shoal/samplers/async_sampler.h"
#include "src/core/median.h"

namespace shoal::cli {
namespace {

// A sampler that counts the steps of its rollouts.
class Counted {
 public:
  Counted(const Config& config, const EnvFactory& make_env, Agent& agent, Agent& actor) {
    const auto options = training_sampler(config);
    if (!config.asynchronous) {
      sampler_ = make_sampler(make_env, agent, options);
      return;
    }
    auto made = make_async_sampler(make_env, agent, actor, options, config.async);
    async_ = made.get();
    sampler_ = std::move(made);
    slots_ = config.async.slots > 0 ? config.async.slots : acting_processes(options) + 2;
  }

  const Samples& collect() { return sampler_->collect().samples; }

  // An asynchronous sampler continues between two runs until its slots are full. Those rollouts do
  // not count, and nothing else may run on the machine during the other measurements.
  double rate(double seconds) {
    for (int i = 0; i < slots_; ++i) collect();
    const auto found = cli::rate(seconds, [this] { return collect().steps; });
    rest();
    return found;
  }
  void rest() const {
    const auto full = [this] {
      const auto counts = async_->counts();
      return counts.published - counts.taken - counts.dropped >=
             slots_ - 1;  // one slot is held by the caller
    };
    while (async_ && !full()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }

 private:
  std::unique_ptr<Sampler> sampler_;
  const AsyncSampler* async_ = nullptr;  // null: the sampler is idle between two rollouts
  int slots_ = 0;
};

}  // namespace

double BenchResult::median() const { return median_of(sampling); }

double BenchResult::bound() const { return median_of(bounds); }

double BenchResult::share() const {
  std::vector<double> shares;
  for (std::size_t i = 0; i < bounds.size(); ++i) shares.push_back(sampling[i] / bounds[i]);
  return median_of(shares);
}

bool acting_overlaps_stepping(const SamplerOptions& sampler) {
  return sampler.kind == SamplerKind::kParallelGpu &&
         (sampler.groups > 1 || sampler.dynamic_batch > 0);
}

double sampling_bound(double environments, double acting, bool overlap) {
  return overlap ? std::min(environments, acting) : 1 / (1 / environments + 1 / acting);
}

BenchResult bench_sample(const BenchOptions& options) {
  auto config = options.config;
  validate(config);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto make_env = make_env_factory(config);
  auto first = make_env({});
  const auto spec = first->spec();
  const auto together = first->batch().multiple;
  first.reset();
  const auto agent = make_agent(config, spec), actor = make_agent(config, spec);
  if (config.sampler.kind == SamplerKind::kAuto) fix_sampler(config, make_env, *agent, together);
  TableAgent table(spec, config.sampler.envs), table_actor(spec, config.sampler.envs);
  Counted sampler(config, make_env, *agent, *actor);
  Counted no_network(config, make_env, table, table_actor);

  const int threads = config.asynchronous ? 1 : tensor_threads(config);
  const auto acting_of = [&](const Samples& rollout) {
    return ActingAlone(rollout, spec, *agent, config.sampler, config.asynchronous, threads);
  };
  std::optional<ActingAlone> acting_alone;
  // Workers that act are forked before any threads or a CUDA context exist.
  if (config.sampler.kind == SamplerKind::kParallelCpu)
    acting_alone.emplace(acting_of(sampler.collect()));
  const auto device = parse_device(config.device);
  open_device(device);
  for (auto* one : {agent.get(), actor.get()}) one->to(device);
  at::set_num_threads(threads);

  BenchResult result;
  result.sampler = config.sampler;
  result.overlap = acting_overlaps_stepping(config.sampler);
  // The first rollouts start processes and fill caches; they do not count.
  no_network.collect();
  const auto& rollout = sampler.collect();
  if (!acting_alone) acting_alone.emplace(acting_of(rollout));
  for (const auto* one : {&sampler, &no_network}) one->rest();
  const CpuUse use;
  std::vector<double> environments, acting;
  for (int run = 0; run < options.runs; ++run) {
    result.sampling.push_back(sampler.rate(options.seconds));
    // Measured beside every run, because the speed of a shared machine varies.
    environments.push_back(no_network.rate(options.seconds / 2));
    acting.push_back(acting_alone->rate(options.seconds / 2));
    result.bounds.push_back(sampling_bound(environments.back(), acting.back(), result.overlap));
  }
  result.other_cpu = use.others();
  result.environments = median_of(environments);
  result.acting = median_of(acting);
  return result;
}

std::string arithmetic(const Config& config) {
  if (config.device != "cpu") return "float32 on " + config.device;
  const auto spec = make_env_factory(config)({})->spec();
  const auto model =
      make_model(spec.observation, policy_size(spec, config.agent), config.model, config.seed);
  const auto network = model->make_acting_network(config.agent.act_precision);
  return (network ? network->description() : "the model's own, float32") + ", CPU offers " +
         at::get_cpu_capability();
}

}  // namespace shoal::cli
