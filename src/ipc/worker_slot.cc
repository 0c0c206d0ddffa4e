#include "src/ipc/worker_slot.h"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <cstring>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "src/ipc/child_process.h"

namespace shoal {

void WorkerGroup::Slot::finish(Outcome how, std::string_view text) {
  const auto n = std::min(text.size(), sizeof(message) - 1);
  std::memcpy(message, text.data(), n);
  message[n] = 0;
  outcome.store(how, std::memory_order_release);
}

void WorkerGroup::Slot::begin_anew() {
  phase.store(WorkerStatus::kWaiting, std::memory_order_relaxed);
  env.store(-1, std::memory_order_relaxed);
  step.store(-1, std::memory_order_relaxed);
  pid.store(0, std::memory_order_relaxed);  // reaped; it may belong to another process now
  outcome.store(kRunning, std::memory_order_relaxed);
  stepped.store(false, std::memory_order_relaxed);
  wanted.store(wanted.load(std::memory_order_relaxed) + 1, std::memory_order_release);
}

std::string WorkerGroup::Slot::doing() const {
  static constexpr const char* kVerbs[] = {"waiting", "constructing", "resetting", "stepping",
                                           "saving"};
  const auto verb = kVerbs[phase.load(std::memory_order_relaxed)];
  const auto in = env.load(std::memory_order_relaxed), at = step.load(std::memory_order_relaxed);
  if (in < 0) return verb;
  return fmt::format("{} environment {}{}", verb, in, at < 0 ? "" : fmt::format(" at step {}", at));
}

void WorkerStatus::enter(Phase phase, std::int64_t env, std::int64_t step) {
  end_if_forked_by_worker();
  // The phase is written last, with release: a reader of the phase and then the beat never takes a
  // new call for an old one.
  auto& slot = *static_cast<WorkerGroup::Slot*>(slot_);
  if (slot.phase.load(std::memory_order_relaxed) == kStepping)
    slot.stepped.store(true, std::memory_order_relaxed);
  slot.beat.store(slot.beat.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  slot.env.store(env, std::memory_order_relaxed);
  slot.step.store(step, std::memory_order_relaxed);
  slot.phase.store(phase, std::memory_order_release);
}

int WorkerStatus::past_lives() const {
  return static_cast<int>(
             static_cast<WorkerGroup::Slot*>(slot_)->wanted.load(std::memory_order_relaxed)) -
         1;
}

std::string describe_end(int status) {
  if (WIFSIGNALED(status)) {
    const int number = WTERMSIG(status);
    return fmt::format("was killed by {}{}", signal_name(number),
                       number == SIGKILL ? " (possibly by the kernel, out of memory)" : "");
  }
  return fmt::format("ended with status {}", WEXITSTATUS(status));
}

}  // namespace shoal
