#include "cli/rungs.h"

#include <algorithm>

namespace shoal::cli {

Rungs::Rungs(const Halving& halving) : factor_(halving.factor) {
  for (auto steps = halving.min_steps; steps < halving.max_steps; steps *= factor_)
    steps_.push_back(steps);
  steps_.push_back(halving.max_steps);
}

std::size_t Rungs::add_trial() {
  trials_.emplace_back();
  return trials_.size() - 1;
}

void Rungs::record(std::size_t trial, int rung, double score, bool solved) {
  auto& t = trials_[trial];
  t.scores.resize(static_cast<std::size_t>(rung), score);
  t.scores.push_back(score);
  t.busy = false;
  t.solved = solved;
}

std::vector<std::size_t> Rungs::ranked(int rung) const {
  std::vector<std::size_t> there;
  for (std::size_t i = 0; i < trials_.size(); ++i)
    if (reached(i) >= rung) there.push_back(i);
  const auto score = [&](std::size_t i) {
    return trials_[i].scores[static_cast<std::size_t>(rung)];
  };
  std::ranges::stable_sort(there, [&](auto a, auto b) { return score(a) > score(b); });
  return there;
}

Rungs::Job Rungs::start(std::size_t trial) {
  trials_[trial].busy = true;
  return {trial, reached(trial) + 1};
}

std::optional<Rungs::Job> Rungs::next() {
  for (int rung = count() - 2; rung >= 0; --rung) {
    auto there = ranked(rung);
    there.resize(there.size() / static_cast<std::size_t>(factor_));
    for (const auto i : there)
      if (reached(i) == rung && trials_[i].is_free()) return start(i);
  }
  for (std::size_t i = 0; i < trials_.size(); ++i)
    if (reached(i) < 0 && trials_[i].is_free()) return start(i);
  const auto last = best();
  const bool idle = std::ranges::none_of(trials_, &Trial::busy);
  if (idle && last && trials_[*last].is_free() && reached(*last) < count() - 1) return start(*last);
  return {};
}

bool Rungs::solved() const { return std::ranges::any_of(trials_, &Trial::solved); }

std::optional<std::size_t> Rungs::best() const {
  const auto found = std::ranges::find_if(trials_, &Trial::solved);
  if (found != trials_.end()) return static_cast<std::size_t>(found - trials_.begin());
  for (int rung = count() - 1; rung >= 0; --rung)
    for (const auto i : ranked(rung))
      if (!trials_[i].lost) return i;
  return {};
}

}  // namespace shoal::cli
