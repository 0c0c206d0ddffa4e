#pragma once

#include <ATen/core/Tensor.h>

#include <functional>

#include "shoal/agents/agent.h"
#include "shoal/data/samples.h"
#include "shoal/distributed/process_group.h"
#include "src/compute/captured_graph.h"

namespace shoal {

// An update from a replay batch, which is in host memory. On a GPU the batch is copied to fixed
// addresses and the update is a captured graph; on the CPU the batch is used in place.
class CapturedUpdate {
 public:
  CapturedUpdate(Agent& agent, const ProcessGroup& ranks) : agent_(agent), ranks_(ranks) {}

  // Call before take(): determines the agent's device.
  void begin() { device_ = agent_.device(); }
  bool is_on_device() const { return !is_host(device_); }
  // Copies x to the device, into `place`; on the CPU, `place` refers to x. Valid until the next
  // batch.
  void take(const at::Tensor& x, at::Tensor& place);
  void take(const NamedTensors& all, NamedTensors& places);
  void take(const Observations& all, Observations& places);

  struct Result {
    at::Tensor numbers;  // metrics
    at::Tensor errors;   // of each step or sequence
  };
  // Runs step(), captured on a GPU. step() may read only tensors that were taken, and the agent.
  Result run(const std::function<Result()>& step);

 private:
  Agent& agent_;
  const ProcessGroup& ranks_;
  at::Device device_ = at::kCPU;
  TensorAddresses parameters_;  // the agent's, which the captured graph reads
  CapturedGraph captured_;
  Result left_;  // outputs of the captured graph
};

}  // namespace shoal
