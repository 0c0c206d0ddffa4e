#pragma once

#include <chrono>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "shoal/distributed/process_group.h"
#include "tests/support/ranks_in_threads.h"

namespace shoal::testing {

// A store at a free port of this machine, as torchrun has one.
class RendezvousStore {
 public:
  RendezvousStore() {
    c10d::TCPStoreOptions options;
    options.port = 0;
    options.isServer = true;
    options.waitWorkers = false;
    store_ = c10::make_intrusive<c10d::TCPStore>("127.0.0.1", options);
  }
  c10d::TCPStore& store() { return *store_; }
  TcpGroupOptions options(int rank, int count) const {
    return {.rank = rank,
            .count = count,
            .port = store_->getPort(),
            .store_exists = true,
            .timeout = std::chrono::seconds(20)};
  }

 private:
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

}  // namespace shoal::testing
