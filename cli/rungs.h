#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cli/sweep.h"

namespace shoal::cli {

// Asynchronous successive halving (Li et al., "A system for massively parallel hyperparameter
// tuning", arXiv 1810.05934). Says which trial to train next: one that is among the best 1/factor
// of those that have reached its rung, the highest rung first; otherwise one that has not begun. If
// nothing else is left, the best trial goes on to the end.
class Rungs {
 public:
  explicit Rungs(const Halving& halving);

  int count() const { return static_cast<int>(steps_.size()); }
  std::int64_t steps(int rung) const { return steps_[static_cast<std::size_t>(rung)]; }

  std::size_t add_trial();  // its number: 0, 1, ...
  // The trial has taken the steps of the rung, or was solved before.
  void record(std::size_t trial, int rung, double score, bool solved);
  // The trial has failed, and is not trained again.
  void give_up(std::size_t trial) {
    trials_[trial].lost = true;
    trials_[trial].busy = false;
  }

  struct Job {
    std::size_t trial;
    int rung;
  };
  // Marks the trial as being trained until it is recorded.
  std::optional<Job> next();

  int reached(std::size_t trial) const {  // its highest rung; -1: none
    return static_cast<int>(trials_[trial].scores.size()) - 1;
  }
  bool solved() const;
  // A solved trial, or the best one of the highest rung reached by any that has not failed.
  std::optional<std::size_t> best() const;

 private:
  struct Trial {
    std::vector<double> scores;  // of the rungs that it has reached
    bool busy = false, lost = false, solved = false;
    bool is_free() const { return !busy && !lost; }
  };
  Job start(std::size_t trial);
  std::vector<std::size_t> ranked(int rung) const;  // the trials that have reached it, best first

  int factor_;
  std::vector<std::int64_t> steps_;
  std::vector<Trial> trials_;
};

}  // namespace shoal::cli
