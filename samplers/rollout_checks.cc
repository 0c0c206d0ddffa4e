#include "samplers/rollout_checks.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>

#include "shoal/core/finite.h"

namespace shoal {

namespace {

bool is_floating(DType type) { return type == DType::kFloat32 || type == DType::kFloat64; }

std::vector<std::size_t> floating(const NamedSpecs& specs) {
  std::vector<std::size_t> places;
  for (std::size_t i = 0; i < specs.size(); ++i)
    if (is_floating(specs[i].dtype)) places.push_back(i);
  return places;
}

// `field` must be of a floating-point type.
bool is_finite(const Rows& rows, const Arena::Field& field, std::int64_t row, const Range& envs) {
  const auto* x = rows.element(field, row, envs.first).data();
  const auto bytes = envs.size() * static_cast<std::int64_t>(field.element_bytes);
  return field.spec.dtype == DType::kFloat32
             ? all_finite(reinterpret_cast<const float*>(x), bytes / 4)
             : all_finite(reinterpret_cast<const double*>(x), bytes / 8);
}

// The first number of a field that is not finite: its environment, element, and name.
struct Place {
  std::int64_t b, element;
  const char* number;
};

std::optional<Place> find_bad(const Rows& rows, const Arena::Field& field, std::int64_t row,
                              const Range& envs) {
  const auto type = field.spec.dtype;
  const auto bytes = size_of(type), each = field.element_bytes / bytes;
  for (auto b = envs.first; b < envs.last; ++b)
    for (std::size_t i = 0; i < each; ++i) {
      const auto x = number_at(rows.element(field, row, b).data() + i * bytes, type);
      if (!std::isfinite(x)) return Place{b, static_cast<std::int64_t>(i), name_not_finite(x)};
    }
  return std::nullopt;
}

RolloutChecks::Found find_in(const Rows& rows, const Named<Arena::Field>& fields, std::size_t i,
                             std::int64_t row, const Range& envs, const char* what) {
  if (is_finite(rows, fields[i], row, envs)) return std::nullopt;
  const auto place = find_bad(rows, fields[i], row, envs);
  if (!place) return std::nullopt;
  const auto& name = fields.name(i);
  return RolloutChecks::Finding{
      place->b,
      fmt::format("element {} of {} is {}, expected finite numbers", place->element,
                  name.empty() ? fmt::format("the {}", what) : fmt::format("{} '{}'", what, name),
                  place->number)};
}

}  // namespace

RolloutChecks::RolloutChecks(const RolloutSpec& spec)
    : observations_(floating(spec.observation)), actions_(floating(spec.action)) {
  for (std::size_t i = 0; i < spec.env_info.size(); ++i)
    if (spec.env_info.name(i) == "score") score_ = i;
}

RolloutChecks::Found RolloutChecks::observations(const Rows& rows, std::int64_t row,
                                                 const Range& envs) const {
  for (const auto i : observations_)
    if (auto found = find_in(rows, rows.observation, i, row, envs, "observation")) return found;
  return std::nullopt;
}

RolloutChecks::Found RolloutChecks::masks(const Rows& rows, std::int64_t row, const Range& envs) {
  if (rows.mask.empty()) return std::nullopt;
  for (auto b = envs.first; b < envs.last; ++b) {
    const auto mask = rows.element(rows.mask[0], row, b);
    if (std::memchr(mask.data(), 1, mask.size()) == nullptr)
      return Finding{b, "the action mask allows no action, expected at least one"};
  }
  return std::nullopt;
}

RolloutChecks::Found RolloutChecks::actions(const Rows& rows, std::int64_t row,
                                            const Range& envs) const {
  for (const auto i : actions_) {
    auto found = find_in(rows, rows.action, i, row, envs, "action");
    if (!found) continue;
    found->text += ": the parameters of the agent may have diverged; lower the learning rate";
    return found;
  }
  return std::nullopt;
}

RolloutChecks::Found RolloutChecks::rewards(const Rows& rows, std::int64_t row,
                                            const Range& envs) const {
  if (is_finite(rows, rows.reward, row, envs) &&
      (!score_ || is_finite(rows, rows.env_info[*score_], row, envs)))
    return std::nullopt;
  auto place = find_bad(rows, rows.reward, row, envs);
  if (!place && score_) place = find_bad(rows, rows.env_info[*score_], row, envs);
  if (!place) return std::nullopt;
  const auto b = place->b;
  const float reward = rows.scalar<float>(rows.reward, row, b);
  return rewards(reward, score_ ? rows.scalar<float>(rows.env_info[*score_], row, b) : 0, b);
}

RolloutChecks::Found RolloutChecks::step(const Rows& rows, std::int64_t row,
                                         const Range& envs) const {
  if (auto found = rewards(rows, row, envs)) return found;
  if (auto found = observations(rows, row + 1, envs)) return found;
  return masks(rows, row + 1, envs);
}

RolloutChecks::Found RolloutChecks::rewards(float reward, float score, std::int64_t b) {
  const bool earned = std::isfinite(reward);
  if (earned && std::isfinite(score)) return std::nullopt;
  return Finding{b, fmt::format("{} is {}, expected a finite number",
                                earned ? "the info 'score'" : "the reward",
                                name_not_finite(earned ? score : reward))};
}

}  // namespace shoal
