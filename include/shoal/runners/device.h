#pragma once

#include <c10/core/Device.h>

#include <string>

#include "shoal/agents/agent.h"

namespace shoal {

// The device named "cpu", "cuda" (the first GPU) or "cuda:N". Throws Error for any other text. Does
// not initialize CUDA.
at::Device parse_device(const std::string& text);

// Number of GPUs that this process may use; 0 without a driver. A child process counts them, so
// that the caller may still fork. The calling process must not have other threads.
int count_gpus();

// Loads the CUDA library of LibTorch (the program is linked with the CPU library only) and the
// plugin of CUDA kernels if it was built, checks that the device exists, and makes it the current
// device of this thread. Call it after the samplers were made: workers cannot be forked once CUDA
// is in use. Throws Error if LibTorch's CUDA library is missing, the plugin cannot be loaded, or
// the GPU does not exist.
void open_device(const at::Device& device);

// Parses `device`, opens it, and moves the agent to it.
void move_to_device(Agent& agent, const std::string& device);

}  // namespace shoal
