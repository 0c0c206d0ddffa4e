#include "src/distributed/rendezvous.h"

#include <c10/util/Logging.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <optional>
#include <string>
#include <thread>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>
#include <utility>
#include <vector>

#include "shoal/core/error.h"
#include "src/core/print.h"
#include "src/distributed/handshake.h"

namespace shoal {
namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;

constexpr const char* kKey = "shoal/first";  // in the store
constexpr auto kPause = 50ms;                // between attempts
constexpr auto kConnectTime = 5s;            // for one attempt
constexpr auto kProbeTime = 1s;              // to detect another process 0
// A rank or a port may still be in use by an ending process, which this one replaces.
constexpr auto kEndingTime = 2s;

double seconds(Clock::duration time) { return std::chrono::duration<double>(time).count(); }

// Silences c10d, which warns of addresses without a name and of every wait. Errors are still
// thrown.
class QuietStore {
 public:
  QuietStore() : before_(std::exchange(FLAGS_caffe2_log_level, kFatal)) {}
  ~QuietStore() { FLAGS_caffe2_log_level = before_; }

 private:
  static constexpr int kFatal = 3;
  int before_;
};

[[noreturn]] void fail(const TcpGroupOptions& o, const std::string& what) {
  throw RankError(fmt::format("process 0 of {} was not reached at {} within {:.1f} s: {}", o.count,
                              rendezvous_address(o), seconds(o.timeout), what),
                  0);
}

// A launcher's store.
class Store {
 public:
  explicit Store(const TcpGroupOptions& o) : options_(o) {
    c10d::TCPStoreOptions store;
    store.port = static_cast<std::uint16_t>(o.port);
    store.waitWorkers = false;
    store.timeout = o.timeout;
    guarded([&] { store_ = c10::make_intrusive<c10d::TCPStore>(o.address, store); });
  }
  // The addresses of process 0, which may be those of an earlier one.
  std::vector<Endpoint> read() {
    std::string text;
    guarded([&] {
      if (store_->check({kKey})) text = store_->get_to_str(kKey);
    });
    return parse_addresses(text);
  }
  void write(const std::string& text) {
    guarded([&] { store_->set(kKey, std::vector<std::uint8_t>(text.begin(), text.end())); });
  }

 private:
  template <class Use>
  void guarded(const Use& use) const {
    const QuietStore quiet;
    try {
      use();
    } catch (const c10::Error& e) {
      fail(options_, std::string("the launcher's store failed: ") + e.what_without_backtrace());
    }
  }

  const TcpGroupOptions& options_;
  c10::intrusive_ptr<c10d::TCPStore> store_;
};

Hello hello_of(const TcpGroupOptions& o, const std::string& ring_port) {
  return {job_number(o), o.rank, o.count, ring_port};
}

// Process 0's reply, or nothing after the deadline; *why then has the reason.
std::optional<Reply> receive_reply(const Socket& connection, Deadline deadline, std::string* why) {
  std::vector<std::byte> bytes(kReplyBytes);
  *why = "it has not answered";
  if (!receive_all(connection, bytes, deadline)) return std::nullopt;
  *why = "another program, or another version of this one, answers";
  return parse_reply(bytes);
}

// A process other than 0.
class JoiningPeer {
 public:
  JoiningPeer(const TcpGroupOptions& o, const Socket& ring_listener)
      : options_(o),
        hello_(bytes_of(hello_of(o, own_port(ring_listener)))),
        deadline_(Clock::now() + o.timeout),
        notice_(Clock::now() + notice_after(o)) {
    if (o.store_exists) store_.emplace(o);
  }

  Joined join() {
    for (; Clock::now() < deadline_; std::this_thread::sleep_for(kPause)) {
      const auto places =
          store_ ? store_->read()
                 : std::vector<Endpoint>{{options_.address, std::to_string(options_.port)}};
      if (places.empty()) why_ = "it has not published its address";
      for (const auto& at : places)
        if (const auto joined = try_at(at)) return {.next = joined->next, .token = joined->token};
      say_once();
    }
    fail(options_, why_);
  }

 private:
  std::optional<Reply> ask(const Endpoint& at) {
    const auto soon = std::min(deadline_, Clock::now() + kConnectTime);
    const auto connection = connect_to(at, soon, &why_);
    if (!connection || !send_all(*connection, hello_, soon)) return std::nullopt;
    why_ = "it has not answered";
    std::array<pollfd, 1> answer{{{connection->fd(), POLLIN, 0}}};
    if (!wait_for(answer, std::min(notice_, deadline_))) say_once();
    // Process 0 reports the missing process, so it must time out before this process does.
    return receive_reply(*connection, deadline_ + options_.timeout / 2, &why_);
  }

  // The reply if it is kWelcome.
  std::optional<Reply> try_at(const Endpoint& at) {
    auto reply = ask(at);
    const bool refused =
        reply && (reply->answer == Answer::kRankTaken || reply->answer == Answer::kComplete);
    if (!refused) refused_since_.reset();
    if (!reply) return std::nullopt;
    why_ = "it rejects this process";
    if (reply->answer == Answer::kBusy) return std::nullopt;
    if (reply->answer == Answer::kWelcome) {
      if (reply->next.host.empty()) reply->next.host = at.host;
      return reply;
    }
    if (refused && !refused_since_) refused_since_ = Clock::now();
    if (!refused || Clock::now() - *refused_since_ >= kEndingTime) give_up(*reply);
    return std::nullopt;
  }

  [[noreturn]] void give_up(const Reply& reply) const {
    const auto& o = options_;
    const auto at = rendezvous_address(o);
    if (reply.answer == Answer::kIncomplete)
      throw RankError(fmt::format("process {} of {} did not connect to {} in time (process 0)",
                                  reply.rank, o.count, at),
                      reply.rank);
    require(reply.answer != Answer::kOtherJob,
            "{} is the rendezvous of another job than '{}', or of one with another number of "
            "processes than {}; set another port with MASTER_PORT",
            at, o.job, o.count);
    require(reply.answer != Answer::kRankTaken,
            "another process {} of {} connected to {} before this one, from {}; give each process "
            "its own rank",
            o.rank, o.count, at, reply.next.host);
    throw Error(
        "the job at {} is already running: all its {} processes had connected before this one, "
        "which claims to be process {}; give each process its own rank, or set another port with "
        "MASTER_PORT",
        at, o.count, o.rank);
  }

  void say_once() {
    const auto now = Clock::now();
    if (now < notice_) return;
    notice_ = Deadline::max();
    print_error(
        "note: process {} of {}: no answer yet from process 0 at {} ({}): some processes "
        "have not started, or the job has ended; waiting for at most {:.0f} s\n",
        options_.rank, options_.count, rendezvous_address(options_), why_,
        seconds(deadline_ - now));
  }

  const TcpGroupOptions& options_;
  std::optional<Store> store_;
  std::vector<std::byte> hello_;
  std::string why_ = "no attempt was made";
  Deadline deadline_, notice_;
  std::optional<Deadline> refused_since_;
};

// Whether another process 0 of this job answers at one of these addresses.
bool is_taken(const TcpGroupOptions& o, const std::vector<Endpoint>& places,
              const std::string& ring_port) {
  const auto hello = bytes_of(hello_of(o, ring_port));
  std::string why;
  return std::ranges::any_of(places, [&](const Endpoint& at) {
    const auto connection = connect_to(at, Clock::now() + kProbeTime, &why);
    if (!connection || !send_all(*connection, hello, Clock::now() + kProbeTime)) return false;
    const auto reply = receive_reply(*connection, Clock::now() + kProbeTime, &why);
    return reply && (reply->answer == Answer::kRankTaken || reply->answer == Answer::kComplete);
  });
}

[[noreturn]] void fail_for_another(const TcpGroupOptions& o) {
  throw Error(
      "another process 0 of {} of this job is already running at {}; give each process its own "
      "rank, or set another port with MASTER_PORT",
      o.count, rendezvous_address(o));
}

// Listens at the rendezvous address.
Socket listen_there(const TcpGroupOptions& o, const std::string& ring_port) {
  std::string why;
  for (const auto until = Clock::now() + kEndingTime; Clock::now() < until;
       std::this_thread::sleep_for(kPause))
    if (auto listener = listen_at(o.port, &why)) return std::move(*listener);
  if (is_taken(o, {{"localhost", std::to_string(o.port)}}, ring_port)) fail_for_another(o);
  throw Error(
      "cannot bind the rendezvous address {}: {}; if another job uses the port, set another one "
      "with MASTER_PORT",
      rendezvous_address(o), why);
}

// Listens at any port and publishes it with all addresses by which the others may reach this host.
Socket listen_by_store(const TcpGroupOptions& o, const std::string& ring_port) {
  Store store(o);
  const auto before = store.read();  // usually of a process that has ended
  for (const auto until = Clock::now() + kEndingTime; is_taken(o, before, ring_port);
       std::this_thread::sleep_for(kPause))
    if (Clock::now() >= until) fail_for_another(o);
  auto listener = listen_anywhere();
  store.write(
      addresses_text(own_port(listener), {address_towards(o.address), o.address, host_name()}));
  return listener;
}

}  // namespace

Joined join_job(const TcpGroupOptions& o, const Socket& ring_listener) {
  if (o.rank > 0) return JoiningPeer(o, ring_listener).join();
  const auto deadline = Clock::now() + o.timeout;
  const auto ring_port = own_port(ring_listener);
  auto listener = o.store_exists ? listen_by_store(o, ring_port) : listen_there(o, ring_port);
  auto server = std::make_unique<RendezvousServer>(o, std::move(listener), ring_port);
  const auto ring = server->admit_all(deadline);
  return {.next = ring.next, .token = ring.token, .server = std::move(server)};
}

}  // namespace shoal
