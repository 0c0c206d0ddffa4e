#pragma once

#include <sched.h>

namespace shoal {

// While it exists, the calling thread is bound to one of the cores that it may use, and so wakes up
// there after it has slept. Binds nothing if there is one core, or more than CPU_SETSIZE (1024).
class CoreBinding {
 public:
  // claims(core): how many others want a core. Chooses the one with the fewest, if possible that on
  // which the thread runs.
  template <class Claims>
  explicit CoreBinding(const Claims& claims) {
    const int here = sched_getcpu();
    if (here < 0 || here >= CPU_SETSIZE) return;
    if (sched_getaffinity(0, sizeof allowed_, &allowed_) != 0 || CPU_COUNT(&allowed_) < 2) return;
    core_ = here;
    for (int i = 1; i < CPU_SETSIZE && claims(core_) > 0; ++i) {
      const int core = (here + i) % CPU_SETSIZE;
      if (CPU_ISSET(core, &allowed_) && claims(core) < claims(core_)) core_ = core;
    }
    CPU_ZERO(&own_);
    CPU_SET(core_, &own_);
    is_bound_ = sched_setaffinity(0, sizeof own_, &own_) == 0;
  }
  // Gives the other cores back, unless somebody has given the thread other ones meanwhile.
  ~CoreBinding() {
    cpu_set_t now;
    if (!is_bound_ || sched_getaffinity(0, sizeof now, &now) != 0 || !CPU_EQUAL(&now, &own_))
      return;
    if (sched_setaffinity(0, sizeof allowed_, &allowed_) == 0) return;
    CPU_ZERO(&now);  // they are gone: any that there are
    for (int core = 0; core < CPU_SETSIZE; ++core) CPU_SET(core, &now);
    sched_setaffinity(0, sizeof now, &now);
  }
  CoreBinding(const CoreBinding&) = delete;
  CoreBinding& operator=(const CoreBinding&) = delete;

  int core() const { return core_; }  // -1: none

 private:
  cpu_set_t allowed_, own_;
  int core_ = -1;
  bool is_bound_ = false;
};

}  // namespace shoal
