#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "samplers/batched_inference.h"
#include "samplers/sampler_context.h"

namespace shoal {

// Fills rollouts: lets the agent act and the environments step until every row is there. The
// samplers differ in this alone: in which processes step and act, and when. A filler is used by one
// thread of one process, and owns the workers.
class Filler {
 public:
  struct Task {
    std::size_t rollout;      // number among those that the filler was made with
    BatchedInference* actor;  // acts in that rollout; null if the workers act
    // Called after a part of the environments has taken step t and may have ended episodes.
    std::function<void(std::int64_t t, const Range& envs)> ended;
    std::function<bool()> stopped = [] { return false; };
    SamplerTimes& times;
  };

  virtual ~Filler() = default;
  // The environments that are acted for at once: the parts of Task::actor.
  virtual const std::vector<Range>& parts() const = 0;
  // False if stopped() in the middle. Throws WorkerError if a worker fails, and Interrupted.
  virtual bool fill(const Task& task) = 0;
  // If environments may wait: has those that do reset, beside what the caller does; and waits until
  // they are. finish_resets() may be called without start_resets().
  virtual void start_resets(std::size_t rollout) = 0;
  virtual void finish_resets() = 0;
  // Between two rollouts. The rows of the first rollout must be those that the next one begins
  // with.
  virtual void save(Command how, NamedTensors& to) = 0;
  // From another thread: a wait for workers ends soon, with Interrupted.
  virtual void give_up() {}
  virtual std::int64_t restarts() const { return 0; }  // of workers so far; any thread may ask
};

// The filler of a kind of sampler, with its workers, and the bytes of shared memory that it needs.
// The environments write their first observations to the first row of the first rollout.
std::size_t filler_bytes(const SamplerOptions& options, Agent& agent);
std::unique_ptr<Filler> make_filler(const SharedRollouts& rollouts, const SamplerContext& context,
                                    Agent& agent, std::byte* memory);

}  // namespace shoal
