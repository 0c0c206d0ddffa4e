#pragma once

#include <memory>

#include "nccl_plugin.h"
#include "shoal/distributed/process_group.h"

namespace shoal {

// make_nccl_group() with a given API instead of the plugin's.
std::unique_ptr<ProcessGroup> make_nccl_group(const shoal_nccl_api& nccl, ProcessGroup& host,
                                              std::chrono::milliseconds timeout, bool insist);

}  // namespace shoal
