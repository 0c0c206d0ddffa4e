#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <vector>

#include "benchmarks/benchmarks.h"
#include "benchmarks/complete_benchmark.h"
#include "benchmarks/rate_of.h"
#include "benchmarks/steady_rollout.h"
#include "cli/bench_line.h"
#include "cli/cpu_use.h"
#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/replays/step_replay.h"
#include "shoal/runners/launch.h"
#include "src/core/median.h"

namespace shoal::cli {
namespace {

struct ReplayFlags {
  bool frames = false, copied = false, json = false;
  std::int64_t size = 0, batch = 32;
  int threads = 1, runs = 5;
  double seconds = 2;
};

EnvSpec spec_of(bool frames) {
  EnvSpec env;
  env.id = "bench";
  env.action = ActionSpec::discrete(4);
  env.observation = frames ? ArraySpec{.dtype = DType::kUInt8, .shape = {84, 84}, .stack = 4}
                           : ArraySpec{.shape = {4}};
  return env;
}

// Random cache lines per second that can be read from memory as large as the replay, if each
// address is known before the previous line has arrived.
double lines_a_second(std::size_t bytes, double seconds) {
  const std::size_t lines = bytes / 64;
  std::vector<std::uint64_t> memory(lines * 8, 1);
  constexpr std::size_t kLines = 4096;
  std::vector<std::size_t> at(kLines);
  Rng rng(1);
  std::uint64_t sum = 0;
  const double rate = rate_of(seconds, [&] {
    for (auto& one : at) one = (std::size_t{rng()} * lines >> 32) * 8;
    for (const auto one : at) sum += memory[one];
  });
  require(sum > 0, "no memory was read");
  return rate * kLines;
}

// Bytes per second of plain copies that miss all caches.
double bytes_a_second(double seconds, std::int64_t bytes) {
  const auto from = at::ones({std::int64_t{1} << 28}, at::kByte);
  auto to = at::empty({bytes}, at::kByte);
  std::int64_t at_byte = 0;
  const double rate = rate_of(seconds, [&] {
    if ((at_byte += bytes) + bytes > from.size(0)) at_byte = 0;
    to.copy_(from.narrow(0, at_byte, bytes));
  });
  return rate * static_cast<double>(bytes);
}

// As the next rollout of the same sampler.
void append_next(StepReplay& replay, Samples& rollout) {
  replay.append(rollout);
  rollout.first_tick += rollout.T;
}

struct Measured {
  std::vector<double> runs;
  double bound = 0, other_cpu = 0;
  double median() const { return median_of(runs); }
};

// Batches of stacked frames, drawn uniformly. The bound applies to batches that are copied.
Measured measure_frames(const ReplayFlags& flags) {
  constexpr std::int64_t kEnvs = 16, kSteps = 125;
  const auto env = spec_of(true);
  StepReplay replay(env, kEnvs, {.size = flags.size, .largest_batch = flags.batch});
  auto rollout = steady_rollout(env, kSteps, kEnvs);
  for (std::int64_t n = 0; n < flags.size + kSteps * kEnvs; n += kSteps * kEnvs)
    append_next(replay, rollout);
  const auto bytes = flags.batch * 2 * 4 * env.observation[0].count();
  Measured out;
  const CpuUse use;
  for (int run = 0; run < flags.runs; ++run)
    out.runs.push_back(rate_of(flags.seconds, [&] {
      const auto& batch = replay.sample(flags.batch);
      if (!flags.copied) return;
      batch.observation[0].dense();
      batch.next_observation[0].dense();
    }));
  out.other_cpu = use.others();
  out.bound = bytes_a_second(flags.seconds, bytes) / static_cast<double>(bytes);
  return out;
}

// Cycles of appending 32 steps, drawing a batch by priority, and setting its priorities.
Measured measure_priorities(const ReplayFlags& flags) {
  constexpr std::int64_t kNew = 32, kSteps = 1000;
  const auto env = spec_of(false);
  const StepReplayOptions options{
      .size = flags.size, .prioritized = true, .largest_batch = flags.batch};
  StepReplay replay(env, kNew, options);
  auto filling = steady_rollout(env, kSteps, kNew), rollout = steady_rollout(env, 1, kNew);
  for (std::int64_t n = 0; n < flags.size + kSteps * kNew; n += kSteps * kNew)
    append_next(replay, filling);
  rollout.first_tick = filling.first_tick;
  const auto priorities = at::rand({64, flags.batch}) + 1e-6;
  std::int64_t k = 0;
  Measured out;
  const CpuUse use;
  for (int run = 0; run < flags.runs; ++run)
    out.runs.push_back(rate_of(flags.seconds, [&] {
      append_next(replay, rollout);
      const auto& batch = replay.sample(flags.batch, 0.4);
      replay.update_priorities(batch.index, priorities[k++ % 64]);
    }));
  out.other_cpu = use.others();
  // Per drawn step, cache lines that a small cache does not hold: two levels of the tree, the
  // fields of the step, two observations, the action.
  constexpr double kLinesEach = 6;
  out.bound = lines_a_second(StepReplay::bytes(env, kNew, options), flags.seconds) /
              (kLinesEach * static_cast<double>(flags.batch));
  return out;
}

void print(const ReplayFlags& flags, const Measured& m) {
  const auto [least, most] = std::ranges::minmax(m.runs);
  if (!flags.json) {
    fmt::print("{} of {} out of {}, {} thread{}\n", flags.frames ? "batches" : "cycles",
               flags.batch, flags.size, flags.threads, flags.threads == 1 ? "" : "s");
    fmt::print("{:.0f} per second, median of {} ({:.0f} to {:.0f})\n", m.median(), m.runs.size(),
               least, most);
    if (!flags.frames || flags.copied)  // by reference, frames are not read
      fmt::print("bound {:.0f} ({}); reached: {:.0f} %\n", m.bound,
                 flags.frames ? "a plain copy of the same number of bytes"
                              : "random reads of the same number of cache lines",
                 100 * m.median() / m.bound);
    fmt::print("other processes used {:.2f} cores during the runs\n", m.other_cpu);
    return;
  }
  auto line = json_of(
      {.bench = "replay",
       .peer = !flags.frames  ? "shoal"
               : flags.copied ? "shoal_frames_copied"
                              : "shoal_frames",
       .config = {{"capacity", flags.size}, {"batch", flags.batch}, {"threads", flags.threads}},
       .unit = flags.frames ? "samples/s (batches)" : "cycles/s",
       .runs = m.runs,
       .other_cpu = m.other_cpu});
  line["bound"] = five_digits(m.bound);
  fmt::print("{}\n", line.dump());
}

int bench_replay(ReplayFlags flags, char** argv) {
  for (const auto& [name, value] :
       {std::pair{"--batch", flags.batch}, {"--threads", flags.threads}})
    require(value >= 1, "{}: found {}, expected at least 1", name, value);
  require_runs(flags.runs, flags.seconds);
  if (flags.size == 0) flags.size = flags.frames ? 50'000 : 1'000'000;
  launch(argv, flags.threads);
  at::set_num_threads(flags.threads);
  print(flags, flags.frames ? measure_frames(flags) : measure_priorities(flags));
  return kSuccess;
}

}  // namespace

void add_bench_replay(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<ReplayFlags>();
  auto* command = bench.add_subcommand(
      "replay",
      "Measure cycles of appending 32 steps, drawing a batch by priority, and updating it");
  command->add_flag("--frames", flags->frames,
                    "Measure batches of stacked 84x84 frames instead, drawn uniformly");
  command->add_flag("--copied", flags->copied,
                    "With --frames: also copy both stacks of every step");
  command->add_option("--size", flags->size,
                      "Steps in the replay; default: 1000000, or 50000 with --frames");
  command->add_option("--batch", flags->batch, "Steps per batch")->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of tensor operations")
      ->capture_default_str();
  complete_benchmark(*command, flags, chosen, bench_replay);
}

}  // namespace shoal::cli
