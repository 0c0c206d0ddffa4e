#pragma once

#include <sched.h>

namespace shoal {

// While it exists, the calling thread is bound to one of the cores that it may use, so that it
// wakes up there after it has slept.
class OneCore {
 public:
  // is_taken(core): whether the thread should stay away from a core. It stays where it runs, or
  // moves to the next free one, if there is any.
  template <class IsTaken>
  explicit OneCore(const IsTaken& is_taken) {
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0 || CPU_COUNT(&allowed_) < 2) return;
    core_ = here;
    for (int i = 0; i < CPU_SETSIZE; ++i) {
      const int core = (here + i) % CPU_SETSIZE;
      if (!CPU_ISSET(core, &allowed_) || is_taken(core)) continue;
      core_ = core;
      break;
    }
    cpu_set_t own;
    CPU_ZERO(&own);
    CPU_SET(core_, &own);
    is_bound_ = sched_setaffinity(0, sizeof own, &own) == 0;
  }
  ~OneCore() {
    if (is_bound_) sched_setaffinity(0, sizeof allowed_, &allowed_);
  }
  OneCore(const OneCore&) = delete;
  OneCore& operator=(const OneCore&) = delete;

  int core() const { return core_; }  // -1: none

 private:
  cpu_set_t allowed_;
  int core_ = -1;
  bool is_bound_ = false;
};

}  // namespace shoal
