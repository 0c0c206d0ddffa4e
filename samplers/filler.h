#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "samplers/batched_inference.h"
#include "samplers/sampler_context.h"

namespace shoal {

// Fills rollouts: runs the agent and the environments until every row is written. Fillers differ in
// which processes step and act, and when. A filler is used by one thread of one process, and owns
// the workers.
class Filler {
 public:
  struct Task {
    std::size_t rollout;      // index among the rollouts that the filler was made with
    BatchedInference* actor;  // acts in that rollout; null if the workers act
    // Called after a part of the environments has taken step t, if episodes may have ended in it.
    std::function<void(std::int64_t t, const Range& envs)> ended;
    std::function<bool()> stopped = [] { return false; };
    SamplerTimes* times = nullptr;  // null: nobody reads them
  };

  virtual ~Filler() = default;
  // The environments of each batch: the parts of Task::actor.
  virtual const std::vector<Range>& parts() const = 0;
  // Returns false if stopped() ended it early. Throws WorkerError if a worker fails, and
  // Interrupted.
  virtual bool fill(const Task& task) = 0;
  // If environments may wait: start_resets() begins to reset the waiting ones while the caller goes
  // on, and finish_resets() waits for the resets. finish_resets() may be called without
  // start_resets().
  virtual void start_resets(std::size_t rollout) = 0;
  virtual void finish_resets() = 0;
  // To be called between two rollouts. The rows of the first rollout must be those that the next
  // one begins with.
  virtual void save(Command how, NamedTensors& to) = 0;
  // May be called from another thread: a wait for workers soon throws Interrupted.
  virtual void give_up() {}
  virtual std::int64_t restarts() const { return 0; }  // of workers so far; any thread may call it
};

// Makes the filler and the workers of a kind of sampler. filler_bytes(): the shared memory it
// needs. The environments write their first observations to the first row of the first rollout.
std::size_t filler_bytes(const SamplerOptions& options, Agent& agent);
std::unique_ptr<Filler> make_filler(const SharedRollouts& rollouts, const SamplerContext& context,
                                    Agent& agent, std::byte* memory);

}  // namespace shoal
