#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/error.h"
#include "shoal/core/rng.h"
#include "shoal/ipc/parameter_server.h"
#include "shoal/ipc/worker_group.h"
#include "src/core/cpu_features.h"

// Trainers that are repeatedly killed at random moments: a gradient is applied completely or not at
// all.
namespace shoal::parameter_server_kill_test {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kSize = 2500;  // three blocks

void dawdle(Rng& rng, int longest) {
  for (auto i = rng.integer(0, longest); i > 0; --i) pause_core();
}

bool all_are(std::span<const float> numbers, float wanted) {
  return std::ranges::all_of(numbers, [&](float x) { return x == wanted; });
}

void add(std::span<float> parameters, std::span<const float> gradient) {
  for (std::size_t i = 0; i < gradient.size(); ++i) parameters[i] += gradient[i];
}

// Trainers that are replaced many times. All numbers of a gradient are equal, and identify it.
class ParameterServerKillTest : public ::testing::Test {
 protected:
  static constexpr int kTrainers = 3;
  static constexpr auto kLong = 20s;            // a wait this long has lost a wake-up
  static constexpr long kMostGradients = 1024;  // per process; so a float can identify both

  struct Place {
    std::atomic<long> told;    // gradients that its current process knows to be applied
    std::atomic<bool> halved;  // it got parameters in the middle of an update
  };

  ParameterServerKillTest()
      : places_(plan_.add_bytes(kTrainers * sizeof(Place))),
        arena_(plan_),
        server_(std::vector<float>(kSize), {.trainers = kTrainers, .asynchronous = true},
                [this](std::size_t from, std::span<float> parameters,
                       std::span<const float> gradient) { apply(from, parameters, gradient); }) {
    for (int t = 0; t < kTrainers; ++t) start(t);
  }
  ~ParameterServerKillTest() override {
    for (int t = 0; t < kTrainers; ++t) end(t);
  }

  Place& place(int trainer) { return reinterpret_cast<Place*>(arena_.data(places_))[trainer]; }

  void start(int trainer) {
    const auto life = static_cast<long>(applied_.size());
    applied_.push_back(0);
    place(trainer).told = 0;
    place(trainer).halved = false;
    lives_[static_cast<std::size_t>(trainer)] = life;
    auto& pid = pids_[static_cast<std::size_t>(trainer)];
    pid = fork();
    if (pid == 0) train(trainer, life);
  }

  // Some kill themselves in the middle of a gradient; the others are killed at random moments.
  [[noreturn]] void train(int number, long life) noexcept {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Rng rng(static_cast<std::uint64_t>(life));
    const long last = life % 4 == 0 ? rng.integer(0, 4) : -1;
    auto trainer = server_.trainer(number);
    for (long n = 0; n < kMostGradients;) {
      for (std::size_t i = 0; i < kSize; ++i) {
        trainer.gradient()[i] = static_cast<float>(life * kMostGradients + n);
        if (n == last && i == kSize / 2) raise(SIGKILL);
        if (i % 256 == 0) dawdle(rng, 200);
      }
      if (!trainer.push()) break;
      if (!all_are(trainer.parameters(), trainer.parameters()[0])) place(number).halved = true;
      place(number).told.store(++n);
      dawdle(rng, 500);
    }
    _exit(0);
  }

  // The update rule.
  void apply(std::size_t from, std::span<float> parameters, std::span<const float> gradient) {
    if (from == 0) sum_ += number_ = gradient[0];
    EXPECT_TRUE(all_are(gradient, number_)) << "half a gradient, from " << from;
    add(parameters, gradient);
    if (from > 0 && dies_meanwhile_ >= 0) kill_and_reap(std::exchange(dies_meanwhile_, -1));
  }

  void kill_and_reap(int trainer) {
    auto& pid = pids_[static_cast<std::size_t>(trainer)];
    if (pid <= 0) return;
    kill(pid, SIGKILL);
    waitpid(pid, nullptr, 0);
    pid = 0;
  }
  void end(int trainer) {
    kill_and_reap(trainer);
    server_.forget(trainer);
    EXPECT_FALSE(place(trainer).halved);
    EXPECT_TRUE(all_are(server_.trainer(trainer).parameters(), sum_)) << "what it begins with";
    ends_.push_back({lives_[static_cast<std::size_t>(trainer)], place(trainer).told});
  }
  void replace(int trainer) {
    end(trainer);
    start(trainer);
  }
  // If all have killed themselves, no gradient comes until they are replaced.
  void replace_the_dead() {
    for (int t = 0; t < kTrainers; ++t) {
      siginfo_t ended{};
      const auto pid = static_cast<id_t>(pids_[static_cast<std::size_t>(t)]);
      if (waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
        replace(t);
    }
  }

  // Applies one gradient. victim: the trainer to kill meanwhile; -1: none.
  void serve(int victim) {
    dies_meanwhile_ = victim;
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    while (server_.serve(2ms) == 0) {
      ASSERT_LT(std::chrono::steady_clock::now(), deadline) << "nobody came";
      replace_the_dead();
    }
    ASSERT_TRUE(all_are(server_.parameters(), sum_)) << "half a gradient";
    if (victim >= 0) replace(victim);
    const auto life = static_cast<long>(number_) / kMostGradients;
    ASSERT_EQ(static_cast<long>(number_) % kMostGradients,
              applied_.at(static_cast<std::size_t>(life))++)
        << "lost or doubled, of life " << life;
  }

  Arena::Plan plan_;
  Arena::Field places_;
  Arena arena_;
  ParameterServer server_;
  std::array<pid_t, kTrainers> pids_{};
  std::array<long, kTrainers> lives_{};
  float number_ = 0, sum_ = 0;  // of the current gradient, of all gradients
  int dies_meanwhile_ = -1;
  std::vector<long> applied_;  // gradients, per process
  struct End {
    long life, told;
  };
  std::vector<End> ends_;
};

TEST_F(ParameterServerKillTest, NoGradientIsLostOrDoubledOrHalved) {
  constexpr int kRounds = 300;
  Rng rng(7);
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    for (auto i = rng.integer(0, 6); i > 0 && !HasFailure(); --i) serve(-1);
    dawdle(rng, 20'000);
    const auto victim = static_cast<int>(rng.integer(0, kTrainers));
    if (round % 4 == 0)
      serve(victim);
    else
      replace(victim);
    if (HasFailure()) return;
  }
  for (int t = 0; t < kTrainers; ++t) end(t);
  EXPECT_EQ(server_.serve(0ms), 0) << "of trainers that are forgotten";
  long alive = 0;
  for (const auto& [life, told] : ends_) {
    const auto applied = applied_.at(static_cast<std::size_t>(life));
    // It may have died before counting the last one.
    EXPECT_TRUE(applied == told || applied == told + 1)
        << "life " << life << " knows of " << told << " gradients of " << applied;
    alive += told > 0;
  }
  EXPECT_GT(alive, kRounds / 5) << "hardly any was ever applied";
}

// Two trainers of a synchronous server, one of which dies in a chosen update. The mean of their
// gradients is twice the number of the update, counted from 1.
class DeadlyUpdate {
 public:
  enum class Moment { kInGradient, kInItsPart, kAny };

  DeadlyUpdate(Moment moment, std::uint64_t seed)
      : moment_(moment),
        rng_(seed),
        victim_(static_cast<int>(rng_.integer(0, 2))),
        last_(rng_.integer(0, 6)),
        server_(std::vector<float>(kSize), {.trainers = 2},
                [this](std::size_t from, std::span<float> parameters, std::span<const float> mean) {
                  apply(from, parameters, mean);
                }),
        trainers_(2, [this](int w, WorkerStatus) { train(w); }) {}

  // Returns the trainer that is reported dead.
  int serve() {
    try {
      for (bool killed = moment_ != Moment::kAny;;) {
        if (!killed && server_.updates() >= last_) {
          dawdle(rng_, 30'000);
          kill(trainers_.pids()[static_cast<std::size_t>(victim_)], SIGKILL);
          killed = true;
        }
        if (server_.serve(2ms) == 0) trainers_.check();
      }
    } catch (const WorkerError& e) {
      return e.worker;
    }
  }

  void expect_whole_gradients() const {
    const auto done = server_.updates();
    const auto before = static_cast<float>(done * (done + 1)),
               after = before + static_cast<float>(2 * (done + 1));
    EXPECT_TRUE(server_.in_update() || all_are(server_.parameters(), before));
    for (const float x : server_.parameters()) ASSERT_TRUE(x == before || x == after) << x;
    if (moment_ == Moment::kAny) return;
    EXPECT_EQ(done, last_);
    EXPECT_EQ(server_.in_update(), moment_ == Moment::kInItsPart);
    const auto first = static_cast<std::size_t>(victim_) * kPart;
    EXPECT_EQ(server_.parameters()[first], server_.in_update() ? after : before);
    EXPECT_EQ(server_.parameters()[first + kPart - 1], before) << "who has applied that?";
  }

  int victim() const { return victim_; }

 private:
  static constexpr std::size_t kPart = kSize / 2;  // two blocks

  bool is_due(Moment moment) const {
    return moment_ == moment && self_ == victim_ && update_ == last_;
  }

  [[noreturn]] void train(int number) {
    self_ = number;
    auto trainer = server_.trainer(number);
    Rng rng(rng_.key(), 1000);
    for (;; ++update_) {
      for (std::size_t i = 0; i < kSize; ++i) {
        trainer.gradient()[i] = static_cast<float>((update_ + 1) * (number == 0 ? 1 : 3));
        if (i == kPart && is_due(Moment::kInGradient)) raise(SIGKILL);
        if (i % 256 == 0) dawdle(rng, 200);
      }
      if (!trainer.push()) _exit(0);
    }
  }

  // The update rule, in a trainer.
  void apply(std::size_t from, std::span<float> parameters, std::span<const float> mean) const {
    if (from % kPart != 0 && is_due(Moment::kInItsPart)) raise(SIGKILL);
    add(parameters, mean);
  }

  Moment moment_;
  Rng rng_;
  int victim_;
  std::int64_t last_;
  int self_ = -1;            // in a trainer: its number
  std::int64_t update_ = 0;  // in a trainer: updates it has seen
  ParameterServer server_;
  WorkerGroup trainers_;
};

TEST(ParameterServerKillTogetherTest, TheDeadIsNamedAndNoHalfOfItsGradientIsApplied) {
  for (std::uint64_t round = 0; round < 150; ++round) {
    SCOPED_TRACE(round);
    DeadlyUpdate update(static_cast<DeadlyUpdate::Moment>(round % 3), round);
    EXPECT_EQ(update.serve(), update.victim());
    update.expect_whole_gradients();
    if (::testing::Test::HasFailure()) return;
  }
}

// A trainer that is killed after a number of instructions, counted from the start of its gradient.
class Stepped {
 public:
  Stepped()
      : server_(std::vector<float>(kNumbers), {.asynchronous = true},
                [](auto, auto p, auto g) { add(p, g); }) {
    successor();  // resolves lazily bound functions
  }

  // False if no child can be traced.
  bool begin() {
    pid_ = fork();
    if (pid_ == 0) {
      if (ptrace(PTRACE_TRACEME, 0, nullptr, nullptr) != 0) _exit(1);
      raise(SIGSTOP);
      auto trainer = server_.trainer(0);
      push(trainer);
      _exit(0);
    }
    waitpid(pid_, &status_, 0);
    return WIFSTOPPED(status_);
  }
  void step() {
    ptrace(PTRACE_SINGLESTEP, pid_, nullptr, nullptr);
    waitpid(pid_, &status_, 0);
    ASSERT_TRUE(WIFSTOPPED(status_));
  }
  void die() {
    kill(pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
  // Returns whether there was a gradient.
  bool serve() {
    const float before = server_.parameters()[0];
    const bool served = server_.serve(0ms) == 1;
    EXPECT_TRUE(all_are(server_.parameters(), before + (served ? 1.0F : 0.0F)));
    return served;
  }
  // Takes the dead trainer's place; a thread stands in for a process.
  void successor() {
    server_.forget(0);
    EXPECT_FALSE(serve()) << "of one that is forgotten";
    const float before = server_.parameters()[0];
    auto trainer = server_.trainer(0);
    {
      const std::jthread other([&] { push(trainer); });
      while (server_.serve(100ms) == 0) continue;
    }
    EXPECT_TRUE(all_are(server_.parameters(), before + 1));
    // Otherwise the dead trainer's numbers could pass for the successor's.
    std::ranges::fill(trainer.gradient(), -1000.0F);
  }

 private:
  static constexpr std::size_t kNumbers = 8;

  static void push(ParameterServer::Trainer& trainer) {
    for (float& x : trainer.gradient()) x = 1;
    trainer.push();
  }

  ParameterServer server_;
  pid_t pid_ = 0;
  int status_ = 0;
};

TEST(ParameterServerKillStepTest, ATrainerMayDieAfterAnyInstruction) {
  Stepped trainer;
  if (!trainer.begin()) GTEST_SKIP() << "no child can be traced here";
  int until_asked = 1;
  for (trainer.step(); !trainer.serve() && !HasFailure(); trainer.step()) ++until_asked;
  trainer.die();
  trainer.successor();
  // Every instruction, and some after the request; fewer in builds with many more instructions.
  const int all = until_asked + 20 + until_asked / 10;
  const int rounds = std::clamp(100'000 / all, 10, all);
  int whole = 0, none = 0;
  for (int round = 1; round <= rounds && !HasFailure(); ++round) {
    const auto last = static_cast<int>(std::int64_t{all} * round / rounds);
    SCOPED_TRACE(last);
    ASSERT_TRUE(trainer.begin());
    for (int i = 0; i < last && !HasFailure(); ++i) trainer.step();
    trainer.die();
    ++(trainer.serve() ? whole : none);
    trainer.successor();
  }
  EXPECT_GE(whole, 1);
  EXPECT_GE(none, rounds / 2);
}

}  // namespace
}  // namespace shoal::parameter_server_kill_test
