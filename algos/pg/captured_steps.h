#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "shoal/data/samples.h"
#include "src/compute/captured_graph.h"

namespace shoal {

// Steps of learning that an accelerator records, one recording for each set of tensors that they
// read: a recording reads the memory it was made with.
class CapturedSteps {
 public:
  struct Step {
    CapturedGraph recorded;
    at::Tensor rows, envs;  // of the minibatch: copied here before each step
    at::Tensor parts;       // what a step leaves
  };

  void forget() { steps_.clear(); }
  // That of so many rows of what lies at these places. Null if there are many already: then nothing
  // would be gained.
  Step* find(std::int64_t rows, const std::vector<const void*>& places) {
    constexpr std::size_t kMost = 16;
    const auto known = steps_.find({rows, places});
    if (known != steps_.end()) return &known->second;
    return steps_.size() < kMost ? &steps_[{rows, places}] : nullptr;
  }

 private:
  std::map<std::pair<std::int64_t, std::vector<const void*>>, Step> steps_;
};

// Where tensors lie, for find().
inline void add_places(const NamedTensors& tensors, std::vector<const void*>& to) {
  for (const auto& [name, t] : tensors) to.push_back(t.const_data_ptr());
}

inline void add_places(const Samples& s, std::vector<const void*>& to) {
  for (const auto& [name, o] : s.observed) {
    to.push_back(o.data.const_data_ptr());
    if (o.stacked()) to.push_back(o.index.const_data_ptr());
  }
  for (const auto* tensors :
       {&s.action, &s.mask, &s.agent_info, &s.previous_action, &s.initial_state})
    add_places(*tensors, to);
  for (const auto& t : {s.previous_reward, s.is_first})
    if (t.defined()) to.push_back(t.const_data_ptr());
}

// Copies x to `place`, on this device, always to the same memory, for a recording to read. True if
// x is of another shape than before, so that the memory is another one.
inline bool keep(at::Tensor& place, const at::Tensor& x, at::Device device) {
  const bool anew = !place.defined() || place.sizes() != x.sizes() || place.device() != device;
  if (anew) place = at::empty_like(x, x.options().device(device));
  place.copy_(x, /*non_blocking=*/true);
  return anew;
}

}  // namespace shoal
