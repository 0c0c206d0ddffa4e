#include "src/distributed/gradient_reducer.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <c10/util/ParallelGuard.h>

#include <utility>

namespace shoal {
namespace {

// Large enough that the cost per message is small.
constexpr std::int64_t kBucket = std::int64_t{1} << 18;  // gradient elements

}  // namespace

GradientReducer::GradientReducer(ProcessGroup& ranks, const std::vector<at::Tensor>& parameters)
    : ranks_(ranks), parameters_(parameters), bucket_of_(parameters.size()) {
  for (std::size_t i = parameters_.size(); i-- > 0;) {
    if (buckets_.empty() || buckets_.back().size >= kBucket) buckets_.emplace_back();
    auto& bucket = buckets_.back();
    bucket.parameters.push_back(i);
    bucket.size += parameters_[i].numel();
    bucket_of_[i] = buckets_.size() - 1;
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    hooks_.push_back(
        parameters_[i].register_hook([this, i](const at::Tensor& gradient) { take(i, gradient); }));
}

GradientReducer::~GradientReducer() {
  for (std::size_t i = 0; i < hooks_.size(); ++i) parameters_[i].remove_hook(hooks_[i]);
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
}

void GradientReducer::begin(double weight) {
  weight_ = weight;
  gradients_.assign(parameters_.size(), {});
  for (auto& bucket : buckets_) bucket.missing = bucket.parameters.size();
  {
    const std::lock_guard lock(mutex_);
    handed_over_ = done_ = 0;
  }
  // Started with the first step, because processes are forked before it.
  if (!thread_.joinable()) thread_ = std::jthread([this] { work(); });
  taking_ = true;
}

void GradientReducer::take(std::size_t parameter, const at::Tensor& gradient) {
  if (!taking_) return;
  gradients_[parameter] = gradient;
  --buckets_[bucket_of_[parameter]].missing;
  std::size_t whole = 0;
  while (whole < buckets_.size() && buckets_[whole].missing == 0) ++whole;
  hand_over(whole);
}

void GradientReducer::hand_over(std::size_t buckets) {
  {
    const std::lock_guard lock(mutex_);
    if (handed_over_ == buckets) return;
    handed_over_ = buckets;
  }
  changed_.notify_all();
}

void GradientReducer::work() {
  const at::NoGradGuard no_grad;
  const c10::ParallelGuard alone(true);  // leaves torch's threads to the backward pass
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [&] { return over_ || (done_ < handed_over_ && !failure_); });
    if (over_) return;
    auto& bucket = buckets_[done_];
    lock.unlock();
    std::exception_ptr failure;
    try {
      sum(bucket);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    failure_ = failure;
    ++done_;
    changed_.notify_all();
  }
}

void GradientReducer::sum(Bucket& bucket) {
  bucket.sum = at::zeros({bucket.size});
  std::int64_t from = 0;
  for (const auto i : bucket.parameters) {
    const auto n = parameters_[i].numel();
    if (gradients_[i].defined())
      bucket.sum.narrow(0, from, n).view(parameters_[i].sizes()).copy_(gradients_[i]);
    from += n;
  }
  bucket.sum.mul_(weight_);
  ranks_.sum(bucket.sum);
}

double GradientReducer::end(std::vector<at::Tensor>& x) {
  taking_ = false;
  hand_over(buckets_.size());
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_ == buckets_.size() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
  }
  std::vector<at::Tensor> rest(x.begin() + static_cast<std::ptrdiff_t>(parameters_.size()),
                               x.end());
  const double total = average(ranks_, rest, weight_);
  x.resize(parameters_.size());
  for (auto& bucket : buckets_) {
    bucket.sum.div_(static_cast<float>(total));
    std::int64_t from = 0;
    for (const auto i : bucket.parameters) {
      const auto n = parameters_[i].numel();
      x[i] = bucket.sum.narrow(0, from, n).view(parameters_[i].sizes());
      from += n;
    }
  }
  x.insert(x.end(), rest.begin(), rest.end());
  return total;
}

}  // namespace shoal
