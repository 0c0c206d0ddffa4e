#pragma once

#include <cstdint>
#include <istream>
#include <set>
#include <string>

#include "shoal/agents/agent.h"
#include "shoal/runners/config.h"

namespace shoal {

// weights_config() and import_weights() of a seekable stream of `size` bytes, from its start.
Config weights_config(std::istream& in, std::uint64_t size);
void import_weights(Agent& agent, std::istream& in, std::uint64_t size,
                    const std::set<std::string>& keep = {});

}  // namespace shoal
