#pragma once

#include <stdexcept>

#include "shoal/core/error.h"

namespace shoal {

// An Error here is no mistake of the user's: a disk is full, or an environment threw it.
template <class Action>
void while_training(Action action) {
  try {
    action();
  } catch (const Error& e) {
    throw std::runtime_error(e.what());
  }
}

}  // namespace shoal
