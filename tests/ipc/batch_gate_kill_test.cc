#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <csignal>
#include <cstring>
#include <vector>

#include "shoal/core/arena.h"
#include "shoal/core/rng.h"
#include "shoal/ipc/batch_gate.h"
#include "src/core/cpu_features.h"
#include "tests/ipc/gate_for_two.h"

// Clients that are repeatedly killed at random moments and replaced.
namespace shoal::gate_kill_test {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

constexpr int kClients = 3;
constexpr std::chrono::seconds kLong{20};  // a wait this long has lost a wake-up
constexpr milliseconds kNow{0};

// A request of a client's process, numbered from 0, and its reply.
struct Message {
  long life, number;
  std::array<long, 32> copies;
};
bool is_whole(const Message& message) {
  return std::ranges::all_of(message.copies, [&](long x) { return x == message.number; });
}

void dawdle(Rng& rng, int longest) {
  for (auto i = rng.integer(0, longest); i > 0; --i) pause_core();
}

struct Rule {
  const char* name;
  int size;
  microseconds patience;
};

class GateKillTest : public ::testing::TestWithParam<Rule> {
 protected:
  // Memory per client, in addition to the gate's words.
  struct Place {
    Message request, reply;
    std::atomic<long> told;      // answers that its current process has received
    std::atomic<bool> deceived;  // it got a wrong reply, or none
  };

  GateKillTest()
      : words_(plan_.add_bytes(BatchGate::bytes(kClients))),
        places_(plan_.add_bytes(kClients * sizeof(Place))),
        arena_(plan_),
        gate_(arena_.data(words_), {.clients = kClients}) {
    for (int c = 0; c < kClients; ++c) start(c);
  }
  ~GateKillTest() override {
    for (int c = 0; c < kClients; ++c) end(c);
  }

  Place& place(int client) { return reinterpret_cast<Place*>(arena_.data(places_))[client]; }

  void start(int client) {
    const auto life = static_cast<long>(answered_.size());
    answered_.push_back(0);
    place(client).told = 0;
    place(client).deceived = false;
    lives_[static_cast<std::size_t>(client)] = life;
    auto& pid = pids_[static_cast<std::size_t>(client)];
    pid = fork();
    if (pid == 0) ask(client, life);
  }

  // Some kill themselves in the middle of a request; the others are killed at random moments.
  [[noreturn]] void ask(int client, long life) noexcept {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    Rng rng(static_cast<std::uint64_t>(life));
    const long last = life % 4 == 0 ? rng.integer(0, 4) : -1;
    auto& own = place(client);
    for (long number = 0;;) {
      own.request.life = life;
      own.request.number = number;
      for (auto& x : own.request.copies) {
        x = number;
        dawdle(rng, 200);
        if (number == last && &x == &own.request.copies[16]) raise(SIGKILL);
      }
      const auto ticket = gate_.submit(client);
      dawdle(rng, 500);
      const bool done = gate_.wait(ticket, kLong);
      const auto& reply = own.reply;
      if (!done || reply.life != life || reply.number != number || !is_whole(reply))
        own.deceived = true;
      own.told.store(++number);
    }
  }

  void end(int client) {
    const auto c = static_cast<std::size_t>(client);
    if (pids_[c] <= 0) return;
    kill(pids_[c], SIGKILL);
    waitpid(pids_[c], nullptr, 0);
    pids_[c] = 0;
    gate_.forget(client);
    EXPECT_FALSE(place(client).deceived) << "client " << client << " in life " << lives_[c];
    ends_.push_back({lives_[c], place(client).told});
  }
  void replace(int client) {
    end(client);
    start(client);
  }
  // A client that has killed itself keeps the batch incomplete until it is replaced.
  void replace_the_dead() {
    for (int c = 0; c < kClients; ++c) {
      siginfo_t ended{};
      const auto pid = static_cast<id_t>(pids_[static_cast<std::size_t>(c)]);
      if (waitid(P_PID, pid, &ended, WEXITED | WNOHANG | WNOWAIT) == 0 && ended.si_pid != 0)
        replace(c);
    }
  }

  // Serves one batch. victim: the client to kill meanwhile; -1: none.
  void serve(int victim) {
    const auto deadline = std::chrono::steady_clock::now() + kLong;
    std::vector<int> batch;
    while (batch.empty() && std::chrono::steady_clock::now() < deadline) {
      const auto found = gate_.gather(GetParam().size, GetParam().patience, milliseconds(2));
      batch.assign(found.begin(), found.end());
      if (batch.empty()) replace_the_dead();
    }
    ASSERT_FALSE(batch.empty()) << "nobody came";
    for (const int client : batch) {
      const auto& request = place(client).request;
      ASSERT_TRUE(is_whole(request)) << "half a request";
      ASSERT_EQ(request.life, lives_[static_cast<std::size_t>(client)]) << "of a dead client";
      ASSERT_EQ(request.number, answered_.at(static_cast<std::size_t>(request.life)))
          << "lost or doubled, of life " << request.life;
      place(client).reply = request;
    }
    if (victim >= 0) replace(victim);
    gate_.finish();
    for (const int client : batch)
      if (client != victim)
        ++answered_.at(static_cast<std::size_t>(lives_[static_cast<std::size_t>(client)]));
  }

  Arena::Plan plan_;
  Arena::Field words_, places_;
  Arena arena_;
  BatchGate gate_;
  std::array<pid_t, kClients> pids_{};
  std::array<long, kClients> lives_{};
  std::vector<long> answered_;  // per process
  struct End {
    long life, told;
  };
  std::vector<End> ends_;
};

TEST_P(GateKillTest, NothingIsLostOrDoubled) {
  constexpr int kRounds = 400;  // per rule
  Rng rng(7);
  for (int round = 0; round < kRounds; ++round) {
    SCOPED_TRACE(round);
    for (auto i = rng.integer(0, 6); i > 0 && !HasFailure(); --i) serve(-1);
    dawdle(rng, 20'000);
    const auto victim = static_cast<int>(rng.integer(0, kClients));
    if (round % 4 == 0)
      serve(victim);
    else
      replace(victim);
    if (HasFailure()) return;
  }
  for (int c = 0; c < kClients; ++c) end(c);
  EXPECT_TRUE(gate_.gather(1, microseconds(0), kNow).empty()) << "of clients that are forgotten";
  long alive = 0;
  for (const auto& [life, told] : ends_) {
    const auto answered = answered_.at(static_cast<std::size_t>(life));
    // It may have died before counting the last answer.
    EXPECT_TRUE(answered == told || answered == told + 1)
        << "life " << life << " knows of " << told << " answers, and was given " << answered;
    alive += told > 0;
  }
  EXPECT_GT(alive, kRounds / 5) << "hardly any was ever answered";
}

INSTANTIATE_TEST_SUITE_P(Rules, GateKillTest,
                         ::testing::Values(Rule{"WhoeverIsThere", kClients, microseconds(0)},
                                           Rule{"TwoOrADeadline", 2, microseconds(300)},
                                           Rule{"All", kClients, BatchGate::kNoLimit}),
                         [](const auto& made) { return made.param.name; });

void ask_in_vain(BatchGate& gate, int client) { gate.wait(gate.submit(client), kNow); }

// Client 0 is dead: its request is complete or absent, and its successor can continue. Returns the
// number of requests.
int serve_what_is_left(BatchGate gate) {
  const auto found = gate.gather(2, microseconds(0), kNow);
  const auto requests = static_cast<int>(found.size());
  EXPECT_TRUE(found.empty() || found.front() == 0);
  if (requests > 0) gate.forget(0);
  gate.finish();
  const auto ticket = gate.submit(0);
  EXPECT_EQ(gate.gather(1, BatchGate::kNoLimit, kNow).size(), 1U);
  gate.finish();
  EXPECT_TRUE(gate.wait(ticket, kNow));
  return requests;
}

// Single-steps a client: its writes to shared memory so far are those of a client killed at that
// instruction.
TEST(GateKillStepTest, AClientMayDieAfterAnyInstruction) {
  GateForTwo theirs, ours;
  ask_in_vain(theirs.gate, 1);  // resolves lazily bound functions
  theirs.gate.forget(1);
  const pid_t pid = fork();
  if (pid == 0) {
    ptrace(PTRACE_TRACEME, 0, nullptr, nullptr);
    raise(SIGSTOP);
    ask_in_vain(theirs.gate, 0);
    _exit(0);
  }
  int status = 0, steps = 0, least = 1, most = 0;
  waitpid(pid, &status, 0);
  for (; WIFSTOPPED(status) && !HasFailure() && steps < 1'000'000; ++steps) {
    std::memcpy(ours.arena.data(ours.words), theirs.arena.data(theirs.words), BatchGate::bytes(2));
    const int requests = serve_what_is_left(ours.gate);
    least = std::min(least, requests);
    most = std::max(most, requests);
    ptrace(PTRACE_SINGLESTEP, pid, nullptr, nullptr);
    waitpid(pid, &status, 0);
  }
  EXPECT_TRUE(WIFEXITED(status)) << "after " << steps << " instructions";
  EXPECT_GT(steps, 100);
  EXPECT_EQ(least, 0);
  EXPECT_EQ(most, 1);
  if (WIFEXITED(status)) return;
  kill(pid, SIGKILL);
  waitpid(pid, &status, 0);
}

}  // namespace
}  // namespace shoal::gate_kill_test
