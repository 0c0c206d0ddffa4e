#include "samplers/collector.h"

#include <fmt/ranges.h>

#include <cstring>

#include "shoal/core/error.h"

namespace shoal {

namespace {

std::string describe(const NamedSpecs& arrays) {
  std::string text;
  for (const auto& [name, spec] : arrays)
    text +=
        fmt::format("{}{}{} {} [{}] x {}", text.empty() ? "" : ", ", name, name.empty() ? "" : ":",
                    name_of(spec.dtype), fmt::join(spec.shape, ", "), spec.stack);
  return "{" + text + "}";
}

// Rows are planned for what environment 0 said; another one would write past its elements.
void require_same(const RowSpec& planned, const EnvSpec& env, std::int64_t b) {
  const auto found = row_spec(env, planned.agent_info);
  auto compare = [&](const char* what, const NamedSpecs& wanted, const NamedSpecs& has) {
    require(describe(wanted) == describe(has),
            "environment {} has the {} {}, and environment 0 has {}; the environments of a sampler "
            "share one spec",
            b, what, describe(has), describe(wanted));
  };
  compare("observation", planned.observation, found.observation);
  compare("action", planned.action, found.action);
  compare("action mask", planned.mask, found.mask);
  compare("infos", planned.env_info, found.env_info);
}

}  // namespace

RowSpec row_spec(const EnvSpec& env, const NamedSpecs& agent_info) {
  RowSpec spec{.observation = env.observation, .action = {}, .agent_info = agent_info};
  for (const auto& [name, action] : env.action) spec.action.add(name, action.array());
  for (const auto& info : env.info) {
    const auto& array = info.array;
    require(info.name != "score" || (array.dtype == DType::kFloat32 && array.count() == 1 &&
                                     info.reduce == PerEpisode::kSum),
            "{}: the info 'score' is one float32 that is summed over an episode; found {} with {} "
            "elements",
            env.id, name_of(array.dtype), array.count());
    spec.env_info.add(info.name, array);
  }
  require(
      !env.action_mask ||
          (env.action.size() == 1 && env.action[0].kind == ActionSpec::Kind::kDiscrete),
      "{}: an action mask belongs to one discrete action, and this environment has another kind",
      env.id);
  if (env.action_mask)
    spec.mask = ArraySpec{.dtype = DType::kBool, .shape = {env.action[0].choices.at(0)}};
  return spec;
}

Collector::Collector(const SharedRows& shared, const EnvFactory& make_env, const Options& options,
                     WorkerStatus* status)
    : shared_(shared), options_(options), status_(status) {
  const auto& rows = shared.rows;
  observation_.resize(rows.observation.size());
  info_.resize(rows.env_info.size());
  action_.resize(rows.action.size());
  std::size_t info_bytes = 0;
  for (const auto& [name, field] : rows.env_info) info_bytes += field.spec.bytes() + 63;
  discarded_.resize(info_bytes);
  for (std::size_t offset = 0; const auto& [name, field] : rows.env_info) {
    discarded_info_.push_back(discarded_.data() + offset);
    offset += (field.spec.bytes() + 63) / 64 * 64;
  }
  slots_.resize(static_cast<std::size_t>(options.last - options.first));
  for (auto b = options.first; b < options.last; ++b) {
    const auto seed = env_seed(options.seed, options.stream, b);
    enter(WorkerStatus::kConstructing, b);
    auto& slot = slots_[static_cast<std::size_t>(b - options.first)];
    slot.env = make_env({.seed = seed, .index = b, .stream = options.stream});
    require_same(rows.spec(), slot.env->spec(), b);
    enter(WorkerStatus::kResetting, b);
    slot.env->reset(seed, out(shared.history, -1, b));
    rows.scalar<bool>(rows.first, shared.history, b) = true;
  }
  if (!slots_.empty()) {
    const auto& info = slots_.front().env->spec().info;
    for (std::size_t i = 0; i < info.size(); ++i)
      if (info[i].name == "score") score_ = i;
  }
  if (status_) status_->leave();
}

void Collector::step(std::int64_t t) {
  const auto& rows = shared_.rows;
  const auto row = shared_.history + t;
  shared_.ended_in(options_.ends) = 0;
  for (auto b = options_.first; b < options_.last; ++b) {
    auto& slot = slots_[static_cast<std::size_t>(b - options_.first)];
    for (std::size_t i = 0; i < action_.size(); ++i)
      action_[i] = rows.element(rows.action[i], row, b).data();
    enter(WorkerStatus::kStepping, b);
    const auto result = slot.env->step(ArraysIn(action_), out(row + 1, row, b));
    rows.scalar<float>(rows.reward, row, b) = result.reward;
    rows.scalar<bool>(rows.terminated, row, b) = result.terminated;
    rows.scalar<bool>(rows.truncated, row, b) = result.truncated;
    rows.scalar<bool>(rows.first, row + 1, b) = result.terminated || result.truncated;
    ++slot.length;
    slot.reward += result.reward;
    slot.score += score_ ? *reinterpret_cast<const float*>(info_[*score_]) : result.reward;
    if ((result.terminated && !result.life_lost) || result.truncated) finish_episode(slot, t, b);
  }
  ++tick_;
  if (status_) status_->leave();
}

StepOut Collector::out(std::int64_t observation_row, std::int64_t info_row, std::int64_t b) {
  const auto& rows = shared_.rows;
  for (std::size_t i = 0; i < observation_.size(); ++i)
    observation_[i] = rows.element(rows.observation[i], observation_row, b).data();
  for (std::size_t i = 0; i < info_.size() && info_row >= 0; ++i)
    info_[i] = rows.element(rows.env_info[i], info_row, b).data();
  bool* mask = rows.mask.empty()
                   ? nullptr
                   : reinterpret_cast<bool*>(rows.element(rows.mask[0], observation_row, b).data());
  return {ArraysOut(observation_), ArraysOut(info_row >= 0 ? info_ : discarded_info_), mask};
}

void Collector::finish_episode(Slot& slot, std::int64_t t, std::int64_t b) {
  const auto& rows = shared_.rows;
  const auto row = shared_.history + t;
  for (std::size_t i = 0; i < rows.observation.size(); ++i) {
    const auto from = rows.element(rows.observation[i], row + 1, b);
    std::memcpy(shared_.last.element(shared_.last.observation[i], shared_.end_row(t), b).data(),
                from.data(), from.size());
  }
  shared_.episode_end(t, b) = {slot.length, slot.reward, slot.score};
  ++shared_.ended_in(options_.ends);
  slot.length = 0;
  slot.reward = slot.score = 0;
  enter(WorkerStatus::kResetting, b);
  slot.env->reset(std::nullopt, out(row + 1, -1, b));
}

}  // namespace shoal
