#include "shoal/data/saved.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <fmt/ranges.h>

#include "shoal/core/error.h"

namespace shoal {

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

}  // namespace shoal
