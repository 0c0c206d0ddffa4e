#pragma once

#include <memory>
#include <utility>

#include "shoal/envs/env.h"

namespace shoal {

// A factory of wrappers W, which are constructed from an environment and these options.
template <class W, class... Options>
EnvFactory wrap(EnvFactory make_env, Options... options) {
  return [make_env = std::move(make_env), options...](const EnvContext& context) {
    return std::make_unique<W>(make_env(context), options...);
  };
}

}  // namespace shoal
