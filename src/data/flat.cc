#include "shoal/data/flat.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty_like.h>

#include <cstring>

#include "shoal/core/error.h"

namespace shoal {

namespace {

void require_bytes(const NamedTensors& tensors, std::size_t expected) {
  const auto found = bytes_of(tensors);
  require(
      found == expected,
      "the parameters have {} bytes, and had {} when the sampler was made; change sizes and types "
      "of parameters before",
      found, expected);
}

}  // namespace

std::size_t bytes_of(const NamedTensors& tensors) {
  std::size_t bytes = 0;
  for (const auto& [name, tensor] : tensors) bytes += tensor.nbytes();
  return bytes;
}

void flatten(const NamedTensors& tensors, std::span<std::byte> flat) {
  require_bytes(tensors, flat.size());
  auto* to = flat.data();
  for (const auto& [name, tensor] : tensors) {
    const auto t = tensor.detach().cpu().contiguous();
    std::memcpy(to, t.const_data_ptr(), t.nbytes());
    to += t.nbytes();
  }
}

void unflatten(std::span<const std::byte> flat, NamedTensors tensors) {
  require_bytes(tensors, flat.size());
  const at::NoGradGuard no_grad;
  const auto* from = flat.data();
  for (auto& [name, tensor] : tensors) {
    auto t =
        at::empty_like(tensor, tensor.options().device(at::kCPU), at::MemoryFormat::Contiguous);
    std::memcpy(t.data_ptr(), from, t.nbytes());
    from += t.nbytes();
    tensor.copy_(t);
  }
}

}  // namespace shoal
