#include "shoal/algos/algo_spec.h"

#include <algorithm>
#include <utility>

#include "algos/builtin_algos.h"
#include "shoal/core/error.h"
#include "shoal/core/text.h"
#include "src/core/divide_up.h"

namespace shoal {
namespace {

using Specs = std::vector<std::unique_ptr<AlgoSpec>>;

Specs make_builtin() {
  Specs all;
  for (auto* const make :
       {ppo_spec, a2c_spec, impala_spec, dqn_spec, r2d1_spec, ddpg_spec, td3_spec, sac_spec})
    all.push_back(make());
  return all;
}

Specs& known() {
  static Specs all = make_builtin();
  return all;
}

Specs copies_of(const Specs& all) {
  Specs copies;
  for (const auto& spec : all) copies.push_back(spec->clone());
  return copies;
}

}  // namespace

// Of the largest of the rollouts that are learned from one by one.
std::int64_t OnPolicySpec::steps_at_once(const RunOptions& run) const {
  return run.horizon * divide_up(run.envs, run.rollouts);
}

std::unique_ptr<Agent> OnPolicySpec::make_agent(const EnvSpec& env, const RunOptions& run) const {
  return make_actor_critic(env, run.model, run.agent, run.seed);
}

void register_algo(std::unique_ptr<AlgoSpec> spec) {
  const auto name = spec->name();
  require(std::ranges::none_of(known(), [&](const auto& one) { return one->name() == name; }),
          "algorithm '{}' is already registered; choose another name", name);
  known().push_back(std::move(spec));
}

AlgoSpecs::AlgoSpecs() : all_(copies_of(known())) {}
AlgoSpecs::AlgoSpecs(const AlgoSpecs& other) : all_(copies_of(other.all_)) {}
AlgoSpecs& AlgoSpecs::operator=(AlgoSpecs other) noexcept {
  all_.swap(other.all_);
  return *this;
}

AlgoSpec& AlgoSpecs::at(const std::string& name) const {
  for (const auto& spec : all_)
    if (spec->name() == name) return *spec;
  throw Error("there is no algo '{}'; the nearest is '{}'", one_line(name), nearest(name, names()));
}

std::vector<std::string> AlgoSpecs::names() const {
  std::vector<std::string> names;
  for (const auto& spec : all_) names.push_back(spec->name());
  return names;
}

}  // namespace shoal
