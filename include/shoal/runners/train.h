#pragma once

#include <filesystem>

#include "shoal/distributed/job_place.h"
#include "shoal/runners/session.h"

namespace shoal {

// The outcome of a training run.
struct TrainingEnd {
  int signal = 0;             // signal that stopped it; 0: none
  std::int64_t steps = 0;     // steps taken, including those before a resume
  bool solved = false;        // Config::stop_return was reached
  std::int64_t episodes = 0;  // finished episodes
  double mean_return = 0;     // mean score of the last 100 of them; NaN if there are none
};

// Runs the training that the configuration describes, or resumes it, in the order that forking
// requires. Forks Config::ranks processes; with several, the caller must not have threads. In a job
// of several processes, each forks an equal share of the ranks; all processes call this function
// with the same settings and a folder that all of them can access. Throws Error for a mistake that
// is found before training begins. After that it throws WorkerError if a worker fails, and
// std::runtime_error instead of Error; with several ranks in this process RankError for any
// failure, in a job of one rank per process std::runtime_error.
TrainingEnd train(const Config& config, const std::filesystem::path& folder,
                  const SessionOptions& options = {}, const JobPlace& job = {});

// A process group of the processes of a job, one rank per process, by Config::rank_backend and
// rank_timeout (nccl: the group beneath it). Throws Error if the backend is not available.
std::unique_ptr<ProcessGroup> make_job_group(const Config& config, const JobPlace& job);

}  // namespace shoal
