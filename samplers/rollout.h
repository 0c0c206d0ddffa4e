#pragma once

#include <cstdint>
#include <vector>

#include "samplers/batched_inference.h"
#include "samplers/final_observations.h"
#include "samplers/shared_rollout.h"
#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// The agent process's side of the shared rows: turns a full rollout into Samples, and acts on it,
// or leaves that to the workers.
class Rollout {
 public:
  // parts: the environments, cut into what is acted for at once.
  Rollout(const SharedRollout& shared, Agent& agent, const SamplerOptions& options,
          std::vector<Range> parts);

  // Goes on from what another process saved; its rows are in place.
  void restore(const NamedTensors& saved);
  // Makes the last rows of the previous rollout the first of the next one, if they are not yet.
  void advance();
  // After advance(), and after the environments were saved, which may have reset some: what is not
  // in the environments, to go on from here.
  void save(NamedTensors& to);

  // Begins the next rollout.
  void begin();
  void act(std::int64_t t, std::size_t part) { actor_.act(t, part); }
  BatchedInference& actor() { return actor_; }
  std::int64_t uploaded_bytes() const { return actor_.tensors().uploaded; }
  // Records the part's episodes that ended in step t; call once its environments have taken it, if
  // any ended. state: the agent's after the step, [B, ...].
  void record_ends(std::int64_t t, std::size_t part, const NamedTensors& state);
  // Values of the last row and of the truncated episodes; completes `samples`.
  void finish();
  // Likewise where record_ends() was not called. final_state: the agent's state after each step,
  // [T, B, ...], where an episode ended.
  void finish(const NamedTensors& final_state);
  // Likewise after workers have acted, of whose steps a device has nothing yet.
  void finish_others(const NamedTensors& final_state);

  // Likewise of rows that others have filled from the first one on. initial_state: [B, ...], the
  // agent's before it.
  struct Numbers {
    std::int64_t first_env, first_tick, policy_version;  // as Samples has them
  };
  void read(const Numbers& numbers, const NamedTensors& initial_state,
            const NamedTensors& final_state);

  // Saves without the environments, in the middle of a rollout: all of them begin new episodes, at
  // the first tick after the rollout.
  void save_given_up(std::int64_t first_env, NamedTensors& to);

  // After step t, [B, ...].
  NamedTensors state_after(std::int64_t t) const;
  Batch batch() const { return {samples_, episodes_, info_names_}; }

 private:
  void make_samples();
  void enter(const NamedTensors& initial_state);
  void align_ends();
  void begin_anew();
  void record_episode(const EpisodeEnd& end, std::int64_t t, std::int64_t b);
  at::Tensor rollout(const RolloutTensors::Mirror& m, std::int64_t rows,
                     std::int64_t shift = 0) const;
  NamedTensors rollout(const Named<RolloutTensors::Mirror>& fields, std::int64_t rows,
                       std::int64_t shift = 0) const;

  // Where Samples are.
  const at::Tensor& side(const RolloutTensors::Mirror& m) const {
    return on_host_ ? m.host : m.device;
  }
  void bring_back();

  const SharedRollout& shared_;
  Agent& agent_;
  bool on_host_;                  // Samples, while the agent may be elsewhere
  std::int64_t T_, B_, H_;        // H: rows before the rollout
  bool advanced_ = true;          // the first rows are those of the next rollout
  bool device_has_rows_ = false;  // those that the next rollout begins with, where this one ended
  BatchedInference actor_;
  std::vector<std::int64_t> episode_number_;
  FinalObservationStore finals_;
  Samples samples_;
  std::vector<Episode> episodes_;
  std::vector<std::string> info_names_;
};

}  // namespace shoal
