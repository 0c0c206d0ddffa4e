#include "shoal/ipc/batch_service.h"

#include <gtest/gtest.h>

#include <csignal>
#include <string>
#include <vector>

#include "shoal/ipc/worker_group.h"

namespace shoal::service_test {
namespace {

using std::chrono::milliseconds;
using Service = BatchService<int, long>;

constexpr milliseconds kNow{0}, kLong{20'000};

// Replies with twice the request.
int serve(Service& service, milliseconds timeout) {
  return service.serve(
      [&](std::span<const int> clients) {
        for (const int c : clients) service.reply(c)[0] = 2L * service.request(c)[0];
      },
      timeout);
}

TEST(BatchServiceTest, TheLastClientTriggersTheBatchAndAllGetTheirReplies) {
  Service service({.clients = 3});
  auto a = service.client(0), b = service.client(1), c = service.client(2);
  a.request()[0] = 10;
  b.request()[0] = 20;
  c.request()[0] = 30;
  auto first = a.submit(), second = c.submit();
  EXPECT_EQ(serve(service, kNow), 0) << "one is missing";
  EXPECT_FALSE(first.poll());
  auto last = b.submit();
  EXPECT_EQ(serve(service, kNow), 3);
  EXPECT_TRUE(first.poll());
  EXPECT_TRUE(second.wait(kNow));
  EXPECT_TRUE(last.wait(kNow));
  EXPECT_EQ(a.reply()[0], 20);
  EXPECT_EQ(b.reply()[0], 40);
  EXPECT_EQ(c.reply()[0], 60);
}

TEST(BatchServiceTest, CallbacksRunOnceAndInTheirOrderWhenTheReplyIsTaken) {
  Service service({.clients = 1});
  auto client = service.client(0);
  client.request()[0] = 4;
  std::vector<std::string> calls;
  auto ticket = client.submit()
                    .then([&](auto reply) { calls.push_back("first " + std::to_string(reply[0])); })
                    .then([&](auto reply) { calls.push_back("then " + std::to_string(reply[0])); });
  EXPECT_FALSE(ticket.poll());
  EXPECT_FALSE(ticket.wait(kNow));
  serve(service, kNow);
  EXPECT_TRUE(calls.empty()) << "nobody has taken it";
  EXPECT_TRUE(ticket.wait(kNow));
  EXPECT_TRUE(ticket.poll());
  EXPECT_EQ(calls, std::vector<std::string>({"first 8", "then 8"}));
}

TEST(BatchServiceTest, ABatchIsServedAtItsSizeOrItsDeadline) {
  Service service({.clients = 3, .batch = 2, .patience = milliseconds(200)});
  std::vector<Service::Client> clients;
  for (int c = 0; c < 3; ++c) clients.push_back(service.client(c));
  for (auto& client : clients) client.submit();
  EXPECT_EQ(serve(service, kLong), 2);
  EXPECT_EQ(serve(service, kNow), 0) << "another one might come";
  EXPECT_EQ(serve(service, kLong), 1);
}

TEST(BatchServiceTest, PlacesLieOneBehindTheOther) {
  BatchService<float, double> service({.clients = 3, .request_length = 4, .reply_length = 0});
  EXPECT_EQ(service.requests().size(), 12U);
  EXPECT_EQ(service.request(2).data(), service.requests().data() + 8);
  EXPECT_EQ(service.request(2).size(), 4U);
  EXPECT_TRUE(service.replies().empty());
}

TEST(BatchServiceTest, WhoIsNotAnsweredBecauseOfAnExceptionIsServedAgain) {
  Service service({.clients = 1});
  auto client = service.client(0);
  auto ticket = client.submit();
  EXPECT_THROW(service.serve([](auto) { throw Error("no"); }, kNow), Error);
  EXPECT_FALSE(ticket.poll());
  EXPECT_EQ(serve(service, kNow), 1);
  EXPECT_TRUE(ticket.poll());
}

[[noreturn]] void ask(const Service& service, int number) {
  auto client = service.client(number);
  for (int k = 0;; ++k) {
    client.request()[0] = k;
    auto ticket = client.submit();
    while (!ticket.wait(kLong)) continue;
    require(client.reply()[0] == 2L * k, "client {} asked for twice {}, and got {}", number, k,
            client.reply()[0]);
  }
}

TEST(BatchServiceTest, ProcessesAreServedAndADeathEndsAll) {
  constexpr int kClients = 3, kBatches = 500;
  Service service({.clients = kClients});
  WorkerGroup workers(kClients, [&](int w, WorkerStatus) { ask(service, w); });
  for (int i = 0; i < kBatches;)
    if (serve(service, milliseconds(100)) == 0)
      workers.check();
    else
      ++i;
  kill(workers.pids()[1], SIGKILL);
  try {
    for (int i = 0; i < 1'000'000; ++i)
      if (serve(service, milliseconds(50)) == 0) workers.check();
    FAIL() << "its death was not noticed";
  } catch (const WorkerError& e) {
    EXPECT_EQ(e.worker, 1) << e.what();
  }
}

TEST(BatchServiceTest, MistakesAreRefused) {
  EXPECT_THROW(Service({.clients = 0}), Error);
  EXPECT_THROW(Service({.clients = 2, .request_length = -1}), Error);
  EXPECT_THROW(Service({.clients = 2, .batch = 3}), Error);
  const Service service({.clients = 2});
  EXPECT_THROW(service.client(2), Error);
  EXPECT_THROW(service.client(-1), Error);
}

}  // namespace
}  // namespace shoal::service_test
