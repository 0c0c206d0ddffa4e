#pragma once

#include <cstdint>

#include "shoal/runners/learner.h"
#include "shoal/runners/on_policy.h"

namespace shoal {

// Updates that are due after so many steps, since the beginning; batch: steps of one update.
std::int64_t updates_due(std::int64_t steps, std::int64_t batch, const OffPolicyOptions& options);

// Collects a rollout, appends it to the replay, makes the updates that are due, evaluates if that
// is, reports; until the session says stop. Otherwise like run_on_policy().
void run_off_policy(Session& session, Sampler& sampler, Learner& learner,
                    const OffPolicyOptions& options, const Evaluate& evaluate = {});

}  // namespace shoal
