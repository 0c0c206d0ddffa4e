#include "shoal/runners/episode_window.h"

#include <algorithm>
#include <limits>

namespace shoal {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

template <class Key>
double mean(const std::deque<Episode>& episodes, Key key) {
  double sum = 0;
  for (const auto& episode : episodes) sum += static_cast<double>(key(episode));
  return episodes.empty() ? kNone : sum / static_cast<double>(episodes.size());
}

bool by_score(const Episode& a, const Episode& b) { return a.score < b.score; }

}  // namespace

void EpisodeWindow::add(const std::vector<Episode>& episodes) {
  for (const auto& episode : episodes) {
    recent_.push_back(episode);
    if (recent_.size() > size_) recent_.pop_front();
    ++total_;
  }
}

double EpisodeWindow::mean_score() const {
  return mean(recent_, [](const Episode& e) { return e.score; });
}

double EpisodeWindow::mean_length() const {
  return mean(recent_, [](const Episode& e) { return e.length; });
}

double EpisodeWindow::mean_info(std::size_t i) const {
  return mean(recent_, [i](const Episode& e) { return e.info.at(i); });
}

double EpisodeWindow::min_score() const {
  return recent_.empty() ? kNone
                         : std::min_element(recent_.begin(), recent_.end(), by_score)->score;
}

double EpisodeWindow::max_score() const {
  return recent_.empty() ? kNone
                         : std::max_element(recent_.begin(), recent_.end(), by_score)->score;
}

}  // namespace shoal
