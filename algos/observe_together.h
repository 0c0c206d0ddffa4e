#pragma once

#include "shoal/agents/agent.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// ActorCritic::observe() of all ranks' rollouts.
void observe_together(ProcessGroup& ranks, ActorCritic& agent, const Samples& samples);

}  // namespace shoal
