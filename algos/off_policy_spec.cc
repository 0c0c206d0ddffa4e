#include <algorithm>

#include "shoal/algos/algo_spec.h"
#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/replays/step_replay.h"

namespace shoal {

OptionList describe(OffPolicyOptions& o) {
  OptionList list("off_policy");
  list.add("learning_starts", o.learning_starts,
           "steps with random actions before learning begins");
  list.add("replay_ratio", o.replay_ratio, "steps drawn from the replay for each agent step",
           above_0(1e6));
  list.add("epsilon_each", o.epsilon_each,
           "each environment has its own epsilon, from epsilon_end to epsilon_last");
  return list;
}

OptionList describe(ReplayOptions& r) {
  OptionList list("replay");
  list.add("size", r.size, "steps in the replay", within(1, 0x1p40));
  list.add("n_step", r.n_step, "n of n-step returns", within(1, 255));
  list.add("discount", r.discount, "gamma", kShare);
  list.add("prioritized", r.prioritized, "sample in proportion to priorities, not uniformly");
  list.add("alpha", r.alpha, "exponent of the priorities", kShare);
  list.add("slices", r.slices,
           "slices of environments; every batch takes equal parts of each; 0: one for each rank",
           within(0, 1e6));
  list.add("shared", r.shared,
           "all ranks, on one machine, share a replay; otherwise each has its own");
  return list;
}

namespace {

StepReplayOptions step_options(const RunOptions& run, std::int64_t batch, int ranks, int rank) {
  const auto& r = run.replay;
  const int slices = std::max(1, r.slices / ranks);
  return {.size = r.size / ranks,
          .n_step = r.n_step,
          .discount = r.discount,
          .prioritized = r.prioritized,
          .alpha = r.alpha,
          .seed = run.seed,
          .largest_batch = batch / ranks,
          .slices = slices,
          .first_slice = rank * slices};
}

}  // namespace

void OffPolicySpec::check(const RunOptions& run) const {
  require(run.model.memory == MemoryKind::kNone,
          "model.memory: found a recurrent cell, but algo '{}' learns from single steps; set "
          "model.memory to none, or choose r2d1, ppo, a2c or impala",
          name());
  check_replay(run);
}

void OffPolicySpec::check_replay(const RunOptions& run) const {
  const auto& r = run.replay;
  const auto rollout = run.envs * run.horizon;
  require(r.size >= rollout,
          "replay.size: found {}, expected at least the {} steps of a rollout (sampler.horizon x "
          "sampler.envs)",
          r.size, rollout);
  require(r.slices <= 1 || !r.shared,
          "replay.slices: found {}, expected 0: ranks that share a replay (replay.shared) draw "
          "uniformly from all environments",
          r.slices);
  const int slices = r.slices > 0 && !r.shared ? r.slices : run.ranks;
  require(
      slices % run.ranks == 0 && run.envs % slices == 0,
      "replay.slices: found {}, expected a multiple of ranks, {}, that divides sampler.envs, {}",
      slices, run.ranks, run.envs);
  require(r.size % run.ranks == 0, "replay.size: found {}, expected a multiple of ranks, {}",
          r.size, run.ranks);
  require(batch() % slices == 0,
          "{}.batch: found {}, expected a multiple of the number of slices, {} (replay.slices, or "
          "ranks)",
          name(), batch(), slices);
}

std::size_t OffPolicySpec::replay_bytes(const EnvSpec& env, const Agent&,
                                        const RunOptions& run) const {
  return StepReplay::bytes(env, run.envs, step_options(run, batch(), 1, 0));
}

std::unique_ptr<Replay> OffPolicySpec::make_replay(const EnvSpec& env, const Agent&,
                                                   const RunOptions& run, ProcessGroup& ranks,
                                                   const ReplayMemory* memory) const {
  if (memory == nullptr)
    return std::make_unique<StepReplay>(env, run.envs / ranks.count(),
                                        step_options(run, batch(), ranks.count(), ranks.rank()));
  auto all = step_options(run, batch(), 1, 0);
  all.slices = 1;
  return std::make_unique<StepReplay>(env, run.envs, all, ranks, *memory);
}

}  // namespace shoal
