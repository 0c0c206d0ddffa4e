#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "shoal/ipc/worker_group.h"

namespace shoal {

// A worker's report to its parent, in shared memory. Only the worker writes it.
struct alignas(64) WorkerGroup::Slot {
  // kBadData: the worker threw a DataError.
  enum Outcome : std::uint32_t { kRunning, kThrew, kBadData, kExited, kReturned };

  std::atomic<std::uint64_t> beat{0};  // counts changes of phase
  std::atomic<std::uint32_t> phase{WorkerStatus::kWaiting};
  std::atomic<std::uint32_t> outcome{kRunning};  // released after `message`
  std::atomic<std::int64_t> env{-1}, step{-1};
  std::atomic<bool> stepped{false};  // this process has completed a step
  // OnDeath::kRestart: serial numbers, from 1, of the worker's process that is wanted, started,
  // ended.
  std::atomic<std::uint32_t> wanted{1}, started{0}, ended{0};
  std::atomic<pid_t> pid{0};   // written before `started`
  std::atomic<int> status{0};  // waitpid() status of the ended process; written before `ended`
  char message[4096] = {};     // long enough for a traceback

  void begin_anew();
  void finish(Outcome how, std::string_view text);
  std::string doing() const;  // "stepping environment 5 at step 12"
};

// Describes a waitpid() status: "was killed by SIGABRT", "ended with status 3".
std::string describe_end(int status);

}  // namespace shoal
