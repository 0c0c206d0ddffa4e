#pragma once

#include <cstdint>
#include <vector>

#include "samplers/final_observations.h"
#include "samplers/rollout_tensors.h"
#include "samplers/shared_rollout.h"
#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// The agent process's side of a shared rollout: turns it into Samples once it is full. It does not
// act.
class Rollout {
 public:
  // parts: the environments whose last row is valued at once: as they are acted for.
  Rollout(const SharedRollout& shared, Agent& agent, const SamplerOptions& options,
          std::vector<Range> parts);

  RolloutTensors& tensors() { return tensors_; }

  // Goes on from what another process saved; its rows are in place.
  void restore(const NamedTensors& saved);
  // Makes the last rows of the previous rollout the first rows of the next one, if they are not
  // yet.
  void advance();
  // After advance(), and after the environments were saved, which may have reset some of them: what
  // the next rollout depends on apart from the environments.
  void save(NamedTensors& to);

  // Begins the next rollout. Tensors go to the agent's device first, if it has moved.
  void begin();
  std::int64_t first_tick() const { return samples_.first_tick; }
  // Records the episodes of environments that ended in step t, when they have taken it. For
  // rollouts that keep the ends of one step only (!SharedRollout::ends_wait).
  void record_ends(std::int64_t t, const Range& envs) { record_ends(t, envs, state_after(t)); }
  // Completes the samples: episodes, values of the last row and of truncated episodes.
  // filled_elsewhere: by other processes; a device has none of its rows yet.
  void finish(bool filled_elsewhere);

  // begin() and finish() of rows that others have filled from the first one on. initial_state:
  // [B, ...], the agent's before it.
  struct Numbers {
    std::int64_t first_env, first_tick, policy_version;  // as Samples has them
  };
  void read(const Numbers& numbers, const NamedTensors& initial_state);

  // Saves without the environments, in the middle of a rollout: all of them begin new episodes, at
  // the first tick after the rollout.
  void save_given_up(std::int64_t first_env, NamedTensors& to);

  Batch batch() const { return {samples_, episodes_, info_names_}; }

 private:
  bool follow_agent();
  void make_samples();
  void enter(const NamedTensors& initial_state);
  void align_ends();
  void begin_anew();
  NamedTensors state_after(std::int64_t t) const;
  void record_ends(std::int64_t t, const Range& envs, const NamedTensors& state);
  void record_all_ends();
  void record_episode(const EpisodeEnd& end, std::int64_t t, std::int64_t b);
  void upload_all();
  void value_last_row();
  void bring_back();
  at::Tensor rollout(const RolloutTensors::Mirror& m, std::int64_t rows,
                     std::int64_t shift = 0) const;
  NamedTensors rollout(const Named<RolloutTensors::Mirror>& fields, std::int64_t rows,
                       std::int64_t shift = 0) const;

  // Where Samples are.
  const at::Tensor& side(const RolloutTensors::Mirror& m) const {
    return on_host_ ? m.host : m.device;
  }

  const SharedRollout& shared_;
  Agent& agent_;
  bool on_host_, greedy_;         // on_host_: Samples, while the agent may be elsewhere
  std::int64_t T_, B_, H_;        // H: rows before the rollout
  bool advanced_ = true;          // the first rows are those of the next rollout
  bool device_has_rows_ = false;  // those that the next rollout begins with, where this one ended
  std::vector<Range> parts_;
  RolloutTensors tensors_;
  std::vector<ActIn> last_inputs_;  // of row T, for each part
  NamedTensors final_state_;        // [T, B, ...], the agent's after a step that ended an episode
  std::vector<std::int64_t> episode_number_;
  FinalObservationStore finals_;
  Samples samples_;
  std::vector<Episode> episodes_;
  std::vector<std::string> info_names_;
};

}  // namespace shoal
