#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/benchmarks.h"
#include "benchmarks/complete_benchmark.h"
#include "benchmarks/cpu_peak.h"
#include "benchmarks/steady_rollout.h"
#include "cli/bench_line.h"
#include "cli/cpu_use.h"
#include "shoal/agents/qpg_agent.h"
#include "shoal/algos/ddpg.h"
#include "shoal/algos/sac.h"
#include "shoal/algos/td3.h"
#include "shoal/core/error.h"
#include "shoal/replays/step_replay.h"
#include "shoal/runners/device.h"
#include "shoal/runners/launch.h"
#include "src/compute/accelerator.h"
#include "src/core/median.h"

namespace shoal::cli {
namespace {

struct UpdateFlags {
  std::string algo = "sac";
  std::int64_t observed = 17, dims = 6, hidden = 256, batch = 256;
  std::string precision = "float32", device = "cpu";
  int threads = 1, runs = 5;
  double seconds = 2;
  bool json = false;
};

struct UpdateResult {
  std::vector<double> runs;
  double operations = 0;  // per update: multiplications and additions
  // Operations per second: of all threads in registers, or of products on a device.
  double peak = 0;
  double other_cpu = 0;
  double median() const { return median_of(runs); }
  double bound() const { return peak / operations; }
};

double seconds_since(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

EnvSpec control_spec(const UpdateFlags& flags) {
  return {.id = "bench",
          .observation = ArraySpec{.shape = {flags.observed}},
          .action = ActionSpec::box(flags.dims, -1, 1)};
}

// Operations that any implementation of an update needs. The gradient of the policy's loss passes
// through one critic per row, and only to its actions. Elementwise work does not count.
double operations(const UpdateFlags& flags, const QpgAgent::Networks& n) {
  const auto products = [](const FlatMlp& mlp, std::size_t from) {
    double sum = 0;
    for (auto l = from; l < mlp.layers(); ++l)
      sum += static_cast<double>(mlp.widths[l] * mlp.widths[l + 1]);
    return sum;
  };
  const double policy = products(n.policy_mlp, 0), policy_back = products(n.policy_mlp, 1);
  const double critic = products(n.critic_mlp, 0), critic_back = products(n.critic_mlp, 1);
  const auto critics = static_cast<double>(n.critics.size(0));
  const double to_action = critic_back + static_cast<double>(flags.dims * flags.hidden);
  const double valued = flags.algo == "sac" ? critics : 1;
  const double interval = flags.algo == "td3" ? 2 : 1;
  const double of_critics = policy + critics * (3 * critic + critic_back);
  const double of_policy = 2 * policy + policy_back + valued * critic + to_action;
  return 2 * static_cast<double>(flags.batch) * (of_critics + of_policy / interval);
}

Precision precision_of(const UpdateFlags& flags) {
  return flags.precision == "bf16" ? Precision::kBf16 : Precision::kFloat32;
}

std::unique_ptr<OffPolicyAlgo> make_algo(const UpdateFlags& flags, QpgAgent& agent,
                                         StepReplay& replay) {
  const auto precision = precision_of(flags);
  if (flags.algo == "sac")
    return make_sac(agent, replay, {.batch = flags.batch, .precision = precision});
  if (flags.algo == "td3")
    return make_td3(agent, replay, {.batch = flags.batch, .precision = precision});
  return make_ddpg(agent, replay, {.batch = flags.batch, .precision = precision});
}

// Operations per second of a large product on the device; 0: unknown.
double peak_of_products(const at::Device& device) {
  auto* const on = accelerator(device);
  if (on == nullptr) return 0;
  constexpr std::int64_t kSize = 4096;
  constexpr int kTimes = 20;
  const auto x = at::randn({kSize, kSize}, device);
  auto out = at::mm(x, x);
  on->wait();
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < kTimes; ++i) at::mm_out(out, x, x);
  on->wait();
  return 2.0 * kTimes * kSize * kSize * kSize / seconds_since(start);
}

UpdateResult measure_updates(const UpdateFlags& flags) {
  constexpr std::int64_t kSteps = 1000, kEnvs = 100;
  const auto spec = control_spec(flags);
  const auto agent = make_qpg_agent(spec,
                                    {.stochastic = flags.algo == "sac",
                                     .critics = flags.algo == "ddpg" ? 1 : 2,
                                     .hidden = {flags.hidden, flags.hidden}},
                                    1);
  move_to_device(*agent, flags.device);
  StepReplay replay(
      spec, kEnvs,
      {.size = kSteps * kEnvs, .largest_batch = std::max<std::int64_t>(flags.batch, 1)});
  replay.append(steady_rollout(spec, kSteps, kEnvs));  // as many steps as the peers have
  const auto algo = make_algo(flags, *agent, replay);
  const auto run = [&](double seconds) {
    const auto start = std::chrono::steady_clock::now();
    double updates = 0;
    for (; seconds_since(start) < seconds; ++updates) algo->update({}, 1);
    return updates / seconds_since(start);
  };
  UpdateResult out{.runs = {}, .operations = operations(flags, agent->networks())};
  run(std::min(0.5, flags.seconds));
  const CpuUse use;
  for (int i = 0; i < flags.runs; ++i) out.runs.push_back(run(flags.seconds));
  out.other_cpu = use.others();
  out.peak = agent->device().is_cpu() ? peak_operations(flags.threads, precision_of(flags))
                                      : peak_of_products(agent->device());
  return out;
}

void print_updates(const UpdateFlags& flags, const UpdateResult& m) {
  const auto [least, most] = std::ranges::minmax(m.runs);
  if (!flags.json) {
    fmt::print(
        "{}: {} observed, {} acted, two hidden layers of {}, batches of {}, {} thread{}, {}\n",
        flags.algo, flags.observed, flags.dims, flags.hidden, flags.batch, flags.threads,
        flags.threads == 1 ? "" : "s",
        flags.device == "cpu" ? instructions(precision_of(flags)) : flags.device.c_str());
    fmt::print("{:.1f} updates/s, median of {} ({:.1f} to {:.1f})\n", m.median(), m.runs.size(),
               least, most);
    if (m.peak > 0)
      fmt::print(
          "bound {:.1f}: {:.1f} million operations per update, {:.1f} billion per second; "
          "reached: {:.0f} %\n",
          m.bound(), m.operations * 1e-6, m.peak * 1e-9, 100 * m.median() / m.bound());
    fmt::print("other processes used {:.2f} cores during the runs\n", m.other_cpu);
    return;
  }
  auto line = json_of({.bench = "update_" + flags.algo,
                       .config = {{"size", fmt::format("h{}_b{}", flags.hidden, flags.batch)},
                                  {"threads", flags.threads},
                                  {"precision", flags.precision},
                                  {"device", flags.device}},
                       .unit = "updates/s",
                       .runs = m.runs,
                       .other_cpu = m.other_cpu});
  line["bound"] = five_digits(m.bound());
  if (flags.device == "cpu") line["instructions"] = instructions(precision_of(flags));
  fmt::print("{}\n", line.dump());
}

int bench_update(const UpdateFlags& flags, char** argv) {
  require(flags.algo == "sac" || flags.algo == "td3" || flags.algo == "ddpg",
          "--algo: found {}, expected sac, td3 or ddpg", flags.algo);
  require(flags.precision == "float32" || flags.precision == "bf16",
          "--precision: found {}, expected float32 or bf16", flags.precision);
  for (const auto& [name, value] : {std::pair{"--observed", flags.observed},
                                    {"--dims", flags.dims},
                                    {"--hidden", flags.hidden},
                                    {"--batch", flags.batch},
                                    {"--threads", flags.threads}})
    require(value >= 1, "{}: found {}, expected at least 1", name, value);
  require_runs(flags.runs, flags.seconds);
  launch(argv, flags.threads);
  at::set_num_threads(flags.threads);
  print_updates(flags, measure_updates(flags));
  return kSuccess;
}

}  // namespace

void add_bench_update(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<UpdateFlags>();
  auto* command = bench.add_subcommand(
      "update", "Measure updates per second of SAC, TD3 or DDPG, including drawing the batch");
  command->add_option("--algo", flags->algo, "Algorithm: sac, td3 or ddpg")->capture_default_str();
  command->add_option("--observed", flags->observed, "Elements of an observation")
      ->capture_default_str();
  command->add_option("--dims", flags->dims, "Elements of an action")->capture_default_str();
  command->add_option("--hidden", flags->hidden, "Units of each of the two hidden layers")
      ->capture_default_str();
  command->add_option("--batch", flags->batch, "Steps per batch")->capture_default_str();
  command->add_option("--precision", flags->precision, "Precision of the networks: float32 or bf16")
      ->capture_default_str();
  command->add_option("--device", flags->device, "Device: cpu, cuda or cuda:N")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of tensor operations")
      ->capture_default_str();
  complete_benchmark(*command, flags, chosen, bench_update);
}

}  // namespace shoal::cli
