#include "shoal/envs/random_actions.h"

#include <cmath>
#include <cstring>

namespace shoal {

RandomActions::RandomActions(const Named<ActionSpec>& spec, Rng rng) : spec_(spec), rng_(rng) {
  for (const auto& [name, action] : spec) {
    actions_.emplace_back(action.array().bytes());
    fields_.push_back(actions_.back().data());
  }
}

ArraysIn RandomActions::choose(const std::byte* mask) {
  for (std::size_t i = 0; i < spec_.size(); ++i) choose(spec_[i], mask, actions_[i].data());
  return ArraysIn(fields_);
}

void RandomActions::choose(const ActionSpec& spec, const std::byte* mask, std::byte* to) {
  switch (spec.kind) {
    case ActionSpec::Kind::kDiscrete:
    case ActionSpec::Kind::kMultiDiscrete:
      for (const auto n : spec.choices) {
        auto choice = rng_.integer(0, n);
        for (std::int64_t tried = 0; mask && mask[choice] == std::byte{0} && tried < n; ++tried)
          choice = (choice + 1) % n;
        std::memcpy(to, &choice, sizeof choice);
        to += sizeof choice;
      }
      break;
    case ActionSpec::Kind::kBox:
      for (std::int64_t i = 0; i < spec.dims; ++i, to += sizeof(float)) {
        const auto x = static_cast<float>(spec.bounded() ? rng_.uniform(spec.low, spec.high)
                                                         : rng_.uniform(-1, 1));
        std::memcpy(to, &x, sizeof x);
      }
      break;
    case ActionSpec::Kind::kMultiBinary:
      for (std::int64_t i = 0; i < spec.dims; ++i) *to++ = std::byte(rng_.integer(0, 2));
      break;
  }
}

}  // namespace shoal
