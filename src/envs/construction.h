#pragma once

#include <fmt/format.h>

#include <chrono>
#include <memory>

#include "shoal/core/stop.h"
#include "shoal/envs/env.h"

namespace shoal {

// Limits the construction of an environment in this process, where no worker's limit applies: if it
// takes longer, the process exits with a message.
class Construction {
 public:
  Construction(std::int64_t env, std::chrono::milliseconds limit)
      : limit_(limit,
               fmt::format("this process has been constructing environment {} for more than {:.1f} "
                           "s; if this is not a hang, raise sampler.reset_limit",
                           env, std::chrono::duration<double>(limit).count())) {}

 private:
  BlockingCall call_{BlockingCall::kEnvironment};
  CallTimeout limit_;
};

inline std::unique_ptr<Env> construct_here(const EnvFactory& make_env, const EnvContext& context,
                                           std::chrono::milliseconds limit) {
  const Construction in_time(context.index, limit);
  return make_env(context);
}

struct EnvTraits {
  EnvSpec spec;
  BatchTraits batch;
};
// Those of an environment that is constructed for this in the calling process.
inline EnvTraits traits_of(const EnvFactory& make_env, const EnvContext& context,
                           std::chrono::milliseconds limit) {
  const auto env = construct_here(make_env, context, limit);
  return {.spec = env->spec(), .batch = env->batch()};
}
inline EnvSpec spec_of(const EnvFactory& make_env, const EnvContext& context,
                       std::chrono::milliseconds limit) {
  return traits_of(make_env, context, limit).spec;
}

}  // namespace shoal
