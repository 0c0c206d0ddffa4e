#include "src/envs/env_probe.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <memory>

#include "shoal/envs/random_actions.h"
#include "src/envs/child.h"

namespace shoal {
namespace {

// Guard bytes behind every field, to detect writes out of bounds.
constexpr std::size_t kGuard = 64;
constexpr std::byte kGuardByte{0x3C};
// Limit of one trial's recorded data.
constexpr std::int64_t kMostBytes = 256 << 20;

}  // namespace

RowLayout::RowLayout(const EnvSpec& env)
    : observations(env.observation.size()), infos(env.info.size()), mask(env.action_mask) {
  auto add = [this](const std::string& what, const ArraySpec& spec, bool by_reset) {
    fields.push_back({what, spec, bytes, by_reset});
    bytes += (spec.bytes() + kGuard + 63) / 64 * 64;
  };
  for (const auto& [name, spec] : env.observation)
    add(name.empty() ? "the observation" : fmt::format("observation '{}'", name), spec, true);
  for (const auto& info : env.info) add(fmt::format("info '{}'", info.name), info.array, false);
  if (mask)
    add("the action mask",
        {.dtype = DType::kBool, .shape = {env.action[0].choices.at(0)}, .low = 0, .high = 1}, true);
}

// An environment with its row of memory and its random actions.
class EnvProbe::Actor {
 public:
  Actor(const EnvFactory& make_env, const EnvSpec& spec, const RowLayout& layout,
        std::uint64_t seed, std::uint64_t action_seed, std::byte fill, WorkerStatus& status)
      : layout_(layout),
        row_(layout.bytes),
        random_(spec.action, Rng(action_seed)),
        fill_(fill),
        status_(status) {
    status_.enter(WorkerStatus::kConstructing, 0, 0);
    env_ = make_env({.seed = seed, .index = 0});
    for (std::size_t i = 0; i < layout.fields.size(); ++i) {
      auto& to = i < layout.observations                  ? observation_
                 : i < layout.observations + layout.infos ? info_
                                                          : mask_;
      to.push_back(row_.data() + layout.fields[i].offset);
    }
  }

  void reset(std::optional<std::uint64_t> seed) {
    fill();
    status_.enter(WorkerStatus::kResetting, 0, steps_);
    env_->reset(seed, out());
    over_ = false;
    last_ = {};
  }
  // Takes a step with random actions, or resets after the end of an episode.
  RowResult advance(const std::function<std::int64_t()>& allocations) {
    if (over_) {
      reset(std::nullopt);
      return finished(true, 0);
    }
    const auto action = random_.choose(mask_.empty() ? nullptr : mask_[0]);
    fill();
    status_.enter(WorkerStatus::kStepping, 0, steps_++);
    const auto before = allocations ? allocations() : 0;
    last_ = env_->step(action, out());
    const auto made = allocations ? allocations() - before : 0;
    over_ = last_.episode_over();
    return finished(false, made);
  }
  RowResult finished(bool is_reset, std::int64_t allocations) const {
    RowResult out{last_, is_reset, false, 0, allocations};
    for (std::size_t i = 0; i < layout_.fields.size() && !out.overrun; ++i) {
      const auto* guard = row_.data() + layout_.fields[i].offset + layout_.fields[i].spec.bytes();
      out.overrun = !std::all_of(guard, guard + kGuard, [](auto b) { return b == kGuardByte; });
      out.field = static_cast<std::int64_t>(i);
    }
    return out;
  }
  const std::vector<std::byte>& row() const { return row_; }
  void repeat_actions(std::uint64_t seed) { random_.rng() = Rng(seed); }
  // Copies the state and the future random actions; false if the environment does not support it.
  bool continue_from(const Actor& other) {
    std::vector<std::byte> bytes;
    if (!other.env_->save(bytes) || !env_->load(bytes)) return false;
    row_ = other.row_, over_ = other.over_, last_ = other.last_;
    random_.rng() = other.random_.rng();
    return true;
  }

 private:
  void fill() {
    for (const auto& field : layout_.fields) {
      std::fill_n(row_.data() + field.offset, field.spec.bytes(), fill_);
      std::fill_n(row_.data() + field.offset + field.spec.bytes(), kGuard, kGuardByte);
    }
  }
  StepOut out() {
    return {ArraysOut(observation_), ArraysOut(info_),
            mask_.empty() ? nullptr : reinterpret_cast<bool*>(mask_[0])};
  }

  const RowLayout& layout_;
  std::unique_ptr<Env> env_;
  std::vector<std::byte> row_;
  std::vector<std::byte*> observation_, info_, mask_;
  RandomActions random_;
  std::byte fill_;
  WorkerStatus& status_;
  std::int64_t steps_ = 0;
  bool over_ = false;
  StepResult last_;
};

EnvProbe::EnvProbe(const EnvFactory& make_env, const EnvSpec& spec, const CheckEnvOptions& limits,
                   const Options& options)
    : layout_(spec),
      rows_(std::clamp<std::int64_t>(kMostBytes / std::max<std::int64_t>(layout_.bytes, 1), 2,
                                     std::min(limits.steps, kMostBytes) + 1)),
      data_(plan_.add(
          {rows_}, {.dtype = DType::kUInt8, .shape = {static_cast<std::int64_t>(layout_.bytes)}})),
      results_(plan_.add_bytes(static_cast<std::size_t>(rows_) * sizeof(RowResult))),
      complete_(plan_.add_bytes(sizeof(bool))),
      row_(plan_.add_bytes(sizeof(std::atomic<std::int64_t>))),
      arena_(plan_) {
  row() = 0;
  run_in_child([&](WorkerStatus status) { play(make_env, spec, limits, options, status); },
               {.step_limit = limits.step_limit, .reset_limit = limits.reset_limit},
               [&] {
                 if (limits.progress) limits.progress({options.number, kTrials, row(), rows_ - 1});
               });
}

std::atomic<std::int64_t>& EnvProbe::row() const {
  return *reinterpret_cast<std::atomic<std::int64_t>*>(arena_.data(row_));
}

std::span<const std::byte> EnvProbe::field(std::int64_t row, std::size_t i) const {
  const auto& f = layout_.fields[i];
  return arena_.element(data_, row).subspan(f.offset, f.spec.bytes());
}

const RowResult& EnvProbe::result(std::int64_t row) const {
  return reinterpret_cast<const RowResult*>(arena_.data(results_))[row];
}

void EnvProbe::play(const EnvFactory& make_env, const EnvSpec& spec, const CheckEnvOptions& limits,
                    const Options& options, WorkerStatus& status) {
  auto make = [&](std::uint64_t seed, std::uint64_t action_seed = 1) {
    return std::make_unique<Actor>(make_env, spec, layout_, seed, action_seed, options.fill,
                                   status);
  };
  auto actor = make(options.seed);
  auto& complete = *reinterpret_cast<bool*>(arena_.data(complete_));
  complete = true;
  if (options.mode == ProbeMode::kAgain) {
    actor->reset(options.seed);
    for (std::int64_t row = 1; row < rows_; ++row) actor->advance({});
    actor->repeat_actions(1);
  }
  const auto other = options.mode == ProbeMode::kAmong ? make(options.seed + 1, 2) : nullptr;
  if (other) other->reset(options.seed + 1);
  actor->reset(options.seed);
  for (std::int64_t row = 0; row < rows_; ++row) {
    if (other) other->advance({});
    if (options.mode == ProbeMode::kRestored && row == rows_ / 2) {
      auto fresh = make(options.seed);
      complete = fresh->continue_from(*actor);
      if (!complete) return;
      actor = std::move(fresh);
    }
    const auto result = row == 0 ? actor->finished(true, 0) : actor->advance(limits.allocations);
    reinterpret_cast<RowResult*>(arena_.data(results_))[row] = result;
    std::ranges::copy(actor->row(), arena_.element(data_, row).data());
    this->row() = row;
  }
}

}  // namespace shoal
