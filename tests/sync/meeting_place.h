#pragma once

#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <vector>

#include "shoal/sync/ranks.h"

namespace shoal::testing {

// A store at a free port of this machine, as torchrun has one.
class MeetingPlace {
 public:
  MeetingPlace() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  c10d::TCPStore& store() { return *store_; }
  TcpRanksOptions options(int rank, int count) const {
    return {.rank = rank,
            .count = count,
            .port = store_->getPort(),
            .store_exists = true,
            .timeout = std::chrono::seconds(20)};
  }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

// Threads stand in for processes. What each threw; "" if nothing.
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

}  // namespace shoal::testing
