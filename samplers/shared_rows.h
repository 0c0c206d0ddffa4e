#pragma once

#include <cstdint>

#include "shoal/core/arena.h"
#include "shoal/core/rows.h"

namespace shoal {

// How an episode ended; written by the worker that steps environment b.
struct EpisodeEnd {
  std::int64_t length;
  double reward, score;
};

// What the agent process and its workers share: the rows of one window, and one place per
// environment for an episode that ended in the present step.
//
// The rows of a window: `history` rows that precede it (the frames of stacked observations, the
// previous action), then rows 0..T. The next window begins with a copy of this one's last rows.
struct SharedRows {
  SharedRows(Arena::Plan& plan, const RowSpec& spec, std::int64_t horizon, std::int64_t envs,
             int collectors);
  void attach(const Arena& arena);

  std::int64_t horizon, history;
  Rows rows;
  Rows last;  // one row: the final observation of each environment whose episode ended in this step
  Arena::Field episode_ends;  // [B] EpisodeEnd
  Arena::Field ended;  // [collectors], a cache line each: episodes of its that ended in this step
  const Arena* arena = nullptr;

  EpisodeEnd& episode_end(std::int64_t b) const {
    return reinterpret_cast<EpisodeEnd*>(arena->data(episode_ends))[b];
  }
  std::int64_t& ended_in(int collector) const {
    return *reinterpret_cast<std::int64_t*>(arena->data(ended) + collector * 64);
  }
};

}  // namespace shoal
