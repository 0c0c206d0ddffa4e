#include "algos/captured_update.h"

#include <ATen/ATen.h>

#include "algos/pg/captured_steps.h"

namespace shoal {

void CapturedUpdate::take(const at::Tensor& x, at::Tensor& place) {
  if (is_host(device_))
    place = x;
  else if (keep(place, x, device_))
    captured_.forget();
}

void CapturedUpdate::take(const NamedTensors& all, NamedTensors& places) {
  for (const auto& [name, x] : all) {
    if (!places.contains(name)) places.add(name, {});
    take(x, places.at(name));
  }
}

void CapturedUpdate::take(const Observations& all, Observations& places) {
  if (is_host(device_)) {
    places = all;
    return;
  }
  for (const auto& [name, o] : all) {
    if (!places.contains(name)) places.add(name, {});
    take(o.dense(/*pinned=*/!device_.is_cpu()), places.at(name).data);
  }
}

CapturedUpdate::Result CapturedUpdate::run(const std::function<Result()>& step) {
  // With several ranks gradients pass through the host, which cannot be captured.
  if (is_host(device_) || ranks_.count() > 1) return step();
  if (parameters_.have_changed(agent_.parameters())) captured_.forget();
  captured_.run(device_, [this, step] {
    const auto now = step();
    if (!left_.errors.defined() || left_.errors.sizes() != now.errors.sizes())
      left_ = {at::empty_like(now.numbers), at::empty_like(now.errors)};
    left_.numbers.copy_(now.numbers);
    left_.errors.copy_(now.errors);
  });
  return {left_.numbers.clone(), left_.errors};
}

}  // namespace shoal
