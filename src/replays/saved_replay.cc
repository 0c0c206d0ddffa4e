#include "src/replays/saved_replay.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/equal.h>
#include <ATen/ops/full.h>
#include <ATen/ops/tensor.h>

#include <algorithm>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "shoal/data/saved.h"
#include "shoal/replays/replay.h"
#include "src/replays/step_store.h"

namespace shoal {
namespace {

using Follows = StepStore::Follows;
constexpr const char *kFollows = "follows", *kFree = "final_places";

// Whether the tensor has one row for each place of a final observation.
bool is_of_places(const std::string& name) {
  return name.starts_with("final/") || name.starts_with("final_mask/");
}

// The axis of a tensor along which environments, or slices, are counted.
enum class Axis { kNone = -1, kFirst, kSecond, kSlices };

Axis axis_of(const std::string& name) {
  if (name == "open") return Axis::kFirst;
  if (name == "draws" || name == "largest_priority") return Axis::kSlices;
  const bool second = name.starts_with("rows/") || name.starts_with("states/") ||
                      name == kFollows || name == "priorities" || name == "can_be_drawn";
  return second ? Axis::kSecond : Axis::kNone;
}

std::span<Follows> steps_of(const at::Tensor& follows) {
  return {static_cast<Follows*>(follows.data_ptr()), follows.nbytes() / sizeof(Follows)};
}

std::int64_t places_of(const NamedTensors& saved) {
  for (const auto& [name, tensor] : saved)
    if (is_of_places(name)) return tensor.size(0);
  return 0;
}

// Keeps only the final observations that these steps refer to.
void drop_other_places(NamedTensors& part) {
  std::vector<std::int32_t> place(static_cast<std::size_t>(places_of(part)), -1);
  std::vector<std::int64_t> used;
  auto& follows = part.at(kFollows);
  follows = follows.clone();  // it may be the saved tensor itself
  for (auto& step : steps_of(follows)) {
    if (step.last < 0) continue;
    auto& to = place.at(static_cast<std::size_t>(step.last));
    if (to < 0) {
      to = static_cast<std::int32_t>(used.size());
      used.push_back(step.last);
    }
    step.last = to;
  }
  for (auto& [name, tensor] : part)
    if (is_of_places(name)) tensor = tensor.index_select(0, at::tensor(used, at::kLong));
  part.at(kFree) = at::empty({0}, at::kInt);
}

}  // namespace

void save_settings(const ReplaySettings& settings, NamedTensors& to) {
  for (const auto& [name, value] : settings)
    to.add("settings/" + name, at::full({}, value, at::kDouble));
}

void require_saved_settings(const NamedTensors& from, const ReplaySettings& settings) {
  for (const auto& [name, value] : settings) {
    if (!from.contains("settings/" + name)) continue;  // saved before they were part of it
    const auto found = from.at("settings/" + name).item<double>();
    require(found == value,
            "saved replay: found {} {}, expected {}; restore it with the settings "
            "it was saved with",
            name, number_text(found), number_text(value));
  }
}

at::Tensor saved_of_slices(const NamedTensors& from, const std::string& name, std::int64_t slices) {
  const auto& each = saved(from, name);
  return each.numel() == slices ? each.flatten() : each.amax().expand({slices});
}

std::int64_t envs_of_saved_replay(const NamedTensors& all) { return saved(all, "open").size(0); }

NamedTensors part_of_saved_replay(const NamedTensors& all, std::int64_t first_env,
                                  std::int64_t envs) {
  const auto had = envs_of_saved_replay(all);
  require(first_env >= 0 && envs >= 1 && first_env + envs <= had,
          "saved replay: expected environments {} to {}, found {} environments", first_env,
          first_env + envs - 1, had);
  NamedTensors part;
  for (const auto& [name, tensor] : all) {
    const auto axis = axis_of(name);
    if (axis == Axis::kNone) {
      part.add(name, tensor);
    } else if (axis != Axis::kSlices) {
      part.add(name, tensor.narrow(static_cast<int>(axis), first_env, envs).contiguous());
    } else {
      const auto slices = tensor.numel();
      const bool whole = first_env * slices % had == 0 && envs * slices % had == 0;
      part.add(name, whole ? tensor.narrow(0, first_env * slices / had, envs * slices / had)
                           : tensor.amax().view({1}));
    }
  }
  drop_other_places(part);
  return part;
}

NamedTensors join_saved_replays(const std::vector<NamedTensors>& parts) {
  require(!parts.empty(), "saved replays: found none, expected at least one");
  for (const auto& part : parts)
    require(at::equal(saved(part, "ticks"), saved(parts.front(), "ticks")),
            "parts of a replay: found parts saved after {} and {} steps of each environment, "
            "expected equal steps",
            saved(parts.front(), "ticks").item<std::int64_t>(),
            saved(part, "ticks").item<std::int64_t>());
  NamedTensors all;
  for (const auto& [name, first] : parts.front()) {
    std::vector<at::Tensor> each;
    std::int64_t places = 0;  // of the parts before
    for (const auto& part : parts) {
      auto one = saved(part, name);
      if (name == kFree) one = one + places;
      if (name == kFollows) {
        one = one.clone();
        for (auto& step : steps_of(one))
          if (step.last >= 0) step.last += static_cast<std::int32_t>(places);
      }
      each.push_back(one);
      places += places_of(part);
    }
    const auto axis = axis_of(name);
    const bool joined = axis != Axis::kNone || name == kFree || is_of_places(name);
    all.add(name, joined ? at::cat(each, axis == Axis::kSecond ? 1 : 0) : first);
  }
  return all;
}

}  // namespace shoal
