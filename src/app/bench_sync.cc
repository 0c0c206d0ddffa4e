#include "src/app/bench_sync.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/rank_exchange.h"
#include "shoal/core/step_barrier.h"
#include "shoal/core/worker_group.h"
#include "shoal/runners/launch.h"
#include "src/app/bench_line.h"
#include "src/app/cpu_use.h"

namespace shoal::app {
namespace {

struct SyncFlags {
  std::string size = "1MiB";
  int ranks = 2;
  int runs = 5;
  double seconds = 1;
  bool json = false;
};

const std::map<std::string, std::size_t> kNumbers = {
    {"16KiB", 1U << 12}, {"1MiB", 1U << 18}, {"16MiB", 1U << 22}, {"64MiB", 1U << 24}};

struct SyncResult {
  std::vector<double> runs;  // microseconds an all-reduce takes
  double bound = 0;          // in which all ranks at once read and write their numbers, no more
  double other_cpu = 0;
};

// What all ranks do next.
struct Order {
  std::int64_t times = 0;
  bool together = false;  // add up; otherwise every rank goes over its own numbers alone
};

void obey(RankExchange& exchange, Order order, std::span<float> values) {
  for (std::int64_t i = 0; i < order.times; ++i) {
    if (order.together)
      exchange.sum(values);
    else
      for (auto& v : values) v = v * 0.5F;
    asm volatile("" ::"r"(values.data()) : "memory");  // each pass is made
  }
}

class Ranks {
 public:
  explicit Ranks(const SyncFlags& flags)
      : numbers_(kNumbers.at(flags.size)),
        options_{.ranks = flags.ranks, .spin = default_spin(flags.ranks) * kLongSpin},
        words_(plan_.add_bytes(RankExchange::bytes(options_))),
        arena_(plan_),
        exchange_(arena_.data(words_), options_),
        others_(flags.ranks - 1,
                [this](int worker, WorkerStatus) {
                  auto own = exchange_.of(worker + 1);
                  std::vector<float> values(numbers_, 1);
                  for (Order order;;) {
                    own.broadcast(std::as_writable_bytes(std::span(&order, 1)));
                    app::obey(own, order, values);
                  }
                }),
        values_(numbers_, 1) {
    obey({.times = 1, .together = true});
    const auto wrong = std::ranges::count_if(
        values_, [&](float v) { return v != static_cast<float>(flags.ranks); });
    require(wrong == 0, "{} of {} sums are wrong", wrong, numbers_);
    obey({.times = 200});  // to 0: no sum overflows
  }

  // Microseconds of one, when all do so many.
  double time(Order order) {
    const auto before = Clock::now();
    obey(order);
    const auto taken = std::chrono::duration<double, std::micro>(Clock::now() - before).count();
    return taken / static_cast<double>(order.times);
  }
  // How many fill so much time.
  std::int64_t times_in(double seconds, bool together) {
    const auto one = time({.times = 5, .together = together});
    return std::max<std::int64_t>(3, static_cast<std::int64_t>(seconds * 1e6 / one));
  }

 private:
  static constexpr int kLongSpin = 20;  // a rank alone on its core has nothing else to do
  using Clock = std::chrono::steady_clock;
  void obey(Order order) {
    exchange_.broadcast(std::as_writable_bytes(std::span(&order, 1)));
    app::obey(exchange_, order, values_);
  }

  std::size_t numbers_;
  RankExchangeOptions options_;
  Arena::Plan plan_;
  Arena::Field words_;
  Arena arena_;
  RankExchange exchange_;
  WorkerGroup others_;
  std::vector<float> values_;
};

SyncResult measure_sync(const SyncFlags& flags) {
  Ranks ranks(flags);
  SyncResult out;
  out.bound = ranks.time({.times = ranks.times_in(flags.seconds, false)});
  const auto times = ranks.times_in(flags.seconds, true);
  const CpuUse use;
  for (int run = 0; run < flags.runs; ++run)
    out.runs.push_back(ranks.time({.times = times, .together = true}));
  out.other_cpu = use.others();
  return out;
}

int bench_sync(const SyncFlags& flags, char** argv) {
  require(kNumbers.contains(flags.size), "--size: found {}, expected 16KiB, 1MiB, 16MiB or 64MiB",
          flags.size);
  require(flags.ranks >= 2, "--ranks: found {}, expected at least 2", flags.ranks);
  require_runs(flags.runs, flags.seconds);
  launch(argv, 1);
  const auto m = measure_sync(flags);
  const auto median = middle(m.runs);
  if (flags.json) {
    auto line =
        json_of({.bench = "allreduce",
                 .config = {{"what", flags.size}, {"processes", flags.ranks}, {"threads", 1}},
                 .unit = "us",
                 .runs = m.runs,
                 .other_cpu = m.other_cpu});
    line["bound"] = five_digits(m.bound);
    fmt::print("{}\n", line.dump());
    return kSuccess;
  }
  const auto [least, most] = std::ranges::minmax(m.runs);
  fmt::print("{} of float32, added up by {} processes\n", flags.size, flags.ranks);
  fmt::print("{:.1f} us, median of {} ({:.1f} to {:.1f})\n", median, m.runs.size(), least, most);
  fmt::print("bound {:.1f} us (all of them read and write their numbers once); reached: {:.0f} %\n",
             m.bound, 100 * m.bound / median);
  fmt::print("other processes used {:.2f} cores meanwhile\n", m.other_cpu);
  return kSuccess;
}

}  // namespace

void add_bench_sync(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<SyncFlags>();
  auto* command = bench.add_subcommand("sync", "Microseconds processes take to add up gradients");
  command->add_option("--size", flags->size, "16KiB, 1MiB, 16MiB or 64MiB")->capture_default_str();
  command->add_option("--ranks", flags->ranks, "Processes")->capture_default_str();
  command->add_option("--runs", flags->runs, "Runs")->capture_default_str();
  command->add_option("--seconds", flags->seconds, "Length of a run")->capture_default_str();
  command->add_flag("--json", flags->json, "One line of JSON");
  command->callback(
      [flags, &chosen] { chosen = [flags](char** argv) { return bench_sync(*flags, argv); }; });
}

}  // namespace shoal::app
