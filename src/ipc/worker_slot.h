#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "shoal/ipc/worker_group.h"

namespace shoal {

// What one worker tells its parent, in shared memory. Written by the worker only.
struct alignas(64) WorkerGroup::Slot {
  // kBadData: it threw a DataError.
  enum Outcome : std::uint32_t { kRunning, kThrew, kBadData, kExited, kReturned };

  std::atomic<std::uint64_t> beat{0};  // counts changes of phase
  std::atomic<std::uint32_t> phase{WorkerStatus::kWaiting};
  std::atomic<std::uint32_t> outcome{kRunning};  // released after `message`
  std::atomic<std::int64_t> env{-1}, step{-1};
  // OnDeath::kRestart: which of its processes is wanted, runs, and has ended, counted from 1.
  std::atomic<std::uint32_t> wanted{1}, started{0}, ended{0};
  std::atomic<pid_t> pid{0};   // written before `started`
  std::atomic<int> status{0};  // of the one that ended, as of waitpid(); before `ended`
  char message[4096] = {};     // a traceback takes some room

  void begin_anew();
  void finish(Outcome how, std::string_view text);
  std::string doing() const;  // "stepping environment 5 at step 12"
};

// How a process ended, from what waitpid() said of it: "was killed by SIGABRT", "ended with status
// 3".
std::string describe_end(int status);

}  // namespace shoal
