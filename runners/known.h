#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "shoal/core/error.h"
#include "shoal/core/text.h"

namespace shoal {

inline void require_known(const std::string& what, const std::string& name,
                          const std::vector<std::string>& known) {
  require(std::find(known.begin(), known.end(), name) != known.end(),
          "there is no {} '{}'; the nearest is '{}'", what, one_line(name), nearest(name, known));
}

}  // namespace shoal
