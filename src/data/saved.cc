#include "shoal/data/saved.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>
#include <fmt/ranges.h>

#include <cstring>
#include <utility>

#include "shoal/core/error.h"
#include "shoal/core/finite.h"

namespace shoal {

namespace {

template <class T>
void put(const T& value, std::vector<std::byte>& to) {
  const auto bytes = std::as_bytes(std::span(&value, 1));
  to.insert(to.end(), bytes.begin(), bytes.end());
}

template <class T>
T take(std::span<const std::byte>& from) {
  T value;
  std::memcpy(&value, from.data(), sizeof value);
  from = from.subspan(sizeof value);
  return value;
}

std::string type_and_shape(const at::Tensor& t) {
  return fmt::format("{} [{}]", c10::toString(t.scalar_type()), fmt::join(t.sizes(), ", "));
}

bool is_finite(const at::Tensor& t) {
  if (!at::isFloatingType(t.scalar_type())) return true;
  if (t.is_cpu() && t.is_contiguous() && t.scalar_type() == at::kFloat)
    return all_finite(t.const_data_ptr<float>(), t.numel());
  return t.isfinite().all().item<bool>();
}

double first_not_finite_of(const at::Tensor& t) {
  const auto all = t.flatten();
  return all.index_select(0, all.isfinite().logical_not().nonzero()[0]).item<double>();
}

// Synchronises with the device only once.
bool are_finite_there(const std::vector<at::Tensor>& tensors) {
  std::vector<at::Tensor> each;
  for (const auto& t : tensors) each.push_back(t.isfinite().all());
  return each.empty() || at::stack(each).all().item<bool>();
}

}  // namespace

const at::Tensor& saved(const NamedTensors& from, std::string_view name) {
  const std::string key(name);
  require(from.contains(key), "the checkpoint has no '{}'", name);
  return from.at(key);
}

void require_finite(const NamedTensors& tensors) {
  const at::NoGradGuard no_grad;
  std::vector<at::Tensor> elsewhere;
  for (const auto& [name, tensor] : tensors)
    if (!tensor.is_cpu() && at::isFloatingType(tensor.scalar_type())) elsewhere.push_back(tensor);
  const bool ask_each = !are_finite_there(elsewhere);
  for (const auto& [name, tensor] : tensors) {
    if ((tensor.is_cpu() || ask_each) && !is_finite(tensor))
      throw Error("'{}' holds {}, expected finite numbers", name,
                  name_not_finite(first_not_finite_of(tensor)));
  }
}

void restore(const NamedTensors& from, const std::string& prefix, NamedTensors targets) {
  for (const auto& [unprefixed, target] : targets) {
    const auto name = prefix + unprefixed;
    require(from.contains(name), "the checkpoint has no '{}', expected {}", name,
            type_and_shape(target));
    const auto& stored = from.at(name);
    require(stored.sizes() == target.sizes() && stored.scalar_type() == target.scalar_type(),
            "'{}' was saved as {}, expected {}", name, type_and_shape(stored),
            type_and_shape(target));
  }
  const at::NoGradGuard no_grad;
  for (auto& [name, target] : targets) target.copy_(from.at(prefix + name));
}

void restore_all(const NamedTensors& from, const std::string& prefix, NamedTensors targets) {
  for (const auto& [name, stored] : from)
    require(!name.starts_with(prefix) || targets.contains(name.substr(prefix.size())),
            "'{}', {}, was saved, expected no tensor with this name", name, type_and_shape(stored));
  restore(from, prefix, std::move(targets));
}

void add_with_prefix(const std::string& prefix, const NamedTensors& from, NamedTensors& to) {
  for (const auto& [name, tensor] : from) to.add(prefix + name, tensor);
}

NamedTensors with_prefix(const std::string& prefix, const NamedTensors& from) {
  NamedTensors out;
  for (const auto& [name, tensor] : from)
    if (name.starts_with(prefix)) out.add(name.substr(prefix.size()), tensor);
  return out;
}

NamedTensors first_rows(const Rows& rows, std::int64_t n) {
  NamedTensors all;
  const auto add = [&](const std::string& name, const Arena::Field& field) {
    all.add("rows/" + name, view(rows.arena(), field).narrow(0, 0, n));
  };
  for (const auto& [name, field] : rows.observation) add("observation/" + name, field);
  for (const auto& [name, field] : rows.mask) add("mask/" + name, field);
  for (const auto& [name, field] : rows.action) add("action/" + name, field);
  add("reward", rows.reward);
  add("first", rows.is_first);
  add("valid", rows.valid);
  return all;
}

// Format per tensor: name, dtype, sizes and data.
std::vector<std::byte> to_bytes(const NamedTensors& tensors) {
  std::vector<std::byte> out;
  for (const auto& [name, tensor] : tensors) {
    put(name.size(), out);
    const auto letters = std::as_bytes(std::span(name));
    out.insert(out.end(), letters.begin(), letters.end());
    put(tensor.scalar_type(), out);
    put(tensor.dim(), out);
    for (const auto size : tensor.sizes()) put(size, out);
    const auto x = tensor.contiguous();
    const auto* numbers = static_cast<const std::byte*>(x.const_data_ptr());
    out.insert(out.end(), numbers, numbers + x.nbytes());
  }
  return out;
}

NamedTensors from_bytes(std::span<const std::byte> bytes) {
  NamedTensors out;
  while (!bytes.empty()) {
    const auto length = take<std::size_t>(bytes);
    const std::string name(reinterpret_cast<const char*>(bytes.data()), length);
    bytes = bytes.subspan(length);
    const auto type = take<at::ScalarType>(bytes);
    std::vector<std::int64_t> sizes(static_cast<std::size_t>(take<std::int64_t>(bytes)));
    for (auto& size : sizes) size = take<std::int64_t>(bytes);
    const auto tensor = at::empty(sizes, type);
    if (tensor.nbytes() > 0) std::memcpy(tensor.data_ptr(), bytes.data(), tensor.nbytes());
    bytes = bytes.subspan(tensor.nbytes());
    out.add(name, tensor);
  }
  return out;
}

}  // namespace shoal
