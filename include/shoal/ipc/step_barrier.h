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
// The start-up (making the environments, the first resets) is a step that needs no release. After
// that a worker does one step for each release, and the server releases the next one when every
// worker has arrived.
//
// Everything the server wrote before release() is visible to a worker after wait_release();
// everything a worker wrote before arrive() is visible to the server after wait(). Each worker's
// word and the wake word have a cache line each. Every wait ends after its timeout, so that the
// waiter can look for deaths; there is no wait without one.
class StepBarrier {
 public:
  // The layout in the arena.
  struct Words {
    alignas(64) std::atomic<std::uint32_t> generation{
        1};  // the step under way; advanced by release()
    alignas(64) std::atomic<std::uint32_t> sleepers{0};  // workers parked on `generation`
    alignas(64) std::atomic<std::uint32_t> server_parked{
        0};  // 1 + the worker the server is parked on
  };
  struct alignas(64) WorkerWord {
    std::atomic<std::uint32_t> done{0};  // the last generation this worker finished
  };

  static std::size_t bytes(int workers) {
    return sizeof(Words) + static_cast<std::size_t>(workers) * sizeof(WorkerWord);
  }

  // Constructs the words in `memory` (64-byte aligned, at least bytes(workers)); call once, before
  // the fork. spin: polls before parking; 0 when workers and server together outnumber the cores.
  StepBarrier(std::byte* memory, int workers, int spin);

  // Server only. Starts the next step of every worker.
  void release();
  // Server only. True once worker w has arrived; false after the timeout.
  bool wait(int worker, std::chrono::milliseconds timeout);

  // Worker only. Reports that the current step is done.
  void arrive(int worker);
  // Worker only. True once a step later than this worker's last has been released; false after the
  // timeout.
  bool wait_release(int worker, std::chrono::milliseconds timeout);

  // The worker, or one that takes its place: whether the step under way is done already.
  bool has_arrived(int worker) const;

  int workers() const { return workers_; }

 private:
  Words* words_;
  WorkerWord* worker_words_;
  int workers_, spin_;
};

// How long to poll before parking when `processes` run on the allowed cores.
int default_spin(int processes);

}  // namespace shoal
