#include "shoal/samplers/sampler.h"

#include <algorithm>
#include <utility>

#include "samplers/partition.h"
#include "samplers/sampler_context.h"
#include "samplers/saved_state.h"
#include "shoal/core/error.h"
#include "shoal/samplers/choose_sampler.h"
#include "src/core/print.h"
#include "src/envs/construction.h"

namespace shoal {

const char* name_of(SamplerKind kind) {
  return std::ranges::find(kSamplerKindNames, kind, [](const auto& each) { return each.second; })
      ->first;
}

WorkerGroupOptions worker_options(const SamplerContext& context) {
  const auto& o = context.options;
  const auto tell = [reporter = context.reporter](int, const WorkerError& death) {
    print_error("{}; it is restarted\n", death.what());
    if (reporter != nullptr) reporter->report(death);
  };
  WorkerGroupOptions options{.step_limit = o.step_limit,
                             .reset_limit = o.reset_limit,
                             .on_death = o.on_death,
                             .before_restart = tell};
  std::vector<int> cores(o.cores.begin(), o.cores.end());
  if (cores.empty()) cores = allowed_cores();
  for (int w = 0; o.pin && w < o.workers; ++w)
    options.cores.push_back(cores[static_cast<std::size_t>(w) % cores.size()]);
  return options;
}

bool may_wait(const SamplerOptions& o, const BatchTraits& batch) {
  return batch.waits || !o.mid_batch_reset || o.preempt_share < 1 ||
         (o.on_death == OnDeath::kRestart && o.kind != SamplerKind::kSerial);
}

std::unique_ptr<Collector> make_collector(const SharedRollout& shared,
                                          const SamplerContext& context, int group, int workers,
                                          int worker, WorkerStatus* status) {
  const auto& o = context.options;
  const auto envs = worker_range(o.envs, o.groups, group, workers, worker);
  if (envs.empty()) return nullptr;
  auto* const place = context.reporter == nullptr ? nullptr : context.reporter->place();
  return std::make_unique<Collector>(shared, context.make_env,
                                     Collector::Options{.first = envs.first,
                                                        .last = envs.last,
                                                        .rows_begin = context.rows_begin,
                                                        .ends = group * workers + worker,
                                                        .seed = o.seed,
                                                        .stream = o.stream,
                                                        .decorrelation = o.decorrelation,
                                                        .discount = o.discount,
                                                        .construction_limit = o.reset_limit,
                                                        .tick = context.first_tick,
                                                        .resets_wait = !o.mid_batch_reset,
                                                        .lost = context.lost,
                                                        .saved = context.env_states,
                                                        .place = place},
                                     status);
}

int orders(const SamplerOptions& o) { return o.dynamic_batch > 0 ? o.workers : o.groups; }

void carry_out(const SharedRollout::Order& order, Collector& collector,
               const SharedRollouts& rollouts, const Mailbox& mailbox, int slot) {
  collector.go_to(*rollouts[static_cast<std::size_t>(order.rollout)]);
  collector.count_from(order.tick);
  if (saves(order.command))
    mailbox.put(slot, collector.save(order.command));
  else
    collector.carry_out(order.command, order.step);
}

namespace {

void check_cores(const SamplerOptions& o) {
  const auto allowed = allowed_cores();
  for (const auto core : o.cores)
    require(std::ranges::count(allowed, core) == 1,
            "sampler.cores: found {}, which is not one of the {} cores that this process may use "
            "({} to {}); choose from these, or set sampler.pin to false",
            core, allowed.size(), allowed.front(), allowed.back());
}

void check(const SamplerOptions& o) {
  require(o.horizon > 0, "sampler.horizon is {}; it must be at least 1", o.horizon);
  require(o.first_env >= 0, "SamplerOptions::first_env is {}; it must not be negative",
          o.first_env);
  require(o.envs > 0, "sampler.envs is {}; it must be at least 1", o.envs);
  require(o.groups >= 1 && o.groups <= 2 && o.groups <= o.envs,
          "sampler.groups is {}; it must be 1 or 2, and at most the number of environments ({})",
          o.groups, o.envs);
  require(o.step_limit.count() > 0 && o.reset_limit.count() > 0,
          "sampler.step_limit is {} ms and sampler.reset_limit is {} ms; both must be positive",
          o.step_limit.count(), o.reset_limit.count());
  require(o.decorrelation >= 0, "sampler.decorrelation is {}; it must not be negative",
          o.decorrelation);
  require(o.dynamic_batch >= 0 && o.dynamic_batch <= o.envs && o.dynamic_batch_timeout_us >= 0,
          "sampler.dynamic_batch is {} and sampler.dynamic_batch_timeout_us is {}; the batch must "
          "be 0 to {} (sampler.envs), and the timeout must not be negative",
          o.dynamic_batch, o.dynamic_batch_timeout_us, o.envs);
  require(o.dynamic_batch == 0 || (o.kind == SamplerKind::kParallelGpu && o.groups == 1),
          "sampler.dynamic_batch is {}; only parallel-gpu supports dynamic batching, and only with "
          "sampler.groups = 1",
          o.dynamic_batch);
  require(
      o.preempt_share > 0 && o.preempt_share <= 1 && (o.preempt_share == 1 || o.dynamic_batch > 0),
      "sampler.preempt_share is {}; it must be above 0 and at most 1, and 1 unless "
      "sampler.dynamic_batch is set",
      o.preempt_share);
  if (o.kind == SamplerKind::kSerial) return;
  if (o.pin) check_cores(o);
  require(o.workers > 0,
          "sampler.workers is {}; a parallel sampler needs at least 1 (or set sampler.kind to "
          "serial)",
          o.workers);
  require(o.workers <= o.envs, "{} workers cannot share {} environments; choose at most {} workers",
          o.workers, o.envs, o.envs);
}

// A batch resets its environments itself, and steps all of them.
void check_batch(const SamplerOptions& o, const std::string& id, const BatchTraits& batch) {
  if (batch.multiple == 0) return;
  const auto refuse = [&](bool ok, const char* found, const char* expected) {
    require(ok, "{}: found {}, but its environments are stepped in batches; set {}", id, found,
            expected);
  };
  refuse(o.mid_batch_reset, "sampler.mid_batch_reset = false", "it to true");
  refuse(o.decorrelation == 0, "sampler.decorrelation", "it to 0");
  refuse(o.preempt_share == 1 || !batch.waits, "sampler.preempt_share", "it to 1");
  const int workers = o.kind == SamplerKind::kSerial ? 1 : o.workers;
  const auto n = indivisible_share(o.envs, o.groups, workers, batch.multiple);
  require(n == 0,
          "{}: found {} environments to be stepped together, expected a multiple of {}; choose "
          "sampler.envs, workers and groups so that every worker has such a number",
          id, n, batch.multiple);
}

}  // namespace

SamplerContext checked_context(const EnvFactory& make_env, const SamplerOptions& options,
                               const NamedTensors& saved) {
  check(options);
  const EnvContext first{.seed = env_seed(options.seed, options.stream, options.first_env),
                         .index = options.first_env,
                         .stream = options.stream};
  const auto env = construct_here(make_env, first, options.reset_limit);
  SamplerContext context{.make_env = make_env,
                         .spec = env->spec(),
                         .batch = env->batch(),
                         .options = options,
                         .saved = saved,
                         .env_states = {},
                         .rows_begin = options.first_env};
  check_batch(options, context.spec.id, context.batch);
  if (!saved.empty()) {
    context.env_states = env_states(saved, options.first_env, options.envs);
    context.first_tick = first_tick(saved);
  }
  return context;
}

std::unique_ptr<Sampler> make_sampler(const EnvFactory& make_env, Agent& agent,
                                      const SamplerOptions& options, const NamedTensors& saved) {
  if (options.kind == SamplerKind::kAuto)
    return make_sampler(make_env, agent, choose_sampler(make_env, agent, options).options, saved);
  return make_synchronous_sampler(checked_context(make_env, options, saved), agent);
}

}  // namespace shoal
