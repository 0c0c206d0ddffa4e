#pragma once

#include <sys/prctl.h>
#include <unistd.h>

#include <csignal>

namespace shoal {

// Blocks signals around fork(): until a child has set its own handlers it has its parent's.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  ~SignalsBlocked() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// True in a process that a worker's environment has forked. If it returns from the environment, it
// must exit instead of continuing as a second worker.
inline bool forked_by_worker = false;

inline void end_if_forked_by_worker() {
  if (forked_by_worker) _exit(0);
}

inline void ignore_requests_to_stop() {
  for (const int ignored : {SIGINT, SIGTERM, SIGHUP}) signal(ignored, SIG_IGN);
}

// The process that may end OpenMP's threads. In a process that was forked by others, OpenMP still
// counts the threads of the parent, and would wait for them for ever.
inline pid_t openmp_owner = getpid();

inline void become_child_of(pid_t parent) {
  openmp_owner = getpid();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // the parent died before the prctl() call
  for (const int ordinary : {SIGPIPE, SIGCHLD}) signal(ordinary, SIG_DFL);
}

}  // namespace shoal
