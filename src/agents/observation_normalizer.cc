#include "src/agents/observation_normalizer.h"

#include <ATen/ATen.h>
#include <torch/utils.h>

#include <algorithm>

#include "src/models/flat_input.h"

namespace shoal {

namespace {

constexpr double kMostDeviations = 10;
constexpr double kLeastVariance = 1e-8;

// Drops stored frames that no observation uses; blank frames (index below 0) stay blank.
Observed only_used(const Observed& all) {
  if (!all.stacked()) return all;
  const auto frames = all.index.flatten();
  const auto place = at::arange(frames.numel(), frames.options());
  return {all.data.index_select(0, frames.clamp_min(0)),
          at::where(frames < 0, frames, place).view_as(all.index)};
}

// Whether float32 would round the values.
bool is_wide(DType dtype) {
  return dtype == DType::kFloat64 || dtype == DType::kInt32 || dtype == DType::kInt64;
}

}  // namespace

bool is_normalized(const ArraySpec& field) {
  switch (field.dtype) {
    case DType::kFloat32:
    case DType::kFloat64:
    case DType::kInt32:
      return true;
    case DType::kInt64:
      return categories(field) == 0;
    case DType::kUInt8:
      return field.shape.size() <= 1;
    case DType::kBool:
      return false;
  }
  return false;
}

ObservationNormalizer::ObservationNormalizer(const NamedSpecs& observation) {
  for (const auto& [name, spec] : observation) {
    if (!is_normalized(spec)) continue;
    // torch does not allow dots in names of buffers.
    auto prefix = name.empty() ? std::string("observation") : name;
    std::ranges::replace(prefix, '.', '_');
    while (std::ranges::count(fields_, prefix, &Field::prefix) > 0) prefix += '_';
    Field field{.name = name,
                .prefix = prefix,
                .type = is_wide(spec.dtype) ? at::kDouble : at::kFloat,
                .count = {},
                .mean = {},
                .variance = {},
                .shift = {},
                .scale = {}};
    field.count = register_buffer(prefix + "/count", at::zeros({}, at::kDouble));
    field.mean = register_buffer(prefix + "/mean", at::zeros(spec.shape, at::kDouble));
    field.variance = register_buffer(prefix + "/variance", at::ones(spec.shape, at::kDouble));
    fields_.push_back(std::move(field));
  }
  refresh();
}

NamedTensors ObservationNormalizer::statistics(const Samples& samples) const {
  torch::NoGradGuard no_grad;
  const auto valid = samples.valid.flatten();
  NamedTensors out;
  for (const auto& field : fields_) {
    const auto all_seen = samples.observation.at(field.name).narrow(0, 0, samples.T).flatten(0, 1);
    const auto seen = all_seen.index({valid}).to(at::kDouble);
    const auto [variance, mean] = at::var_mean(seen, at::IntArrayRef{0}, /*correction=*/0);
    out.add(field.prefix + "/count", at::full_like(field.count, seen.size(0)));
    out.add(field.prefix + "/mean", mean);
    out.add(field.prefix + "/variance", variance);
  }
  return out;
}

// Merges the statistics of two sets (Chan et al., "Updating formulae and a pairwise algorithm for
// computing sample variances", 1979).
void ObservationNormalizer::add(const NamedTensors& statistics) {
  torch::NoGradGuard no_grad;
  for (auto& field : fields_) {
    const auto n = statistics.at(field.prefix + "/count").item<double>();
    if (n == 0) continue;
    const auto all = field.count + n;
    const auto difference = statistics.at(field.prefix + "/mean") - field.mean;
    const auto squares = field.variance * field.count +
                         statistics.at(field.prefix + "/variance") * n +
                         difference.square() * field.count * n / all;
    field.mean.add_(difference * (n / all));
    field.variance.copy_(squares / all);
    field.count.copy_(all);
  }
}

void ObservationNormalizer::refresh() {
  torch::NoGradGuard no_grad;
  for (auto& field : fields_) {
    // In place, because a captured graph may read them.
    if (!field.shift.defined() || field.shift.device() != field.mean.device()) {
      field.shift = at::empty_like(field.mean, field.type);
      field.scale = at::empty_like(field.mean, at::kFloat);
    }
    field.shift.copy_(field.mean);
    field.scale.copy_((field.variance + kLeastVariance).rsqrt());
  }
}

Observations ObservationNormalizer::operator()(const Observations& observation) const {
  Observations out;
  for (const auto& [name, observed] : observation) {
    const auto field = std::ranges::find(fields_, name, &Field::name);
    if (field == fields_.end()) {
      out.add(name, observed);
      continue;
    }
    const auto [data, index] = only_used(observed);
    // The mean is subtracted in double precision from numbers that may be large and vary little.
    auto x = (data - field->shift).to(at::kFloat);
    out.add(name, {x.mul_(field->scale).clamp_(-kMostDeviations, kMostDeviations), index});
  }
  return out;
}

}  // namespace shoal
