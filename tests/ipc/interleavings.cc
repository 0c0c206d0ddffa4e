#include "tests/ipc/interleavings.h"

#include <elf.h>
#include <execinfo.h>
#include <gtest/gtest.h>
#include <linux/futex.h>
#include <sched.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <memory>
#include <stdexcept>
#include <utility>

// Replaces the C library's function in this program. That one reads a page that the kernel updates
// at each tick, and retries after an update: single-stepped, it would hardly end.
namespace {
bool time_stands_still = false;
}

extern "C" int clock_gettime(clockid_t id, timespec* time) noexcept {
  if (!time_stands_still) return static_cast<int>(syscall(SYS_clock_gettime, id, time));
  *time = {};
  return 0;
}

namespace shoal::ring_step_test {
namespace {

using Word = std::atomic<std::uint32_t>;

constexpr std::size_t kStack = 32 << 10, kRedZone = 128, kMostRegisters = 16 << 10;  // bytes

}  // namespace

Interleavings::Interleavings(const TrajectoryRingOptions& options, std::vector<Side> sides)
    : sides_(std::move(sides)),
      words_(plan_.add_bytes(TrajectoryRing::bytes(options.slots))),
      stacks_(plan_.add_bytes(sides_.size() * kStack)),
      arena_(plan_),
      ring_(arena_.data(words_), options) {}

Interleavings::~Interleavings() {
  for (const auto& at : now_) {
    kill(at.pid, SIGKILL);
    waitpid(at.pid, nullptr, 0);
  }
}

void Interleavings::leave() { syscall(SYS_exit_group, 1); }

void Interleavings::explore(int most_cuts) {
  for (const auto& side : sides_)
    if (!start(side)) GTEST_SKIP() << "no child can be traced here: " << std::strerror(errno);
  // First without cuts, which resolves lazily bound functions before any are single-stepped.
  for (int cuts = 0; cuts <= most_cuts; ++cuts) {
    for (bool more = true; more; more = std::ranges::next_permutation(order_).found) {
      const auto moment = here();
      run(0, cuts);
      if (testing::Test::HasFailure()) return;
      go_back_to(moment);
    }
  }
  EXPECT_GT(ends_, 100);
}

int Interleavings::begin(void* what) noexcept {
  const auto [handle, side] = *static_cast<Begin*>(what);
  time_stands_still = true;
  if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) syscall(SYS_exit_group, errno);
  kill(getpid(), SIGSTOP);
  auto ring = *handle;
  side->work(ring);
  syscall(SYS_exit_group, 0);
  return 0;
}

// Whether the child is traced; if not, errno has the reason.
bool Interleavings::start(const Side& side) {
  Begin what{.ring = &ring_, .side = &side};
  auto* const stack_end = arena_.data(stacks_) + (now_.size() + 1) * kStack;
  const pid_t pid = clone(begin, stack_end, SIGCHLD, &what);
  if (pid < 0) return false;
  int status = 0;
  waitpid(pid, &status, 0);
  if (!WIFSTOPPED(status)) {
    errno = WEXITSTATUS(status);
    return false;
  }
  order_.push_back(now_.size());
  auto& at = now_.emplace_back();
  at.pid = pid;
  at.stack_end = stack_end;
  if (ptrace(PTRACE_SETOPTIONS, pid, nullptr, PTRACE_O_TRACESYSGOOD | PTRACE_O_EXITKILL) < 0 ||
      ptrace(PTRACE_SYSEMU_SINGLESTEP, pid, nullptr, nullptr) < 0)
    return false;
  look_at(at);
  return true;
}

// Records the state of the stopped child; answers a system call first.
void Interleavings::look_at(Place& at) {
  int status = 0;
  waitpid(at.pid, &status, 0);
  const bool calls = status >> 8 == (SIGTRAP | 0x80);
  if (!calls && status >> 8 != SIGTRAP)
    throw std::runtime_error("a child stopped with status " + std::to_string(status));
  ptrace(PTRACE_GETREGS, at.pid, nullptr, &at.registers);
  at.more_registers.resize(kMostRegisters);
  iovec more{at.more_registers.data(), at.more_registers.size()};
  ptrace(PTRACE_GETREGSET, at.pid, NT_X86_XSTATE, &more);
  at.more_registers.resize(more.iov_len);
  if (calls) answer(at);
  at.stack.assign(reinterpret_cast<std::byte*>(at.registers.rsp) - kRedZone, at.stack_end);
}

// Runs to the next system call, or a single instruction.
void Interleavings::move(Place& at, bool single) {
  iovec more{at.more_registers.data(), at.more_registers.size()};
  ptrace(PTRACE_SETREGS, at.pid, nullptr, &at.registers);
  ptrace(PTRACE_SETREGSET, at.pid, NT_X86_XSTATE, &more);
  std::ranges::copy(at.stack, at.stack_end - at.stack.size());
  ptrace(single ? PTRACE_SYSEMU_SINGLESTEP : PTRACE_SYSEMU, at.pid, nullptr, nullptr);
  look_at(at);
}

// Answers as the kernel would. The pointers are valid here, too, because they point into the arena.
void Interleavings::answer(Place& at) {
  auto& r = at.registers;
  if (r.orig_rax == SYS_exit_group) {
    at.standing = Standing::kDone;
    EXPECT_EQ(r.rdi, 0) << "a side went without what it had waited for" << story();
  } else if (r.orig_rax == SYS_futex && r.rsi == FUTEX_WAIT) {
    const bool equal = *reinterpret_cast<Word*>(r.rdi) == static_cast<std::uint32_t>(r.rdx);
    if (equal) at.standing = Standing::kParked;
    r.rax = equal ? 0 : -EAGAIN;
  } else if (r.orig_rax == SYS_futex && r.rsi == FUTEX_WAKE) {
    for (auto& other : now_)
      if (other.standing == Standing::kParked && other.registers.rdi == r.rdi)
        other.standing = Standing::kMoves;
    r.rax = 0;
  } else {
    throw std::runtime_error("unexpected system call " + std::to_string(r.orig_rax));
  }
  r.orig_rax = -1;  // do not restart the call
}

Interleavings::Moment Interleavings::here() const {
  const auto* words = arena_.data(words_);
  return {.words = {words, words + TrajectoryRing::bytes(ring_.slots())}, .places = now_};
}
void Interleavings::go_back_to(const Moment& moment) {
  std::ranges::copy(moment.words, arena_.data(words_));
  now_ = moment.places;
}

// Positions in the order, from 0 on, of the sides that can move, beginning with the next in turn.
std::vector<std::size_t> Interleavings::movable_after(std::size_t place) const {
  std::vector<std::size_t> places;
  for (std::size_t i = 1; i < order_.size(); ++i)
    if (now_[order_[(place + i) % order_.size()]].standing == Standing::kMoves)
      places.push_back((place + i) % order_.size());
  return places;
}

// Runs to the end with `cuts` cuts left, beginning with the side at this position in the order.
void Interleavings::run(std::size_t place, int cuts) {
  const auto who = order_[place];
  while (now_[who].standing == Standing::kMoves && !testing::Test::HasFailure()) {
    if (cuts > 0 && cuts_.empty()) cut(place, cuts);
    const auto before = here();
    move(now_[who], cuts > 0);
    if (cuts == 0 || cuts_.empty() || here().words == before.words) continue;
    cut(place, cuts);
    const auto after = here();
    go_back_to(before);
    cut(place, cuts);
    go_back_to(after);
  }
  if (testing::Test::HasFailure()) return;
  if (const auto next = movable_after(place); next.empty())
    end();
  else
    run(next[0], cuts_.empty() ? cuts : 0);
}

void Interleavings::cut(std::size_t place, int cuts) {
  const auto others = movable_after(place);
  if (others.empty()) return;
  const auto moment = here();
  cuts_.push_back({order_[place], now_[order_[place]].registers.rip});
  for (const auto other : others) {
    run(other, cuts - 1);
    if (testing::Test::HasFailure()) return;
    go_back_to(moment);
  }
  cuts_.pop_back();
}

void Interleavings::end() {
  ++ends_;
  for (std::size_t i = 0; i < sides_.size(); ++i)
    if (now_[i].standing != Standing::kDone)
      ADD_FAILURE() << sides_[i].name << " is never woken" << story();
}

// Lists the cuts so far.
std::string Interleavings::story() const {
  std::string text;
  for (const auto& [who, instruction] : cuts_) {
    auto* address = reinterpret_cast<void*>(instruction);
    const std::unique_ptr<char*, void (*)(void*)> name(backtrace_symbols(&address, 1), std::free);
    text += std::string("\n  ") + sides_[who].name + " made way before " + *name.get();
  }
  return text;
}

}  // namespace shoal::ring_step_test
