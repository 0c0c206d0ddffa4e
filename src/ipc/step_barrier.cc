#include "shoal/ipc/step_barrier.h"

#include <new>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
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
  const auto last = worker_words_[worker].done.load(std::memory_order_relaxed);
  const auto released = [last](std::uint32_t value) { return value != last; };
  if (poll(words_->generation, spin_, released)) return true;
  words_->sleepers.fetch_add(1, std::memory_order_seq_cst);
  const bool in_time = park(words_->generation, deadline_of(timeout), released);
  words_->sleepers.fetch_sub(1, std::memory_order_relaxed);
  return in_time;
}

int default_spin(int processes) {
  // About 0.1 ms: longer than a batch step of a small environment, shorter than a time slice. With
  // more processes than cores, a spinning process keeps the awaited one from running.
  constexpr int kPolls = 2000;
  return static_cast<std::size_t>(processes) > allowed_cores().size() ? 0 : kPolls;
}

}  // namespace shoal
