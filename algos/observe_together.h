#pragma once

#include "shoal/agents/agent.h"
#include "shoal/sync/ranks.h"

namespace shoal {

// ActorCritic::observe() of all ranks' rollouts.
void observe_together(Ranks& ranks, ActorCritic& agent, const Samples& samples);

}  // namespace shoal
