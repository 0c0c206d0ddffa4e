#include "shoal/runners/episode_window.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"
#include "src/core/median.h"

namespace shoal {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class Key>
double mean(const std::deque<Episode>& episodes, Key key) {
  double sum = 0;
  for (const auto& episode : episodes) sum += static_cast<double>(key(episode));
  return episodes.empty() ? kNone : sum / static_cast<double>(episodes.size());
}

template <class Key>
Spread spread(const std::deque<Episode>& episodes, Key key) {
  if (episodes.empty()) return {kNone, kNone, kNone, kNone, kNone};
  std::vector<double> sorted;
  for (const auto& episode : episodes) sorted.push_back(static_cast<double>(key(episode)));
  std::ranges::sort(sorted);
  const auto n = sorted.size();
  Spread s{.mean = mean(episodes, key),
           .std = 0,
           .min = sorted.front(),
           .median = median_of_sorted(sorted),
           .max = sorted.back()};
  for (const double x : sorted) s.std += (x - s.mean) * (x - s.mean) / static_cast<double>(n);
  s.std = std::sqrt(s.std);
  return s;
}

}  // namespace

void EpisodeWindow::add(const std::vector<Episode>& episodes) {
  for (const auto& episode : episodes) {
    recent_.push_back(episode);
    if (recent_.size() > size_) recent_.pop_front();
    ++total_;
  }
}

NamedTensors EpisodeWindow::save() const {
  const auto n = static_cast<std::int64_t>(recent_.size());
  const auto infos = recent_.empty() ? 0 : static_cast<std::int64_t>(recent_.front().info.size());
  auto whole = at::empty({n, 4}, at::kLong), real = at::empty({n, 3 + infos}, at::kDouble);
  auto* w = whole.data_ptr<std::int64_t>();
  auto* r = real.data_ptr<double>();
  for (const auto& e : recent_) {
    for (const auto number : {e.env, e.number, e.length, e.nonzero_rewards}) *w++ = number;
    for (const auto number : {e.reward, e.discounted_reward, e.score}) *r++ = number;
    r = std::ranges::copy(e.info, r).out;
  }
  return {{"whole", whole}, {"real", real}, {"total", at::full({}, total_, at::kLong)}};
}

std::vector<Episode> EpisodeWindow::episodes_of(const NamedTensors& from) {
  const auto &whole = saved(from, "whole"), &real = saved(from, "real");
  require(whole.dim() == 2 && whole.size(1) == 4 && whole.scalar_type() == at::kLong &&
              real.dim() == 2 && real.size(1) >= 3 && real.scalar_type() == at::kDouble &&
              real.size(0) == whole.size(0),
          "the episodes have the wrong shape or dtype");
  const auto* w = whole.const_data_ptr<std::int64_t>();
  const auto* r = real.const_data_ptr<double>();
  std::vector<Episode> all;
  for (std::int64_t i = 0; i < whole.size(0); ++i, w += 4, r += real.size(1))
    all.push_back({.env = w[0],
                   .number = w[1],
                   .length = w[2],
                   .nonzero_rewards = w[3],
                   .reward = r[0],
                   .discounted_reward = r[1],
                   .score = r[2],
                   .info = {r + 3, r + real.size(1)}});
  return all;
}

void EpisodeWindow::restore(const NamedTensors& from) {
  const auto all = episodes_of(from);
  require(all.size() <= size_, "found {} saved episodes, expected at most {}", all.size(), size_);
  recent_.assign(all.begin(), all.end());
  total_ = saved(from, "total").item<std::int64_t>();
}

double EpisodeWindow::mean_score() const {
  return mean(recent_, [](const Episode& e) { return e.score; });
}

Spread EpisodeWindow::scores() const {
  return spread(recent_, [](const Episode& e) { return e.score; });
}

Spread EpisodeWindow::lengths() const {
  return spread(recent_, [](const Episode& e) { return e.length; });
}

Spread EpisodeWindow::discounted_rewards() const {
  return spread(recent_, [](const Episode& e) { return e.discounted_reward; });
}

double EpisodeWindow::mean_nonzero_rewards() const {
  return mean(recent_, [](const Episode& e) { return e.nonzero_rewards; });
}

double EpisodeWindow::mean_info(std::size_t i) const {
  return mean(recent_, [i](const Episode& e) { return e.info.at(i); });
}

}  // namespace shoal
