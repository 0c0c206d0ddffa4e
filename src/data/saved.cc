#include "shoal/data/saved.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include <cstring>

#include "shoal/core/error.h"

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

}  // namespace

const at::Tensor& saved(const NamedTensors& from, const std::string& name) {
  require(from.contains(name), "what was saved holds no '{}'", name);
  return from.at(name);
}

void restore(const NamedTensors& from, const std::string& prefix, NamedTensors targets) {
  const at::NoGradGuard no_grad;
  for (auto& [unprefixed, target] : targets) {
    const auto name = prefix + unprefixed;
    const auto& stored = saved(from, name);
    require(stored.sizes() == target.sizes() && stored.scalar_type() == target.scalar_type(),
            "'{}' was saved as {} [{}], expected {} [{}]", name,
            c10::toString(stored.scalar_type()), fmt::join(stored.sizes(), ", "),
            c10::toString(target.scalar_type()), fmt::join(target.sizes(), ", "));
    target.copy_(stored);
  }
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
  add("first", rows.first);
  add("valid", rows.valid);
  return all;
}

// Of each: its name, type, sizes and numbers.
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
