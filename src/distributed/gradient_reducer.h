#pragma once

#include <ATen/core/Tensor.h>

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "shoal/distributed/process_group.h"

namespace shoal {

// Averages gradients over the ranks in its own thread while the backward pass computes more of them
// (Li et al., "PyTorch Distributed: Experiences on Accelerating Data Parallel Training", VLDB 2020,
// section 3.2). Gradients are sent in buckets, last layers first, always in the same order. The
// result is that of average().
class GradientReducer {
 public:
  // parameters: leaves of autograd, float32, on the CPU, in the order of the layers.
  GradientReducer(ProcessGroup& ranks, const std::vector<at::Tensor>& parameters);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // Starts collecting this rank's gradients from autograd; weight: of this rank. Nothing else may
  // use the process group before end().
  void begin(double weight);
  // x: a gradient for each parameter, then other tensors to be averaged; all become weighted means
  // over the ranks. Missing gradients are 0. Returns the sum of the weights; if that is 0, x is
  // meaningless. Rethrows errors of the process group.
  double end(std::vector<at::Tensor>& x);

 private:
  struct Bucket {
    std::vector<std::size_t> parameters;
    std::int64_t size = 0;
    std::size_t missing = 0;  // gradients not computed yet
    at::Tensor sum;           // [size]
  };
  void take(std::size_t parameter, const at::Tensor& gradient);
  void hand_over(std::size_t buckets);
  void work();
  void sum(Bucket& bucket);

  ProcessGroup& ranks_;
  std::vector<at::Tensor> parameters_;
  std::vector<unsigned> hooks_;
  std::vector<Bucket> buckets_;
  std::vector<std::size_t> bucket_of_;  // by parameter
  std::vector<at::Tensor> gradients_;   // computed in this step
  double weight_ = 0;
  bool taking_ = false;

  std::mutex mutex_;  // guards the following members
  std::condition_variable changed_;
  std::size_t handed_over_ = 0, done_ = 0;  // buckets of this step
  bool over_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;  // last, because it uses all of them
};

}  // namespace shoal
