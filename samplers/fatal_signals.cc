#include "samplers/fatal_signals.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <utility>
#include <vector>

#include "src/core/print.h"

namespace shoal {

// One per process, installed with the first FatalSignals and never removed.
struct FatalSignals::Hooks {
  static constexpr std::array kSignals = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
  std::array<struct sigaction, kSignals.size()> before{};
  std::vector<FatalSignals*> all;
  pid_t owner = getpid();

  static Hooks& get() {
    static auto* const hooks = new Hooks;  // never destroyed: used in exit(), after static objects
    return *hooks;
  }

  Hooks() {
    struct sigaction action {};
    action.sa_handler = on_signal;
    for (std::size_t i = 0; i < kSignals.size(); ++i) sigaction(kSignals[i], &action, &before[i]);
    on_exit([](int status, void*) { get().leave(status); }, nullptr);
  }

  // Whether any report was of an environment's end.
  bool tell(const std::string& how) {
    bool any = false;
    if (getpid() != owner) return any;
    for (const auto* each : std::exchange(all, {})) any |= each->report_(how);
    return any;
  }

  void leave(int status) {
    if (!tell(fmt::format("called exit({})", status)) || status != 0) return;
    print_error(
        "shoal: an environment called exit(0), which ends the training; it should raise an "
        "error instead\n");
    std::fflush(nullptr);
    _exit(1);
  }

  // Reports from a forked copy of the process: it has the same memory, and a deadlock there, on a
  // lock that another thread holds, does not block this process.
  static void on_signal(int number) {
    auto& hooks = get();
    if (getpid() == hooks.owner && !hooks.all.empty()) {
      const pid_t child = _Fork();
      if (child == 0) hooks.tell_and_leave(number);
      while (child > 0 && waitpid(child, nullptr, 0) < 0 && errno == EINTR) {
      }
    }
    for (std::size_t i = 0; i < kSignals.size(); ++i)
      if (kSignals[i] == number) sigaction(number, &hooks.before[i], nullptr);
    std::raise(number);  // delivered when this handler returns
  }

  [[noreturn]] void tell_and_leave(int number) {
    for (const int each : kSignals) std::signal(each, SIG_DFL);
    std::signal(SIGALRM, SIG_DFL);
    constexpr unsigned kSeconds = 10;
    alarm(kSeconds);
    owner = getpid();
    tell(fmt::format("was killed by SIG{}", sigabbrev_np(number)));
    _exit(0);
  }
};

FatalSignals::FatalSignals(Report report) : report_(std::move(report)) {
  Hooks::get().all.push_back(this);
}

FatalSignals::~FatalSignals() { std::erase(Hooks::get().all, this); }

}  // namespace shoal
