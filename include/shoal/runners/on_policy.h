#pragma once

#include <functional>

#include "shoal/algos/algo.h"
#include "shoal/runners/session.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// After the rollout that evaluation_is_due() after: more numbers for its row.
using Evaluate = std::function<Metrics()>;

// Collects a rollout, learns from it, evaluates if that is due, reports; until the session says
// stop. session.begin() must have been called, and session.finish() is left to the caller. Throws
// WorkerError if a worker fails, and std::runtime_error, never Error, for whatever else does: once
// training has begun it is no mistake in what the user asked for.
void run_on_policy(Session& session, Sampler& sampler, OnPolicyAlgo& algo,
                   const Evaluate& evaluate = {});

}  // namespace shoal
