#pragma once

#include <stdexcept>

#include "shoal/core/error.h"
#include "shoal/core/stop.h"
#include "shoal/runners/session.h"

namespace shoal {

// During training an Error is not the user's mistake: a disk is full, or an environment threw it.
template <class Action>
void run_training(Action action) {
  try {
    action();
  } catch (const Error& e) {
    throw std::runtime_error(e.what());
  }
}

// The loop may be left between two updates if a wait was given up.
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
