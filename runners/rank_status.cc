#include "runners/rank_status.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/tensor.h>

#include <algorithm>

#include "shoal/data/saved.h"
#include "shoal/runners/episode_window.h"

namespace shoal {

RankStatus exchange_status(ProcessGroup& ranks, const RankStatus& own, std::int64_t envs) {
  EpisodeWindow episodes(own.episodes.size());
  episodes.add(own.episodes);
  auto status = episodes.save();
  std::vector<std::int64_t> ends;
  for (const auto& episode : own.episodes) ends.push_back(episode.t);
  status.add("ends", at::tensor(ends, at::kLong));
  status.add("numbers", at::tensor({own.steps, std::int64_t{own.signal}, std::int64_t{own.saves}}));
  if (!own.failure.empty()) {
    const auto text = at::empty({std::ssize(own.failure)}, at::kByte);
    std::ranges::copy(own.failure, static_cast<char*>(text.data_ptr()));
    status.add("failure", text);
  }
  RankStatus all;
  std::int64_t rank = 0;
  for (const auto& bytes : ranks.gather(to_bytes(status))) {
    const auto of_rank = from_bytes(bytes);
    const auto* numbers = of_rank.at("numbers").const_data_ptr<std::int64_t>();
    all.steps += numbers[0];
    if (numbers[1] != 0) all.signal = static_cast<int>(numbers[1]);
    if (rank == 0) all.saves = numbers[2] != 0;
    if (of_rank.contains("failure")) {
      const auto& text = of_rank.at("failure");
      all.failure.assign(static_cast<const char*>(text.const_data_ptr()), text.nbytes());
    }
    const auto* end = of_rank.at("ends").const_data_ptr<std::int64_t>();
    for (auto& episode : EpisodeWindow::episodes_of(of_rank)) {
      episode.env += rank * envs;
      episode.t = *end++;
      all.episodes.push_back(std::move(episode));
    }
    ++rank;
  }
  std::ranges::stable_sort(all.episodes, {}, &Episode::t);
  return all;
}

}  // namespace shoal
