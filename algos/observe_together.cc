#include "algos/observe_together.h"

#include <ATen/ATen.h>

#include <cstring>
#include <vector>

namespace shoal {

void observe_together(ProcessGroup& ranks, ActorCritic& agent, const Samples& samples) {
  const auto own = agent.statistics(samples);
  if (own.empty() || ranks.count() == 1) return agent.add_statistics(own);
  std::vector<at::Tensor> flat;
  for (const auto& [name, numbers] : own) flat.push_back(numbers.flatten());
  const auto bytes = at::cat(flat).to(at::kCPU);
  const auto all =
      ranks.gather({static_cast<const std::byte*>(bytes.const_data_ptr()), bytes.nbytes()});
  for (const auto& of_rank : all) {
    auto numbers = at::empty_like(bytes);
    std::memcpy(numbers.data_ptr(), of_rank.data(), of_rank.size());
    numbers = numbers.to(flat.front().device());
    NamedTensors statistics;
    std::int64_t from = 0;
    for (const auto& [name, like] : own) {
      statistics.add(name, numbers.narrow(0, from, like.numel()).view(like.sizes()));
      from += like.numel();
    }
    agent.add_statistics(statistics);
  }
}

}  // namespace shoal
