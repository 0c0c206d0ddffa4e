#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "shoal/data/samples.h"
#include "src/compute/captured_graph.h"

namespace shoal {

// Captured gradient steps, one graph for each set of tensors that a step reads: a captured graph
// reads the addresses it was captured with.
class CapturedSteps {
 public:
  struct Step {
    CapturedGraph graph;
    at::Tensor rows, envs;  // of the minibatch, copied here before each step
    at::Tensor parts;       // output of the step
  };

  void forget() { steps_.clear(); }
  // The step for this number of rows and these addresses. Null if there are too many already, when
  // capturing gains nothing.
  Step* find(std::int64_t rows, const std::vector<const void*>& addresses) {
    constexpr std::size_t kMost = 16;
    const auto known = steps_.find({rows, addresses});
    if (known != steps_.end()) return &known->second;
    return steps_.size() < kMost ? &steps_[{rows, addresses}] : nullptr;
  }

 private:
  std::map<std::pair<std::int64_t, std::vector<const void*>>, Step> steps_;
};

// Appends the addresses of tensors, for find().
inline void add_addresses(const NamedTensors& tensors, std::vector<const void*>& to) {
  for (const auto& [name, t] : tensors) to.push_back(t.const_data_ptr());
}

inline void add_addresses(const Samples& s, std::vector<const void*>& to) {
  for (const auto& [name, o] : s.observed) {
    to.push_back(o.data.const_data_ptr());
    if (o.stacked()) to.push_back(o.index.const_data_ptr());
  }
  for (const auto* tensors :
       {&s.action, &s.mask, &s.agent_info, &s.previous_action, &s.initial_state})
    add_addresses(*tensors, to);
  for (const auto& t : {s.previous_reward, s.is_first})
    if (t.defined()) to.push_back(t.const_data_ptr());
}

// Copies x to `place` on the device, for a captured graph to read. True if the shape has changed,
// so that `place` has a new address.
inline bool keep(at::Tensor& place, const at::Tensor& x, at::Device device) {
  const bool anew = !place.defined() || place.sizes() != x.sizes() || place.device() != device;
  if (anew) place = at::empty_like(x, x.options().device(device));
  place.copy_(x, /*non_blocking=*/true);
  return anew;
}

}  // namespace shoal
