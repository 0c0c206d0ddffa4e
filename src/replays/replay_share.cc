#include "src/replays/replay_share.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/cat.h>

#include <cstring>
#include <span>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/data/saved.h"

namespace shoal {

void ReplayShare::meet() const {
  if (count() > 1) ranks_->gather({});
}

void ReplayShare::meet_with_steps(std::int64_t T) const {
  if (count() == 1) return;
  const auto all = ranks_->gather(std::as_bytes(std::span(&T, 1)));
  for (std::size_t r = 0; r < all.size(); ++r) {
    std::int64_t other = 0;
    std::memcpy(&other, all[r].data(), sizeof other);
    require(
        other == T,
        "rollout: found {} steps, but rank {} has {}; ranks that share a replay need rollouts of "
        "equal length",
        T, r, other);
  }
}

ReplayShare::Part ReplayShare::part_of(std::int64_t n, const char* what) const {
  require(n % count() == 0, "batch: found {} {}, expected a multiple of {} ranks", n, what,
          count());
  const auto each = static_cast<std::size_t>(n / count());
  return {each * static_cast<std::size_t>(rank()), each};
}

at::Tensor ReplayShare::join(const at::Tensor& x, std::int64_t dim) const {
  if (count() == 1) return x.cpu();
  std::vector<at::Tensor> all;
  for (const auto& bytes : ranks_->gather(to_bytes({{"", x.cpu()}})))
    all.push_back(from_bytes(bytes)[0]);
  return at::cat(all, dim);
}

}  // namespace shoal
