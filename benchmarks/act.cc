#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "benchmarks/benchmarks.h"
#include "benchmarks/complete_benchmark.h"
#include "benchmarks/cpu_peak.h"
#include "cli/bench_line.h"
#include "cli/cpu_use.h"
#include "samplers/batched_inference.h"
#include "shoal/agents/actor_critic.h"
#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/runners/device.h"
#include "shoal/runners/launch.h"
#include "src/compute/accelerator.h"
#include "src/core/median.h"

namespace shoal::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct ActFlags {
  std::string network = "nature-cnn", precision = "float32", device = "cpu";
  std::vector<std::int64_t> batches = {32};
  std::int64_t observed = 17, hidden = 64;
  int threads = 1, runs = 5;
  double seconds = 1;
  bool json = false;

  bool sees_pictures() const { return network == "nature-cnn"; }
  Precision arithmetic() const {
    return precision == "bf16" ? Precision::kBf16 : Precision::kFloat32;
  }
};

EnvSpec spec_of(const ActFlags& flags) {
  return {.id = "noise",
          .observation = flags.sees_pictures()
                             ? ArraySpec{.dtype = DType::kUInt8, .shape = {84, 84}, .stack = 4}
                             : ArraySpec{.shape = {flags.observed}},
          .action = ActionSpec::discrete(6)};
}

std::unique_ptr<ActorCritic> agent_of(const ActFlags& flags) {
  return make_actor_critic(spec_of(flags),
                           {.name = flags.network,
                            .hidden = {flags.hidden, flags.hidden},
                            .shared_trunk = flags.sees_pictures(),
                            .precision = flags.arithmetic()},
                           {.act_precision = flags.arithmetic()}, 1);
}

// The rows of a sampler and its batched inference. The rows hold random bytes or numbers of an
// endless episode.
class NoiseRows {
 public:
  NoiseRows(const ActFlags& flags, std::int64_t batch, Agent& agent)
      : shared_(plan_, spec_of(flags), agent.spec(),
                {.horizon = kSteps, .envs = batch, .collectors = 1}),
        arena_(plan_) {
    shared_.attach(arena_);
    const auto& observation = shared_.rows.observation[0];
    Rng rng(1);
    auto* to = arena_.data(observation);
    const auto n = static_cast<std::int64_t>(observation.bytes());
    if (flags.sees_pictures()) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = static_cast<std::byte>(rng());
    } else {
      for (std::int64_t i = 0; i < n / 4; ++i)
        reinterpret_cast<float*>(to)[i] = static_cast<float>(rng.uniform(-1, 1));
    }
    tensors_ = std::make_unique<RolloutTensors>(shared_, agent.device());
    actor_ = std::make_unique<BatchedInference>(*tensors_, agent, SamplerOptions{.envs = batch},
                                                std::vector<Range>{{0, batch}},
                                                BatchedInference::Options{});
  }

  static constexpr std::int64_t kSteps = 16;
  BatchedInference& actor() { return *actor_; }
  std::int64_t first_row() const { return shared_.history; }

 private:
  Arena::Plan plan_;
  SharedRollout shared_;
  Arena arena_;
  std::unique_ptr<RolloutTensors> tensors_;
  std::unique_ptr<BatchedInference> actor_;
};

// Multiplications and additions of the network for one observation. Successive frames are
// independent here; in a game most of a frame is known from the last step.
double operations(const ActFlags& flags, ActorCritic& agent) {
  if (!flags.sees_pictures()) {
    double sum = 0;
    for (const auto& weight : agent.learnable())
      if (weight.dim() == 2) sum += 2.0 * static_cast<double>(weight.numel());
    return sum;
  }
  double sum = 0;
  std::int64_t side = 84, layer = 0;
  constexpr std::int64_t kStrides[] = {4, 2, 1};
  for (const auto& weight : agent.learnable()) {
    double places = 1;
    if (weight.dim() == 4) {
      side = (side - weight.size(2)) / kStrides[layer++] + 1;
      places = static_cast<double>(side * side);
    }
    if (weight.dim() >= 2) sum += 2 * places * static_cast<double>(weight.numel());
  }
  return sum;
}

// Time that the device takes for `work` if the host does not delay it.
double device_time(Accelerator& on, const std::function<void()>& work) {
  constexpr int kTimes = 200;
  const auto graph = on.capture(work);
  graph->replay();
  on.wait();
  const auto start = Clock::now();
  for (int i = 0; i < kTimes; ++i) graph->replay();
  on.wait();
  return std::chrono::duration<double>(Clock::now() - start).count() / kTimes;
}

// Microseconds per batch. On a CPU: the products of the network at peak speed plus copying the
// observations. On a device: the measured time of the copy and the network alone.
double bound_of(const ActFlags& flags, std::int64_t batch, ActorCritic& agent, NoiseRows& rows) {
  auto& tensors = rows.actor().tensors();
  if (!tensors.mirrored) {
    const auto bytes = static_cast<double>(spec_of(flags).observation[0].bytes());
    return 1e6 * static_cast<double>(batch) *
           (operations(flags, agent) / peak_operations(flags.threads, flags.arithmetic()) +
            bytes / peak_copying());
  }
  auto* const on = accelerator(tensors.device);
  if (on == nullptr) return 0;
  auto& in = rows.actor().prepare(0, 0);
  const auto options = at::TensorOptions().device(tensors.device);
  ActOut out{.action = {{"", at::empty({batch}, options.dtype(at::kLong))}},
             .agent_info = {{"log_prob", at::empty({batch}, options)},
                            {"value", at::empty({batch}, options)}}};
  const auto copy = device_time(*on, [&] {
    tensors.upload(tensors.observation[0], rows.first_row(), Range{0, batch});
  });
  return 1e6 * (copy + device_time(*on, [&] { agent.act(in, out); }));
}

struct ActResult {
  std::vector<double> runs;       // actions per second
  std::vector<double> latencies;  // microseconds, of all calls, sorted
  double bound = 0;               // microseconds; 0: unknown
  double other_cpu = 0;
  double latency(double share) const {
    const auto last = static_cast<double>(latencies.size() - 1);
    return latencies[static_cast<std::size_t>(share * last)];
  }
  double share() const { return bound / latency(0.5); }
};

ActResult measure_acting(const ActFlags& flags, std::int64_t batch, ActorCritic& agent) {
  const at::NoGradGuard no_grad;
  NoiseRows rows(flags, batch, agent);
  auto& actor = rows.actor();
  ActResult out;
  std::int64_t t = 0, rollouts = 0;
  const auto act_for = [&](double seconds) {
    double passed = 0, calls = 0;
    for (; passed < seconds; t = (t + 1) % NoiseRows::kSteps) {
      if (t == 0) {
        agent.before_rollout(/*greedy=*/false);
        actor.begin(NoiseRows::kSteps * rollouts++);
      }
      const auto start = Clock::now();
      actor.act(t, 0);
      const auto taken = std::chrono::duration<double>(Clock::now() - start).count();
      out.latencies.push_back(taken * 1e6);
      passed += taken;
      ++calls;
    }
    return calls * static_cast<double>(batch) / passed;
  };
  act_for(std::min(0.2, flags.seconds));
  while (rollouts < 4) act_for(0.001);  // until every step is captured
  out.latencies.clear();
  const CpuUse use;
  for (int i = 0; i < flags.runs; ++i) out.runs.push_back(act_for(flags.seconds));
  out.other_cpu = use.others();
  std::ranges::sort(out.latencies);
  out.bound = bound_of(flags, batch, agent, rows);
  return out;
}

void print_json(const ActFlags& flags, std::int64_t batch, const ActResult& m) {
  auto line = json_of({.bench = "act",
                       .config = {{"network", flags.network},
                                  {"hidden", flags.hidden},
                                  {"batch", batch},
                                  {"precision", flags.precision},
                                  {"device", flags.device},
                                  {"threads", flags.threads}},
                       .unit = "actions/s",
                       .runs = m.runs,
                       .other_cpu = m.other_cpu});
  line["latency_us"] = five_digits(m.latency(0.5));
  line["latency_p99_us"] = five_digits(m.latency(0.99));
  line["bound"] = five_digits(m.bound);
  line["share_of_bound"] = five_digits(m.share());
  fmt::print("{}\n", line.dump());
}

void print_acting(const ActFlags& flags, std::int64_t batch, const ActResult& m) {
  if (flags.json) return print_json(flags, batch, m);
  const auto [least, most] = std::ranges::minmax(m.runs);
  const auto size = flags.sees_pictures()
                        ? std::string("84x84, 4 frames")
                        : fmt::format("{0} numbers, {1}-{1}", flags.observed, flags.hidden);
  fmt::print("{} ({}), batches of {}, {}, {} thread{}, {}\n", flags.network, size, batch,
             flags.precision, flags.threads, flags.threads == 1 ? "" : "s",
             flags.device == "cpu" ? instructions(flags.arithmetic()) : flags.device.c_str());
  fmt::print("{:.1f} us per batch, median ({:.1f} at the 99th percentile)\n", m.latency(0.5),
             m.latency(0.99));
  fmt::print("{:.0f} actions/s, median of {} ({:.0f} to {:.0f})\n", median_of(m.runs),
             m.runs.size(), least, most);
  if (m.bound > 0)
    fmt::print("bound {:.1f} us ({}); reached: {:.0f} %\n", m.bound,
               flags.device == "cpu" ? "its products at this CPU's peak, and its bytes copied"
                                     : "the copy and the network alone",
               100 * m.share());
  fmt::print("other processes used {:.2f} cores during the runs\n", m.other_cpu);
}

int bench_act(const ActFlags& flags, char** argv) {
  require(flags.sees_pictures() || flags.network == "mlp",
          "--network: found {}, expected mlp or nature-cnn", flags.network);
  require(flags.precision == "float32" || flags.precision == "bf16",
          "--precision: found {}, expected float32 or bf16", flags.precision);
  for (const auto& [name, value] : {std::pair{"--observed", flags.observed},
                                    {"--hidden", flags.hidden},
                                    {"--batch", std::ranges::min(flags.batches)},
                                    {"--threads", std::int64_t{flags.threads}}})
    require(value >= 1, "{}: found {}, expected at least 1", name, value);
  require_runs(flags.runs, flags.seconds);
  launch(argv, flags.threads);
  const auto agent = agent_of(flags);
  move_to_device(*agent, flags.device);
  at::set_num_threads(flags.threads);
  for (const auto batch : flags.batches)
    print_acting(flags, batch, measure_acting(flags, batch, *agent));
  return kSuccess;
}

}  // namespace

void add_bench_act(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<ActFlags>();
  auto* command = bench.add_subcommand(
      "act", "Measure the time in which an actor-critic acts for a batch of environments");
  command->add_option("--network", flags->network, "Network: mlp or nature-cnn")
      ->capture_default_str();
  command->add_option("--observed", flags->observed, "Elements of an observation (mlp)")
      ->capture_default_str();
  command->add_option("--hidden", flags->hidden, "Units of each of the two hidden layers (mlp)")
      ->capture_default_str();
  command
      ->add_option("--batch", flags->batches,
                   "Batch size (environments); several sizes are measured in turn")
      ->capture_default_str();
  command->add_option("--precision", flags->precision, "Precision: float32 or bf16")
      ->capture_default_str();
  command->add_option("--device", flags->device, "Device: cpu, cuda or cuda:N")
      ->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of tensor operations")
      ->capture_default_str();
  complete_benchmark(*command, flags, chosen, bench_act);
}

}  // namespace shoal::cli
