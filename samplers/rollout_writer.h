#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "samplers/filler.h"
#include "samplers/rollout_slots.h"
#include "shoal/ipc/parameter_board.h"
#include "shoal/ipc/trajectory_ring.h"

namespace shoal {

// Passes the newest parameters of a learning agent, and their version, to acting agents.
class Parameters {
 public:
  explicit Parameters(Agent& agent);  // each process or thread has its own object
  std::size_t bytes() const { return flat_.size(); }

  void publish(ParameterBoard& board, std::int64_t version);
  // Updates the agent to the newest parameters; returns their version.
  std::int64_t follow(const ParameterBoard& board);

 private:
  Agent& agent_;
  std::vector<std::byte> flat_;  // the version, followed by the parameters
  std::uint64_t sequence_ = 0;
  std::int64_t version_ = 0;
};

// Fills slots of a ring with rollouts, one after the other, in one thread or process.
class RolloutWriter {
 public:
  struct Parts {
    const RolloutSlots& rows;
    TrajectoryRing ring;
    const ParameterBoard& board;
    Filler& filler;  // made with rollouts(rows, writer)
    Agent& agent;    // acts
    ActionLog& log;  // of this writer
    int writer;
    WorkerStatus* status = nullptr;  // of this process, if it is a worker
  };
  // The rollouts in which a writer's environments are stepped: first the rows that its next rollout
  // begins with, then all slots.
  static SharedRollouts rollouts(const RolloutSlots& rows, int writer);

  // options.envs: number of environments of this writer.
  RolloutWriter(const Parts& parts, const SamplerOptions& options, std::int64_t first_tick);
  // Returns when the ring is stopped.
  void run();

 private:
  struct Slot {
    Slot(const SharedRollout& shared, const RolloutWriter& writer);
    RolloutTensors tensors;
    BatchedInference actor;
  };
  bool fill(int slot);

  Parts parts_;
  SamplerOptions options_;
  Parameters parameters_;
  std::vector<std::unique_ptr<Slot>> slots_;
  std::int64_t tick_;
};

}  // namespace shoal
