#include "shoal/runners/session.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "shoal/core/error.h"
#include "shoal/runners/checkpoint.h"
#include "shoal/runners/version.h"

namespace shoal {

// Where the time since the last row went, as fractions of it.
struct Session::Shares {
  double acting, waiting, learning;
};

Session::Session(const Config& config, const std::filesystem::path& folder, bool quiet)
    : config_(config), folder_(folder), console_(quiet) {
  validate(config);
}

Session::~Session() = default;

void Session::begin(Agent& agent, OnPolicyAlgo& algo) {
  agent_ = &agent;
  algo_ = &algo;
  write_file(folder() / kConfigFile, write_config(config_));
  folder_.keep();
  progress_.open(folder() / kProgressFile);
  require_progress();
  start_ = learning_since_ = Clock::now();
  checkpoint_at_ = config_.checkpoint_seconds;
}

double Session::seconds() const {
  return std::chrono::duration<double>(Clock::now() - start_).count();
}

bool Session::solved() const {
  return episodes_.full() && episodes_.mean_score() >= config_.stop_return;
}

bool Session::running() const { return steps_ < config_.steps && !solved() && stop_signal() == 0; }

Progress Session::advance(const Batch& batch) {
  const Progress progress{
      .steps = steps_,
      .schedule_steps = config_.schedule_steps > 0 ? config_.schedule_steps : config_.steps};
  steps_ += batch.samples.steps;
  episodes_.add(batch.episodes);
  if (updates_ == 0) infos_ = batch.infos;
  require(infos_ == batch.infos,
          "this window has infos [{}], the first one had [{}]; the columns of {} are those of the "
          "first; report windows of one kind",
          fmt::join(batch.infos, ", "), fmt::join(infos_, ", "), kProgressFile);
  learning_since_ = Clock::now();
  return progress;
}

void Session::report(const Metrics& metrics, const SamplerTimes& times) {
  const double learning = std::chrono::duration<double>(Clock::now() - learning_since_).count();
  const double now = seconds(), elapsed = std::max(now - row_seconds_, 1e-9);
  const double sps = static_cast<double>(steps_ - row_steps_) / elapsed;
  ++updates_;
  write_row(metrics,
            {(times.acting - row_times_.acting) / elapsed,
             (times.waiting - row_times_.waiting) / elapsed, learning / elapsed},
            sps);
  row_steps_ = steps_;
  row_seconds_ = now;
  row_times_ = times;
  console_.show({.steps = steps_,
                 .total = config_.steps,
                 .episodes = episodes_.total(),
                 .seconds = now,
                 .sps = sps,
                 .mean_return = episodes_.mean_score()},
                !running());
  if (now >= checkpoint_at_) {
    save_checkpoint();
    checkpoint_at_ = seconds() + config_.checkpoint_seconds;
  }
}

void Session::write_row(const Metrics& metrics, const Shares& shares, double sps) {
  if (updates_ == 1) {
    progress_ << "steps,seconds,sps,updates,episodes,return_mean,return_min,return_max,length_mean,"
                 "share_acting,share_waiting,share_learning";
    for (const auto& name : infos_) progress_ << ",info_" << name << "_mean";
    for (const auto& [name, value] : metrics) progress_ << ',' << name;
    progress_ << '\n';
  }
  progress_ << fmt::format(
      "{},{:.3f},{:.0f},{},{},{:.6g},{:.6g},{:.6g},{:.6g},{:.4f},{:.4f},{:.4f}", steps_, seconds(),
      sps, updates_, episodes_.total(), episodes_.mean_score(), episodes_.min_score(),
      episodes_.max_score(), episodes_.mean_length(), shares.acting, shares.waiting,
      shares.learning);
  for (std::size_t i = 0; i < infos_.size(); ++i)
    progress_ << fmt::format(",{:.6g}", episodes_.mean_info(i));
  for (const auto& [name, value] : metrics) progress_ << fmt::format(",{:.6g}", value);
  progress_ << std::endl;  // flushed: whoever watches the file sees whole rows
  require_progress();
}

void Session::require_progress() const {
  require(progress_.good(), "cannot write {}: {}", (folder() / kProgressFile).string(),
          std::strerror(errno));
}

void Session::save_checkpoint() {
  Checkpoint checkpoint;
  checkpoint.counters = {{"steps", steps_}, {"updates", updates_}, {"episodes", episodes_.total()}};
  for (const auto& [name, tensor] : agent_->parameters())
    checkpoint.tensors.add("agent/" + name, tensor);
  for (const auto& [name, tensor] : algo_->state()) checkpoint.tensors.add("algo/" + name, tensor);
  write_checkpoint(folder() / kCheckpointFile, checkpoint);
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
                                    {"solved", solved()}};
  if (!std::isnan(episodes_.mean_score())) summary["final_return"] = episodes_.mean_score();
  write_file(folder() / kSummaryFile, summary.dump(2) + "\n");
}

void Session::finish() {
  console_.finish_line();
  save_checkpoint();
  save_summary();
}

}  // namespace shoal
