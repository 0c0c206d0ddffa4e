#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/envs/env.h"

namespace shoal {

enum class SamplerKind : std::uint8_t {
  kSerial,       // everything in the calling process
  kParallelCpu,  // forked workers step and act, each for its own environments with parameters of
                 // its own, for a whole window
  kParallelGpu,  // forked workers step, the calling process acts for all of them in one batch, on
                 // the agent's device
};

struct SamplerOptions {
  SamplerKind kind = SamplerKind::kParallelGpu;
  std::int64_t horizon = 128;  // T: steps of one window
  std::int64_t envs = 16;      // B
  int workers = 2;             // processes that step environments; ignored by serial
  // 2: the environments are two halves by turns: one is stepped while actions are chosen for the
  // other. Worth it where neither takes much less time than the other, on cores (or a GPU) of its
  // own.
  int groups = 1;
  std::uint64_t seed =
      1;  // environment b is seeded from (seed, stream, b), its action noise from (seed, b, tick)
  Stream stream = Stream::kTrain;
  bool greedy = false;                           // the most likely actions instead of sampled ones
  std::chrono::milliseconds step_limit{60'000};  // a step that takes longer counts as a death
  std::chrono::milliseconds reset_limit{
      300'000};      // likewise a reset or the construction of an environment
  bool pin = false;  // bind worker w to the w-th allowed core
};

// One window and the episodes that ended in it. Views: valid until the next collect().
struct Batch {
  const Samples& samples;
  const std::vector<Episode>& episodes;
};

// Where the agent process spent its time, in seconds since the sampler was made.
struct SamplerTimes {
  double acting = 0;   // choosing actions
  double waiting = 0;  // for the environments (serial: stepping them)
};

// Steps B environments T times per call and records what happened. Environments go on where the
// last window ended and are reset at once when an episode is over. Used from the thread that made
// it.
class Sampler {
 public:
  virtual ~Sampler() = default;
  // Throws WorkerError if a worker dies, throws or exceeds its limit; the sampler is unusable after
  // that.
  virtual Batch collect() = 0;
  virtual const SamplerTimes& times() const = 0;
};

// Forks the workers, so call it from the main thread, before starting threads and before touching
// CUDA. The agent must outlive the sampler; it may be moved to its device afterwards. Throws Error
// for impossible options, before any fork.
std::unique_ptr<Sampler> make_sampler(const EnvFactory& make_env, Agent& agent,
                                      const SamplerOptions& options);

}  // namespace shoal
