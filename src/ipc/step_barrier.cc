#include "shoal/ipc/step_barrier.h"

#include <new>
#include <optional>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "src/ipc/one_core.h"
#include "src/ipc/waiting.h"

namespace shoal {
StepBarrier::StepBarrier(std::byte* memory, int workers, int spin)
    : words_(new (memory) Words),
      worker_words_(reinterpret_cast<WorkerWord*>(memory + sizeof(Words))),
      workers_(workers),
      spin_(spin) {
  require(workers >= 1, "a barrier for {} workers; expected at least 1", workers);
  for (int w = 0; w < workers; ++w) new (worker_words_ + w) WorkerWord;
}

void StepBarrier::release() {
  words_->generation.fetch_add(1, std::memory_order_seq_cst);
  if (words_->sleepers.load(std::memory_order_seq_cst) != 0) futex_wake_all(words_->generation);
}

bool StepBarrier::wait(int worker, std::chrono::milliseconds timeout) {
  auto& done = worker_words_[worker].done;
  const auto generation = words_->generation.load(std::memory_order_relaxed);
  const auto arrived = [generation](std::uint32_t value) { return value == generation; };
  if (poll(done, spin_, arrived)) return true;
  words_->server_parked.store(static_cast<std::uint32_t>(worker) + 1, std::memory_order_seq_cst);
  const bool in_time = park(done, deadline_of(timeout), arrived);
  words_->server_parked.store(0, std::memory_order_relaxed);
  return in_time;
}

void StepBarrier::arrive(int worker) {
  auto& done = worker_words_[worker].done;
  done.fetch_add(1, std::memory_order_seq_cst);
  const auto awaited = words_->server_parked.load(std::memory_order_seq_cst);
  if (awaited == static_cast<std::uint32_t>(worker) + 1) futex_wake_all(done);
}

bool StepBarrier::has_arrived(int worker) const {
  return worker_words_[worker].done.load(std::memory_order_relaxed) ==
         words_->generation.load(std::memory_order_acquire);
}

bool StepBarrier::wait_release(int worker, std::chrono::milliseconds timeout) {
  // To wake a core that is idle takes about as long. Something else may lengthen a single step.
  constexpr std::chrono::microseconds kLongStep{100};
  constexpr int kEnough = 2;
  using Clock = std::chrono::steady_clock;
  auto& own = worker_words_[worker];
  const auto last = own.done.load(std::memory_order_relaxed);
  const bool was_long = own.began != Clock::time_point{} && Clock::now() - own.began > kLongStep;
  own.long_steps = was_long ? own.long_steps + 1 : 0;
  const auto released = [last](std::uint32_t value) { return value != last; };
  bool in_time = poll(words_->generation, spin_, released);
  if (!in_time) {
    std::optional<OneCore> bound;
    if (own.long_steps >= kEnough)
      own.core.store(
          bound.emplace([&](int core) { return another_sleeps_on(core, worker); }).core(),
          std::memory_order_relaxed);
    words_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    in_time = park(words_->generation, deadline_of(timeout), released);
    words_->sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  if (in_time) own.began = Clock::now();
  return in_time;
}

bool StepBarrier::another_sleeps_on(int core, int worker) const {
  for (int w = 0; w < workers_; ++w)
    if (w != worker && worker_words_[w].core.load(std::memory_order_relaxed) == core) return true;
  return false;
}

int default_spin(int processes) {
  // About 0.1 ms: longer than a batch step of a small environment, shorter than a time slice. With
  // more processes than cores, a spinning process keeps the awaited one from running.
  constexpr int kPolls = 2000;
  return static_cast<std::size_t>(processes) > allowed_cores().size() ? 0 : kPolls;
}

}  // namespace shoal
