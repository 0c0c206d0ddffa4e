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

// The agent process's side of a shared rollout: makes Samples of it once it is full. Acting is left
// to BatchedInference.
class Rollout {
 public:
  // parts: the batches in which the values of the last row are computed, as in acting.
  Rollout(const SharedRollout& shared, Agent& agent, const SamplerOptions& options,
          std::vector<Range> parts);

  RolloutTensors& tensors() { return tensors_; }

  // Resumes from saved tensors; the rows must have been restored before.
  void restore(const NamedTensors& saved);
  // Copies the last rows of the previous rollout to the first rows of the next one, unless that has
  // been done.
  void advance();
  // Saves the state that the next rollout depends on, apart from the environments. To be called
  // after advance(), and after the environments were saved, which may have reset some of them.
  void save(NamedTensors& to);

  // Begins the next rollout. If the agent has moved, the tensors follow it to its device first.
  void begin();
  std::int64_t first_tick() const { return samples_.first_tick; }
  // Records the episodes that ended in step t, after these environments have taken it. For rollouts
  // that keep the ends of one step only (!SharedRollout::ends_wait).
  void record_ends(std::int64_t t, const Range& envs) { record_ends(t, envs, state_after(t)); }
  // Completes the samples: episodes, values of the last row and of truncated episodes.
  // filled_elsewhere: other processes filled the rows, and the device has none of them yet.
  void finish(bool filled_elsewhere);

  // begin() and finish() for rows that were filled elsewhere from the first one on. initial_state:
  // [B, ...], the agent's state before them.
  struct Numbers {
    std::int64_t first_env, first_tick, policy_version;  // as Samples has them
  };
  void read(const Numbers& numbers, const NamedTensors& initial_state);

  // Saves in the middle of a rollout, without the environments: in the resumed run all of them
  // begin new episodes, at the first tick after the rollout.
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

  // The copy that Samples refer to.
  const at::Tensor& side(const RolloutTensors::Mirror& m) const {
    return on_host_ ? m.host : m.device;
  }

  const SharedRollout& shared_;
  Agent& agent_;
  bool on_host_, greedy_;         // on_host_: Samples are on the CPU, whatever the agent's device
  std::int64_t T_, B_, H_;        // H: rows before the rollout
  bool advanced_ = true;          // the first rows are those of the next rollout
  bool device_has_rows_ = false;  // the device has the rows that the next rollout begins with
  std::vector<Range> parts_;
  RolloutTensors tensors_;
  std::vector<ActIn> last_inputs_;  // of row T, for each part
  NamedTensors final_state_;        // [T, B, ...], the agent's state after an episode's last step
  std::vector<std::int64_t> episode_number_;
  FinalObservationStore finals_;
  Samples samples_;
  std::vector<Episode> episodes_;
  std::vector<std::string> info_names_;
};

}  // namespace shoal
