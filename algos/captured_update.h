#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/distributed/process_group.h"
#include "src/compute/captured_graph.h"

namespace shoal {

// An update from a batch of a replay, which is on the host. On a device what is taken of it is
// always in the same memory, and what is made of it recorded; on the host it is left where it is.
class CapturedUpdate {
 public:
  CapturedUpdate(Agent& agent, const ProcessGroup& ranks) : agent_(agent), ranks_(ranks) {}

  // Before anything is taken of a batch: finds out where the agent is.
  void begin() { device_ = agent_.device(); }
  bool is_on_device() const { return !is_host(device_); }
  // Brings x there, to `place`, which is this batch's until the next one's.
  void take(const at::Tensor& x, at::Tensor& place);
  void take(const NamedTensors& all, NamedTensors& places);
  void take(const Observations& all, Observations& places);

  struct Result {
    at::Tensor numbers;  // to report
    at::Tensor errors;   // of each step or sequence
  };
  // What step() gives, which reads nothing that varies but what was taken, and the agent.
  Result run(const std::function<Result()>& step);

 private:
  Agent& agent_;
  const ProcessGroup& ranks_;
  at::Device device_ = at::kCPU;
  TensorAddresses parameters_;  // of the agent's, which the recording reads
  CapturedGraph captured_;
  Result left_;  // by it
};

}  // namespace shoal
