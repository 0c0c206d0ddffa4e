#include "shoal/envs/check_env.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>

#include "shoal/core/error.h"
#include "shoal/core/finite.h"
#include "src/envs/child.h"
#include "src/envs/construction.h"
#include "src/envs/env_probe.h"
#include "src/envs/gymnasium/python_id.h"

namespace shoal {
namespace {

using Findings = std::vector<std::string>;

template <class... Args>
void tell(Findings& findings, fmt::format_string<Args...> text, Args&&... args) {
  findings.push_back(fmt::format(text, std::forward<Args>(args)...));
}

// ---- Spec ----

void check_array(const std::string& what, const ArraySpec& spec, Findings& findings) {
  for (const auto n : spec.shape)
    if (n < 1) tell(findings, "spec: {} has a dimension of {}; expected at least 1", what, n);
  if (!(spec.low <= spec.high))
    tell(findings, "spec: {} has the empty range [{}, {}]", what, spec.low, spec.high);
  if (spec.stack < 1)
    tell(findings, "spec: {} has a stack of {}; expected at least 1 (1: not stacked)", what,
         spec.stack);
}

void check_action(const std::string& what, const ActionSpec& spec, Findings& findings) {
  using Kind = ActionSpec::Kind;
  const bool choices = spec.kind == Kind::kDiscrete || spec.kind == Kind::kMultiDiscrete;
  if (choices && spec.choices.empty()) tell(findings, "spec: {} has no choices", what);
  if (spec.kind == Kind::kDiscrete && spec.choices.size() > 1)
    tell(findings, "spec: {} is discrete but has {} parts; make it multi-discrete", what,
         spec.choices.size());
  for (const auto n : spec.choices)
    if (n < 1) tell(findings, "spec: {} has {} choices; expected at least 1", what, n);
  if (!choices && spec.dims < 1)
    tell(findings, "spec: {} has {} numbers; expected at least 1", what, spec.dims);
  if (spec.kind == Kind::kBox && !(spec.low < spec.high))
    tell(findings, "spec: {} has the empty range [{}, {}]", what, spec.low, spec.high);
}

Findings check_spec(const EnvSpec& spec) {
  Findings findings;
  std::set<std::string> names;
  if (spec.observation.empty()) tell(findings, "spec: there is no observation");
  if (spec.action.empty()) tell(findings, "spec: there is no action");
  for (const auto& [name, array] : spec.observation) {
    check_array(fmt::format("observation '{}'", name), array, findings);
    if (!names.insert(name).second) tell(findings, "spec: there are two observations '{}'", name);
  }
  names.clear();
  for (const auto& [name, action] : spec.action) {
    check_action(fmt::format("action '{}'", name), action, findings);
    if (!names.insert(name).second) tell(findings, "spec: there are two actions '{}'", name);
  }
  names.clear();
  for (const auto& info : spec.info) {
    check_array(fmt::format("info '{}'", info.name), info.array, findings);
    if (!names.insert(info.name).second)
      tell(findings, "spec: there are two infos '{}'", info.name);
    if (info.name == "score" && (info.array.dtype != DType::kFloat32 || info.array.count() != 1 ||
                                 info.reduce != PerEpisode::kSum))
      tell(findings,
           "spec: the info 'score' must be a single float32 that is summed over an episode");
  }
  const bool one_choice =
      spec.action.size() == 1 && spec.action[0].kind == ActionSpec::Kind::kDiscrete;
  if (spec.action_mask && !one_choice)
    tell(findings, "spec: an action mask needs a single discrete action");
  return findings;
}

// ---- One trial ----

std::string after(const EnvProbe& r, std::int64_t row) {
  return r.result(row).is_reset ? fmt::format("after a reset (row {})", row)
                                : fmt::format("after a step (row {})", row);
}

// Finds an element of a field that still holds the fill value in both trials.
std::optional<std::int64_t> unwritten(const EnvProbe& a, const EnvProbe& b, std::byte fill_a,
                                      std::byte fill_b, std::int64_t row, std::size_t i) {
  const auto x = a.field(row, i), y = b.field(row, i);
  for (std::size_t n = 0; n < x.size(); ++n)
    if (x[n] == fill_a && y[n] == fill_b)
      return static_cast<std::int64_t>(n / size_of(a.layout().fields[i].spec.dtype));
  return {};
}

void check_overrun(const EnvProbe& r, Findings& findings) {
  for (std::int64_t row = 0; row < r.rows(); ++row) {
    const auto& result = r.result(row);
    if (!result.overrun) continue;
    const auto& field = r.layout().fields[static_cast<std::size_t>(result.field)];
    tell(findings,
         "{}: more than its {} bytes are written {}; its shape or dtype differs from the spec",
         field.what, field.spec.bytes(), after(r, row));
    return;
  }
}

// The first invalid value of the field; "" if there is none.
std::string bad_value(const EnvProbe& r, std::int64_t row, std::size_t i) {
  const auto& field = r.layout().fields[i];
  const auto& spec = field.spec;
  const auto bytes = r.field(row, i);
  // float32 values are compared with bounds rounded to float32.
  const bool narrow = spec.dtype == DType::kFloat32;
  const double low = narrow ? static_cast<float>(spec.low) : spec.low;
  const double high = narrow ? static_cast<float>(spec.high) : spec.high;
  for (std::int64_t n = 0; n < spec.count(); ++n) {
    const double x =
        number_at(bytes.data() + static_cast<std::size_t>(n) * size_of(spec.dtype), spec.dtype);
    if (std::isnan(x) || (field.by_reset && std::isinf(x)))  // infos may be infinite
      return fmt::format("element {} is {}", n, name_not_finite(x));
    if (spec.dtype == DType::kBool && x > 1)
      return fmt::format("element {} is {}, which is not a bool", n, x);
    if (x < low || x > high)
      return fmt::format("element {} is {}, outside [{}, {}]", n, x, spec.low, spec.high);
  }
  return "";
}

void check_values(const EnvProbe& r, std::size_t i, Findings& findings) {
  const auto& field = r.layout().fields[i];
  for (std::int64_t row = 0; row < r.rows(); ++row) {
    if (r.result(row).is_reset && !field.by_reset) continue;
    if (const auto bad = bad_value(r, row, i); !bad.empty()) {
      tell(findings, "{}: {} {}", field.what, bad, after(r, row));
      return;
    }
  }
}

void check_mask(const EnvProbe& r, Findings& findings) {
  if (!r.layout().mask) return;
  const auto i = r.layout().fields.size() - 1;
  for (std::int64_t row = 0; row < r.rows(); ++row) {
    const auto mask = r.field(row, i);
    const bool over = r.result(row).result.terminated || r.result(row).result.truncated;
    if (over || std::ranges::any_of(mask, [](auto b) { return b != std::byte{0}; })) continue;
    tell(findings, "the action mask allows no action {}", after(r, row));
    return;
  }
}

void check_results(const EnvProbe& r, Findings& findings) {
  for (std::int64_t row = 0; row < r.rows(); ++row) {
    const auto& result = r.result(row).result;
    if (!std::isfinite(result.reward)) {
      tell(findings, "the reward is {} {}", result.reward, after(r, row));
      return;
    }
    if (result.life_lost && !result.terminated) {
      tell(findings, "life_lost without terminated {}: a lost life ends the agent's episode",
           after(r, row));
      return;
    }
  }
}

void check_allocations(const EnvProbe& r, Findings& findings) {
  // Buffers may grow in the first half.
  std::int64_t steps = 0, allocating = 0;
  for (auto row = r.rows() / 2; row < r.rows(); ++row) {
    if (r.result(row).is_reset) continue;
    ++steps;
    allocating += r.result(row).allocations > 0 ? 1 : 0;
  }
  if (allocating > 0)
    tell(findings, "step() allocates memory, in {} of {} steps; keep its buffers as members",
         allocating, steps);
}

// ---- Two trials that must be equal ----

// The first difference; "" if there is none.
std::string difference(const EnvProbe& a, const EnvProbe& b) {
  for (std::int64_t row = 0; row < a.rows(); ++row) {
    const auto &x = a.result(row), &y = b.result(row);
    if (x.is_reset != y.is_reset || x.result.terminated != y.result.terminated ||
        x.result.truncated != y.result.truncated || x.result.life_lost != y.result.life_lost)
      return fmt::format("the end of the episode differs {}", after(a, row));
    if (x.result.reward != y.result.reward && !std::isnan(x.result.reward))
      return fmt::format("the reward is {} and {} {}", x.result.reward, y.result.reward,
                         after(a, row));
    for (std::size_t i = 0; i < a.layout().fields.size(); ++i) {
      const auto& field = a.layout().fields[i];
      if (x.is_reset && !field.by_reset) continue;
      if (!std::ranges::equal(a.field(row, i), b.field(row, i)))
        return fmt::format("{} differs {}", field.what, after(a, row));
    }
  }
  return "";
}

class Check {
 public:
  Check(const EnvFactory& make_env, const CheckEnvOptions& options)
      : make_env_(make_env), options_(options) {}

  Findings run() {
    construct_apart();
    try {
      spec_ = spec_of(make_env_, {.seed = options_.seed}, options_.reset_limit);
    } catch (const std::exception& e) {
      return {fmt::format("it cannot be constructed: {}", e.what())};
    }
    findings_ = check_spec(spec_);
    if (!findings_.empty()) return findings_;  // an invalid spec cannot be played
    const auto alone = play({.seed = options_.seed, .fill = kFillA});
    check_overrun(alone, findings_);
    if (!findings_.empty()) return findings_;
    const bool written = check_written(alone, play({.seed = options_.seed, .fill = kFillB}));
    for (std::size_t i = 0; i < alone.layout().fields.size() && written; ++i)
      check_values(alone, i, findings_);
    check_results(alone, findings_);
    if (written) check_mask(alone, findings_);
    // Python code always allocates.
    if (!is_in_python(spec_.id)) check_allocations(alone, findings_);
    compare(alone);
    return findings_;
  }

 private:
  // A constructor that crashes or hangs does so in this process.
  void construct_apart() const {
    run_in_child(
        [&](WorkerStatus status) {
          status.enter(WorkerStatus::kConstructing, 0, 0);
          try {
            make_env_({.seed = options_.seed});
          } catch (const std::exception&) {  // it will be thrown in the calling process, too
          }
        },
        {.step_limit = options_.step_limit, .reset_limit = options_.reset_limit});
  }

  static constexpr std::byte kFillA{0xA5}, kFillB{0x5A};

  EnvProbe play(EnvProbe::Options mode) {
    mode.number = ++trials_;
    return EnvProbe(make_env_, spec_, options_, mode);
  }

  bool check_written(const EnvProbe& a, const EnvProbe& b) {
    bool all = true;
    for (std::size_t i = 0; i < a.layout().fields.size(); ++i) {
      const auto& field = a.layout().fields[i];
      for (std::int64_t row = 0; row < a.rows(); ++row) {
        if (a.result(row).is_reset && !field.by_reset) continue;
        const auto n = unwritten(a, b, kFillA, kFillB, row, i);
        if (!n) continue;
        tell(findings_,
             "{}: element {} is not written {}; every call must write every element, in the "
             "spec's dtype ({})",
             field.what, *n, after(a, row), name_of(field.spec.dtype));
        all = false;
        break;
      }
    }
    return all;
  }

  void compare(const EnvProbe& alone) {
    if (const auto what = difference(alone, play({.seed = options_.seed, .fill = kFillA}));
        !what.empty()) {
      tell(findings_,
           "the same seed and actions do not give the same episodes: {}; draw all randomness from "
           "the seed",
           what);
      return;  // nothing else can be compared
    }
    const bool deaf = difference(alone, play({.seed = options_.seed + 1, .fill = kFillA})).empty();
    const bool apart =
        expect_same(alone, ProbeMode::kAmong,
                    "stepping another environment changes this one, so they share state");
    const auto again =
        difference(alone, play({.mode = ProbeMode::kAgain, .seed = options_.seed, .fill = kFillA}));
    if (deaf)
      judge_deaf(again.empty());
    else if (apart && !again.empty())
      tell(findings_, "a reset with the seed does not repeat the episode: {}", again);
    const auto restored =
        play({.mode = ProbeMode::kRestored, .seed = options_.seed, .fill = kFillA});
    if (!restored.complete()) return;
    if (const auto what = difference(alone, restored); !what.empty())
      tell(findings_, "a loaded environment does not continue as the saved one: {}", what);
  }

  // A deterministic environment needs no seed.
  void judge_deaf(bool repeats) {
    const auto same =
        fmt::format("seeds {} and {} give the same episodes", options_.seed, options_.seed + 1);
    if (!repeats)
      tell(findings_, "{}: the seed has no effect", same);
    else if (options_.note)
      options_.note(same + ": the environment is deterministic, and its seed has no effect");
  }

  bool expect_same(const EnvProbe& alone, ProbeMode mode, const char* otherwise) {
    const auto what =
        difference(alone, play({.mode = mode, .seed = options_.seed, .fill = kFillA}));
    if (!what.empty()) tell(findings_, "{}: {}", otherwise, what);
    return what.empty();
  }

  const EnvFactory& make_env_;
  const CheckEnvOptions& options_;
  EnvSpec spec_;
  Findings findings_;
  int trials_ = 0;
};

}  // namespace

std::vector<std::string> check_env(const EnvFactory& make_env, const CheckEnvOptions& options) {
  require(options.steps > 0, "CheckEnvOptions::steps is {}; expected at least 1", options.steps);
  try {
    return Check(make_env, options).run();
  } catch (const WorkerError& e) {
    return {e.what()};
  }
}

}  // namespace shoal
