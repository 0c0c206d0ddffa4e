#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "benchmarks/benchmarks.h"
#include "benchmarks/complete_benchmark.h"
#include "cli/bench_line.h"
#include "cli/cpu_use.h"
#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/distributed/job_place.h"
#include "shoal/ipc/rank_exchange.h"
#include "shoal/ipc/step_barrier.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/config.h"
#include "shoal/runners/launch.h"
#include "shoal/runners/train.h"
#include "src/core/median.h"

namespace shoal::cli {
namespace {

struct SyncFlags {
  std::string size = "1MiB";
  int ranks = 2;
  int runs = 5;
  double seconds = 1;
  bool json = false;
  std::string backend = "auto";
};

const std::map<std::string, std::size_t> kNumbers = {
    {"16KiB", 1U << 12}, {"1MiB", 1U << 18}, {"16MiB", 1U << 22}, {"64MiB", 1U << 24}};

struct SyncResult {
  std::vector<double> runs;  // microseconds per all-reduce
  double bound = 0;          // time in which all ranks at once read and write their numbers once
  double other_cpu = 0;
};

// The next operation of all ranks.
struct Order {
  std::int64_t times = 0;     // 0: end
  std::int64_t together = 0;  // 1: all-reduce; 0: every rank reads and writes its own numbers only
};

// One rank's endpoint of the all-reduce.
class Peers {
 public:
  virtual ~Peers() = default;
  virtual void sum(std::span<float> values) = 0;
  virtual void share(Order& order) = 0;  // the first rank's value is broadcast
};

class SharedPeers : public Peers {
 public:
  explicit SharedPeers(const RankExchange& exchange) : exchange_(exchange) {}
  void sum(std::span<float> values) override { exchange_.sum(values); }
  void share(Order& order) override {
    exchange_.broadcast(std::as_writable_bytes(std::span(&order, 1)));
  }

 private:
  RankExchange exchange_;
};

// The processes started by a launcher.
class JobPeers : public Peers {
 public:
  explicit JobPeers(std::unique_ptr<ProcessGroup> ranks) : ranks_(std::move(ranks)) {}
  void sum(std::span<float> values) override {
    ranks_->sum(at::from_blob(values.data(), {std::ssize(values)}));
  }
  void share(Order& order) override {
    if (ranks_->rank() > 0) order = {};
    const auto numbers = at::tensor({order.times, order.together});
    ranks_->sum(numbers);
    order = {numbers[0].item<std::int64_t>(), numbers[1].item<std::int64_t>()};
  }

 private:
  std::unique_ptr<ProcessGroup> ranks_;
};

void obey(Peers& peers, Order order, std::span<float> values) {
  for (std::int64_t i = 0; i < order.times; ++i) {
    if (order.together != 0)
      peers.sum(values);
    else
      for (auto& v : values) v = v * 0.5F;
    asm volatile("" ::"r"(values.data()) : "memory");  // keeps every pass from being optimized away
  }
}

// Runs in all ranks except the first.
void follow(Peers& peers, std::size_t numbers) {
  std::vector<float> values(numbers, 1);
  for (Order order;;) {
    peers.share(order);
    if (order.times == 0) return;
    obey(peers, order, values);
  }
}

// Runs in the first rank.
class Leader {
 public:
  Leader(Peers& peers, int ranks, std::size_t numbers) : peers_(peers), values_(numbers, 1) {
    obey({.times = 1, .together = 1});
    const auto wrong =
        std::ranges::count_if(values_, [&](float v) { return v != static_cast<float>(ranks); });
    require(wrong == 0, "{} of {} sums are wrong", wrong, numbers);
    obey({.times = 200});  // ends at 0, so that no sum overflows
  }

  SyncResult measure(const SyncFlags& flags) {
    SyncResult out;
    out.bound = time({.times = times_in(flags.seconds, 0)});
    const auto times = times_in(flags.seconds, 1);
    const CpuUse use;
    for (int run = 0; run < flags.runs; ++run)
      out.runs.push_back(time({.times = times, .together = 1}));
    out.other_cpu = use.others();
    return out;
  }

 private:
  using Clock = std::chrono::steady_clock;
  void obey(Order order) {
    peers_.share(order);
    cli::obey(peers_, order, values_);
  }
  // Microseconds per operation, of order.times operations.
  double time(Order order) {
    const auto before = Clock::now();
    obey(order);
    const auto taken = std::chrono::duration<double, std::micro>(Clock::now() - before).count();
    return taken / static_cast<double>(order.times);
  }
  // Number of operations that take `seconds`.
  std::int64_t times_in(double seconds, std::int64_t together) {
    const auto one = time({.times = 5, .together = together});
    return std::max<std::int64_t>(3, static_cast<std::int64_t>(seconds * 1e6 / one));
  }

  Peers& peers_;
  std::vector<float> values_;
};

// Forks the other ranks.
SyncResult measure_here(const SyncFlags& flags, std::size_t numbers) {
  constexpr int kLongSpin = 20;  // a rank alone on its core has nothing else to do
  const RankExchangeOptions options{.ranks = flags.ranks,
                                    .spin = default_spin(flags.ranks) * kLongSpin};
  Arena::Plan plan;
  const auto words = plan.add_bytes(RankExchange::bytes(options));
  const Arena arena(plan);
  const RankExchange exchange(arena.data(words), options);
  const WorkerGroup others(flags.ranks - 1, [&](int worker, WorkerStatus) {
    SharedPeers own(exchange.of(worker + 1));
    follow(own, numbers);
  });
  SharedPeers first(exchange);
  return Leader(first, flags.ranks, numbers).measure(flags);
}

// Measures with the other processes of the job; empty in all of them but the first.
std::optional<SyncResult> measure_job(const SyncFlags& flags, const JobPlace& job,
                                      std::size_t numbers) {
  Config config;
  require(flags.backend != "nccl",
          "--backend: found nccl, expected auto, tcp or mpi; this benchmark measures CPUs only");
  set(config, "rank_backend", flags.backend);
  JobPeers peers(make_job_group(config, job));
  if (job.place > 0) {
    follow(peers, numbers);
    return std::nullopt;
  }
  const auto out = Leader(peers, job.count, numbers).measure(flags);
  Order end;
  peers.share(end);
  return out;
}

int bench_sync(const SyncFlags& flags, char** argv) {
  require(kNumbers.contains(flags.size), "--size: found {}, expected 16KiB, 1MiB, 16MiB or 64MiB",
          flags.size);
  const auto job = job_place();
  const int ranks = job.count > 1 ? job.count : flags.ranks;
  require(ranks >= 2, "--ranks: found {}, expected at least 2", ranks);
  require_runs(flags.runs, flags.seconds);
  launch(argv, 1);
  const auto numbers = kNumbers.at(flags.size);
  const auto measured = job.count > 1 ? measure_job(flags, job, numbers)
                                      : std::optional(measure_here(flags, numbers));
  if (!measured) return kSuccess;
  const auto& m = *measured;
  const auto median = median_of(m.runs);
  if (flags.json) {
    auto line = json_of({.bench = "allreduce",
                         .config = {{"what", flags.size},
                                    {"processes", ranks},
                                    {"backend", job.count > 1 ? flags.backend : "shared memory"},
                                    {"threads", 1}},
                         .unit = "us",
                         .runs = m.runs,
                         .other_cpu = m.other_cpu});
    line["bound"] = five_digits(m.bound);
    fmt::print("{}\n", line.dump());
    return kSuccess;
  }
  const auto [least, most] = std::ranges::minmax(m.runs);
  fmt::print("all-reduce of {} of float32 by {} processes\n", flags.size, ranks);
  fmt::print("{:.1f} us, median of {} ({:.1f} to {:.1f})\n", median, m.runs.size(), least, most);
  fmt::print(
      "bound {:.1f} us (all processes read and write their numbers once); reached: {:.0f} %\n",
      m.bound, 100 * m.bound / median);
  fmt::print("other processes used {:.2f} cores during the runs\n", m.other_cpu);
  return kSuccess;
}

}  // namespace

void add_bench_sync(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<SyncFlags>();
  auto* command = bench.add_subcommand(
      "sync", "Measure an all-reduce of gradients between processes, in microseconds");
  command->add_option("--size", flags->size, "Size of the gradients: 16KiB, 1MiB, 16MiB or 64MiB")
      ->capture_default_str();
  command->add_option("--ranks", flags->ranks, "Number of processes")->capture_default_str();
  command
      ->add_option(
          "--backend", flags->backend,
          "Communication of a launcher's processes (--ranks is then ignored): auto, tcp or mpi")
      ->capture_default_str();
  complete_benchmark(*command, flags, chosen, bench_sync);
}

}  // namespace shoal::cli
