#pragma once

#include "shoal/algos/algo.h"
#include "shoal/runners/session.h"
#include "shoal/samplers/sampler.h"

namespace shoal {

// Collects a window, learns from it, reports; until the session says stop. session.begin() must
// have been called, and session.finish() is left to the caller. Throws WorkerError if an
// environment fails.
void run_on_policy(Session& session, Sampler& sampler, OnPolicyAlgo& algo);

// A whole training run as the configuration describes it, in the order that forks demand. Returns
// the session's stop signal, 0 if there was none.
int train(const Config& config, const std::filesystem::path& folder, bool quiet = false);

}  // namespace shoal
