#include "src/app/bench_act.h"

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "shoal/agents/actor_critic.h"
#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/envs/wrappers.h"
#include "shoal/runners/device.h"
#include "shoal/runners/launch.h"
#include "shoal/samplers/sampler.h"
#include "src/app/bench_agents.h"
#include "src/app/bench_line.h"
#include "src/app/cpu_use.h"
#include "src/app/peak.h"

namespace shoal::app {
namespace {

struct ActFlags {
  std::string network = "nature-cnn", precision = "float32", device = "cpu";
  std::int64_t batch = 32, observed = 17, hidden = 64;
  int threads = 1, runs = 5;
  double seconds = 1;
  bool json = false;

  bool sees_pictures() const { return network == "nature-cnn"; }
  Precision act_precision() const {
    return precision == "bf16" ? Precision::kBf16 : Precision::kFloat32;
  }
};

// An endless episode of random bytes or numbers.
class NoiseEnv : public Env {
 public:
  NoiseEnv(const ActFlags& flags, std::int64_t index)
      : spec_{.id = "noise",
              .observation = flags.sees_pictures()
                                 ? ArraySpec{.dtype = DType::kUInt8, .shape = {84, 84}}
                                 : ArraySpec{.shape = {flags.observed}},
              .action = ActionSpec::discrete(6)},
        pictures_(flags.sees_pictures()),
        rng_(static_cast<std::uint64_t>(index)) {}

  const EnvSpec& spec() const override { return spec_; }
  void reset(std::optional<std::uint64_t>, StepOut out) override { write(out); }
  StepResult step(ArraysIn, StepOut out) override {
    write(out);
    return {};
  }

 private:
  void write(StepOut out) {
    const auto n = spec_.observation[0].count();
    for (std::int64_t i = 0; i < n; ++i) {
      if (pictures_)
        out.observation.as<std::uint8_t>()[i] = static_cast<std::uint8_t>(rng_());
      else
        out.observation.as<float>()[i] = static_cast<float>(rng_.uniform(-1, 1));
    }
  }

  EnvSpec spec_;
  bool pictures_;
  Rng rng_;
};

EnvFactory make_noise(const ActFlags& flags) {
  const EnvFactory make_env = [flags](const EnvContext& c) {
    return std::make_unique<NoiseEnv>(flags, c.index);
  };
  return flags.sees_pictures() ? with_stack(make_env, 4) : make_env;
}

// Multiplications and additions of the network for one observation. Of these pictures nothing is
// known from the last step: in a game, most of a picture is.
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

struct ActResult {
  std::vector<double> runs;       // actions a second
  std::vector<double> latencies;  // microseconds, of all calls, in order of size
  double bound = 0;               // microseconds
  double other_cpu = 0;
  double latency(double share) const {
    const auto last = static_cast<double>(latencies.size() - 1);
    return latencies[static_cast<std::size_t>(share * last)];
  }
};

ActResult measure_acting(const ActFlags& flags) {
  constexpr std::int64_t kSteps = 16;
  const auto make_env = make_noise(flags);
  const auto spec = make_env({})->spec();
  const auto agent = make_actor_critic(spec,
                                       {.name = flags.network,
                                        .hidden = {flags.hidden, flags.hidden},
                                        .shared_trunk = flags.sees_pictures()},
                                       {.act_precision = flags.act_precision()}, 1);
  const auto sampler = make_sampler(
      make_env, *agent,
      {.kind = SamplerKind::kSerial, .horizon = kSteps, .envs = flags.batch, .workers = 1});
  auto replay = acting_replay(sampler->collect().samples, spec, *agent);
  const auto device = parse_device(flags.device);
  move_to_device(*agent, flags.device);
  at::set_num_threads(flags.threads);

  ActResult out;
  const at::NoGradGuard no_grad;
  using Clock = std::chrono::steady_clock;
  const auto act_for = [&](double seconds) {
    double passed = 0, calls = 0;
    for (std::size_t t = 0; passed < seconds; t = (t + 1) % replay.observations.size()) {
      const auto start = Clock::now();
      replay.in.observation = replay.observations[t];
      if (device.is_cuda())
        for (auto& [name, o] : replay.in.observation) o = o.to(device);
      agent->act(replay.in, replay.out);
      if (device.is_cuda()) replay.out.action[0].cpu();  // wait for it
      const auto taken = std::chrono::duration<double>(Clock::now() - start).count();
      ++replay.in.noise.tick;
      out.latencies.push_back(taken * 1e6);
      passed += taken;
      ++calls;
    }
    return calls * static_cast<double>(flags.batch) / passed;
  };
  act_for(std::min(0.2, flags.seconds));
  out.latencies.clear();
  const CpuUse use;
  for (int i = 0; i < flags.runs; ++i) out.runs.push_back(act_for(flags.seconds));
  out.other_cpu = use.others();
  std::ranges::sort(out.latencies);

  const auto bytes = static_cast<double>(spec.observation[0].bytes());
  out.bound = 1e6 * static_cast<double>(flags.batch) *
              (operations(flags, *agent) / peak_operations(flags.threads, flags.act_precision()) +
               bytes / peak_copying());
  return out;
}

void print_acting(const ActFlags& flags, const ActResult& m) {
  if (flags.json) {
    auto line = json_of({.bench = "act",
                         .config = {{"network", flags.network},
                                    {"hidden", flags.hidden},
                                    {"batch", flags.batch},
                                    {"precision", flags.precision},
                                    {"device", flags.device},
                                    {"threads", flags.threads}},
                         .unit = "actions/s",
                         .runs = m.runs,
                         .other_cpu = m.other_cpu});
    line["latency_us"] = five_digits(m.latency(0.5));
    line["latency_p99_us"] = five_digits(m.latency(0.99));
    line["bound"] = five_digits(m.bound);
    fmt::print("{}\n", line.dump());
    return;
  }
  const auto [least, most] = std::ranges::minmax(m.runs);
  const auto size = flags.sees_pictures()
                        ? std::string("84x84, 4 frames")
                        : fmt::format("{0} numbers, {1}-{1}", flags.observed, flags.hidden);
  fmt::print("{} ({}), batches of {}, {}, {} thread{}, {}\n", flags.network, size, flags.batch,
             flags.precision, flags.threads, flags.threads == 1 ? "" : "s",
             flags.device == "cpu" ? instructions(flags.act_precision()) : flags.device.c_str());
  fmt::print("{:.1f} us for a batch, median ({:.1f} at 99 %)\n", m.latency(0.5), m.latency(0.99));
  fmt::print("{:.0f} actions a second, median of {} ({:.0f} to {:.0f})\n", middle(m.runs),
             m.runs.size(), least, most);
  if (flags.device == "cpu")
    fmt::print(
        "bound {:.1f} us (its products at this CPU's peak, its bytes copied); reached: {:.0f} %\n",
        m.bound, 100 * m.bound / m.latency(0.5));
  fmt::print("other processes used {:.2f} cores meanwhile\n", m.other_cpu);
}

int bench_act(const ActFlags& flags, char** argv) {
  require(flags.sees_pictures() || flags.network == "mlp",
          "--network: found {}, expected mlp or nature-cnn", flags.network);
  require(flags.precision == "float32" || flags.precision == "bf16",
          "--precision: found {}, expected float32 or bf16", flags.precision);
  for (const auto& [name, value] : {std::pair{"--observed", flags.observed},
                                    {"--hidden", flags.hidden},
                                    {"--batch", flags.batch},
                                    {"--threads", flags.threads}})
    require(value >= 1, "{}: found {}, expected at least 1", name, value);
  require_runs(flags.runs, flags.seconds);
  launch(argv, flags.threads);
  at::set_num_threads(1);
  print_acting(flags, measure_acting(flags));
  return kSuccess;
}

}  // namespace

void add_bench_act(CLI::App& bench, Command& chosen) {
  auto flags = std::make_shared<ActFlags>();
  auto* command = bench.add_subcommand(
      "act", "How long an actor-critic takes to act for a batch of environments");
  command->add_option("--network", flags->network, "mlp or nature-cnn")->capture_default_str();
  command->add_option("--observed", flags->observed, "mlp: numbers of an observation")
      ->capture_default_str();
  command->add_option("--hidden", flags->hidden, "mlp: units of each of two hidden layers")
      ->capture_default_str();
  command->add_option("--batch", flags->batch, "Environments")->capture_default_str();
  command->add_option("--precision", flags->precision, "float32 or bf16")->capture_default_str();
  command->add_option("--device", flags->device, "cpu, cuda or cuda:N")->capture_default_str();
  command->add_option("--threads", flags->threads, "Threads of arithmetic")->capture_default_str();
  command->add_option("--runs", flags->runs, "Runs")->capture_default_str();
  command->add_option("--seconds", flags->seconds, "Length of a run")->capture_default_str();
  command->add_flag("--json", flags->json, "One line of JSON");
  command->callback(
      [flags, &chosen] { chosen = [flags](char** argv) { return bench_act(*flags, argv); }; });
}

}  // namespace shoal::app
