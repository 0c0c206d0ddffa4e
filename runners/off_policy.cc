#include "shoal/runners/off_policy.h"

#include <algorithm>
#include <iterator>

#include "runners/run_training.h"
#include "runners/sampler_numbers.h"

namespace shoal {

std::int64_t updates_due(std::int64_t steps, std::int64_t batch, const OffPolicyOptions& o) {
  const auto learned = static_cast<double>(std::max<std::int64_t>(steps - o.learning_starts, 0));
  return static_cast<std::int64_t>(learned * o.replay_ratio / static_cast<double>(batch));
}

void run_off_policy(Session& session, Sampler& sampler, Learner& learner,
                    const OffPolicyOptions& options, const Evaluate& evaluate) {
  auto& replay = *learner.replay;
  auto& algo = *learner.algo;
  run_training(session, [&] {
    while (session.running()) {
      algo.explore(session.progress(), session.steps() >= options.learning_starts);
      const Batch batch = session.collect(sampler);
      const Progress before = session.advance(batch);
      replay.append(batch.samples);
      // Depends on the steps only, so that a resumed run makes the same updates.
      const auto updates = updates_due(session.steps(), learner.batch, options) -
                           updates_due(before.steps, learner.batch, options);
      const bool learns = updates > 0 && session.all_ranks(replay.size() > 0);
      auto metrics = learns ? algo.update(before, static_cast<int>(updates)) : Metrics{};
      if (const auto learned = session.steps() - options.learning_starts; learned > 0) {
        const auto drawn = (session.updates() + (learns ? updates : 0)) * learner.batch;
        metrics.emplace_back("replay_ratio",
                             static_cast<double>(drawn) / static_cast<double>(learned));
      }
      add_numbers(sampler, metrics);
      if (evaluate && session.evaluation_is_due())
        std::ranges::move(evaluate(), std::back_inserter(metrics));
      session.report(metrics, sampler.times(), learns ? updates : 0);
    }
  });
}

}  // namespace shoal
