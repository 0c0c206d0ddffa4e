#include "benchmarks/service.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#include "benchmarks/benchmarks.h"
#include "benchmarks/complete_benchmark.h"
#include "cli/bench_line.h"
#include "cli/cpu_use.h"
#include "shoal/core/error.h"
#include "shoal/runners/launch.h"
#include "src/core/median.h"

namespace shoal::cli {

ClientCounts::ClientCounts(int clients)
    : clients_(clients),
      field_(plan_.add_bytes(static_cast<std::size_t>(clients) * 64)),
      arena_(plan_) {
  for (int c = 0; c < clients; ++c) new (&place(c)) std::atomic<std::int64_t>(0);
}

std::atomic<std::int64_t>& ClientCounts::place(int client) const {
  return *reinterpret_cast<std::atomic<std::int64_t>*>(arena_.data(field_) +
                                                       static_cast<std::size_t>(client) * 64);
}

std::int64_t ClientCounts::sum() const {
  std::int64_t sum = 0;
  for (int c = 0; c < clients_; ++c) sum += place(c).load(std::memory_order_relaxed);
  return sum;
}

std::int64_t ClientCounts::least() const {
  auto least = place(0).load(std::memory_order_relaxed);
  for (int c = 1; c < clients_; ++c)
    least = std::min(least, place(c).load(std::memory_order_relaxed));
  return least;
}

ServiceResult measure_service(const ServiceFlags& flags, const ClientCounts& counts,
                              WorkerGroup& clients, const Serving& server) {
  constexpr int kWarm = 10;  // per client, as in the peer's benchmark
  const auto work = [&](const auto& enough) {
    for (auto looked = std::chrono::steady_clock::now(); !enough();) {
      const bool idle = server.serve() == 0;
      const auto now = std::chrono::steady_clock::now();
      if (!idle && now - looked < std::chrono::milliseconds(100)) continue;
      clients.check();
      looked = now;
    }
  };
  const auto done = [&] { return counts.sum() - server.in_vain(); };
  work([&] { return counts.least() >= kWarm; });
  ServiceResult out;
  const CpuUse use;
  for (int run = 0; run < flags.runs; ++run) {
    const auto before = done();
    const auto start = std::chrono::steady_clock::now();
    double passed = 0;
    work([&] {
      passed = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
      return passed >= flags.seconds;
    });
    out.runs.push_back(static_cast<double>(done() - before) / passed);
  }
  out.other_cpu = use.others();
  return out;
}

namespace {

void print_service(const ServiceFlags& flags, const ServiceResult& result) {
  const bool acts = flags.experiment == "agent";
  const auto& stale = result.staleness;
  const auto* unit = acts ? "env steps/s" : "updates/s";
  if (flags.json) {
    nlohmann::ordered_json config = {{"experiment", acts ? "cartpole" : "ps"},
                                     {acts ? "observers" : "trainers", flags.clients},
                                     {"mode", flags.mode},
                                     {"threads", 1}};
    if (!acts) config["network"] = flags.network;
    if (flags.max_staleness >= 0) config["max_staleness"] = flags.max_staleness;
    auto line = json_of({.bench = "batch_rpc",
                         .config = config,
                         .unit = unit,
                         .runs = result.runs,
                         .other_cpu = result.other_cpu});
    if (flags.asynchronous())
      line["staleness"] = {
          {"mean", five_digits(stale.mean)}, {"most", stale.most}, {"refused", stale.refused}};
    fmt::print("{}\n", line.dump());
    return;
  }
  const auto [least, most] = std::ranges::minmax(result.runs);
  fmt::print("{} {}, mode {}\n", flags.clients, acts ? "observers" : "trainers", flags.mode);
  fmt::print("{:.0f} {}, median of {} ({:.0f} to {:.0f})\n", median_of(result.runs), unit,
             result.runs.size(), least, most);
  if (flags.asynchronous())
    fmt::print("staleness of gradients: {:.2f} updates, {} at most; {} refused\n", stale.mean,
               stale.most, stale.refused);
  fmt::print("other processes used {:.2f} cores during the runs\n", result.other_cpu);
}

void require_choice(const char* flag, const std::string& found,
                    const std::vector<std::string>& choices) {
  require(std::ranges::count(choices, found) == 1, "{}: found {}, expected {}", flag, found,
          fmt::join(choices, " or "));
}

int bench_service(const ServiceFlags& flags, char** argv) {
  require_choice("--experiment", flags.experiment, {"agent", "parameters"});
  require_choice("--mode", flags.mode, {"batch", "no_batch", "alone"});
  require_choice("--network", flags.network, {"mlp", "resnet50"});
  require(flags.clients >= 1 && flags.clients <= 32, "--clients: found {}, expected 1 to 32",
          flags.clients);
  require_runs(flags.runs, flags.seconds);
  require(flags.max_staleness >= -1, "--max-staleness: found {}, expected a number of updates",
          flags.max_staleness);
  require(
      flags.max_staleness == -1 || flags.asynchronous(),
      "--max-staleness: expected --experiment parameters --mode no_batch beside it; only gradients "
      "that are applied one by one can be stale");
  launch(argv, 1);
  print_service(flags,
                flags.experiment == "agent" ? measure_agent(flags) : measure_parameters(flags));
  return kSuccess;
}

}  // namespace

void add_bench_service(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<ServiceFlags>();
  auto* command = bench.add_subcommand(
      "service",
      "Measure a server process: acting (env steps/s) or applying gradients (updates/s)");
  command->add_option("--experiment", flags->experiment, "Kind of server: agent or parameters")
      ->capture_default_str();
  command->add_option("--clients", flags->clients, "Number of observers or trainers")
      ->capture_default_str();
  command
      ->add_option("--mode", flags->mode,
                   "batch: all requests at once; no_batch: one by one; alone: no server")
      ->capture_default_str();
  command
      ->add_option(
          "--network", flags->network,
          "Size of the gradients: mlp (1 million parameters) or resnet50 (as many as ResNet-50)")
      ->capture_default_str();
  command->add_option(
      "--max-staleness", flags->max_staleness,
      "Refuse gradients with a larger staleness, in updates (no_batch); default: none");
  complete_benchmark(*command, flags, chosen, bench_service);
}

}  // namespace shoal::cli
