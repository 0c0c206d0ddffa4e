#pragma once

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

#include "shoal/distributed/process_group.h"
#include "shoal/ipc/rank_exchange.h"
#include "src/distributed/sums.h"

namespace shoal {

// A process group on one machine, over shared memory.
class SharedGroup : public ProcessGroup {
 public:
  explicit SharedGroup(const RankExchange& exchange) : exchange_(exchange) {}
  int rank() const override { return exchange_.rank(); }
  int count() const override { return exchange_.ranks(); }

  void sum(at::Tensor x) override {
    sum_numbers(x, [this](auto numbers) { exchange_.sum(numbers); });
  }

  std::vector<std::vector<std::byte>> gather(std::span<const std::byte> own) override {
    const auto n = static_cast<std::size_t>(count());
    std::vector<std::size_t> sizes(n);
    const std::size_t size = own.size();
    exchange_.gather(std::as_bytes(std::span(&size, 1)), std::as_writable_bytes(std::span(sizes)));
    const auto most = *std::ranges::max_element(sizes);
    std::vector<std::byte> padded(own.begin(), own.end()), all(most * n);
    padded.resize(most);
    exchange_.gather(padded, all);
    std::vector<std::vector<std::byte>> each;
    for (std::size_t r = 0; r < n; ++r)
      each.emplace_back(all.data() + r * most, all.data() + r * most + sizes[r]);
    return each;
  }

  RankExchange& exchange() { return exchange_; }

 private:
  RankExchange exchange_;
};

}  // namespace shoal
