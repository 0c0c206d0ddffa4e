#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "shoal/core/arena.h"

namespace shoal {

// Lock-step handshake between one server and a group of workers, on futexes in shared memory.
//
//   server:             wait(w) for every worker w  ->  release()  ->  wait(w) ...
//   worker:  start up  ->  arrive(w)  ->  wait_release(w)  ->  step  ->  arrive(w) ...
//
// The start-up (construction and first reset of the environments) is a step without a release.
// After that a worker does one step per release, and the server releases the next step when every
// worker has arrived.
//
// The server's writes before release() are visible to a worker after wait_release(); a worker's
// writes before arrive() are visible to the server after wait(). Each worker's word and the wake
// word have their own cache lines. Every wait has a timeout, after which the waiter can check for
// deaths.
//
// Workers whose steps take more than 0.1 ms sleep on different cores, as far as there are enough,
// and so wake up there. Left to itself, Linux often wakes several on one core, and takes tens of
// milliseconds to move them apart.
class StepBarrier {
 public:
  // The layout in the arena.
  struct Words {
    alignas(64) std::atomic<std::uint32_t> generation{
        1};                                              // the current step; advanced by release()
    alignas(64) std::atomic<std::uint32_t> sleepers{0};  // workers parked on `generation`
    alignas(64) std::atomic<std::uint32_t> server_parked{
        0};  // 1 + the worker the server is parked on
  };
  struct alignas(64) WorkerWord {
    std::atomic<std::uint32_t> done{0};  // the last generation this worker finished
    std::atomic<int> core{-1};           // on which it last chose to sleep
    // Used by the worker only: when its step began, and a count that rises with long steps and
    // falls with short ones.
    std::chrono::steady_clock::time_point began = {};
    int long_steps = 0;
  };

  static std::size_t bytes(int workers) {
    return sizeof(Words) + static_cast<std::size_t>(workers) * sizeof(WorkerWord);
  }

  // Constructs the words in `memory` (64-byte aligned, at least bytes(workers)); call once, before
  // the fork. spin: polls before parking; 0 if workers and server together outnumber the cores.
  StepBarrier(std::byte* memory, int workers, int spin);

  // Server only. Starts the next step of every worker.
  void release();
  // Server only. True once worker w has arrived; false after the timeout.
  bool wait(int worker, std::chrono::milliseconds timeout);

  // Worker only. Reports that the current step is done.
  void arrive(int worker);
  // Worker only. True once a step after this worker's last one is released; false after the
  // timeout.
  bool wait_release(int worker, std::chrono::milliseconds timeout);

  // Called by the worker or its replacement: whether it has already finished the current step.
  bool has_arrived(int worker) const;

  int workers() const { return workers_; }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr int kLongEnough = 3;
  static void count_step(WorkerWord& own);
  int claims_before(int worker, int core) const;

  Words* words_;
  WorkerWord* worker_words_;
  int workers_, spin_;
};

// The number of polls before parking when `processes` processes run on the allowed cores.
int default_spin(int processes);

}  // namespace shoal
