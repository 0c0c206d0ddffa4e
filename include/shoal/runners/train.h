#pragma once

#include <filesystem>

#include "shoal/distributed/job_place.h"
#include "shoal/runners/session.h"

namespace shoal {

// How a training run ended.
struct TrainingEnd {
  int signal = 0;             // that stopped it; 0: none
  bool solved = false;        // Config::stop_return was reached
  std::int64_t episodes = 0;  // that ended
  double mean_return = 0;     // mean score of the last 100 of them
};

// A whole training run as the configuration describes it, in the order that forks demand, or the
// rest of one. Config::ranks processes do it together, forked here; several may not be asked for
// once this one has threads. With the processes of a job, each has as many of the ranks; all call
// this, with the same settings and a folder that all can see. Throws Error for a mistake that shows
// before training begins; after that WorkerError if a worker fails (of several ranks, RankError,
// whatever fails), and std::runtime_error for whatever else does.
TrainingEnd train(const Config& config, const std::filesystem::path& folder,
                  const SessionOptions& options = {}, const JobPlace& job = {});

// The processes of a job, each as one rank, by Config::rank_backend and rank_timeout. Throws Error
// if there is no such backend.
std::unique_ptr<ProcessGroup> make_job_group(const Config& config, const JobPlace& job);

}  // namespace shoal
