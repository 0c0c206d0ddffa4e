#include "shoal/ipc/step_barrier.h"

#include <algorithm>
#include <new>
#include <optional>

#include "shoal/core/error.h"
#include "shoal/ipc/worker_group.h"
#include "src/ipc/core_binding.h"
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
  auto& own = worker_words_[worker];
  count_step(own);
  own.done.fetch_add(1, std::memory_order_seq_cst);
  const auto awaited = words_->server_parked.load(std::memory_order_seq_cst);
  if (awaited == static_cast<std::uint32_t>(worker) + 1) futex_wake_all(own.done);
}

// Short steps gain nothing: waking an idle core takes about as long. One long step may be chance,
// and short resets may come between long rollouts.
void StepBarrier::count_step(WorkerWord& own) {
  constexpr std::chrono::microseconds kLong{100};
  if (own.began == Clock::time_point{}) return;
  const bool is_long = Clock::now() - own.began > kLong;
  own.long_steps =
      is_long ? std::min(own.long_steps + 2, 2 * kLongEnough) : std::max(own.long_steps - 1, 0);
}

bool StepBarrier::has_arrived(int worker) const {
  return worker_words_[worker].done.load(std::memory_order_relaxed) ==
         words_->generation.load(std::memory_order_acquire);
}

bool StepBarrier::wait_release(int worker, std::chrono::milliseconds timeout) {
  auto& own = worker_words_[worker];
  const auto last = own.done.load(std::memory_order_relaxed);
  const auto released = [last](std::uint32_t value) { return value != last; };
  bool in_time = poll(words_->generation, spin_, released);
  if (!in_time) {
    std::optional<CoreBinding> binding;
    if (own.long_steps >= kLongEnough) {
      binding.emplace([&](int core) { return claims_before(worker, core); });
      own.core.store(binding->core(), std::memory_order_relaxed);
    }
    words_->sleepers.fetch_add(1, std::memory_order_seq_cst);
    in_time = park(words_->generation, deadline_of(timeout), released);
    words_->sleepers.fetch_sub(1, std::memory_order_relaxed);
  }
  if (in_time) own.began = Clock::now();
  return in_time;
}

// A worker gives way to those with lower numbers, so that two never give way to each other.
int StepBarrier::claims_before(int worker, int core) const {
  int claims = 0;
  for (int w = 0; w < worker; ++w)
    claims += worker_words_[w].core.load(std::memory_order_relaxed) == core ? 1 : 0;
  return claims;
}

int default_spin(int processes) {
  // About 0.1 ms: longer than a batch step of a small environment, shorter than a time slice. With
  // more processes than cores, a spinning process keeps the awaited one from running.
  constexpr int kPolls = 2000;
  return static_cast<std::size_t>(processes) > allowed_cores().size() ? 0 : kPolls;
}

}  // namespace shoal
