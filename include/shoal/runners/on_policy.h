#pragma once

#include <functional>

#include "shoal/algos/algo.h"
#include "shoal/runners/session.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// Returns metrics for the row of a rollout after which evaluation_is_due().
using Evaluate = std::function<Metrics()>;

// The on-policy training loop. Repeats until the session stops: collect a rollout, learn from it,
// evaluate if due, report. The caller calls session.begin() before and session.finish() after it.
// Throws WorkerError if a worker fails. An Error becomes std::runtime_error, because a failure
// during training is not a mistake in the user's settings; other exceptions pass.
void run_on_policy(Session& session, Sampler& sampler, OnPolicyAlgo& algo,
                   const Evaluate& evaluate = {});

}  // namespace shoal
