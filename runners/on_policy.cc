#include "shoal/runners/on_policy.h"

#include <algorithm>
#include <iterator>

#include "runners/run_training.h"
#include "runners/sampler_numbers.h"

namespace shoal {

void run_on_policy(Session& session, Sampler& sampler, OnPolicyAlgo& algo,
                   const Evaluate& evaluate) {
  run_training(session, [&] {
    while (session.running()) {
      const Batch batch = session.collect(sampler);
      const Progress progress = session.advance(batch);
      // No steps are left if a worker and all of its steps were lost.
      const bool learns = session.rollout_steps() > 0;
      auto metrics = learns ? algo.update(batch.samples, progress) : Metrics{};
      add_numbers(sampler, metrics);
      if (evaluate && session.evaluation_is_due())
        std::ranges::move(evaluate(), std::back_inserter(metrics));
      session.report(metrics, sampler.times(), learns ? 1 : 0);
    }
  });
}

}  // namespace shoal
