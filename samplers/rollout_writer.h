#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "samplers/batched_inference.h"
#include "samplers/dynamic_batching.h"
#include "samplers/rollout_slots.h"
#include "samplers/stepper.h"
#include "shoal/ipc/parameter_board.h"
#include "shoal/ipc/trajectory_ring.h"

namespace shoal {

// The newest parameters of a learning agent and their version, on their way to acting ones.
class Parameters {
 public:
  explicit Parameters(Agent& agent);  // a copy of its own for each process or thread
  std::size_t bytes() const { return flat_.size(); }

  void publish(ParameterBoard& board, std::int64_t version);
  // Gives the agent the newest ones, if it has not got them; their version.
  std::int64_t follow(const ParameterBoard& board);

 private:
  Agent& agent_;
  std::vector<std::byte> flat_;  // the version, and the parameters behind it
  std::uint64_t sequence_ = 0;
  std::int64_t version_ = 0;
};

// Fills slots of a ring with rollouts, one after the other, acting for all its environments. For
// one thread or process.
class RolloutWriter {
 public:
  struct Parts {
    const RolloutSlots& rows;
    TrajectoryRing ring;
    const ParameterBoard& board;
    // One of them, made with rollouts(rows, writer).
    Stepper* stepper;
    FreeRunningWorkers* workers;
    Agent& agent;
    ActionLog& log;  // of this writer
    int writer;
    WorkerStatus* status = nullptr;  // of this process, if it is a worker
  };
  // The rows that a writer's environments are stepped in.
  static Rollouts rollouts(const RolloutSlots& rows, int writer);

  // options.envs: those of this writer.
  RolloutWriter(const Parts& parts, const SamplerOptions& options, std::int64_t first_tick);
  // Until the ring is stopped.
  void run();

 private:
  void fill(int slot);
  void fill_by_turns(const SharedRollout& rollout, std::size_t rows, BatchedInference& actor);

  Parts parts_;
  SamplerOptions options_;
  Parameters parameters_;
  std::optional<DynamicBatching> dynamic_;  // with workers that go at their own pace
  std::vector<Range> groups_;               // that are acted for, or what each of those workers has
  std::vector<std::unique_ptr<BatchedInference>> actors_;  // of each slot
  std::int64_t tick_;
};

}  // namespace shoal
