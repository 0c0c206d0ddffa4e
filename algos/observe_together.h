#pragma once

#include "shoal/agents/agent.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// ActorCritic::observe() for the rollouts of all ranks.
void observe_together(ProcessGroup& ranks, ActorCritic& agent, const Samples& samples);

}  // namespace shoal
