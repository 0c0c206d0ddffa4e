#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>

#include "shoal/ipc/worker_group.h"

namespace shoal {

// The failure report of a group of two; fails the test if there is none for 20 s.
struct Failure {
  std::string text;
  int worker = -1;
  std::int64_t env = -1, step = -1;
};

inline Failure failure_of(const WorkerGroup::Body& body, const WorkerGroupOptions& options = {}) {
  WorkerGroup group(2, body, options);
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    try {
      group.check();
    } catch (const WorkerError& e) {
      for (const pid_t pid : group.pids()) EXPECT_EQ(kill(pid, 0), -1) << "left running";
      EXPECT_THROW(group.check(), WorkerError) << "a failed group stays failed";
      return {e.what(), e.worker, e.env, e.step};
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  ADD_FAILURE() << "no failure was noticed";
  return {};
}

[[noreturn]] inline void wait_forever() {
  for (;;) pause();
}

}  // namespace shoal
