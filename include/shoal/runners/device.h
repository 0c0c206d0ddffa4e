#pragma once

#include <c10/core/Device.h>

#include <string>

#include "shoal/agents/agent.h"

namespace shoal {

// "cpu", "cuda" (the first GPU) or "cuda:N". Throws Error for anything else. Touches no GPU.
at::Device parse_device(const std::string& text);

// How many GPUs this process may use; 0 also without a driver. A child process asks for it, so that
// this one may still fork afterwards. Needs a process without other threads.
int count_gpus();

// Makes it this thread's device, and loads what it needs (the program is linked with the CPU half
// of LibTorch only), the plugin of CUDA kernels included where it was built, and checks that it is
// there. Call it after the samplers were made: workers cannot be forked once CUDA is in use. Throws
// Error if LibTorch's CUDA half is missing, the plugin cannot be loaded, or there is no such GPU.
void open_device(const at::Device& device);

// All of it: parses, opens, and moves the agent there.
void move_to_device(Agent& agent, const std::string& device);

}  // namespace shoal
