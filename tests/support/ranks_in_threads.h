#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <exception>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "shoal/distributed/process_group.h"
#include "shoal/ipc/rank_exchange.h"

namespace shoal::testing {

// Runs ranks in threads instead of processes. Returns the error message of each; "" if none.
inline std::vector<std::string> in_threads(int count, const std::function<void(int)>& body) {
  std::vector<std::string> said(static_cast<std::size_t>(count));
  {
    std::vector<std::jthread> threads;
    for (int r = 0; r < count; ++r)
      threads.emplace_back([&, r] {
        try {
          body(r);
        } catch (const std::exception& e) {
          said[static_cast<std::size_t>(r)] = e.what();
        }
      });
  }
  return said;
}

// The same for the ranks of one machine.
inline std::vector<std::string> in_ranks(int count,
                                         const std::function<void(ProcessGroup&)>& body) {
  struct alignas(64) Line : std::array<std::byte, 64> {};
  const RankExchangeOptions options{.ranks = count, .spin = 0, .timeout = std::chrono::seconds(20)};
  std::vector<Line> memory(RankExchange::bytes(options) / 64 + 1);
  const RankExchange exchange(memory[0].data(), options);
  return in_threads(count, [&](int r) {
    const auto ranks = make_shared_group(exchange.of(r));
    body(*ranks);
  });
}

}  // namespace shoal::testing
