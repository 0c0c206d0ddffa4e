#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>

#include "benchmarks/benchmarks.h"
#include "benchmarks/complete_benchmark.h"
#include "benchmarks/rate_of.h"
#include "cli/bench_line.h"
#include "cli/cpu_use.h"
#include "shoal/core/error.h"
#include "shoal/ipc/step_barrier.h"
#include "shoal/ipc/trajectory_ring.h"
#include "shoal/ipc/worker_group.h"
#include "shoal/runners/launch.h"
#include "src/core/median.h"

namespace shoal::cli {
namespace {

constexpr int kSlots = 8;
constexpr std::chrono::milliseconds kPatience{100};

struct RingFlags {
  std::string item = "vectors";
  int runs = 5;
  double seconds = 2;
  bool json = false;
};

// 128 steps of an observation: four numbers, or a stack of four frames.
std::size_t bytes_of(const RingFlags& flags) {
  return flags.item == "vectors" ? 128 * 4 * sizeof(float) : 128 * 4 * 84 * 84;
}

// The ring and the content of its slots.
class Rollouts {
 public:
  explicit Rollouts(std::size_t bytes)
      : bytes_(bytes),
        words_(plan_.add_bytes(TrajectoryRing::bytes(kSlots))),
        contents_(plan_.add_bytes(kSlots * bytes)),
        arena_(plan_),
        ring_(arena_.data(words_), {.slots = kSlots, .spin = default_spin(2)}) {}

  TrajectoryRing& ring() { return ring_; }
  void fill(int slot, std::int64_t k) const {
    const auto to = content(slot);
    std::ranges::fill(to, static_cast<std::byte>(k % 251));
  }
  // Sum of one number in every cache line.
  std::int64_t sum(int slot) const {
    const auto from = content(slot);
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < from.size(); i += 64) sum += static_cast<std::int64_t>(from[i]);
    return sum;
  }

 private:
  std::span<std::byte> content(int slot) const {
    return {arena_.data(contents_) + static_cast<std::size_t>(slot) * bytes_, bytes_};
  }

  std::size_t bytes_;
  Arena::Plan plan_;
  Arena::Field words_, contents_;
  Arena arena_;
  TrajectoryRing ring_;
};

struct RingResult {
  std::vector<double> runs;
  double bound = 0;  // one process that fills rollouts without passing them on
  double other_cpu = 0;
};

RingResult measure_ring(const RingFlags& flags) {
  Rollouts rollouts(bytes_of(flags));
  RingResult out;
  std::int64_t k = 0;
  out.bound = rate_of(flags.seconds, [&] {
    rollouts.fill(static_cast<int>(k % kSlots), k);
    ++k;
  });
  WorkerGroup writer(1, [&](int, WorkerStatus) {
    for (std::int64_t n = 0;;) {
      const auto slot = rollouts.ring().acquire(0, kPatience);
      if (!slot) continue;
      rollouts.fill(*slot, n);
      rollouts.ring().publish(*slot, {.first_tick = n++});
    }
  });
  std::int64_t expected = 0;
  const auto read = [&] {
    auto rollout = rollouts.ring().take(0, kPatience);
    for (; !rollout; rollout = rollouts.ring().take(0, kPatience)) writer.check();
    const auto lines = static_cast<std::int64_t>(bytes_of(flags) / 64);
    require(rollouts.sum(rollout->slot) == lines * (expected++ % 251), "a rollout was lost");
    rollouts.ring().release(rollout->slot);
  };
  rate_of(std::min(0.2, flags.seconds), read);
  const CpuUse use;
  for (int run = 0; run < flags.runs; ++run) out.runs.push_back(rate_of(flags.seconds, read));
  out.other_cpu = use.others();
  return out;
}

int bench_ring(const RingFlags& flags, char** argv) {
  require(flags.item == "vectors" || flags.item == "frames",
          "--item: found {}, expected vectors or frames", flags.item);
  require_runs(flags.runs, flags.seconds);
  launch(argv, 1);
  const auto m = measure_ring(flags);
  const auto megabytes = static_cast<double>(bytes_of(flags)) * 1e-6, median = median_of(m.runs);
  if (flags.json) {
    auto line = json_of({.bench = "queue_ipc",
                         .config = {{"item", flags.item}, {"maxsize", kSlots}, {"threads", 1}},
                         .unit = "items/s",
                         .runs = m.runs,
                         .other_cpu = m.other_cpu});
    line["MB_per_s"] = five_digits(median * megabytes);
    line["item_MB"] = five_digits(megabytes);
    line["bound"] = five_digits(m.bound);
    fmt::print("{}\n", line.dump());
    return kSuccess;
  }
  const auto [least, most] = std::ranges::minmax(m.runs);
  fmt::print("rollouts of {:.4f} MB from one process to another, {} slots\n", megabytes, kSlots);
  fmt::print("{:.0f} per second, median of {} ({:.0f} to {:.0f}); {:.0f} MB/s\n", median,
             m.runs.size(), least, most, median * megabytes);
  fmt::print("bound {:.0f} (filling alone); reached: {:.0f} %\n", m.bound, 100 * median / m.bound);
  fmt::print("other processes used {:.2f} cores during the runs\n", m.other_cpu);
  return kSuccess;
}

}  // namespace

void add_bench_ring(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<RingFlags>();
  auto* command = bench.add_subcommand(
      "ring", "Measure rollouts per second from one process to another, in place");
  command
      ->add_option("--item", flags->item, "Content of a rollout: vectors (2 kB) or frames (3.6 MB)")
      ->capture_default_str();
  complete_benchmark(*command, flags, chosen, bench_ring);
}

}  // namespace shoal::cli
