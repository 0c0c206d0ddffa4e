#pragma once

#include <CLI/CLI.hpp>
#include <atomic>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "shoal/core/arena.h"
#include "shoal/ipc/worker_group.h"

namespace shoal::cli {

struct ServiceFlags {
  std::string experiment = "agent", mode = "batch", network = "mlp";
  int clients = 8;
  int runs = 5;
  double seconds = 2;
  std::int64_t max_staleness = -1;
  bool json = false;

  bool has_no_server() const { return mode == "alone"; }
  bool batched() const { return mode == "batch"; }
  // Trainers do not wait for each other.
  bool asynchronous() const { return experiment == "parameters" && mode == "no_batch"; }
};

// Staleness of gradients, since the trainers began.
struct Staleness {
  double mean = 0;        // of the applied gradients, in updates
  std::int64_t most = 0;  // of the applied gradients, in updates
  std::int64_t refused = 0;
};

struct ServiceResult {
  std::vector<double> runs;  // operations per second, of all clients
  double other_cpu = 0;
  Staleness staleness = {};  // asynchronous trainers only
};

// Number of operations of each client so far, in shared memory.
class ClientCounts {
 public:
  explicit ClientCounts(int clients);
  void add(int client) { place(client).fetch_add(1, std::memory_order_relaxed); }
  std::int64_t sum() const;
  std::int64_t least() const;

 private:
  std::atomic<std::int64_t>& place(int client) const;

  int clients_;
  Arena::Plan plan_;
  Arena::Field field_;
  Arena arena_;
};

// serve returns the number of clients served; 0 means that clients may have died. in_vain returns
// how many operations counted by clients had no effect.
struct Serving {
  std::function<int()> serve;
  std::function<std::int64_t()> in_vain = [] { return 0; };
};

// Counts the operations of `clients` while the server calls `serve` repeatedly.
ServiceResult measure_service(const ServiceFlags& flags, const ClientCounts& counts,
                              WorkerGroup& clients, const Serving& server);

// Observers with a CartPole each, for which a server acts. Counts steps of all environments.
ServiceResult measure_agent(const ServiceFlags& flags);
// Trainers whose gradients a server applies to shared parameters. Counts updates of all trainers.
ServiceResult measure_parameters(const ServiceFlags& flags);

}  // namespace shoal::cli
