#include "shoal/data/samples.h"

#include <ATen/Parallel.h>
#include <ATen/TracerMode.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <cstring>

#include "shoal/core/error.h"

namespace shoal {

at::ScalarType torch_dtype(DType dtype) {
  switch (dtype) {
    case DType::kUInt8:
      return at::kByte;
    case DType::kBool:
      return at::kBool;
    case DType::kInt32:
      return at::kInt;
    case DType::kInt64:
      return at::kLong;
    case DType::kFloat32:
      return at::kFloat;
    case DType::kFloat64:
      return at::kDouble;
  }
  throw Error("unknown dtype {}", static_cast<int>(dtype));
}

at::Tensor view(const Arena& arena, const Arena::Field& field) {
  auto shape = field.lead;
  shape.insert(shape.end(), field.spec.shape.begin(), field.spec.shape.end());
  return at::from_blob(
      arena.data(field), shape, [owner = arena.owner()](void*) mutable { owner.reset(); },
      at::TensorOptions().dtype(torch_dtype(field.spec.dtype)));
}

Observed Observed::select(const at::Tensor& rows) const {
  if (stacked()) return {data, index.index_select(0, rows)};
  return {data.index_select(0, rows), {}};
}

Observed Observed::narrow(std::int64_t from, std::int64_t n) const {
  if (stacked()) return {data, index.narrow(0, from, n)};
  return {data.narrow(0, from, n), {}};
}

Observed Observed::to(at::Device device) const {
  return {data.to(device, /*non_blocking=*/!device.is_cpu()),
          stacked() ? index.to(device, /*non_blocking=*/!device.is_cpu()) : index};
}

namespace {

// [N, stack, ...] from frames [M, ...] and indices [N, stack], -1 for zeros; on the CPU.
at::Tensor stacked_copies(const at::Tensor& frames, const at::Tensor& index, bool pinned) {
  auto shape = frames.sizes().vec();
  shape[0] = index.size(1);
  shape.insert(shape.begin(), index.size(0));
  auto out = at::empty(shape, frames.options().pinned_memory(pinned));
  const auto bytes = out.numel() == 0 ? 0 : out.nbytes() / static_cast<std::size_t>(index.numel());
  const auto* from = static_cast<const std::byte*>(frames.const_data_ptr());
  auto* to = static_cast<std::byte*>(out.data_ptr());
  const auto* frame = index.const_data_ptr<std::int64_t>();
  constexpr std::size_t kWorthAThread = 1 << 20;
  const auto grain = static_cast<std::int64_t>(kWorthAThread / (bytes + 1) + 1);
  at::parallel_for(0, index.numel(), grain, [&](std::int64_t first, std::int64_t end) {
    for (auto i = first; i < end; ++i) {
      auto* place = to + static_cast<std::size_t>(i) * bytes;
      if (frame[i] < 0)
        std::memset(place, 0, bytes);
      else
        std::memcpy(place, from + static_cast<std::size_t>(frame[i]) * bytes, bytes);
    }
  });
  return out;
}

}  // namespace

at::Tensor Observed::dense(bool pinned) const {
  if (!stacked()) return pinned ? data.pin_memory() : data;
  // An export that traces this needs operations that TorchScript knows.
  const bool traced = at::tracer::impl::is_dispatch_enabled();
  if (data.is_cpu() && data.is_contiguous() && index.is_contiguous() && !traced)
    return stacked_copies(data, index, pinned);
  const auto n = index.size(0), stack = index.size(1);
  auto frames = data.index_select(0, index.clamp_min(0).flatten());
  auto shape = frames.sizes().vec();
  shape[0] = stack;
  shape.insert(shape.begin(), n);
  frames = frames.view(shape);
  std::vector<std::int64_t> mask_shape(shape.size(), 1);
  mask_shape[0] = n;
  mask_shape[1] = stack;
  return frames.masked_fill_(index.lt(0).view(mask_shape), 0);
}

Observations select(const Observations& observations, const at::Tensor& rows) {
  Observations out;
  for (const auto& [name, o] : observations) out.add(name, o.select(rows));
  return out;
}

NamedTensors select(const NamedTensors& tensors, const at::Tensor& rows) {
  NamedTensors out;
  for (const auto& [name, t] : tensors) out.add(name, t.index_select(0, rows));
  return out;
}

namespace {

at::Tensor moved(const at::Tensor& t, at::Device device) {
  return t.defined() ? t.to(device, /*non_blocking=*/!device.is_cpu()) : t;
}

NamedTensors moved(const NamedTensors& tensors, at::Device device) {
  NamedTensors out;
  for (const auto& [name, t] : tensors) out.add(name, moved(t, device));
  return out;
}

Observations moved(const Observations& observations, at::Device device) {
  Observations out;
  for (const auto& [name, o] : observations) out.add(name, o.to(device));
  return out;
}

}  // namespace

Samples Samples::to(at::Device device) const {
  Samples out = *this;
  for (auto* t :
       {&out.reward, &out.terminated, &out.truncated, &out.valid, &out.is_first,
        &out.previous_reward, &out.bootstrap_value, &out.final_value, &out.final_obs.value}) {
    *t = moved(*t, device);
  }
  for (auto* t :
       {&out.observation, &out.action, &out.mask, &out.agent_info, &out.env_info,
        &out.initial_state, &out.previous_action, &out.final_obs.mask, &out.final_obs.state}) {
    *t = moved(*t, device);
  }
  out.observed = moved(out.observed, device);
  out.final_obs.observation = moved(out.final_obs.observation, device);
  return out;
}

}  // namespace shoal
