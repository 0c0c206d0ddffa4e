#pragma once

#include <Python.h>
#include <pthread.h>

#include "shared_generators.h"

namespace shoal::python {

// The work of os.fork() around a fork() by C++. A fork by Python holds the GIL and does it itself.
class ForkHandlers {
 public:
  // Once per process. The thread that forks must not hold the GIL.
  static void install() { pthread_atfork(before, after_in_parent, after_in_child); }

 private:
  static bool is_finalizing() {
#if PY_VERSION_HEX < 0x030D0000
    return _Py_IsFinalizing() != 0;
#else
    return Py_IsFinalizing() != 0;
#endif
  }

  static void before() {
    skipped_ = Py_IsInitialized() == 0 || is_finalizing() || PyGILState_Check() == 1;
    if (skipped_) return;
    held_ = PyGILState_Ensure();
    PyOS_BeforeFork();
  }

  static void after_in_parent() {
    if (skipped_) return;
    PyOS_AfterFork_Parent();
    PyGILState_Release(held_);
  }

  static void after_in_child() {
    if (skipped_) return;
    PyOS_AfterFork_Child();
    SharedGenerators::seed_in_this_process();
    PyGILState_Release(held_);
  }

  // A thread that forks while another one does waits in before() until it has the GIL.
  inline static thread_local bool skipped_ = false;
  inline static PyGILState_STATE held_{};
};

}  // namespace shoal::python
