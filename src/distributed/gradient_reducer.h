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

// Gradients averaged over the ranks while backward still looks for more of them: those of the last
// layers, which are there first, in a thread of its own (as Li et al., "PyTorch Distributed:
// Experiences on Accelerating Data Parallel Training", VLDB 2020, section 3.2, do it). They go in
// buckets, always in the same order. The result is average()'s.
class GradientReducer {
 public:
  // parameters: leaves of autograd, float32, on the CPU, in the order of the layers.
  GradientReducer(ProcessGroup& ranks, const std::vector<at::Tensor>& parameters);
  ~GradientReducer();
  GradientReducer(const GradientReducer&) = delete;
  GradientReducer& operator=(const GradientReducer&) = delete;

  // From now on every gradient that autograd finds for a parameter is this rank's, with this
  // weight. Nobody else may use the ranks before end().
  void begin(double weight);
  // Gradients that were not found are 0. x: one for each parameter, and behind them anything else
  // that is to be averaged; they become means over all ranks. Returns the sum of the weights; if
  // that is 0, x is of no use. Throws what the ranks have thrown.
  double end(std::vector<at::Tensor>& x);

 private:
  struct Bucket {
    std::vector<std::size_t> parameters;
    std::int64_t size = 0;
    std::size_t missing = 0;  // gradients
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
  std::vector<std::size_t> bucket_of_;  // each parameter
  std::vector<at::Tensor> gradients_;   // found in this step
  double weight_ = 0;
  bool taking_ = false;

  std::mutex mutex_;  // of all that follows
  std::condition_variable changed_;
  std::size_t handed_over_ = 0, done_ = 0;  // buckets of this step
  bool over_ = false;
  std::exception_ptr failure_;
  std::jthread thread_;  // last: it uses all of them
};

}  // namespace shoal
