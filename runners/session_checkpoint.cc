#include <ATen/core/Tensor.h>
#include <ATen/ops/full.h>
#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "runners/metric_means.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "shoal/core/stop.h"
#include "shoal/data/saved.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/session.h"
#include "src/core/print.h"

namespace fs = std::filesystem;

// Session: checkpoints.
namespace shoal {

namespace {

// A counter of the best checkpoint: 1 if its return is that of an evaluation, 0 if that of
// training.
constexpr const char* kEvaluated = "evaluated";

}  // namespace

// Independent of the number of ranks that saved it.
NamedTensors Session::sampler_state() const {
  auto all = with_prefix("sampler/", resumed_.tensors);
  if (all.empty() || ranks_.count() == 1) return all;
  const auto envs = config_.sampler.envs / ranks_.count();
  return part_of_saved(all, envs * ranks_.rank(), envs);
}

void Session::restore() {
  const auto& tensors = resumed_.tensors;
  restore_agent(resumed_, folder() / checkpoint_, *agent_);
  restore_all(tensors, "algo/", algo_->state());
  if (replay_ != nullptr) replay_->restore(saved_replay());
  episodes_.restore(with_prefix("episodes/", tensors));
  means_->restore(with_prefix("metrics/", tensors));
  if (fs::exists(folder() / kBestFile)) {
    const auto best = read_checkpoint(folder() / kBestFile);
    const std::int64_t evaluated = config_.eval_steps > 0;
    if (!best.counters.contains(kEvaluated) || best.counters.at(kEvaluated) == evaluated)
      best_return_ = saved(best.tensors, "return").item<double>();
  }
  steps_ = saved_steps_ = timed_steps_ = resumed_.counters.at("steps");
  row_steps_ = resumed_.counters.at("row_steps");
  updates_ = resumed_.counters.at("updates");
  resumed_ = {};
}

// The saved replay of this rank's environments, for any number of ranks that saved it.
NamedTensors Session::saved_replay() const {
  const auto parts = resumed_.counters.at("replay_parts");
  const auto read = [&](std::int64_t part) {
    return parts == 1
               ? with_prefix("replay/", resumed_.tensors)
               : checkpoints_.read_replay(resumed_.counters.at("steps"), static_cast<int>(part));
  };
  if (parts == ranks_.count()) return read(ranks_.rank());
  const auto envs = config_.sampler.envs / ranks_.count(), first = envs * ranks_.rank();
  std::vector<NamedTensors> own;
  std::int64_t before = 0;
  for (std::int64_t part = 0; part < parts; ++part) {
    const auto saved = read(part);
    const auto end = before + envs_of_saved_replay(saved);
    const auto from = std::max(first, before), to = std::min(first + envs, end);
    if (from < to) own.push_back(part_of_saved_replay(saved, from - before, to - from));
    before = end;
  }
  return join_saved_replays(own);
}

// Called before anything is written, so that the last checkpoint stays valid.
void Session::require_finite_parameters() const {
  try {
    require_finite(agent_->parameters());
  } catch (const Error& e) {
    throw DataError(fmt::format(
        "after {} steps and {} updates the agent's {}: it has diverged; lower the learning rate. "
        "No checkpoint is written; earlier ones are kept",
        steps_, updates_, e.what()));
  }
}

// Saving a large replay takes seconds; checkpoints take at most a twentieth of the time.
bool Session::pause_is_over() const {
  return seconds() - saved_seconds_ >= std::max(config_.checkpoint_seconds, 20 * saving_);
}

bool Session::checkpoint_is_due() const {
  const bool by_time = ranks_.count() == 1 ? pause_is_over() : agreed_checkpoint_;
  return by_time || checkpoint_steps_are_over();
}

bool Session::checkpoint_steps_are_over() const {
  const auto every = config_.checkpoint_steps;
  return every > 0 && steps_ / every > saved_steps_ / every;
}

// If environments do not save themselves in time, saves everything except them.
NamedTensors Session::own_sampler_state(bool reset_others) {
  renew_stop_grace();
  try {
    return sampler_->save(reset_others);
  } catch (const Interrupted& e) {
    say_given_up(e, "environments are not saved, and will begin new episodes");
    return sampler_->save(reset_others);
  }
}

NamedTensors Session::of_all_ranks(const NamedTensors& own) {
  if (ranks_.count() == 1) return own;
  std::vector<NamedTensors> all;
  for (const auto& bytes : ranks_.gather(to_bytes(own))) all.push_back(from_bytes(bytes));
  return join_saved(all);
}

// Each rank writes its own replay, because replays are large. The checkpoint refers to them only
// once all of them are written.
void Session::save_replay(Checkpoint& checkpoint) {
  checkpoint.counters.add("replay_parts", ranks_.count());
  if (ranks_.count() == 1) {
    add_with_prefix("replay/", replay_->save(), checkpoint.tensors);
  } else {
    checkpoints_.write_replay(replay_->save(), steps_, ranks_.rank());
    ranks_.gather({});
  }
}

void Session::save_checkpoint() {
  require_finite_parameters();
  const double start = seconds();
  // Only these checkpoints come at the same steps in every run, so only they may reset
  // environments.
  const bool by_steps = checkpoint_steps_are_over();
  const auto own = sampler_ == nullptr ? NamedTensors() : own_sampler_state(by_steps);
  const StopDeferred all_ranks_write;
  Checkpoint checkpoint;
  checkpoint.counters = counters();
  checkpoint.algo = config_.algo;
  auto& all = checkpoint.tensors;
  add_with_prefix("agent/", agent_->parameters(), all);
  add_with_prefix("algo/", algo_->state(), all);
  add_with_prefix("episodes/", episodes_.save(), all);
  add_with_prefix("metrics/", means_->save(), all);
  all.add("return", at::full({}, episodes_.mean_score(), at::kDouble));
  if (sampler_ != nullptr) add_with_prefix("sampler/", of_all_ranks(own), all);
  if (replay_ != nullptr) save_replay(checkpoint);
  if (leads()) {
    progress_.sync();
    for (const auto& sink : sinks_) sink->sync();
    checkpoints_.write(checkpoint, steps_);
  }
  if (config_.eval_steps == 0 && episodes_.full()) save_if_best(episodes_.mean_score());
  say_what_cannot_be_saved(all);
  saved_seconds_ = seconds();
  saving_ = saved_seconds_ - start;
  logging_ += saving_;
  saved_steps_ = steps_;
}

// Saves the agent only: training is not resumed from the best checkpoint.
void Session::save_if_best(double score) {
  if (!leads() || !(score > best_return_)) return;
  require_finite_parameters();
  best_return_ = score;
  Checkpoint best;
  best.counters = counters();
  best.counters.add(kEvaluated, config_.eval_steps > 0);
  best.algo = config_.algo;
  add_with_prefix("agent/", agent_->parameters(), best.tensors);
  best.tensors.add("return", at::full({}, score, at::kDouble));
  checkpoints_.write_best(best);
}

Named<std::int64_t> Session::counters() const {
  return {{"steps", steps_},
          {"row_steps", row_steps_},
          {"updates", updates_},
          {"episodes", episodes_.total()}};
}

void Session::say_what_cannot_be_saved(const NamedTensors& checkpoint) {
  if (quiet_ || said_) return;
  said_ = true;
  std::int64_t lost = 0;
  for (const auto& [name, tensor] : checkpoint)
    lost += name.starts_with("sampler/env/") && tensor.numel() == 0;
  if (lost == 0) return;
  console_.finish_line();
  const auto what = config_.asynchronous ? "an asynchronous sampler does not save environments"
                                         : config_.env_id + " cannot be saved";
  print_to_console(fmt::format(
      "{}: {} environments will begin new episodes if this run is resumed\n", what, lost));
}

// Explains why the states of environments are missing in the checkpoint.
void Session::say_given_up(const Interrupted& why, const char* lost) {
  said_ = true;
  console_.finish_line();
  print_error("{} (stop_grace): {}\n", why.what(), lost);
}

}  // namespace shoal
