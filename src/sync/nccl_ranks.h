#pragma once

#include <memory>

#include "nccl_plugin.h"
#include "shoal/sync/ranks.h"

namespace shoal {

// make_nccl_ranks() with this instead of the plugin.
std::unique_ptr<Ranks> make_nccl_ranks(const shoal_nccl_api& nccl, Ranks& host,
                                       std::chrono::milliseconds timeout, bool insist);

}  // namespace shoal
