#include "shoal/runners/train.h"

#include <ATen/Parallel.h>
#include <ATen/ops/tensor.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <exception>
#include <new>

#include "runners/fix_sampler.h"
#include "runners/run_training.h"
#include "shoal/core/arena.h"
#include "shoal/core/rng.h"
#include "shoal/core/stop.h"
#include "shoal/ipc/rank_exchange.h"
#include "shoal/ipc/run_ranks.h"
#include "shoal/ipc/step_barrier.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/console.h"
#include "shoal/runners/device.h"
#include "shoal/runners/evaluation.h"
#include "shoal/runners/live_evaluation.h"
#include "shoal/runners/off_policy.h"
#include "shoal/runners/on_policy.h"
#include "src/envs/construction.h"

namespace shoal {
namespace {

// Each rank plays its share in its own process. The seeds depend on the current step, so that a
// resumed run uses the same ones.
//
// make_env: made before the workers, because making one for an environment in Python forks.
Metrics evaluate_now(const Config& config, const EnvFactory& make_env, Agent& agent,
                     const Session& session, ProcessGroup& ranks) {
  const std::int64_t n = ranks.count(), r = ranks.rank();
  const auto share = config.eval_episodes * (r + 1) / n - config.eval_episodes * r / n;
  const auto now = env_seed(config.seed, Stream::kEval, session.steps());
  EvaluationResult played;
  if (share > 0)
    played = Evaluator(make_env, agent,
                       {.episodes = share,
                        .seed = r == 0 ? now : env_seed(now, Stream::kEval, r),
                        .kind = SamplerKind::kSerial,
                        .step_limit = config.sampler.step_limit,
                        .reset_limit = config.sampler.reset_limit})
                 .run([&] { return session.stop_signal() != 0; });
  const auto all = moments(ranks, at::tensor(played.returns, at::kDouble));
  Metrics metrics{{kEvalReturn, all.mean},
                  {"eval_std", std::sqrt(all.variance * (all.count - 1) / all.count)}};
  for (const auto& entry : config.env.info) {
    const auto name = parse_info(entry).name;
    const auto values = played.infos.contains(name) ? played.infos.at(name) : std::vector<double>();
    metrics.emplace_back("eval_info_" + name, moments(ranks, at::tensor(values, at::kDouble)).mean);
  }
  if (all.count < static_cast<double>(config.eval_episodes)) return {};
  return metrics;
}

// The resources of a rank on this machine.
struct LocalRank {
  int gpu = 0;                           // index of its GPU, if each rank has one
  int core_index = 0, core_count = 1;    // among the ranks that share this process's cores
  const ReplayMemory* replay = nullptr;  // of all ranks, if they share a replay
};

// The workers of the `count` ranks before this one.
int workers_before(const Config& config, int rank, int count) {
  int workers = 0;
  for (int r = rank - count; r < rank; ++r) workers += workers_of_rank(config, r);
  return workers;
}

// Workers are pinned to the cores behind those of `before` other workers.
void pin_behind(int before, SamplerOptions& sampler) {
  auto& cores = sampler.cores;
  if (cores.empty())
    for (const int core : allowed_cores()) cores.push_back(core);
  std::rotate(cores.begin(), cores.begin() + before % std::ssize(cores), cores.end());
}

// The configuration of one rank: its share of the environments and workers, its GPU, and its share
// of the cores if there is a core per rank and none are given for pinned workers. Its workers and
// threads inherit the cores.
Config share_of(const Config& config, const ProcessGroup& ranks, const LocalRank& local) {
  auto own = config;
  const int n = ranks.count(), r = ranks.rank();
  if (n == 1) return own;
  own.sampler.envs = config.sampler.envs / n;
  own.sampler.first_env = own.sampler.envs * r;
  if (config.sampler.kind != SamplerKind::kAuto || config.sampler.workers > 0)
    own.sampler.workers = workers_of_rank(config, r);
  if (config.device == "cuda") own.device = fmt::format("cuda:{}", local.gpu);
  const auto cores = allowed_cores();
  const auto begin = [&](int rank) {
    return cores.begin() + static_cast<std::ptrdiff_t>(cores.size()) * rank / local.core_count;
  };
  const auto& s = config.sampler;
  const bool given = s.kind != SamplerKind::kSerial && s.pin && !s.cores.empty();
  if (cores.size() >= static_cast<std::size_t>(local.core_count) && !given)
    use_cores({begin(local.core_index), begin(local.core_index + 1)});
  else if (config.sampler.pin)
    pin_behind(workers_before(config, r, local.core_index), own.sampler);
  return own;
}

// The settings of all ranks, each of which uses the chosen sampler `own`.
SamplerOptions of_all_ranks(const SamplerOptions& own, const Config& whole,
                            const ProcessGroup& ranks) {
  auto all = whole.sampler;
  all.kind = own.kind;
  if (all.workers == 0) all.workers = own.workers * ranks.count();
  all.groups = own.groups;
  return all;
}

TrainingEnd train_rank(const Config& whole, const std::filesystem::path& folder,
                       const SessionOptions& options, const LocalRank& local) {
  auto& ranks = *options.ranks;
  Session session(whole, folder, options);
  auto config = share_of(whole, ranks, local);
  const auto make_env = make_env_factory(config);
  at::set_num_threads(1);  // no thread pool may exist when the workers are forked
  const auto env = traits_of(make_env, {}, config.sampler.reset_limit);
  const auto& spec = env.spec;
  if (!options.quiet && ranks.rank() == 0)
    for (const auto& notice : spec.notices) print_to_console(notice + "\n");
  const auto agent = make_agent(whole, spec);
  require_minibatch_fits(config, spec);
  if (config.sampler.kind == SamplerKind::kAuto) {
    const auto found = fix_sampler(config, make_env, *agent, env.batch.multiple, ranks);
    session.use_sampler(of_all_ranks(config.sampler, whole, ranks), found);
  }
  std::unique_ptr<Agent> actor;  // the acting copy of an asynchronous sampler
  std::unique_ptr<Sampler> sampler;
  auto sampling = training_sampler(config);
  sampling.on_failure = session.failure_handler();
  if (config.asynchronous) {
    actor = make_agent(whole, spec);
    sampler = make_async_sampler(make_env, *agent, *actor, sampling, config.async,
                                 session.sampler_state());
  } else {
    sampler = make_sampler(make_env, *agent, sampling, session.sampler_state());
  }

  if (config.live_eval_seconds > 0 && ranks.rank() == 0)
    session.add_sink(make_live_evaluation(make_env, *agent, folder,
                                          {.seconds = config.live_eval_seconds,
                                           .episodes = config.eval_episodes,
                                           .seed = env_seed(config.seed, Stream::kEval, 0)}));

  move_to_device(*agent, config.device);
  // In worker processes the actor stays on the CPU.
  if (actor && config.sampler.kind != SamplerKind::kParallelCpu)
    move_to_device(*actor, config.device);
  at::set_num_threads(tensor_threads(config));
  const auto evaluate = [&] { return evaluate_now(config, make_env, *agent, session, ranks); };
  if (is_off_policy(config)) {
    if (!options.quiet && ranks.rank() == 0)
      print_to_console(fmt::format("replay: {}\n", replay_size(whole, spec, *agent)));
    auto learner = make_learner(whole, spec, *agent, ranks, local.replay);
    session.begin(*agent, *learner.algo, sampler.get(), learner.replay.get());
    run_off_policy(session, *sampler, learner, config.off_policy, evaluate);
    run_training([&] { session.finish(); });
  } else {
    const auto algo = make_algo(config, *agent, ranks);
    session.begin(*agent, *algo, sampler.get());
    run_on_policy(session, *sampler, *algo, evaluate);
    run_training([&] { session.finish(); });
  }
  return {.signal = session.stop_signal(),
          .steps = session.steps(),
          .solved = session.solved(),
          .episodes = session.episodes().total(),
          .mean_return = session.episodes().mean_score()};
}

// Adds the process to error messages, because the output of all processes of a job is mixed.
template <class Body>
TrainingEnd naming_process(const JobPlace& job, const Body& body) {
  if (job.count == 1) return body();
  const auto named = [&](const std::exception& e) {
    return fmt::format("process {} of {}: {}", job.place, job.count, e.what());
  };
  try {
    return body();
  } catch (const Interrupted&) {
    throw;
  } catch (const Error& e) {
    throw Error("{}", named(e));
  } catch (const RankError& e) {
    throw RankError(named(e), e.rank);
  } catch (const c10::Error&) {
    throw;  // handled separately by the command
  } catch (const std::bad_alloc&) {
    throw;
  } catch (const std::exception& e) {
    throw std::runtime_error(named(e));
  }
}

// For ranks with a GPU each: whether this process sees the GPUs of its own ranks only, as with
// `srun --gpus-per-task`, instead of all GPUs of the machine.
bool has_own_gpus(const Config& config, int here, int local) {
  if (config.device != "cuda" || local == 1) return false;
  const int gpus = count_gpus();
  require(local <= gpus || here == gpus,
          "device cuda: each of the {} ranks on this machine needs a GPU of its own, but this "
          "process sees {}; use fewer ranks, or let them share one with --device cuda:0",
          local, gpus);
  return local > gpus;
}

// Whether gradients are reduced on the ranks' GPUs.
bool uses_nccl(const Config& config) {
  const bool own_gpus = config.device == "cuda";
  require(own_gpus || config.rank_backend != RankBackend::kNccl,
          "rank_backend: nccl needs one GPU per rank, but device is '{}'; set device to cuda, or "
          "rank_backend to auto",
          config.device);
  return config.rank_backend == RankBackend::kNccl ||
         (config.rank_backend == RankBackend::kAuto && own_gpus && has_nccl());
}

std::chrono::milliseconds timeout_of(const Config& config) {
  return std::chrono::milliseconds(std::llround(1e3 * config.rank_timeout));
}

// Forks the ranks of this process.
template <class Run>
TrainingEnd run_several(const Config& config, int here, int local, const JobPlace& job,
                        const Run& run) {
  // A rank that waits for another machine must not count as late, so local waits have a longer
  // limit.
  const auto timeout = job.count == 1 ? timeout_of(config) : timeout_of(config) * 3 / 2;
  const RankExchangeOptions exchange_options{
      .ranks = here, .spin = default_spin(local), .timeout = timeout};
  Arena::Plan plan;
  const auto words = plan.add_bytes(RankExchange::bytes(exchange_options));
  const auto end = plan.add_bytes(sizeof(TrainingEnd));
  const Arena arena(plan);
  const RankExchange exchange(arena.data(words), exchange_options);
  auto& result = *new (arena.data(end)) TrainingEnd;
  const int status = run_ranks(here, [&](int rank) {
    const auto own = exchange.of(rank);
    const auto ranks = job.count == 1 ? make_shared_group(own)
                                      : make_multi_host_group(
                                            own, rank == 0 ? make_job_group(config, job) : nullptr,
                                            job.place, job.count);
    const auto of_rank = run(*ranks, rank);
    if (rank == 0) result = of_rank;
    return 0;
  });
  if (status != 0) result.signal = status - 128;  // rank 0 ended before it could report it
  return result;
}

// Whether the launcher has bound this process to cores of its own. If the processes together seem
// to have more cores than the machine, they share them.
bool is_bound(const JobPlace& job) {
  return job.count > 1 && job.launcher != "torchrun" &&
         std::ssize(allowed_cores()) * job.local_count <= sysconf(_SC_NPROCESSORS_ONLN);
}

}  // namespace

std::unique_ptr<ProcessGroup> make_job_group(const Config& config, const JobPlace& job) {
  auto backend = config.rank_backend;
  if ((backend == RankBackend::kAuto || backend == RankBackend::kNccl) &&
      job.launcher == "mpirun" && has_mpi())
    backend = RankBackend::kMpi;  // also carries the operations that NCCL does not
  if (backend == RankBackend::kMpi) return make_mpi_group(job.place, job.count, timeout_of(config));
  return make_tcp_group({.rank = job.place,
                         .count = job.count,
                         .address = job.address,
                         .port = job.port,
                         .store_exists = job.store_exists,
                         .job = job.job,
                         .timeout = timeout_of(config)});
}

TrainingEnd train(const Config& config, const std::filesystem::path& folder,
                  const SessionOptions& options, const JobPlace& job) {
  if (config.ranks == 1 && job.count == 1) return train_rank(config, folder, options, {});
  return naming_process(job, [&] {
    validate(config);
    require(config.ranks % job.count == 0,
            "ranks: found {}, which the {} processes of {} cannot share evenly; give a multiple "
            "with --ranks",
            config.ranks, job.count, job.launcher);
    const bool shares_replay = config.replay.shared && is_off_policy(config);
    require(
        !shares_replay || job.count == 1,
        "replay.shared: a shared replay needs all ranks in one process tree, but {} has started "
        "several; start ranks with --ranks, or set it to false",
        job.launcher);
    const int here = config.ranks / job.count, local = here * job.local_count;
    const bool own_gpus = has_own_gpus(config, here, local);
    const bool bound = is_bound(job);
    const bool by_nccl = uses_nccl(config);
    const auto replay = shares_replay ? std::make_unique<ReplayMemory>() : nullptr;
    const auto run = [&](ProcessGroup& ranks, int rank) {
      auto own = options;
      const auto nccl = by_nccl ? make_nccl_group(ranks, timeout_of(config),
                                                  config.rank_backend == RankBackend::kNccl)
                                : nullptr;
      own.ranks = nccl ? nccl.get() : &ranks;
      const int index = here * job.local_place + rank;
      const LocalRank place{.gpu = own_gpus ? rank : index,
                            .core_index = bound ? rank : index,
                            .core_count = bound ? here : local,
                            .replay = replay.get()};
      return train_rank(config, folder, own, place);
    };
    return here == 1 ? run(*make_job_group(config, job), 0)
                     : run_several(config, here, local, job, run);
  });
}

}  // namespace shoal
