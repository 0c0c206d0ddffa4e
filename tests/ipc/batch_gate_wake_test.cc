#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/user.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <functional>

#include "shoal/core/arena.h"
#include "shoal/ipc/batch_gate.h"
#include "tests/ipc/gate_for_two.h"

// The awaited event happens at every point of the waiter's way to sleep, and must always wake it.
namespace shoal::gate_wake_test {
namespace {

constexpr std::chrono::seconds kLong{20};
constexpr std::chrono::milliseconds kNow{0};

// Instructions between two test points; fewer than between two accesses to shared memory.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr int kStride = 997;
#else
constexpr int kStride = 5;
#endif

// A process that single-steps through `wait`.
class Waiter {
 public:
  explicit Waiter(const std::function<bool()>& wait) : pid_(fork()) {
    if (pid_ != 0) {
      waitpid(pid_, &status_, 0);
      return;
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    _exit(wait() ? 0 : 1);
  }
  ~Waiter() {
    if (!WIFSTOPPED(status_)) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }

  // False if the next instruction would put it to sleep.
  bool step() {
    user_regs_struct registers{};
    ptrace(PTRACE_GETREGS, pid_, nullptr, &registers);
    const long code = ptrace(PTRACE_PEEKTEXT, pid_, registers.rip, nullptr);
    constexpr long kSyscall = 0x050F;
    if ((code & 0xFFFF) == kSyscall && registers.rax == SYS_futex) return false;
    ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr);
    waitpid(pid_, &status_, 0);
    return WIFSTOPPED(status_);
  }
  void go_on() { ptrace(PTRACE_CONT, pid_, nullptr, nullptr); }
  // Returns wait's result.
  bool join() {
    waitpid(pid_, &status_, 0);
    return WIFEXITED(status_) && WEXITSTATUS(status_) == 0;
  }

 private:
  pid_t pid_;
  int status_ = 0;
};

struct Scene {
  std::function<void(BatchGate&)> before;
  std::function<bool(BatchGate&)> wait;
  std::function<void(BatchGate&)> event;
};

// Resolves lazily bound functions, so that all waiters execute the same instructions.
void rehearse(const Scene& scene) {
  GateForTwo memory;
  scene.before(memory.gate);
  scene.event(memory.gate);
  scene.wait(memory.gate);
}

void play(const Scene& scene) {
  rehearse(scene);
  int after = 0;
  for (bool sleeps = false; !sleeps; after += kStride) {
    GateForTwo memory;
    scene.before(memory.gate);
    Waiter waiter([&] { return scene.wait(memory.gate); });
    for (int i = 0; i < after && !sleeps; ++i) sleeps = !waiter.step();
    if (sleeps) waiter.go_on();
    const auto start = std::chrono::steady_clock::now();
    scene.event(memory.gate);
    if (!sleeps) waiter.go_on();
    ASSERT_TRUE(waiter.join()) << "after " << after << " instructions";
    ASSERT_LT(std::chrono::steady_clock::now() - start, kLong / 2)
        << "a wake-up was lost after " << after << " instructions";
    ASSERT_LT(after, 100'000);
  }
  EXPECT_GT(after, 100);
}

TEST(GateWakeTest, AServerIsWokenWheneverTheLastClientComes) {
  play({.before = [](BatchGate& gate) { gate.submit(0); },
        .wait =
            [](BatchGate& gate) { return gate.gather(2, BatchGate::kNoLimit, kLong).size() == 2; },
        .event = [](BatchGate& gate) { gate.submit(1); }});
}

TEST(GateWakeTest, AServerIsWokenWheneverTheFirstClientComes) {
  play({.before = [](BatchGate&) {},
        .wait =
            [](BatchGate& gate) {
              return gate.gather(2, std::chrono::microseconds(0), kLong).size() == 1;
            },
        .event = [](BatchGate& gate) { gate.submit(1); }});
}

TEST(GateWakeTest, AClientIsWokenWheneverItIsAnswered) {
  play({.before = [](BatchGate& gate) { gate.submit(1); },
        .wait = [](BatchGate& gate) { return gate.wait({.client = 1, .number = 1}, kLong); },
        .event =
            [](BatchGate& gate) {
              gate.gather(1, BatchGate::kNoLimit, kNow);
              gate.finish();
            }});
}

TEST(GateWakeTest, EverybodyIsWokenWheneverItIsStopped) {
  const auto stop = [](BatchGate& gate) { gate.stop(); };
  play({.before = [](BatchGate& gate) { gate.submit(1); },
        .wait = [](BatchGate& gate) { return !gate.wait({.client = 1, .number = 1}, kLong); },
        .event = stop});
  play({.before = [](BatchGate& gate) { gate.submit(1); },
        .wait = [](BatchGate& gate) { return gate.gather(2, BatchGate::kNoLimit, kLong).empty(); },
        .event = stop});
}

}  // namespace
}  // namespace shoal::gate_wake_test
