#pragma once

#include <gtest/gtest.h>

#include <string>

#include "shoal/core/error.h"

namespace shoal {

// The message of the exception that `action` throws; the test fails if it throws none.
template <class Exception = Error, class Action>
std::string message_of(Action action) {
  try {
    action();
  } catch (const Exception& e) {
    return e.what();
  }
  ADD_FAILURE() << "nothing was thrown";
  return "";
}

}  // namespace shoal
