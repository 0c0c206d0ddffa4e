#pragma once

#include <cstdint>

#include "shoal/runners/learner.h"
#include "shoal/runners/on_policy.h"

namespace shoal {

// Total number of updates that are due after `steps` steps; batch: steps per update.
std::int64_t updates_due(std::int64_t steps, std::int64_t batch, const OffPolicyOptions& options);

// The off-policy training loop. Repeats until the session stops: collect a rollout, append it to
// the replay, make the updates that are due, evaluate if due, report. Otherwise as run_on_policy().
void run_off_policy(Session& session, Sampler& sampler, Learner& learner,
                    const OffPolicyOptions& options, const Evaluate& evaluate = {});

}  // namespace shoal
