#pragma once

#include <fmt/format.h>

#include <chrono>

#include "shoal/core/stop.h"
#include "shoal/envs/env.h"

namespace shoal {

// While it lives an environment is constructed in this process, where no worker's limit holds: if
// that takes longer, the process ends with a sentence.
class Construction {
 public:
  Construction(std::int64_t env, std::chrono::milliseconds limit)
      : limit_(limit,
               fmt::format("this process has been constructing environment {} for more than {:.1f} "
                           "s; if that is no hang, raise sampler.reset_limit",
                           env, std::chrono::duration<double>(limit).count())) {}

 private:
  BlockingCall call_{BlockingCall::kEnvironment};
  CallTimeout limit_;
};

// Of an environment that is made for this in the calling process.
inline EnvSpec spec_of(const EnvFactory& make_env, const EnvContext& context,
                       std::chrono::milliseconds limit) {
  const Construction in_time(context.index, limit);
  return make_env(context)->spec();
}

}  // namespace shoal
