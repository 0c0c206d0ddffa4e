#include "shoal/core/stop.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace shoal {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;  // in nanoseconds
constexpr std::int64_t kLookInterval = kSecond / 10;
// Not SIGALRM, which environments may use.
const int kTimerSignal = SIGRTMAX - 1;

std::atomic<int> requested{0};
std::atomic<int> deferred{0};
std::atomic<int> limiting{0};              // instances of CallLimits
std::atomic<std::int64_t> grace_began{0};  // nanoseconds of the monotonic clock
std::atomic<std::int64_t> grace{std::chrono::nanoseconds(kStopGrace).count()};
std::atomic<void (*)()> exit_hook{nullptr};
std::atomic<CallTimeout*> innermost{nullptr};
std::atomic<StopWatch*> stop_watch{nullptr};
// Signal handlers access these.
static_assert(std::atomic<std::int64_t>::is_always_lock_free);
static_assert(std::atomic<void (*)()>::is_always_lock_free);

bool grace_is_over() noexcept {
  return monotonic_nanoseconds() - grace_began.load() >= grace.load();
}

void write_to_stderr(const char* text) noexcept {
  (void)!::write(STDERR_FILENO, text, std::strlen(text));
}

// The handler reads objects of the thread that made the timer, so it must run in that thread.
bool make_timer(void* tag, timer_t* timer) {
  sigevent event{};
  event.sigev_notify = SIGEV_THREAD_ID;
  event._sigev_un._tid = ::gettid();
  event.sigev_signo = kTimerSignal;
  event.sigev_value.sival_ptr = tag;
  return timer_create(CLOCK_MONOTONIC, &event, timer) == 0;
}

void set_timer(timer_t timer, std::int64_t first, std::int64_t interval) noexcept {
  const auto as_time = [](std::int64_t ns) {
    return timespec{static_cast<std::time_t>(ns / kSecond), static_cast<long>(ns % kSecond)};
  };
  const itimerspec times{as_time(interval), as_time(first)};
  timer_settime(timer, 0, &times, nullptr);
}

const bool hangup_ignored_at_start = [] {
  struct sigaction now {};
  return sigaction(SIGHUP, nullptr, &now) == 0 && now.sa_handler == SIG_IGN;
}();

}  // namespace

std::int64_t monotonic_nanoseconds() noexcept {
  timespec t{};
  clock_gettime(CLOCK_MONOTONIC, &t);
  return t.tv_sec * kSecond + t.tv_nsec;
}

std::string signal_name(int number) {
  const char* name = sigabbrev_np(number);
  return name != nullptr ? fmt::format("SIG{}", name) : fmt::format("signal {}", number);
}

Interrupted::Interrupted(int number)
    : std::runtime_error(fmt::format(
          "{} asked to stop, but a wait for other processes did not end within {:g} s",
          signal_name(number), static_cast<double>(grace.load()) / static_cast<double>(kSecond))),
      signal(number) {}

void request_stop(int signal) noexcept {
  if (signal == 0) {
    requested = 0;
    return;
  }
  if (requested != 0) return;
  grace_began = monotonic_nanoseconds();
  int none = 0;
  requested.compare_exchange_strong(none, signal);
  StopWatch::look_every(kLookInterval);
}

int stop_requested() noexcept { return requested.load(std::memory_order_relaxed); }

void set_stop_grace(std::chrono::milliseconds time) noexcept {
  grace = std::chrono::nanoseconds(time).count();
}

void renew_stop_grace() noexcept { grace_began = monotonic_nanoseconds(); }

void throw_if_interrupted() {
  const int signal = stop_requested();
  if (signal != 0 && deferred == 0 && grace_is_over()) throw Interrupted(signal);
}

StopDeferred::StopDeferred() noexcept { ++deferred; }
StopDeferred::~StopDeferred() {
  renew_stop_grace();
  --deferred;
}

StopWatch::StopWatch() : owner_(::getpid()) {
  CallTimeout::catch_timers();
  made_ = make_timer(nullptr, &timer_);
  stop_watch = this;
}

StopWatch::~StopWatch() {
  stop_watch = nullptr;
  if (made_ && owner_ == ::getpid()) timer_delete(timer_);
}

void StopWatch::look_every(std::int64_t interval) noexcept {
  const auto* const watch = stop_watch.load();
  if (watch != nullptr && watch->made_ && watch->owner_ == ::getpid())
    set_timer(watch->timer_, interval, interval);
}

CallLimits::CallLimits() noexcept {
  if (limiting++ == 0 && stop_requested() == 0) StopWatch::look_every(kSecond);
}

CallLimits::~CallLimits() {
  if (--limiting == 0 && stop_requested() == 0) StopWatch::look_every(0);
}

void StopWatch::look() noexcept {
  static std::uint64_t seen[BlockingCall::kKinds];  // the running calls, and for how long
  static std::int64_t ran[BlockingCall::kKinds], last_look;
  const auto now = monotonic_nanoseconds();
  // The process was suspended for what is beyond two seconds.
  const auto passed = std::min(now - std::exchange(last_look, now), 2 * kSecond);
  const int signal = stop_requested();
  for (int kind = 0; kind < BlockingCall::kKinds; ++kind) {
    const auto count = BlockingCall::counts[kind].load(std::memory_order_relaxed);
    const bool same = count == seen[kind], running = count % BlockingCall::kBegun != 0;
    ran[kind] = same && running && deferred == 0 ? ran[kind] + passed : 0;
    seen[kind] = count;
    const auto limit = BlockingCall::limits[kind].load(std::memory_order_relaxed);
    if (limiting > 0 && limit > 0 && ran[kind] > limit) {
      write_to_stderr(
          "shoal: the environments of this process have not returned within the limit; if this is "
          "not a hang, raise sampler.step_limit or sampler.reset_limit\n");
      exit_suddenly(1);
    }
    if (signal == 0 || !running || !grace_is_over() || ran[kind] < grace) continue;
    write_to_stderr(
        "shoal: a stop was requested, but a call into an environment or a library has not "
        "returned; ending without it, the last checkpoint is kept\n");
    exit_suddenly(128 + signal);
  }
}

CallTimeout::CallTimeout(std::chrono::milliseconds limit, const std::string& sentence)
    : sentence_("shoal: " + sentence + "\n"), outer_(innermost) {
  catch_timers();
  innermost = this;
  made_ = make_timer(this, &timer_);
  // Setting a timer to 0 would disarm it.
  if (made_)
    set_timer(timer_, std::max<std::int64_t>(std::chrono::nanoseconds(limit).count(), 1), 0);
}

CallTimeout::~CallTimeout() {
  if (made_) timer_delete(timer_);
  innermost = outer_;
}

void CallTimeout::on_timer(int, siginfo_t* info, void*) {
  const auto* tag = info->si_value.sival_ptr;
  if (tag == nullptr) return StopWatch::look();
  // A CallTimeout that was destroyed may have left its signal pending.
  for (const auto* limit = innermost.load(); limit != nullptr; limit = limit->outer_) {
    if (limit != tag) continue;
    write_to_stderr(limit->sentence_.c_str());
    exit_suddenly(1);
  }
}

void CallTimeout::catch_timers() {
  struct sigaction action {};
  action.sa_sigaction = on_timer;
  action.sa_flags = SA_SIGINFO | SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(kTimerSignal, &action, nullptr);
}

void exit_suddenly(int status) noexcept {
  if (auto* const hook = exit_hook.load()) hook();
  ::_exit(status);
}

void before_sudden_exit(void (*hook)()) noexcept { exit_hook = hook; }

bool hangup_is_ignored() noexcept { return hangup_ignored_at_start; }

}  // namespace shoal
