#include "shoal/samplers/choose_sampler.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>
#include <numeric>
#include <optional>
#include <system_error>
#include <utility>

#include "samplers/partition.h"
#include "samplers/sampler_trial.h"
#include "samplers/sampler_ways.h"
#include "shoal/core/arena.h"
#include "shoal/core/stop.h"
#include "shoal/ipc/worker_group.h"

namespace shoal {
namespace {

using Trials = std::vector<std::unique_ptr<SamplerTrial>>;

// Threads that exist before a fork do not exist in the child, where tensor operations would wait
// for them.
bool has_threads() {
  std::error_code none;
  const std::filesystem::directory_iterator tasks("/proc/self/task", none);
  return std::distance(begin(tasks), end(tasks)) > 1;
}

// A trial needs no decorrelation, and has no failures to keep: an environment that fails ends it.
SamplerOptions for_trials(SamplerOptions o) {
  o.decorrelation = 0;
  o.on_death = OnDeath::kFail;
  o.on_failure = {};
  o.dynamic_batch = 0;
  return o;
}

class Chooser {
 public:
  Chooser(const EnvFactory& make_env, Agent& agent, const SamplerOptions& options,
          const ChoiceOptions& choice)
      : make_env_(make_env),
        agent_(agent),
        options_(options),
        choice_(choice),
        threads_(has_threads() ? 1 : choice.threads),
        cores_(static_cast<int>(mean(static_cast<double>(allowed_cores().size())))),
        by_rows_(mean(agent.rows_are_independent() ? 1 : 0) == 1) {}

  SamplerChoice choose() {
    if (!choice_.measure || options_.dynamic_batch > 0) return parallel_gpu();
    const auto slow = ways_for({.step = HUGE_VAL});
    if (slow.size() == 1 && ways_for({}) == slow) return chosen(slow[0], "");
    const auto cost = find_cost();
    if (!cost) return chosen(slow[0], failure_);
    const auto ways = ways_for(*cost);
    const auto steps = choice_.steps / choice_.ranks;
    const auto reason = reason_not_to_measure(options_, cores_, *cost, steps);
    if (!reason.empty() || ways.size() == 1)
      return chosen(ways[way_by_rule(ways, is_short(*cost, steps))], reason);
    return measure(ways, *cost);
  }

 private:
  // The candidates in which every worker gets whole games.
  std::vector<SamplerWay> ways_for(const SamplingCost& cost) const {
    auto games = options_;
    games.envs = std::max<std::int64_t>(options_.envs / choice_.together, 1);
    const auto all = sampler_ways(games, cores_, by_rows_, cost);
    auto ways = all;
    std::erase_if(ways, [&](const SamplerWay& way) { return !fits(way); });
    if (!ways.empty()) return ways;
    const SamplerWay serial{SamplerKind::kSerial, 0, options_.groups};
    return may_be_serial(options_) && fits(serial) ? std::vector{serial} : all;
  }

  bool fits(const SamplerWay& way) const {
    const int workers = std::max(way.workers, 1);
    return indivisible_share(options_.envs, way.groups, workers, choice_.together) == 0;
  }

  SamplerChoice chosen(const SamplerWay& way, const std::string& reason) const {
    return {.options = with_way(options_, way), .measured = {}, .reason = reason};
  }

  SamplerChoice parallel_gpu() const {
    const auto most =
        std::min<std::int64_t>(options_.workers > 0 ? options_.workers : cores_, options_.envs);
    SamplerWay way{SamplerKind::kParallelGpu, static_cast<int>(most), options_.groups};
    while (options_.workers == 0 && way.workers > 1 && !fits(way)) --way.workers;
    return chosen(way, "");
  }

  std::chrono::milliseconds longest_start() const { return 3 * choice_.start_limit; }

  std::vector<double> sums(std::vector<double> numbers) const {
    if (choice_.ranks > 1) choice_.sum(numbers);
    return numbers;
  }
  double mean(double number) const { return sums({number})[0] / choice_.ranks; }

  // Calls act(), which returns whether it succeeded. Keeps the text of an exception.
  template <class Act>
  bool attempt(const Act& act) {
    try {
      return act();
    } catch (const Interrupted&) {
      throw;
    } catch (const std::exception& e) {
      failure_ = e.what();
      return false;
    }
  }

  // Measured with one environment, or one game. Without a result in any rank: nothing.
  std::optional<SamplingCost> find_cost() {
    // The rollouts of the second probe, of fast environments, are so long that their start and end
    // hardly count. A run that is short even with them is not measured, and needs no second probe.
    constexpr double kSlowStep = 1e-3;
    failure_ = "the environment is slow";
    SamplingCost cost;
    bool found = probe(1, cost);
    if (found && cost.step < kSlowStep && !is_short(cost, choice_.steps / choice_.ranks))
      found = probe(64, cost);
    const auto all = sums({found ? 1.0 : 0.0, cost.starting, cost.making, cost.step});
    if (all[0] < choice_.ranks) return {};
    return SamplingCost{.starting = all[1] / choice_.ranks,
                        .making = all[2] / choice_.ranks,
                        .step = all[3] / choice_.ranks};
  }

  bool probe(std::int64_t horizon, SamplingCost& cost) {
    auto one = for_trials(options_);
    one.kind = SamplerKind::kSerial;
    one.envs = choice_.together;
    one.groups = 1;
    one.horizon = horizon;
    return attempt([&] {
      SamplerTrial trial(make_env_, agent_, one, threads_, /*is_whole=*/false);
      if (!trial.start(longest_start())) return false;
      if (cost.making == 0) {
        const auto all = trial.making_again();
        cost.making = all / static_cast<double>(choice_.together);
        cost.starting = std::max(0.0, trial.first_making() - all);
      }
      // Other processes may have had the core during the slower ones.
      cost.step = trial.take_turn().shortest;
      return true;
    });
  }

  SamplerChoice measure(const std::vector<SamplerWay>& ways, const SamplingCost& cost) {
    failure_ = "another rank could not measure";
    auto trials = start_trials(ways, measured_horizon(options_, cost));
    std::vector<double> made;
    for (const auto& trial : trials) made.push_back(trial ? 1 : 0);
    made = sums(made);
    std::vector<std::size_t> usable;
    for (std::size_t i = 0; i < ways.size(); ++i)
      if (made[i] == choice_.ranks) usable.push_back(i);
    const auto rule = way_by_rule(ways, /*is_short=*/false);
    if (usable.empty()) return chosen(ways[rule], failure_);
    const auto found = compare_by_turns(usable.size(), choice_.steps, [&](std::size_t i) {
      return turn_of_ranks(*trials[usable[i]]);
    });
    if (found.rates.empty()) return chosen(ways[rule], failure_);
    const auto best = preferred_way(ways, usable, found);
    auto choice = chosen(ways[usable[best]], "");
    for (std::size_t i = 0; i < usable.size(); ++i)
      choice.measured.push_back({name_of(ways[usable[i]]), found.rates[i]});
    std::swap(choice.measured[0], choice.measured[best]);
    std::sort(choice.measured.begin() + 1, choice.measured.end(),
              [](const auto& a, const auto& b) { return a.rate > b.rate; });
    return choice;
  }

  // Null: there was no time or memory for this way. One process or environment that fails ends the
  // measurement.
  Trials start_trials(const std::vector<SamplerWay>& ways, std::int64_t horizon) {
    const auto until = std::chrono::steady_clock::now() + choice_.start_limit;
    const auto memory = available_memory();
    auto options = for_trials(options_);
    options.horizon = horizon;
    Trials trials(ways.size());
    std::vector<std::size_t> order(ways.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    // The way of the rule first: there may be no time for all.
    std::rotate(order.begin(),
                order.begin() + static_cast<std::ptrdiff_t>(way_by_rule(ways, false)), order.end());
    for (const auto i : order) {
      if (std::chrono::steady_clock::now() > until || available_memory() < memory / 2) break;
      const bool goes_on = attempt([&] {
        auto trial = std::make_unique<SamplerTrial>(make_env_, agent_, with_way(options, ways[i]),
                                                    threads_, horizon == options_.horizon);
        if (trial->start(longest_start())) trials[i] = std::move(trial);
        return true;
      });
      if (!goes_on) return Trials(ways.size());
    }
    return trials;
  }

  Turn turn_of_ranks(SamplerTrial& trial) {
    Turn own;
    const bool done = attempt([&] {
      own = trial.take_turn();
      return true;
    });
    const auto all = sums({done ? 1.0 : 0.0, own.steps, own.seconds, own.warming});
    if (all[0] < choice_.ranks) return {};
    return {.steps = all[1], .seconds = all[2] / choice_.ranks, .warming = all[3] / choice_.ranks};
  }

  const EnvFactory& make_env_;
  Agent& agent_;
  const SamplerOptions& options_;
  const ChoiceOptions& choice_;
  int threads_, cores_;
  bool by_rows_;
  std::string failure_;
};

}  // namespace

SamplerChoice choose_sampler(const EnvFactory& make_env, Agent& agent,
                             const SamplerOptions& options, const ChoiceOptions& choice) {
  return Chooser(make_env, agent, options, choice).choose();
}

}  // namespace shoal
