#pragma once

#include <cstdint>
#include <vector>

#include "samplers/final_store.h"
#include "samplers/partition.h"
#include "samplers/shared_rows.h"
#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// The agent process's side of the shared rows: acts on them step by step and turns a full window
// into Samples. The tensors of all steps are made once.
//
// On a device other than the CPU it keeps a copy of the rows there: every row crosses once, for
// acting, and is then the training batch.
class Window {
 public:
  Window(const SharedRows& shared, Agent& agent, const SamplerOptions& options);

  // Makes the last rows of the previous window the first of this one.
  void begin();
  // Chooses the actions of row t for the environments of a group, whose observations there are
  // complete, and which nobody else touches.
  void act(std::int64_t t, int group);
  // Records the group's episodes that ended in step t; call once its environments have taken it, if
  // any ended.
  void record_ends(std::int64_t t, int group);
  // Values of the last row and of the truncated episodes; completes `samples`.
  void finish();

  const Samples& samples() const { return samples_; }
  const std::vector<Episode>& episodes() const { return episodes_; }

 private:
  // All rows of one field, [rows, B, ...], where the environments write and where the agent reads.
  // On the CPU they are the same tensor.
  struct Mirror {
    at::Tensor host, device;
    void copy_rows(std::int64_t from, std::int64_t n) const;
    void copy_part(std::int64_t row, const Range& envs) const;  // of one row
  };
  struct Step {
    ActIn in;
    ActOut out;
  };

  void make_mirrors();
  void make_samples();
  Step make_step(std::int64_t t, const Range& envs) const;
  Step& prepare(std::int64_t t, int group);
  void stack_frames(std::int64_t t, const Range& envs);
  Mirror mirror(const Arena::Field& field) const;
  Named<Mirror> mirror(const Named<Arena::Field>& fields) const;
  at::Tensor window(const Mirror& m, std::int64_t rows, std::int64_t shift = 0) const;
  NamedTensors window(const Named<Mirror>& fields, std::int64_t rows, std::int64_t shift = 0) const;

  const SharedRows& shared_;
  Agent& agent_;
  SamplerOptions options_;
  std::int64_t T_, B_, H_;  // H: rows before the window
  std::uint64_t noise_seed_;
  at::Device device_;
  bool started_ = false;

  Named<Mirror> observation_, action_, mask_, env_info_, agent_info_;
  Mirror reward_, terminated_, truncated_, first_;
  Named<Mirror> frame_index_;  // of stacked fields only: [T+1, B, stack]
  NamedTensors state_[2];      // before and after a step, by turns
  std::vector<Range> groups_;
  std::vector<Step> steps_;  // [T+1][groups]; the last ones are only asked for their values
  std::vector<std::int64_t> episode_number_;
  FinalStore finals_;
  Samples samples_;
  std::vector<Episode> episodes_;
};

}  // namespace shoal
