#pragma once

#include <stdexcept>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/runners/session.h"

namespace shoal {

// An Error here is no mistake of the user's: a disk is full, or an environment threw it.
template <class Action>
void run_training(Action action) {
  try {
    action();
  } catch (const Error& e) {
    throw std::runtime_error(e.what());
  }
}

// A loop that may be left between two updates, where a wait was given up.
template <class Loop>
void run_training(Session& session, Loop loop) {
  run_training([&] {
    try {
      loop();
    } catch (const Interrupted& e) {
      session.give_up_rollout(e);
    }
  });
}

}  // namespace shoal
