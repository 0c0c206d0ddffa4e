#include "shoal/runners/session.h"

#include <ATen/ops/full.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "runners/console_table.h"
#include "runners/limits.h"
#include "runners/metric_means.h"
#include "runners/rank_status.h"
#include "runners/tensorboard.h"
#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "shoal/core/option.h"
#include "shoal/core/text.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/failure_file.h"
#include "shoal/runners/live_evaluation.h"
#include "shoal/runners/trained_agent.h"
#include "shoal/runners/version.h"

namespace fs = std::filesystem;

namespace shoal {

// How the time since the last row was spent, as fractions of it.
struct Session::Shares {
  double stepping, acting, waiting, learning, logging;
  double other() const {  // rounding must not make it negative
    return std::max(0.0, 1 - stepping - acting - waiting - learning - logging);
  }
};

namespace {

// Removes the files that a new attempt does not overwrite at once.
void forget_attempt(const fs::path& folder) {
  for (const auto& entry : fs::directory_iterator(folder)) {
    const auto name = entry.path().filename().string();
    if (name == kBestFile || name.starts_with("events.out.tfevents")) fs::remove(entry);
  }
  forget_failures(folder);
}

// An evaluation has no statistics of rewards, so that a memory would see others than in training.
void require_equal_rewards(const Config& config) {
  const bool sees = config.model.memory != MemoryKind::kNone && config.model.memory_sees_previous;
  require(!sees || !config.env.normalize_reward,
          "env.normalize_reward: found true with a memory that sees the previous reward, which an "
          "evaluation does not scale as the training does; set model.memory_sees_previous, or "
          "env.normalize_reward, to false");
}

// Called before any worker is forked; the weights are read once there is an agent.
void require_weights(const fs::path& trained) {
  try {
    require_trained(trained);
  } catch (const Error& e) {
    throw Error("init_from: {}", e.what());
  }
}

// Throws Error unless a run can be resumed from this checkpoint.
void check_counters(const Checkpoint& checkpoint, const fs::path& file) {
  const auto check = [&](const char* name, std::int64_t low, std::int64_t high) {
    require(checkpoint.counters.contains(name),
            "{} is not a checkpoint of a run: it has no counter '{}'", file.string(), name);
    const auto found = checkpoint.counters.at(name);
    require(found >= low && found <= high,
            "{} cannot be used: counter '{}' is {}, expected {} to {}", file.string(), name, found,
            low, high);
    return found;
  };
  const auto steps = check("steps", 0, kMostSteps);
  check("row_steps", 0, steps);
  check("updates", 0, std::numeric_limits<std::int64_t>::max());
  if (checkpoint.counters.contains("replay_parts")) check("replay_parts", 1, kMostRanks);
}

}  // namespace

Session::Session(const Config& config, const std::filesystem::path& folder,
                 const SessionOptions& options)
    : config_(config),
      signals_(options.ends_at_once ? SignalGuard::First::kEndsAtOnce : SignalGuard::First::kAsks),
      ranks_(*options.ranks),
      path_(folder),
      console_(options.quiet || !leads()),
      quiet_(options.quiet || !leads()),
      resumes_(options.resume),
      checkpoint_(options.checkpoint),
      heading_(options.heading),
      checkpoints_(folder, config.keep_checkpoints),
      means_(std::make_unique<MetricMeans>()) {
  set_stop_grace(std::chrono::milliseconds(std::llround(1e3 * config.stop_grace)));
  std::error_code error;  // the reader of a file reports that it cannot be read
  if (leads()) {
    const bool begun = resumes_ || options.again;
    folder_.emplace(folder, begun ? RunFolder::Kind::kExisting : RunFolder::Kind::kNew);
    if (options.again) forget_attempt(folder);
  }
  // A run that is resumed with more steps keeps its schedules.
  if (config_.schedule_steps == 0) config_.schedule_steps = config_.steps;
  validate(config_);
  if (!resumes_) require_equal_rewards(config_);
  if (!resumes_ && !config_.init_from.empty()) require_weights(config_.init_from);
  if (!resumes_) return;
  const auto file = folder / checkpoint_;
  require(
      fs::exists(file, error) || error,
      "there is no {}: the run in {} was stopped before its first checkpoint; start it again in "
      "another folder",
      checkpoint_, folder.string());
  resumed_ = read_checkpoint(file);
  check_counters(resumed_, file);
  require(resumed_.algo.empty() || resumed_.algo == config_.algo,
          "algo: found '{}', but the run in {} was saved by '{}', which alone can resume it; "
          "start another run from its weights with --init-from {}",
          config_.algo, folder.string(), one_line(resumed_.algo), shell_word(folder.string()));
  const auto taken = resumed_.counters.at("steps");
  require(
      taken < config_.steps,
      "the run in {} has taken {} of its {} steps; give more with --steps, and longer schedules "
      "with schedule_steps if its learning rate has reached 0",
      folder.string(), taken, config_.steps);
}

Session::~Session() = default;

FailureHandler Session::failure_handler() const { return keep_failures(path_, config_); }

void Session::begin(Agent& agent, Algo& algo, Sampler* sampler, Replay* replay) {
  agent_ = &agent;
  algo_ = &algo;
  sampler_ = sampler;
  replay_ = replay;
  if (resumes_) {
    restore();
  } else if (!config_.init_from.empty()) {
    restore_trained(config_.init_from, agent, kCheckpointFile, /*keep_exploration=*/true);
  }
  const auto settings = write_config(config_);
  require_equal(ranks_, "the settings", std::as_bytes(std::span(settings)));
  require_equal(ranks_, "the parameters", agent.parameters());
  if (const int signal = signals_.caught()) throw Interrupted(signal);
  signals_.remember();
  if (leads()) open_files(settings);
  start_ = learning_since_ = Clock::now();
}

void Session::open_files(const std::string& settings) {
  write_file(folder() / kConfigFile, settings);
  folder_->keep();
  if (resumes_) {
    fs::remove(folder() / kSummaryFile);  // of an end that no longer holds
    checkpoints_.go_back(checkpoint_, steps_);
    seconds_before_ = row_seconds_ = saved_seconds_ =
        progress_.resume(folder() / kProgressFile, steps_);
  } else {
    progress_.open(folder() / kProgressFile);
  }
  if (const auto evaluations = folder() / kEvaluationFile; fs::exists(evaluations))
    ProgressFile().resume(evaluations, steps_);
  if (!quiet_ && heading_) print_to_console(sampler_lines_ + heading_(config_) + "\n");
  if (config_.table_seconds > 0 && !quiet_) add_sink(make_console_table(config_.table_seconds));
  if (config_.tensorboard) add_sink(make_tensorboard(folder(), steps_, settings));
}

double Session::seconds() const {
  return seconds_before_ + std::chrono::duration<double>(Clock::now() - start_).count();
}

bool Session::solved() const {
  return episodes_.full() && episodes_.mean_score() >= config_.stop_return;
}

int Session::stop_signal() const {
  return ranks_.count() == 1 ? signals_.caught() : agreed_signal_;
}

std::string Session::ended_by() const {
  if (solved()) return "stop_return";
  if (steps_ >= config_.steps) return "steps";
  return stop_signal() != 0 ? signal_name(stop_signal()) : "loop";
}

bool Session::all_ranks(bool own) const {
  auto those = at::full({}, std::int64_t{own});
  ranks_.sum(those);
  return those.item<std::int64_t>() == ranks_.count();
}

bool Session::running() const { return steps_ < config_.steps && !solved() && stop_signal() == 0; }

Batch Session::collect(Sampler& sampler) {
  try {
    return sampler.collect();
  } catch (const std::exception& e) {
    if (dynamic_cast<const DataError*>(&e) != nullptr ||
        dynamic_cast<const WorkerDataError*>(&e) != nullptr)
      tell_ranks(e.what());
    throw;
  }
}

// Other ranks wait in advance() for the status of this rollout.
void Session::tell_ranks(const std::string& failure) {
  if (ranks_.count() == 1) return;
  try {
    exchange_status(ranks_, {.failure = failure}, config_.sampler.envs / ranks_.count());
  } catch (const RankError&) {
    return;  // other ranks have failed, too; this rank throws its own error
  }
}

Progress Session::advance(const Batch& batch) {
  const Progress before = progress();
  rollout_steps_ = steps_;
  if (ranks_.count() == 1) {
    steps_ += batch.samples.steps;
    episodes_.add(batch.episodes);
  } else {
    const auto status = exchange_status(ranks_,
                                        {.steps = batch.samples.steps,
                                         .signal = signals_.caught(),
                                         .saves = pause_is_over(),
                                         .episodes = batch.episodes},
                                        config_.sampler.envs / ranks_.count());
    if (!status.failure.empty()) throw DataError(status.failure);
    agreed_signal_ = status.signal;
    agreed_checkpoint_ = status.saves;
    steps_ += status.steps;
    episodes_.add(status.episodes);
  }
  if (!infos_) infos_ = batch.infos;
  require(
      *infos_ == batch.infos,
      "this rollout has infos [{}], but the first rollout had [{}], which are the columns of {}; "
      "report rollouts of one kind",
      fmt::join(batch.infos, ", "), fmt::join(*infos_, ", "), kProgressFile);
  learning_since_ = Clock::now();
  return before;
}

bool Session::row_is_due() const {
  const auto every = config_.log_steps;
  return every == 0 || steps_ / every > row_steps_ / every;
}

void Session::report(const Metrics& metrics, const SamplerTimes& times, std::int64_t updates) {
  learning_ += std::chrono::duration<double>(Clock::now() - learning_since_).count();
  updates_ += updates;
  means_->add(metrics);
  // After a last row between two that are due, a resumed run goes on as if it had not been written.
  const bool due = row_is_due();
  if (due || steps_ >= config_.steps || solved()) write_row(times);
  if (due) {
    row_steps_ = steps_;
    means_->clear();
  }
  for (const auto& [name, value] : metrics)
    if (name == kEvalReturn) save_if_best(value);
  if (checkpoint_is_due()) save_checkpoint();
  // They differ only after a hardware fault or a bug, which must not stay unnoticed.
  constexpr std::int64_t kBetweenLooks = 100;
  if (++reports_ % kBetweenLooks == 0)
    require_equal(ranks_, "the parameters", agent_->parameters());
}

void Session::write_row(const SamplerTimes& times) {
  require_finite_parameters();
  const double now = seconds(), elapsed = std::max(now - row_seconds_, 1e-9);
  const double sps = static_cast<double>(steps_ - timed_steps_) / elapsed;
  const auto row = row_of(means_->means(),
                          {.stepping = (times.stepping - row_times_.stepping) / elapsed,
                           .acting = (times.acting - row_times_.acting) / elapsed,
                           .waiting = (times.waiting - row_times_.waiting) / elapsed,
                           .learning = learning_ / elapsed,
                           .logging = logging_ / elapsed},
                          sps);
  if (leads()) progress_.write(row);
  for (const auto& sink : sinks_) sink->write(row);
  timed_steps_ = steps_;
  row_seconds_ = now;
  row_times_ = times;
  console_.show({.steps = steps_,
                 .total = config_.steps,
                 .episodes = episodes_.total(),
                 .seconds = now,
                 .sps = sps,
                 .mean_return = episodes_.mean_score()},
                !running());
  learning_ = 0;
  logging_ = seconds() - now;
}

bool Session::evaluation_is_due() const {
  const auto every = config_.eval_steps;
  return every > 0 && steps_ / every > rollout_steps_ / every;
}

LogRow Session::row_of(const Metrics& metrics, const Shares& shares, double sps) const {
  const auto score = episodes_.scores(), length = episodes_.lengths(),
             discounted = episodes_.discounted_rewards();
  LogRow row{.steps = steps_,
             .numbers = {{"seconds", seconds()},
                         {"sps", sps},
                         {"updates", updates_},
                         {"episodes", episodes_.total()},
                         {"return_mean", score.mean},
                         {"return_std", score.std},
                         {"return_min", score.min},
                         {"return_median", score.median},
                         {"return_max", score.max},
                         {"discounted_mean", discounted.mean},
                         {"length_mean", length.mean},
                         {"length_min", length.min},
                         {"length_median", length.median},
                         {"length_max", length.max},
                         {"nonzero_rewards_mean", episodes_.mean_nonzero_rewards()},
                         {"share_stepping", shares.stepping},
                         {"share_acting", shares.acting},
                         {"share_waiting", shares.waiting},
                         {"share_learning", shares.learning},
                         {"share_logging", shares.logging},
                         {"share_other", shares.other()}}};
  for (std::size_t i = 0; i < infos_->size(); ++i)
    row.numbers.emplace_back(fmt::format("info_{}_mean", infos_->at(i)), episodes_.mean_info(i));
  row.numbers.insert(row.numbers.end(), metrics.begin(), metrics.end());
  return row;
}

void Session::save_summary() const {
  const double end = seconds();
  nlohmann::ordered_json summary = {{"final_return", nullptr},
                                    {"steps", steps_},
                                    {"seconds", end},
                                    {"sps", static_cast<double>(steps_) / end},
                                    {"seed", config_.seed},
                                    {"version", kVersion},
                                    {"episodes", episodes_.total()},
                                    {"updates", updates_},
                                    {"solved", solved()},
                                    {"ended_by", ended_by()}};
  if (!std::isnan(episodes_.mean_score())) summary["final_return"] = episodes_.mean_score();
  write_file(folder() / kSummaryFile, summary.dump(2) + "\n");
}

void Session::give_up_rollout(const Interrupted& why) {
  if (ranks_.count() > 1) throw why;
  say_given_up(why, "the steps of this rollout are lost, and environments will begin new episodes");
}

void Session::finish() {
  console_.finish_line();
  save_checkpoint();
  if (leads()) save_summary();
  // Launchers end a job as soon as a signal has ended one of its processes.
  const StopDeferred all_ranks_end;
  if (ranks_.count() > 1) ranks_.gather({});
}

}  // namespace shoal
